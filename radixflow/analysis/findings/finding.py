"""What a finding is, and how many alike become one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

ERROR, WARNING, NOTE = "error", "warning", "note"
"""Something is broken; something is slower than it must be; something to know, which cost little or
nothing."""

MOST = 20
"""Findings of one code, and examples in one finding's facts; what exceeds it is counted, not listed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One entry of `check --json`'s `findings`."""

    code: str
    """One of `radixflow.analysis.findings.CODES`; `docs/findings.md` defines each."""
    severity: str
    """`error`, `warning` or `note`."""
    requests: list[str]
    """Ids of those it happened to, in order of arrival."""
    rounds: list[list[int]]
    """`[[first, last], ...]`, in order and without overlaps; empty where no round is concerned."""
    message: str
    """Plain language, with names and numbers."""
    facts: dict = field(default_factory=dict)
    """The same for machines. Tokens, blocks and rounds are counts, requests ids."""

    def to_dict(self) -> dict:
        """CONTRACT's keys in its order."""
        return asdict(self)


def ranges(rounds: Iterable[int]) -> list[list[int]]:
    """Round numbers as `[[first, last], ...]`."""
    found: list[list[int]] = []
    for n in sorted(set(rounds)):
        if found and found[-1][1] + 1 == n:
            found[-1][1] = n
        else:
            found.append([n, n])
    return found


def joined(spans: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Stretches of rounds `(first, last)` as ranges, joined where they touch or overlap."""
    found: list[list[int]] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1][1] = max(found[-1][1], last)
        else:
            found.append([first, last])
    return found

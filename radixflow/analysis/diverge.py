"""The first round in which two runs of the same workload decided differently."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from radixflow.analysis.prose import listed


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where two runs part. Requests by id, in native order."""

    round: int
    first: list[tuple[str, int]]
    """`(request, tokens)` that the first run selected in it."""
    second: list[tuple[str, int]]
    only_first: list[str]
    """Selected by the first run and not by the second."""
    only_second: list[str]
    stopped: tuple[tuple[str | None, str | None], tuple[str | None, str | None]]
    """For each run: what ended its scan, `(request, cause)`; `(None, cause)` where no request did,
    `(None, None)` where the scan reached the queue's end or never began."""

    def said(self, label: str, first: str) -> str:
        """What the second run (`label`) did otherwise than the `first` in that round, as the end of a sentence."""
        if self.only_second:
            lost = f", not {listed(self.only_first)}" if self.only_first else ""
            return f"{label} also selected {listed(self.only_second)}{lost}."
        if self.only_first:
            return f"only {first} selected {listed(self.only_first)}."
        return "the same requests, with other tokens or in another order."

    def to_dict(self) -> dict:
        """As plain data."""
        return asdict(self)


def diverge(first, second) -> Divergence | None:
    """The first round whose selections (requests, tokens or their order) differ; None where none does.

    Requests are the same where their ids are. A round that one run doesn't have differs from one that
    selected something; stalled rounds select nothing.
    """
    a, b = _selections(first, {}), _selections(second, {name: i for i, name in enumerate(first.ids)})
    size = min(len(a), len(b))
    differs = np.flatnonzero((a[:size] != b[:size]).any(axis=1))
    if len(differs):
        n = int(min(a[differs[0], 0], b[differs[0], 0]))
    elif len(a) != len(b):
        n = int((a if len(a) > size else b)[size, 0])
    else:
        return None
    chosen = [_selected(trace, n) for trace in (first, second)]
    names = [[name for name, _ in selected] for selected in chosen]
    return Divergence(
        round=n,
        first=chosen[0],
        second=chosen[1],
        only_first=[name for name in names[0] if name not in names[1]],
        only_second=[name for name in names[1] if name not in names[0]],
        stopped=(_stopped(first, n), _stopped(second, n)),
    )


def _selections(trace, numbers: dict[str, int]) -> np.ndarray:
    """int64[V, 3]: round, request, tokens of each visit, requests renumbered where `numbers` is given."""
    visits = trace.visits
    i = visits["i"].to_numpy(np.int64)
    if numbers:
        renumbered = np.array([numbers.get(name, -1 - k) for k, name in enumerate(trace.ids)], dtype=np.int64)
        i = renumbered[i] if len(renumbered) else i
    return np.stack([visits["round"].to_numpy(np.int64), i, visits["tokens"].to_numpy(np.int64)], axis=1)


def _selected(trace, n: int) -> list[tuple[str, int]]:
    visits = trace.visits
    rounds = visits["round"].to_numpy(np.int64)
    own = visits.iloc[np.searchsorted(rounds, n) : np.searchsorted(rounds, n, side="right")]
    return list(zip(own["request"].tolist(), own["tokens"].tolist(), strict=True))


def _stopped(trace, n: int) -> tuple[str | None, str | None]:
    if n not in trace.rounds.index:
        return None, None
    row = trace.rounds.loc[n]
    by, cause = row["stopped_by"], row["stop_cause"]
    return (by if isinstance(by, str) else None), (cause if isinstance(cause, str) else None)

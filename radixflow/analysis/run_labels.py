"""What runs are called beside one another."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any


def run_name(trace: Any) -> str:
    """A run on its own: its policy, and its eviction where that isn't vLLM's."""
    eviction = trace.config.eviction
    return trace.header.policy if eviction == "lru" else f"{trace.header.policy}, {eviction}"


def run_labels(traces: Sequence[Any]) -> list[str]:
    """A name for each run: its policy; with its eviction, model or workload where that doesn't tell them apart, and
    with a number where nothing does."""
    makers: tuple[Callable[[Any], str], ...] = (
        lambda t: t.header.policy,
        lambda t: f"{t.header.policy}, {t.config.eviction}",
        lambda t: " ".join(filter(None, (t.header.model, t.header.policy))),
        lambda t: " ".join(filter(None, (t.header.model, t.header.workload, t.header.policy))),
    )
    for make in makers:
        names = [make(trace) for trace in traces]
        if len(set(names)) == len(names):
            return names
    return distinct([trace.header.policy for trace in traces])


def distinct(names: Sequence[str]) -> list[str]:
    """The same names, numbered where one comes more than once."""
    return [
        f"{name} #{names[: k + 1].count(name)}" if names.count(name) > 1 else name for k, name in enumerate(names)
    ]


def as_file_name(text: str) -> str:
    """A name from outside as a part of a file's: no folder, no blank, nothing hidden."""
    return re.sub(r"[^\w+.-]+", "-", text).strip("-.")[:100] or "run"


def file_labels(traces: Sequence[Any]) -> list[str]:
    """The same as parts of file names."""
    names = [as_file_name(label) for label in run_labels(traces)]
    return [name if names.count(name) == 1 else f"{name}-{k}" for k, name in enumerate(names, 1)]

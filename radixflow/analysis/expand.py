"""The rounds of a trace that need expanding, and no others: what its tables don't hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from radixflow.trace.rounds import RoundView
from radixflow.trace.schema import Probe

_WORTH_A_START = 64
"""Rows: expanding as many one after another takes about as long as starting at one of them."""


def probes(trace, wanted: np.ndarray) -> Iterator[tuple[int, Probe]]:
    """`(row, probe)` of each wanted row of `trace.rounds` (bool[rows]) that was probed."""
    for k, view in _views(trace, wanted):
        if view.probe is not None:
            yield k, view.probe


def preemptions(trace) -> dict[int, list[int]]:
    """Request -> the rounds that preempted it, in order."""
    found: dict[int, list[int]] = defaultdict(list)
    for _, view in _views(trace, (trace.rounds["preempted"] > 0).to_numpy()):
        for i in view.preempted:
            found[i].append(view.n)
    return found


def accepted_rounds(trace, i: int) -> list[int]:
    """Rounds in which the probe found that request i would have been accepted, had the scan gone on."""
    rounds = trace.rounds
    numbers = rounds.index.to_numpy(np.int64)
    arrived = trace.requests.at[i, "t"]
    wanted = (rounds["avoidable"].fillna(0) > 0).to_numpy() & (rounds["t"] >= arrived).to_numpy()
    own = trace.admissions.loc[trace.admissions["i"] == i, "round"]
    if len(own):  # not after its last admission
        wanted &= numbers < int(own.iloc[-1])
    return [int(numbers[k]) for k, probe in probes(trace, wanted) if i in probe.avoidable]


def _views(trace, wanted: np.ndarray) -> Iterator[tuple[int, RoundView]]:
    """`(row, view)` of the wanted rows, in sweeps: a few unwanted rows cost less than starting anew."""
    rows = np.flatnonzero(wanted)
    numbers = trace.rounds.index
    for part in np.split(rows, np.flatnonzero(np.diff(rows) > _WORTH_A_START) + 1) if len(rows) else ():
        first, last = int(part[0]), int(part[-1])
        for k, view in enumerate(trace.iter_rounds(int(numbers[first]), int(numbers[last])), first):
            if wanted[k]:
                yield k, view

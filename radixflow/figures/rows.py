"""Which of the S row slots each request has: a picture's matter, since vLLM's batch has no fixed rows."""

from __future__ import annotations

import heapq
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np

from radixflow.trace.growth import stays

SETTLED = 64
"""Rounds after which all that ended before a round is in the trace, asynchronous scheduling included."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Which row slot a request has: it takes the lowest free one when admitted and keeps it until it
    finishes or is preempted. Arrays run over stays, sorted by first round."""

    request: np.ndarray
    first: np.ndarray
    last: np.ndarray
    row: np.ndarray


class _Slots:
    """Row slots of a run, continued where it has grown."""

    def __init__(self, rows: int):
        self._rows = rows
        self._stays = np.empty((4, 256), np.int64)
        self._settled = 0
        """Stays whose row is final."""
        self._open = np.empty(0, np.int64)
        """Those of them that may go on."""
        self.seen = -1

    def grown(self, trace: Any) -> Rows:
        """All stays so far."""
        count = len(trace.admitted)
        if count > self._stays.shape[1]:
            room = np.empty((4, max(count, 2 * self._stays.shape[1])), np.int64)
            room[:, : self._settled] = self._stays[:, : self._settled]
            self._stays = room
        new = np.arange(self._settled, count)
        which = np.concatenate((self._open, new))
        request, first, last = stays(trace, which)
        self._stays[0, which], self._stays[1, which], self._stays[2, which] = request, first, last
        self._place(new)
        _, first, last, _ = self._stays[:, :count]
        since = trace.num_rounds - SETTLED
        self._settled = int(np.searchsorted(first, since))
        may = which[which < self._settled]
        self._open = may[last[may] >= since]
        return Rows(*self._stays[:, :count])

    def _place(self, new: np.ndarray) -> None:
        """Give the new stays the lowest rows that are free as they begin."""
        _, first, last, row = self._stays
        # A row that two open stays have had belongs to the later one.
        held = {int(row[k]): int(last[k]) for k in self._open.tolist()}
        taken = [(end, where) for where, end in held.items()]
        heapq.heapify(taken)
        free = [where for where in range(self._rows) if where not in held]
        begins, ends = first[new].tolist(), last[new].tolist()
        for k, begin, end in zip(new.tolist(), begins, ends, strict=True):
            while taken and taken[0][0] < begin:
                heapq.heappush(free, heapq.heappop(taken)[1])
            # A gap in the trace can hide a finish; then the stay that ends next makes room.
            where = heapq.heappop(free) if free else heapq.heappop(taken)[1]
            heapq.heappush(taken, (end, where))
            row[k] = where


_known: weakref.WeakKeyDictionary[Any, tuple[tuple[int, bool], _Slots, Rows]] = weakref.WeakKeyDictionary()


def rows_of(trace: Any) -> Rows:
    """Row slots of the whole run, in O(admissions), and in O(new ones) when it has grown."""
    version = (trace.num_rounds, trace.complete)
    known = _known.get(trace)
    if known is None or known[0] != version:
        slots = known[1] if known is not None else _Slots(trace.config.max_num_seqs)
        known = _known[trace] = (version, slots, slots.grown(trace))
    return known[2]

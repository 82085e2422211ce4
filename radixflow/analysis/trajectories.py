"""Contexts that grow turn by turn: which request continues which, and who took blocks of a trajectory last.

Told by the prompts' paths alone. A request continues the one whose prompt's whole blocks are a prefix of its
own, the latest of the deepest; the first to go on is the trajectory's next turn, any other one a branch of it.
"""

from __future__ import annotations

import weakref
from bisect import bisect_right, insort
from collections import defaultdict
from typing import Any

import numpy as np

from radixflow.trace.growth import prompt_segments

Span = tuple[int, int, int]
"""A stream's number, and the depths from and to which a prompt goes along it, in tokens."""


class Trajectories:
    """The trajectories of a trace. `of_trace` keeps them, so that a trace that grows costs what is new in it."""

    def __init__(self, trace: Any) -> None:
        self._block: int = trace.config.block_size
        self._spans: dict[int, list[Span]] = {}
        self._ends: dict[int, list[tuple[int, int]]] = defaultdict(list)
        """Stream -> (whole blocks' end, request) of the prompts that end on it, ascending."""
        self._furthest: dict[int, list[tuple[int, int]]] = defaultdict(list)
        """Stream -> the two trajectories that go furthest along it, as [(depth, trajectory), ...]."""
        self.parent: dict[int, int | None] = {}
        """Request -> the one that it continues."""
        self.of: dict[int, int] = {}
        """Request -> the first request of its trajectory."""
        self.members: dict[int, list[int]] = {}
        """First request -> all of the trajectory, in order of arrival; trajectories in order of theirs."""
        self.arrival: dict[int, int] = {}
        """Request -> how many arrived before it."""
        self._continued: set[int] = set()
        self._extend(trace)

    @classmethod
    def of_trace(cls, trace: Any) -> Trajectories:
        """Those of a trace as far as it was read."""
        known = _known.get(trace)
        if known is None:
            known = _known[trace] = cls(trace)
        else:
            known._extend(trace)
        return known

    def _extend(self, trace: Any) -> None:
        numbers, counts, streams, tokens = prompt_segments(trace, len(self.arrival))
        ends = np.cumsum(counts)
        flat = list(zip(streams.tolist(), tokens.tolist(), strict=True))
        for i, begin, end in zip(numbers.tolist(), (ends - counts).tolist(), ends.tolist(), strict=True):
            spans: list[Span] = []
            depth = 0
            for stream, n in flat[begin:end]:
                spans.append((stream, depth, depth + n))
                depth += n
            self._add(i, spans, depth)

    def _add(self, i: int, spans: list[Span], prompt: int) -> None:
        parent = self._continues(spans)
        goes_on = parent is not None and parent not in self._continued
        own = self.of[parent] if goes_on and parent is not None else i
        self._spans[i], self.parent[i], self.of[i], self.arrival[i] = spans, parent, own, len(self.arrival)
        self.members.setdefault(own, []).append(i)
        if parent is not None:
            self._continued.add(parent)
        whole = prompt // self._block * self._block
        for stream, start, stop in spans:
            if start < whole <= stop:
                insort(self._ends[stream], (whole, i))
            self._reach(stream, stop, own)

    def _continues(self, spans: list[Span]) -> int | None:
        """The latest of those whose whole blocks end deepest on this way."""
        for stream, start, stop in reversed(spans):
            own = self._ends.get(stream, [])
            at = bisect_right(own, (stop, _LAST))
            if at and own[at - 1][0] > start:
                return own[at - 1][1]
        return None

    def _reach(self, stream: int, depth: int, own: int) -> None:
        best = self._furthest[stream]
        others = [(there, who) for there, who in best if who != own]
        depth = max([depth, *(there for there, who in best if who == own)])
        self._furthest[stream] = sorted([*others, (depth, own)], reverse=True)[:2]

    def root(self, i: int) -> int:
        """The number of the stream with which request i's prompt begins; -1 where its way isn't recorded."""
        return self._spans[i][0][0] if self._spans.get(i) else -1

    def shared(self, i: int) -> int:
        """Tokens of request i's prompt that another trajectory has as well."""
        depth = 0
        for stream, _, stop in self._spans[i]:
            others = [there for there, own in self._furthest[stream] if own != self.of[i]]
            if not others:
                break
            depth = min(stop, others[0])
            if depth < stop:
                break
        return depth


_LAST = 2**62
_known: weakref.WeakKeyDictionary[Any, Trajectories] = weakref.WeakKeyDictionary()


class Takers:
    """Who took blocks of a trajectory last."""

    def __init__(self, trace: Any, trajectories: Trajectories) -> None:
        rows = trace.cache[trace.cache["event"] == "evicted"]
        owners = np.array([trajectories.of.get(i, -1) for i in rows["i"].tolist()], np.int64)
        order = np.argsort(owners, kind="stable")
        self._owners = owners[order]
        self._n, self._start, self._end, self._by = (
            rows[name].to_numpy(np.int64)[order] for name in ("round", "start", "end", "by")
        )

    def last(self, trajectory: int, start: int, end: int, until: int) -> int | None:
        """The request that took, up to round `until`, the last block between two depths of a trajectory (named
        by its first request); None where nothing was taken there, or nobody's allocation took it."""
        low, high = np.searchsorted(self._owners, [trajectory, trajectory + 1])
        high = low + int(np.searchsorted(self._n[low:high], until, side="right"))
        hit = np.flatnonzero((self._start[low:high] < end) & (self._end[low:high] > start))
        by = int(self._by[low + hit[-1]]) if len(hit) else -1
        return by if by >= 0 else None

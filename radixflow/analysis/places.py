"""What happened to a cached state at a place of the prompts' radix tree, from the trace's cache records."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

import numpy as np

Place = tuple[str, int]
"""A position in the radix tree: the stream that the last token before it belongs to, and its depth in
tokens. Two requests have a place in common exactly where they share the prefix down to it."""


class CacheEvent(NamedTuple):
    """One group's state at one place was published, evicted, or lost with the whole cache."""

    round: int
    event: str
    """`published`, `evicted` or `cleared`."""
    i: int
    """The request whose tokens it holds; -1 for `cleared`."""
    by: int
    """The request whose allocation evicted it; -1 where nobody's did, or for another event."""


class Places:
    """Names places by request and boundary."""

    def __init__(self, trace):
        self._path_of = trace.path_of
        self._known: dict[int, tuple[list[int], list[str]]] = {}

    def at(self, i: int, boundary: int) -> Place | None:
        """The place after `boundary` tokens of request i; None past the end of its recorded path."""
        ends, streams = self._of(i)
        k = bisect_left(ends, boundary)
        return (streams[k], boundary) if k < len(ends) else None

    def touches(self, i: int, streams: set[str]) -> bool:
        """Whether request i's path runs along one of these streams."""
        return not streams.isdisjoint(self._of(i)[1])

    def _of(self, i: int) -> tuple[list[int], list[str]]:
        """Where each stream of the path ends, in tokens of the prompt, and the streams."""
        if i not in self._known:
            path = self._path_of(i)
            self._known[i] = list(accumulate(n for _, n in path)), [stream for stream, _ in path]
        return self._known[i]


class CacheHistory:
    """The cache events of chosen places, in order of rounds. One pass over the trace's cache records."""

    def __init__(self, trace, wanted: Iterable[tuple[int, int]]):
        self._places = Places(trace)
        chosen = {self._places.at(i, boundary) for i, boundary in wanted} - {None}
        self._events: dict[Place | None, dict[int, list[CacheEvent]]] = defaultdict(dict)
        self._cleared = [
            CacheEvent(int(n), "cleared", -1, -1)
            for n in trace.cache.loc[trace.cache["event"] == "cleared", "round"].tolist()
        ]
        if chosen:
            self._scan(trace, chosen)

    def _scan(self, trace, chosen: set[Place]) -> None:
        spans = trace.cache[trace.cache["event"] != "cleared"]
        depths = np.array(sorted({depth for _, depth in chosen}), dtype=np.int64)
        steps = {group.index: group.block_size for group in trace.config.groups}
        low = np.searchsorted(depths, spans["start"].to_numpy(np.int64), side="right")
        high = np.searchsorted(depths, spans["end"].to_numpy(np.int64), side="right")
        streams = {stream for stream, _ in chosen}
        i = spans["i"].to_numpy()
        held = high > low  # most spans hold no chosen depth
        along = [k for k in np.unique(i[held]).tolist() if self._places.touches(k, streams)]
        held &= np.isin(i, along)
        columns = [spans.loc[held, name].tolist() for name in ("round", "event", "i", "group", "start", "by")]
        for n, event, i, group, start, by, first, stop in zip(*columns, low[held], high[held], strict=True):
            for depth in depths[first:stop].tolist():
                if (depth - start) % steps.get(group, 1):
                    continue
                place = self._places.at(i, depth)
                if place in chosen:
                    self._events[place].setdefault(group, list(self._cleared)).append(
                        CacheEvent(n, event, i, by)
                    )
        for own in self._events.values():
            for events in own.values():
                events.sort(key=lambda event: event.round)

    def of(self, i: int, boundary: int) -> dict[int, list[CacheEvent]]:
        """Group -> the events at that place in order of rounds; a group without any is left out."""
        return self._events.get(self._places.at(i, boundary), {})

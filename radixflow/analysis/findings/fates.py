"""What became of the cache entries at chosen places. One pass over the trace's cache records."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Container, Iterable

import numpy as np

from radixflow.analysis.findings.ways import Ways
from radixflow.analysis.places import CacheEvent, Place


class Fates:
    """The events of the wanted places, by group, in the order in which they happened.

    A place on a document that thousands read has thousands of events, so questions are answered by bisection.
    Outputs count too: a later turn's prompt may run along an earlier one's answer.
    """

    def __init__(self, trace, ways: Ways, wanted: Iterable[Place | None]):
        self._ways = ways
        self._events: dict[tuple[Place, int], list[CacheEvent]] = defaultdict(list)
        cache = trace.cache
        self._cleared = cache.loc[cache["event"] == "cleared", "round"].tolist()
        self.groups = {group.index: group for group in trace.config.groups}
        depths: dict[str, list[int]] = defaultdict(list)
        for stream, depth in sorted(set(wanted) - {None}):
            depths[stream].append(depth)
        if depths:
            self._scan(cache[cache["event"] != "cleared"], depths)

    def _near(self, spans, depths: dict[str, list[int]]):
        """Spans that can hold a wanted place: most lie in tokens that nobody asks about."""
        i, start, end = (spans[name].to_numpy(np.int64) for name in ("i", "start", "end"))
        owners = np.unique(i)
        low, high = np.zeros((2, int(owners.max(initial=0)) + 1), np.int64)
        for owner in owners.tolist():
            way = self._ways.of(owner)
            asked = []
            for stream, stop in zip(way.streams, way.ends, strict=True):
                own = depths.get(stream, ())
                asked += own[: bisect_right(own, stop)]
            low[owner], high[owner] = min(asked, default=1), max(asked, default=0)
        return spans[(end >= low[i]) & (start < high[i])]

    def _scan(self, spans, depths: dict[str, list[int]]) -> None:
        spans = self._near(spans, depths)
        columns = [spans[name].tolist() for name in ("round", "event", "i", "group", "start", "end", "by")]
        for n, event, i, group, start, end, by in zip(*columns, strict=True):
            way = self._ways.of(i)
            step = self.groups[group].block_size
            for k in range(bisect_right(way.ends, start), len(way.ends)):
                begin = way.ends[k - 1] if k else 0
                if begin >= end:
                    break
                own = depths.get(way.streams[k])
                if own is None:
                    continue
                low, high = bisect_right(own, max(start, begin)), bisect_right(own, min(end, way.ends[k]))
                for depth in own[low:high]:
                    if (end - depth) % step == 0:
                        self._events[(way.streams[k], depth), group].append(CacheEvent(n, event, i, by))

    def last(self, i: int, depth: int, group: int, n: int, later: Container[int] = ()) -> CacheEvent | None:
        """The last thing that happened to `group`'s entry at request i's place `depth` before a look-up of
        round n. What that round published doesn't count, nor what those in `later` evicted in it: they came
        after the look-up. None where nothing is known.
        """
        place = self._ways.of(i).at(depth)
        events = self._events.get((place, group), ()) if place else ()
        at = bisect_left(events, n, key=lambda event: event.round)
        while at < len(events) and events[at].round == n and events[at].event != "published":
            if events[at].by in later:
                break
            at += 1
        last = events[at - 1] if at else None
        cleared = bisect_right(self._cleared, n)
        if last is not None and cleared and self._cleared[cleared - 1] > last.round:
            return CacheEvent(self._cleared[cleared - 1], "cleared", -1, -1)
        return last

    def published_in(self, i: int, depth: int, group: int, n: int) -> CacheEvent | None:
        """The publication of that entry in round n itself, if there is one; else the first in a later
        round."""
        place = self._ways.of(i).at(depth)
        events = self._events.get((place, group), ()) if place else ()
        at = bisect_left(events, n, key=lambda event: event.round)
        return next((event for event in events[at:] if event.event == "published"), None)

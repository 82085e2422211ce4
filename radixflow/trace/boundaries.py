"""What is cached at every boundary of every stream, after any round.

A boundary is a depth in tokens on a stream, so one that several requests share is one boundary, whoever
published it. All boundaries of a group lie end to end in one array of statuses; each cache record becomes
slices of it:

    group 0:  | stream 0: 64 128 192 | stream 1: 128 192 | ...      group 1:  | stream 0: ...
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from radixflow.trace.schema import Group
from radixflow.trace.segments import Segments
from radixflow.trace.store import CLEARED, PUBLISHED, Store

NEVER, IS_PUBLISHED, IS_EVICTED, IN_FLIGHT = range(4)
STATUSES = ("never", "published", "evicted", "in_flight")

SNAPSHOT_BYTES = 64 * 2**20
MAX_SNAPSHOTS = 128


def is_state(group: Group) -> bool:
    """Whether a prefix needs just one boundary of this group (recurrent layers) instead of all up to it."""
    return group.kind == "mamba" or "kv" not in group.components


class Boundaries:
    """Statuses of all boundaries, replayed from snapshots.

    Within a record, `cleared` comes first, then evictions, then publications; records apply in file order.
    Spans on tokens whose path isn't recorded (the output of a request that still runs) are left out.
    """

    def __init__(self, store: Store, segments: Segments):
        self._segments = segments
        self.groups = {group.index: group for group in store.header.config.groups}
        cache = store.cache.rows()
        self.unit: dict[int, int] = {}
        """Tokens between two neighbours in a group's array: its block size, less where hits may be
        partial."""
        self._offset: dict[int, np.ndarray] = {}
        size = 0
        for index, group in self.groups.items():
            ends = cache["end"][(cache["group"] == index) & (cache["event"] != CLEARED)]
            unit = int(np.gcd.reduce(ends, initial=group.block_size)) or 1
            first, last = segments.base // unit, (segments.base + segments.length) // unit
            starts = np.cumsum(last - first) - (last - first)
            self.unit[index] = unit
            self._offset[index] = size + starts - first - 1
            size += int((last - first).sum())
        self.size = size
        self._build(store, cache)
        self._every = max(1, len(self._first) // max(1, min(MAX_SNAPSHOTS, SNAPSHOT_BYTES // max(size, 1))))
        self._snapshots: list[tuple[int, np.ndarray]] = [(0, np.zeros(size, np.uint8))]

    def slot(self, group: int, stream: int, low: int, high: int) -> slice:
        """Where the boundaries with low < depth <= high of a stream lie in the status array."""
        return slice(*self.slots(group, stream, low, high))

    def slots(self, group: int, stream, low, high):
        """The same, first and past-the-last, for arrays of streams and depths."""
        unit, offset = self.unit[group], self._offset[group][stream]
        return offset + low // unit + 1, offset + high // unit + 1

    def at(self, n: int) -> np.ndarray:
        """Statuses as round n left them. A state published in round n itself is in flight."""
        done = int(np.searchsorted(self._n, n, side="right"))
        status = self._replayed(done).copy()
        since = int(np.searchsorted(self._n, n))
        for k in range(since, done):
            if self._value[k] == IS_PUBLISHED and self._is_state[k]:
                part = status[
                    self._first[k] : self._first[k] + self._count[k] * self._stride[k] : self._stride[k]
                ]
                part[part == IS_PUBLISHED] = IN_FLIGHT
        return status

    def history(self, group: int, stream: int, depth: int, n: int) -> list[tuple[int, int]]:
        """(cache row, round) of each event of one boundary up to round n, in order."""
        index = self.slot(group, stream, depth - 1, depth).start
        away = index - self._first
        hit = (away >= 0) & (away < self._count * self._stride) & (away % self._stride == 0)
        hit |= self._count == 0
        hit &= self._n <= n
        return [(int(self._source[k]), int(self._n[k])) for k in np.flatnonzero(hit)]

    def _build(self, store: Store, cache: np.ndarray) -> None:
        """Cut the cache records' spans where their request's path changes streams."""
        segments = self._segments
        block = {index: group.block_size for index, group in self.groups.items()}
        rows = np.full(len(store.ids) + 1, -1)
        rows[list(store.row_of)] = list(store.row_of.values())
        row = rows[np.where((cache["i"] >= 0) & (cache["i"] < len(store.ids)), cache["i"], -1)]
        blocks = np.array([block.get(group, 0) for group in cache["group"].tolist()], np.int64)
        spans = np.flatnonzero(
            (row >= 0) & (blocks > 0) & (cache["end"] > cache["start"]) & (cache["event"] != CLEARED)
        )
        row, blocks = row[spans], blocks[spans]
        high = cache["end"][spans].astype(np.int64)
        low = high - (high - cache["start"][spans] - 1) // blocks * blocks

        first = segments.find(row, low)
        last = np.minimum(segments.find(row, high), np.searchsorted(segments.whole[0], row, side="right") - 1)
        pieces = np.maximum(last - first + 1, 0)
        span = np.repeat(np.arange(len(spans)), pieces)
        at = np.repeat(first - (np.cumsum(pieces) - pieces), pieces) + np.arange(len(span))
        _, stream, begin, end = segments.whole[:, at]
        b, top = blocks[span], high[span]
        bottom = np.maximum(low[span], top - (top - begin - 1) // b * b)
        top = top - np.maximum(top - end + b - 1, 0) // b * b
        keep = top >= bottom
        span, stream, b, bottom, top = span[keep], stream[keep], b[keep], bottom[keep], top[keep]

        source = spans[span]
        group = cache["group"][source]
        unit, offset = np.ones(len(source), np.int64), np.zeros(len(source), np.int64)
        for index in self.groups:
            which = group == index
            unit[which] = self.unit[index]
            offset[which] = self._offset[index][stream[which]]
        cleared = np.flatnonzero(cache["event"] == CLEARED)
        source = np.concatenate((source, cleared))
        order = np.lexsort((source, cache["n"][source]))

        def column(values):
            return np.concatenate((values, np.zeros(len(cleared), np.int64)))[order]

        self._source = source[order]
        self._n = cache["n"][self._source]
        self._first = column(offset + bottom // unit)
        self._count = column((top - bottom) // b + 1)
        self._stride = np.maximum(column(b // unit), 1)
        event = cache["event"][self._source]
        self._value = np.where(event == PUBLISHED, IS_PUBLISHED, IS_EVICTED).astype(np.uint8)
        self._is_state = np.isin(
            cache["group"][self._source], [x for x, g in self.groups.items() if is_state(g)]
        )
        self._clears = np.flatnonzero(event == CLEARED).tolist()

    def _replayed(self, done: int) -> np.ndarray:
        """Statuses after the first `done` pieces; keeps snapshots on the way."""
        place = bisect_right(self._snapshots, done, key=lambda snapshot: snapshot[0]) - 1
        at, status = self._snapshots[place]
        status = status.copy()
        newest = place == len(self._snapshots) - 1
        while newest and at + self._every <= done:
            self._apply(status, at, at + self._every)
            at += self._every
            self._snapshots.append((at, status.copy()))
        self._apply(status, at, done)
        return status

    def _apply(self, status: np.ndarray, low: int, high: int) -> None:
        for clear in [k for k in self._clears if low <= k < high]:
            self._assign(status, low, clear)
            status[status == IS_PUBLISHED] = IS_EVICTED
            low = clear + 1
        self._assign(status, low, high)

    def _assign(self, status: np.ndarray, low: int, high: int) -> None:
        counts = self._count[low:high]
        total = int(counts.sum())
        if not total:
            return
        within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        index = np.repeat(self._first[low:high], counts) + within * np.repeat(self._stride[low:high], counts)
        status[index] = np.repeat(
            self._value[low:high], counts
        )  # where an index repeats, the last value stays

"""What a look-up would find for requests, many at once: a queue of hundreds is drawn round after round.

A prompt's boundaries of one group lie along its segments; those of all requests end to end are one array, reduced by
request:

    owner    0   0   0   0 | 1   1 | 2   2   2          whose boundary
    depth   64 128 192 256 | 64 128 | 64 128 192        tokens before it
    status   p   p   .   p | p   .  | p   p   p         attention: up to the first hole; a state: the deepest
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from radixflow.trace.boundaries import IN_FLIGHT, IS_PUBLISHED, NEVER, is_state
from radixflow.trace.segments import WIDE

if TYPE_CHECKING:
    from radixflow.trace.tree import PrefixTree

_AT_ONCE = 1 << 20
"""Boundaries of one group that are looked at in one piece."""


class Matches(NamedTuple):
    """One entry a request, in tokens."""

    identity: np.ndarray
    """h^ (see `PrefixTree.identity`)."""
    ready: np.ndarray
    """h (see `PrefixTree.ready`)."""
    matched: dict[int, np.ndarray]
    """By group (see `PrefixTree.matched`)."""


class Matcher:
    """Looks requests up in one tree; `rows` are those of `Store.requests`."""

    def __init__(self, tree: PrefixTree):
        self._segments = tree._segments
        self._boundaries = tree._boundaries
        self._status = tree._status
        self._prompt = tree._requests["prompt"]
        self._block = tree.trace.config.block_size
        self._furthest: dict[int, tuple[int, int, int]] = {}
        """Of each stream: who came furthest along it, how far in depth, and how far the next one."""

    def matches(self, rows: np.ndarray, computed: np.ndarray) -> Matches:
        """All of it. computed: tokens that each request (by row) had computed or found."""
        found = [self._cached(part) for part in self._pieces(rows)]
        return Matches(
            identity=np.array([self.identity(row, computed) for row in rows.tolist()], np.int64),
            ready=np.concatenate([ready for ready, _ in found]) if found else np.empty(0, np.int64),
            matched={
                group: np.concatenate([matched[group] for _, matched in found]) if found else np.empty(0, np.int64)
                for group in self._boundaries.groups
            },
        )

    def identity(self, row: int, computed: np.ndarray) -> int:
        first, last = np.searchsorted(self._segments.prompt[0], [row, row + 1]).tolist()
        for k in range(last - 1, first - 1, -1):
            _, stream, begin, depth = self._segments.prompt[:, k].tolist()
            if stream not in self._furthest:
                self._furthest[stream] = self._two_furthest(stream, computed)
            who, reach, next_reach = self._furthest[stream]
            best = min(depth, next_reach if who == row else reach)
            if best > begin:
                return best
        return 0

    def _two_furthest(self, stream: int, computed: np.ndarray) -> tuple[int, int, int]:
        rows, ends = self._segments.along(stream)
        reach = np.minimum(ends, computed[rows])
        best = int(reach.argmax())
        others = max(int(reach[:best].max(initial=0)), int(reach[best + 1 :].max(initial=0)))
        return int(rows[best]), int(reach[best]), others

    def _pieces(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """The rows in parts of about so many boundaries; a part has one row at least."""
        if not len(rows):
            return
        finest = min(self._boundaries.unit.values(), default=1)
        before = np.cumsum(self._prompt[rows].astype(np.int64) // finest)
        yield from np.split(rows, np.flatnonzero(np.diff(before // _AT_ONCE)) + 1)

    def _cached(self, rows: np.ndarray) -> tuple[np.ndarray, dict[int, np.ndarray]]:
        """h, and each group's match."""
        limit = np.maximum(self._prompt[rows].astype(np.int64) - 1, 0)  # the last token is always computed
        matched: dict[int, np.ndarray] = {}
        bound = limit
        common: np.ndarray | None = None
        for index, group in self._boundaries.groups.items():
            owner, depth, status = self._along(rows, index, limit)
            published = status == IS_PUBLISHED
            usable = published | (status == IN_FLIGHT)
            if is_state(group):
                matched[index] = _deepest(owner[usable], depth[usable], len(rows))
                here = owner[published] * WIDE + depth[published]
                common = here if common is None else np.intersect1d(common, here, assume_unique=True)
            else:
                whole = depth % group.block_size == 0
                owner, depth, usable, published = owner[whole], depth[whole], usable[whole], published[whole]
                matched[index] = _unbroken(owner, depth, usable, len(rows), group.block_size)
                bound = np.minimum(bound, _unbroken(owner, depth, published, len(rows), group.block_size))
        if common is None:
            return bound // self._block * self._block, matched
        owner, depth = common // WIDE, common % WIDE
        near = depth <= bound[owner]
        return _deepest(owner[near], depth[near], len(rows)), matched

    def _along(self, rows: np.ndarray, group: int, limit: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(index into rows, depth, status) of each boundary along each prompt up to its limit."""
        row, stream, begin, end = self._segments.prompt
        first = np.searchsorted(row, rows)
        pieces = np.searchsorted(row, rows, side="right") - first
        at = np.repeat(first - (np.cumsum(pieces) - pieces), pieces) + np.arange(pieces.sum())
        owner = np.repeat(np.arange(len(rows)), pieces)
        begin, unit = begin[at], self._boundaries.unit[group]
        low, high = self._boundaries.slots(group, stream[at], begin, np.minimum(end[at], limit[owner]))
        counts = np.maximum(high - low, 0)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        depth = (np.repeat(begin // unit, counts) + 1 + within) * unit
        status = self._status[np.repeat(low, counts) + within]
        owner = np.repeat(owner, counts)
        block = self._boundaries.groups[group].block_size
        if unit != block:  # partial boundaries only where something happened
            real = (depth % block == 0) | (status != NEVER)
            return owner[real], depth[real], status[real]
        return owner, depth, status


def _deepest(owner: np.ndarray, depth: np.ndarray, size: int) -> np.ndarray:
    found = np.zeros(size, np.int64)
    np.maximum.at(found, owner, depth)
    return found


def _unbroken(owner: np.ndarray, depth: np.ndarray, usable: np.ndarray, size: int, block: int) -> np.ndarray:
    """How far the whole blocks are usable from the first one on."""
    found = _deepest(owner, depth, size)
    np.minimum.at(found, owner[~usable], depth[~usable] - block)
    return found

"""How much of a prompt is still cached, for many prompts round after round.

`PrefixTree` answers for one round at a time and gathers a request's boundaries anew in each. Where they lie
doesn't change while the trace doesn't grow, so here it is found once a request:

    statuses of all boundaries   | . . p p p e e | . . | p e . ... |
    of one request's prompt            ^ ^ ^ ^           ^ ^
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from radixflow.trace.boundaries import IN_FLIGHT, IS_PUBLISHED, is_state

if TYPE_CHECKING:
    from radixflow.trace.reader import Trace
    from radixflow.trace.tree import PrefixTree


class KeptPrompts:
    """Of the requests of a trace as far as it was read: where the boundaries of their prompts lie."""

    def __init__(self, trace: Trace):
        self._trace = trace
        self._boundaries = trace._boundaries
        self._segments = trace._segments
        self._places: dict[int, list[tuple[bool, np.ndarray, np.ndarray]]] = {}

    def of(self, tree: PrefixTree, i: int, limit: int | None = None) -> tuple[int, int]:
        """(h, key-values) of request i's prompt as the tree's round left them, in tokens.

        h: the largest boundary, at most `limit` (all of the prompt by default), at which every group is published.
        The other one: up to where all groups that need every block from the first on have theirs, whether or not
        a state lies there; states and blocks of that very round included. With `limit` prompt - 1, h is
        `tree.ready(i)`.
        """
        status = tree._status
        prompt = tree.prompt(i)
        limit = prompt if limit is None else min(limit, prompt)
        published = usable = limit
        groups = self._of(i)
        for whole, depths, places in groups:
            if whole:
                here = status[places][: np.searchsorted(depths, limit, side="right")]
                published = min(published, _unbroken(depths, here == IS_PUBLISHED))
                usable = min(usable, _unbroken(depths, (here == IS_PUBLISHED) | (here == IN_FLIGHT)))
        states = [
            depths[(status[places] == IS_PUBLISHED) & (depths <= published)]
            for whole, depths, places in groups
            if not whole
        ]
        if not states:
            block = self._trace.config.block_size
            return published // block * block, usable // block * block
        common = states[0]
        for depths in states[1:]:
            common = np.intersect1d(common, depths, assume_unique=True)
        return int(common.max(initial=0)), usable

    @staticmethod
    def arrived(tree: PrefixTree) -> int:
        """How many requests had arrived by the tree's round: the first ones, in order of arrival."""
        return tree._arrived

    def arrival_round(self, k: int) -> int:
        """The first round that knew the k-th request to arrive, counted from 0."""
        rounds = self._trace._store.rounds.rows()
        at = int(np.searchsorted(rounds["request_end"], k, side="right"))
        return int(rounds["n"][at]) if at < len(rounds) else self._trace.num_rounds + 1

    def _of(self, i: int) -> list[tuple[bool, np.ndarray, np.ndarray]]:
        """Per group: whether a prefix needs all its boundaries, their depths, and where their statuses lie."""
        known = self._places.get(i)
        if known is None:
            row = self._trace._store.row_of[i]
            _, stream, begin, end = self._segments.prompt
            first, last = np.searchsorted(self._segments.prompt[0], [row, row + 1])
            known = self._places[i] = [
                self._gathered(index, stream[first:last], begin[first:last], end[first:last])
                for index in self._boundaries.groups
            ]
        return known

    def _gathered(
        self, index: int, stream: np.ndarray, begin: np.ndarray, end: np.ndarray
    ) -> tuple[bool, np.ndarray, np.ndarray]:
        group, unit = self._boundaries.groups[index], self._boundaries.unit[index]
        first, last = self._boundaries.slots(index, stream, begin, end)
        counts = last - first
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        depths = (np.repeat(begin // unit + 1, counts) + within) * unit
        places = np.repeat(first, counts) + within
        whole = not is_state(group)
        if whole and unit != group.block_size:
            blocks = depths % group.block_size == 0
            depths, places = depths[blocks], places[blocks]
        return whole, depths, places


def _unbroken(depths: np.ndarray, there: np.ndarray) -> int:
    """The depth up to which all are there."""
    run = len(there) if there.all() else int(np.argmin(there))
    return int(depths[run - 1]) if run else 0

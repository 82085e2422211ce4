"""Which states were ever published at a place, and what each request left of its own."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

import numpy as np

from radixflow.analysis.findings.ways import Ways


class Publications:
    """The states of a trace's recurrent (and sliding-window) groups; full attention keeps every block."""

    def __init__(self, trace, ways: Ways):
        self._trace = trace
        self._ways = ways
        self.groups = {group.index for group in trace.config.groups if group.kind != "full_attention"}
        """State groups by number. Empty for a model with full attention only."""

    @cached_property
    def _first(self) -> dict[tuple[str, int], dict[int, int]]:
        """Place -> group -> the round that first published its state there."""
        found: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
        for n, i, group, depth in self._each():
            place = self._ways.of(i).at(depth)
            if place is not None:
                found[place].setdefault(group, n)
        return found

    @cached_property
    def _by(self) -> dict[int, list[tuple[int, int]]]:
        """Request -> (round, depth) of the states that it published in the first state group."""
        found = defaultdict(list)
        representative = min(self.groups, default=-1)
        for n, i, group, depth in self._each():
            if group == representative:
                found[i].append((n, depth))
        return found

    def _each(self):
        cache = self._trace.cache
        chosen = cache[(cache["event"] == "published") & cache["group"].isin(self.groups)]
        block = {group.index: group.block_size for group in self._trace.config.groups}
        columns = (chosen[name].tolist() for name in ("round", "i", "group", "start", "end"))
        for n, i, group, start, end in zip(*columns, strict=True):
            for depth in range(end, start, -block[group]):
                yield n, i, group, depth

    def complete_before(self, i: int, depth: int, n: int) -> bool:
        """Whether every state group had published the state at request i's place `depth` in a round before
        n."""
        if not self.groups:
            return True
        place = self._ways.of(i).at(depth)
        first = self._first.get(place, {}) if place else {}
        return len(first) == len(self.groups) and max(first.values()) < n

    def leaves(self, i: int, depth: int, n: int) -> bool:
        """Whether request i itself published its state at `depth` in round n or later. Groups keep their
        states together, so one stands for all."""
        return not self.groups or any(d == depth and m >= n for m, d in self._by.get(i, ()))

    def kept(self, i: int, n: int) -> list[int]:
        """Depths of the states that request i itself had published in rounds before n, ascending."""
        return sorted({depth for m, depth in self._by.get(i, ()) if m < n})


class ChunkEnds:
    """Where each request's visits ended: there, and only there, its running state was the state at a
    depth."""

    def __init__(self, trace):
        visits = trace.visits
        i = visits["i"].to_numpy()
        self._order = np.argsort(i, kind="stable")
        self._i = i[self._order]
        self._rounds = visits["round"].to_numpy()
        self._ends = visits["start"].to_numpy(np.int64) + visits["tokens"].to_numpy(np.int64)

    def before(self, i: int, n: int) -> list[int]:
        """Depths at which request i's visits in rounds before n ended, ascending."""
        own = self._order[slice(*np.searchsorted(self._i, [i, i + 1]))]
        return sorted(set(self._ends[own][self._rounds[own] < n].tolist()))

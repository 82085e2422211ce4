"""What each first admission found in the prefix cache, and what others had computed of its prompt by then.

prompt of r   |----------------------------------------------|
ready         |--------|                                        h: it resumed here
matched       |----------------|                                h^: some cache group goes on to here
shared        |-----------------------|                         computed by someone in an earlier round
usable        |--------------------|                            the deepest block boundary in it
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from radixflow.analysis.findings.ways import Way, Ways
from radixflow.analysis.periods import preemptions

_LOOKED_AT = 512
_THROUGH = 16
"""Requests with the same prefix that are asked what they kept of it: the latest of them, so that a document
with thousands of readers costs no more than one with twenty."""


@dataclass(slots=True)
class Lookup:
    """One request's first admission. All lengths in tokens from the start of its prompt."""

    i: int
    round: int
    prompt: int
    ready: int
    matched: int
    queued_from: int | None
    """The first round whose scan could have reached it."""
    shared: int = 0
    """How much of its prompt had been computed, by any request, in rounds before this one."""
    by: int = -1
    """Who computed that far; -1 where nobody had computed any of it."""
    longest: int = 0
    """How much its prompt shares with any request admitted before it, computed or not."""
    longest_with: int = -1
    through: list[int] = field(default_factory=list)
    """Where a state is missing at the match: requests that had computed everything up to it, latest first."""
    computing: list[tuple[int, int]] = field(default_factory=list)
    """Admitted requests that were still computing their prompts in this round and share more than `ready`
    with this one: (request, tokens shared)."""

    def usable(self, block: int, drafts: bool) -> int:
        """The deepest boundary of what was shared that a look-up can answer: it stops one token before the
        prompt's end, and with drafts one block earlier (the drafter computes it again)."""
        boundary = min(self.shared, self.prompt - 1) // block * block
        return max(boundary - block, 0) if drafts else boundary


def lookups(trace, ways: Ways, queued_from: Callable[[int], int | None]) -> list[Lookup]:
    """Every first admission of the trace, in order. One pass over the visits that computed prompts."""
    if not trace.config.prefix_caching:
        return []
    admissions = trace.admissions
    first = admissions[~admissions["again"].astype(bool)].drop_duplicates("i")
    facts = {
        i: (n, ready + external, max(matched, ready + external))
        for i, n, ready, matched, external in zip(
            *(first[name].tolist() for name in ("i", "round", "ready", "matched", "external")), strict=True
        )
    }
    prompts = dict(zip(trace.requests.index.tolist(), trace.requests["prompt"].tolist(), strict=True))
    progress = _Progress(trace, ways, prompts)
    found = []
    for n, i, end in _prompt_visits(trace):
        progress.advance_to(n)
        fact = facts.pop(i, None)
        if fact is not None and i in prompts:
            lookup = Lookup(i, *fact[:1], prompts[i], *fact[1:], queued_from(i))
            progress.look_up(lookup)
            found.append(lookup)
        progress.visited(i, end)
    return found


def _prompt_visits(trace) -> Iterator[tuple[int, int, int]]:
    """`(round, request, tokens computed after it)` of each visit that computed prompt tokens, in order."""
    visits = trace.visits
    prompt = np.zeros(len(trace.ids), np.int64)
    prompt[trace.requests.index.to_numpy()] = trace.requests["prompt"].to_numpy()
    i, start = visits["i"].to_numpy(), visits["start"].to_numpy(np.int64)
    chosen = np.flatnonzero(start < prompt[i])
    end = start[chosen] + visits["tokens"].to_numpy(np.int64)[chosen]
    columns = (visits["round"].to_numpy()[chosen], i[chosen], end)
    return zip(*(column.tolist() for column in columns), strict=True)


class _Progress:
    """Who has computed what, as rounds go by."""

    def __init__(self, trace, ways: Ways, prompts: dict[int, int]):
        self._ways = ways
        self._prompts = prompts
        self._reached: dict[int, int] = {}
        """Request -> tokens computed in rounds before this one."""
        self._frontier: dict[str, tuple[int, int]] = {}
        """Stream -> the deepest token computed on it, and by whom."""
        self._admitted: dict[str, tuple[int, int]] = {}
        """Stream -> how deep admitted prompts go along it, and whose."""
        self._readers: dict[str, dict[int, None]] = defaultdict(dict)
        """Stream -> requests that have computed on it, in that order."""
        self._computing: dict[str, dict[int, int]] = defaultdict(dict)
        """First stream -> requests whose prompts aren't done, and the round of their last visit."""
        self._round = 0
        self._this_round: list[tuple[int, int]] = []
        requests = trace.requests
        gone = requests["finish_round"].dropna()
        self._gone = dict(zip(gone.index.tolist(), gone.astype(int).tolist(), strict=True))
        self._left = sorted((n, i) for i, n in self._gone.items() if trace.output_path_of(i))
        self._left_at = 0
        self._preempted = preemptions(trace)

    def advance_to(self, n: int) -> None:
        """What earlier rounds computed counts from round n on."""
        if n == self._round:
            return
        for i, end in self._this_round:
            self._computed(i, end)
            if end >= self._prompts.get(i, 0):
                self._computing[self._ways.of(i).streams[0]].pop(i, None)
        self._this_round.clear()
        self._round = n
        while self._left_at < len(self._left) and self._left[self._left_at][0] < n:
            i = self._left[self._left_at][1]
            self._computed(i, self._ways.of(i).ends[-1])
            self._left_at += 1

    def _computed(self, i: int, end: int) -> None:
        before = self._reached.get(i, 0)
        self._reached[i] = max(before, end)
        begin = 0
        way = self._ways.of(i)
        for stream, stop in zip(way.streams, way.ends, strict=True):
            if stop > before and begin < end:
                depth = min(stop, end)
                if depth > self._frontier.get(stream, (0, -1))[0]:
                    self._frontier[stream] = (depth, i)
                self._readers[stream][i] = None
            begin = stop

    def visited(self, i: int, end: int) -> None:
        """Round n, the last one advanced to, brought request i's computed tokens to `end`."""
        self._this_round.append((i, end))
        way = self._ways.of(i)
        if i in self._prompts and way.streams:
            self._computing[way.streams[0]][i] = self._round

    def look_up(self, lookup: Lookup) -> None:
        """Fill in what others had computed, and are computing, of this request's prompt."""
        i, way = lookup.i, self._ways.of(lookup.i)
        lookup.shared, lookup.by = _deepest(way, self._frontier, lookup.prompt)
        lookup.longest, lookup.longest_with = _deepest(way, self._admitted, lookup.prompt)
        if lookup.matched > lookup.ready:
            lookup.through = self._readers_through(i, lookup.matched)
        for q, last in self._computing[way.streams[0]].items() if way.streams else ():
            if q == i or self._gone.get(q, lookup.round) < lookup.round:
                continue
            if any(last <= n <= lookup.round for n in self._preempted.get(q, ())):
                continue
            shared = min(way.shared_with(self._ways.of(q)), self._prompts[q], lookup.prompt)
            if shared > lookup.ready:
                lookup.computing.append((q, shared))
        begin = 0
        for stream, stop in zip(way.streams, way.ends, strict=True):
            if begin >= lookup.prompt:
                break
            depth = min(stop, lookup.prompt)
            if depth > self._admitted.get(stream, (0, -1))[0]:
                self._admitted[stream] = (depth, i)
            begin = stop

    def _readers_through(self, i: int, depth: int) -> list[int]:
        place = self._ways.of(i).at(depth)
        found: list[int] = []
        if place is None:
            return found
        for k, q in enumerate(reversed(self._readers.get(place[0], {}))):
            if k == _LOOKED_AT or len(found) == _THROUGH:
                break
            if q != i and self._reached.get(q, 0) >= depth and self._ways.of(q).at(depth) == place:
                found.append(q)
        return found


def _deepest(way: Way, known: dict[str, tuple[int, int]], limit: int) -> tuple[int, int]:
    """How far along `way` the known depths go, and who went so far."""
    for stream, stop in zip(reversed(way.streams), reversed(way.ends), strict=True):
        if stream in known:
            depth, who = known[stream]
            return min(depth, stop, limit), who
    return 0, -1

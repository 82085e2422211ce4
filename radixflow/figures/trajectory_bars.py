"""What the trajectories' picture shows at one round: a bar each, as long as its context, and what is left of it.

Pure: traces in, a dict out that `json.dumps` takes and the dashboard draws. Columns, one a trace, share their rows
and their scale, so that two evictions of one workload stand side by side.

    a3   |= shared =|======== own ========|::::: lost :::::|       ready: up to the lost tail
    a4   |= shared =|                                      |       nothing of its own is left
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from radixflow.analysis.evictions import Return, came_back
from radixflow.analysis.trajectories import Takers, Trajectories
from radixflow.figures.palette import Colours, fill
from radixflow.figures.rows import rows_of
from radixflow.figures.windows import name_of
from radixflow.trace.kept import KeptPrompts
from radixflow.trace.tree import PrefixTree

MAX_ROWS = 40
"""Trajectories drawn; of the others it is said how many."""

NEVER = 2**62
"""A round after every other."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One trajectory as a round left it. Lengths are tokens of its latest prompt, from the beginning."""

    i: int
    """Its latest request by then, or its first one where none had come."""
    state: str
    """`absent` (not yet come), `waiting`, `running`, `idle`, or `gone`: idle, and it never comes back."""
    since: int | None
    """The round that ended its latest request, where it is idle or gone."""
    full: int
    """The prompt of its latest request; 0 before its first one."""
    expected: int
    """Whole blocks that its requests so far left to go on from."""
    shared: int
    """What other trajectories have as well."""
    ready: int
    """h: from where it could go on. In a round that takes it from the queue: what the look-up found."""
    matched: int
    """Key-values still there, at least `ready`; those beyond it serve nobody."""
    lost: int
    """expected - ready."""
    evictor: int | None
    """The request that took the last of what is lost."""
    miss: str | None
    """In the round of a return, what it missed: `none`, `partial` or `whole`."""
    next: Return | None
    """Its next return."""

    @property
    def vanished(self) -> bool:
        """Whether nothing of its own is left of what its requests left."""
        return self.lost > 0 and self.ready <= self.shared


class Contexts:
    """The trajectories of a trace as far as it was read, and their bars at any round.

    Making one takes as long as reading the trace's requests and evictions once; a bar takes the same at every round.
    """

    def __init__(self, trace: Any) -> None:
        self.trace = trace
        self._trajectories = Trajectories.of_trace(trace)
        self._takers = Takers(trace, self._trajectories)
        self._kept = KeptPrompts(trace)
        requests = trace.requests
        self._prompts = dict(zip(requests.index.tolist(), requests["prompt"].tolist(), strict=True))
        self._groups = dict(zip(requests.index.tolist(), requests["group"].tolist(), strict=True))
        finished = requests["finish_round"].fillna(NEVER).astype(np.int64)
        self._finished = dict(zip(requests.index.tolist(), finished.tolist(), strict=True))
        stays = rows_of(trace)
        order = np.lexsort((stays.first, stays.request))
        self._stays = stays.request[order], stays.first[order], stays.last[order]
        self._found = trace.admissions["ready"].to_numpy(np.int64)[order]
        of = self._trajectories.of
        owners = np.array([of.get(i, -1) for i in trace.cache["i"].tolist()], np.int64)
        cleared = (trace.cache["event"] == "cleared").to_numpy()
        starts = np.where(cleared, -1, trace.cache["start"].to_numpy(np.int64))
        roots = np.array([self._trajectories.root(i) for i in trace.cache["i"].tolist()], np.int64)
        self._events = trace.cache["round"].to_numpy(np.int64), owners, roots, starts
        """Round, trajectory, first stream and first token of what happened to blocks."""
        self.all_returns: list[Return] = came_back(trace)
        self._returns: dict[int, list[Return]] = {}
        for one in self.all_returns:
            self._returns.setdefault(one.trajectory, []).append(one)
        members = self._trajectories.members
        self.names: dict[str, int] = {name_of(trace, first): first for first in members}
        """The id of each trajectory's first request, in order of arrival -> its number."""
        ends = [of[-1] for of in members.values()]
        self._last_arrival = np.array([self._trajectories.arrival[i] for i in ends], np.int64)
        self._last_finish = np.array([self._finished[i] for i in ends], np.int64)
        self.continued = np.array([len(of) > 1 for of in members.values()], bool)
        """By place in `names`: whether the trajectory has more than one request."""

    @property
    def returns(self) -> int:
        """How many requests came back to a context that was done."""
        return len(self.all_returns)

    @property
    def tell(self) -> bool:
        """Whether a picture has something to tell: somebody comes back to a context, and blocks were taken, or it
        grows further than a document and one question."""
        longest = max(map(len, self._trajectories.members.values()), default=0)
        return bool(self.all_returns) and (longest > 2 or bool((self.trace.cache["event"] == "evicted").any()))

    @property
    def has_states(self) -> bool:
        """Whether a prefix can only be gone on from where a state was kept."""
        return any("kv" not in group.components for group in self.trace.config.groups)

    def of(self, trajectory: int) -> list[Return]:
        """The returns of one, named by its first request."""
        return self._returns.get(trajectory, [])

    def size(self, trajectory: int) -> int:
        """Tokens of its longest prompt."""
        return max(self._prompts[i] for i in self._trajectories.members[trajectory])

    def over(self, tree: PrefixTree) -> np.ndarray:
        """By place in `names`: whether nothing of the trajectory runs, waits or is still to come, so far as the
        trace says."""
        return (self._last_arrival < self._kept.arrived(tree)) & (self._last_finish < tree.at_round)

    def label(self, trajectory: int) -> str:
        """The group that all its requests belong to, or the id of its first request."""
        groups = {self._groups[i] for i in self._trajectories.members[trajectory]}
        group = groups.pop()
        return group if not groups and isinstance(group, str) else name_of(self.trace, trajectory)

    def own(self, bar: Bar) -> float | None:
        """The share of its own tokens, what others share left out, that a bar could go on from; None before its
        first request is done."""
        own = bar.expected - min(bar.shared, bar.expected)
        if bar.state == "absent" or not bar.expected:
            return None
        return min(1.0, max(0.0, (bar.ready - bar.shared) / own)) if own else float(not bar.lost)

    def changes(self, trajectory: int) -> list[int]:
        """The rounds after which its bar may differ from the one before, ascending; `own` and `state` are constant
        in between."""
        members = self._trajectories.members[trajectory]
        request, first, last = self._stays
        stays = np.isin(request, members)
        rounds = [self._kept.arrival_round(self._trajectories.arrival[i]) for i in members]
        rounds += [*first[stays].tolist(), *(first[stays] + 1).tolist(), *(last[stays] + 1).tolist()]
        rounds += [self._finished[i] + 1 for i in members]
        n, owner, root, start = self._events
        shared = max(self._trajectories.shared(i) for i in members)
        beside = (start < shared) & (root == self._trajectories.root(trajectory))
        touched = n[(owner == trajectory) | beside | (start < 0)]
        # A state published in a round can be read from the next on.
        found = np.unique(np.concatenate((rounds, touched, touched + 1)).astype(np.int64))
        return found[(found >= 1) & (found <= self.trace.num_rounds)].tolist()

    def bar(self, trajectory: int, tree: PrefixTree) -> Bar:
        """Of the trajectory named by its first request, in a round's `trace.tree(n)`."""
        n = tree.at_round
        members = self._trajectories.members[trajectory]
        known = bisect_left(members, self._kept.arrived(tree), key=self._trajectories.arrival.__getitem__)
        coming = self.of(trajectory)
        at = bisect_right(coming, n, key=lambda one: one.round)
        following = coming[at] if at < len(coming) else None
        if not known:
            return Bar(trajectory, "absent", None, 0, 0, 0, 0, 0, 0, None, None, following)
        i = self._current(members[:known], n)
        prompt = self._prompts[i]
        block = self.trace.config.block_size
        parent = self._trajectories.parent[i]
        before = min(self._prompts[parent], prompt - 1) // block * block if parent is not None else 0
        shared = min(self._trajectories.shared(i), prompt) // block * block
        now = coming[at - 1] if at and coming[at - 1].round == n and coming[at - 1].i == i else None
        since = None
        if self._finished[i] < n:
            gone = i == members[-1] and self.trace.complete
            state, since, expected = "gone" if gone else "idle", self._finished[i], prompt // block * block
            ready, matched = self._kept.of(tree, i)
        else:
            found = self._looked_up(i, n)
            state, expected = "waiting" if found is None else "running", before
            ready, matched = self._kept.of(tree, i, prompt - 1 if found is None else prompt)
            if found is not None and found[0] == n:
                ready = min(found[1], expected) if now is not None else found[1]
                matched = ready if now is not None else max(ready, min(matched, expected))
        lost = max(0, expected - ready)
        evictor = self._takers.last(trajectory, ready, expected, n) if lost else None
        miss = now.miss if now is not None else None
        return Bar(
            i, state, since, prompt, expected, shared, ready, max(ready, matched), lost, evictor, miss, following
        )

    def _current(self, members: list[int], n: int) -> int:
        """The latest of those that came; where it is in the queue, the one that runs, if one does."""
        for i in reversed(members):
            if self._finished[i] < n:
                break
            if self._looked_up(i, n) is not None:
                return i
        return members[-1]

    def _looked_up(self, i: int, n: int) -> tuple[int, int] | None:
        """(round, tokens found) of the look-up with which a request that runs in round n was taken from the
        queue; None where it is in the queue."""
        request, first, last = self._stays
        low, high = np.searchsorted(request, [i, i + 1])
        at = int(low) + int(np.searchsorted(first[low:high], n, side="right")) - 1
        if at < low or last[at] < n:
            return None
        return int(first[at]), int(self._found[at])


def anybody_continues(trace: Any) -> bool:
    """Whether any trajectory has a second request: without one there is nothing to draw. Costs what is new."""
    return any(len(members) > 1 for members in Trajectories.of_trace(trace).members.values())


def bars(
    contexts: Sequence[Contexts], at_round: int, colours: Colours | None = None, max_rows: int = MAX_ROWS
) -> dict[str, Any]:
    """The trajectories of one trace or several as round `at_round` left them: `runs` has a column for each.

    Each run's `bars` are in the order of `rows`, the ids of the trajectories' first requests; None where a trace
    has no such trajectory. `extent` is the longest context, in tokens; `hidden` says how many trajectories are not
    among the rows. A run that is shorter stays at its last round.
    """
    if colours is None:
        colours = Colours.of(*(one.trace for one in contexts))
    trees = [one.trace.tree(max(1, min(at_round, one.trace.num_rounds))) for one in contexts]
    rows, hidden = rows_of_runs(contexts, max_rows, trees)
    labels = labels_of(contexts, rows)
    extent = max((one.size(one.names[row]) for one in contexts for row in rows if row in one.names), default=0)
    return {
        "kind": "trajectories",
        "round": at_round,
        "rows": rows,
        "labels": labels,
        "hidden": hidden,
        "extent": extent,
        "runs": [
            {
                "trace": one.trace.id,
                "policy": one.trace.header.policy,
                "eviction": one.trace.config.eviction,
                "states": one.has_states,
                "round": tree.at_round,
                "returns": one.returns,
                "certain": tree.certain,
                "bars": [
                    _drawn(one, one.bar(one.names[row], tree), colours) if row in one.names else None for row in rows
                ],
            }
            for one, tree in zip(contexts, trees, strict=True)
        ],
    }


def rows_of_runs(
    contexts: Sequence[Contexts], most: int = MAX_ROWS, trees: Sequence[PrefixTree] | None = None
) -> tuple[list[str], int]:
    """Which trajectories are drawn, in order of first arrival, and how many are not.

    All, if they are few. Else those that are continued at all; and where these are too many as well, the first ones.
    At a round (`trees`) those that are over by then make room for those that aren't.
    """
    everybody = list(dict.fromkeys(name for one in contexts for name in one.names))
    if len(everybody) <= most:
        return everybody, 0
    place = {name: k for k, name in enumerate(everybody)}
    continued, over = np.zeros(len(everybody), bool), np.ones(len(everybody), bool)
    for k, one in enumerate(contexts):
        at = np.array([place[name] for name in one.names])
        continued[at] |= one.continued
        over[at] &= one.over(trees[k]) if trees is not None else False
    wanted = np.flatnonzero(continued)
    if len(wanted) > most:
        going = wanted[~over[wanted]][:most]
        room = most - len(going)
        wanted = np.union1d(going, wanted[over[wanted]][-room:] if room else going)
    return [everybody[k] for k in wanted.tolist()], len(everybody) - len(wanted)


def labels_of(contexts: Sequence[Contexts], rows: Sequence[str]) -> list[str]:
    """Short names of the rows; their ids where two would be the same."""
    whose = [next(one for one in contexts if row in one.names) for row in rows]
    labels = [one.label(one.names[row]) for one, row in zip(whose, rows, strict=True)]
    return [label if labels.count(label) == 1 else row for label, row in zip(labels, rows, strict=True)]


def _drawn(one: Contexts, bar: Bar, colours: Colours) -> dict[str, Any]:
    trace, following = one.trace, bar.next
    colour = colours.of_request(trace, bar.i)
    return {
        "request": name_of(trace, bar.i),
        "colour": list(colour),
        "fill": fill(*colour),
        "state": bar.state,
        "since": bar.since,
        "full": bar.full,
        "expected": bar.expected,
        "shared": bar.shared,
        "ready": bar.ready,
        "matched": bar.matched,
        "lost": bar.lost,
        "vanished": bar.vanished,
        "evictor": name_of(trace, bar.evictor) if bar.evictor is not None else None,
        "miss": bar.miss,
        "next": {"round": following.round, "missed": following.missed, "miss": following.miss} if following else None,
    }

"""A lower bound on the number of rounds: what no order of the same work could have beaten."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from radixflow.analysis.places import CacheEvent, CacheHistory


@dataclass(frozen=True, slots=True)
class Bound:
    """K >= max(W/T, V/S, D), rounded up, over the work that this trace records.

    W is the number of scheduled tokens and T the token budget: a round schedules at most T. V is the
    number of row visits and S the row budget: a round holds at most S. D is the dependency depth, the
    longest chain of row visits each of which had to come in a later round than the one before it:

    - a request's visits follow one another (one visit a round), and
    - a request that resumed from a cached state can't have been visited before the round after the one
      in which that state was published ("published in round n, readable from round n + 1 on").

    Where several requests published the state a consumer resumed from, the earliest of them counts: the
    chain must hold for any order of the work. States from before the trace, or from a KV connector, tie
    nobody. Arrival times and `after` links of a workload aren't in a trace and don't count, so the bound
    can be lower than the work allowed, never higher.
    """

    tokens: int
    """W."""
    row_visits: int
    """V."""
    token_budget: int
    """T."""
    row_budget: int
    """S."""
    depth: int
    """D."""
    chain: tuple[str, ...]
    """The requests of one chain of length D, producer first."""

    @property
    def by_tokens(self) -> int:
        """W/T rounded up."""
        return -(-self.tokens // self.token_budget)

    @property
    def by_rows(self) -> int:
        """V/S rounded up."""
        return -(-self.row_visits // self.row_budget)

    @property
    def rounds(self) -> int:
        """The bound: the largest of the three."""
        return max(self.by_tokens, self.by_rows, self.depth)


def lower_bound(trace) -> Bound:
    """The bound for `trace` (see `Bound` for the definition of each part)."""
    visits = trace.visits
    depth, chain = _depth(trace)
    return Bound(
        tokens=int(visits["tokens"].sum()),
        row_visits=len(visits),
        token_budget=trace.config.max_num_batched_tokens,
        row_budget=trace.config.max_num_seqs,
        depth=depth,
        chain=tuple(trace.ids[i] for i in chain),
    )


def _depth(trace) -> tuple[int, list[int]]:
    """Longest chain of dependent visits, and the requests on it, producer first."""
    visits = trace.visits
    if not len(visits):
        return 0, []
    rounds_of = _rounds_by_request(visits)
    admissions = trace.admissions
    resumed = admissions[admissions["ready"] > 0].sort_values("round", kind="stable")
    resumptions = list(zip(*(resumed[name].tolist() for name in ("round", "i", "ready")), strict=True))
    history = CacheHistory(trace, [(i, ready) for _, i, ready in resumptions])
    # depth(i, round n) = base + number of i's visits up to n; a dependency raises the base.
    bases: dict[int, list[tuple[int, int, int]]] = defaultdict(list)  # i -> [(round, base, producer)]

    def base_at(i: int, n: int) -> int:
        known = bases.get(i, ())
        return next((base for since, base, _ in reversed(known) if since <= n), 0)

    def depth_at(i: int, n: int) -> int:
        own = rounds_of.get(i)
        done = int(np.searchsorted(own, n, side="right")) if own is not None else 0
        return base_at(i, n) + done if done else 0

    earliest: dict[tuple[int, int], _Earliest] = {}  # by the identity of a place's events of one group
    for n, i, ready in resumptions:
        if i not in rounds_of:
            continue  # a damaged record: admitted, and never seen in a batch
        producers = [
            earliest.setdefault((id(events), group), _Earliest(events)).before(n, depth_at)
            for group, events in history.of(i, ready).items()
        ]
        # Every group's state must be there: the latest of the groups, each by its earliest publisher.
        d, producer = max(filter(None, producers), default=(0, -1))
        base = d - int(np.searchsorted(rounds_of[i], n, side="left"))
        if base > base_at(i, n):
            bases[i].append((n, base, producer))

    last = {i: int(own[-1]) for i, own in rounds_of.items()}
    deepest = max(rounds_of, key=lambda i: depth_at(i, last[i]))
    chain = [deepest]
    while bases.get(chain[-1]) and bases[chain[-1]][-1][2] not in chain:
        chain.append(bases[chain[-1]][-1][2])
    return depth_at(deepest, last[deepest]), chain[::-1]


class _Earliest:
    """The publisher of least depth of one group's state at one place, as rounds go by."""

    def __init__(self, events: list[CacheEvent]):
        self._events = events
        self._read = 0
        self._best: tuple[int, int] | None = None

    def before(self, n: int, depth_at: Callable[[int, int], int]) -> tuple[int, int] | None:
        """`(depth, request)` over the publications before round n; None where there is none."""
        while self._read < len(self._events) and self._events[self._read].round < n:
            event = self._events[self._read]
            self._read += 1
            if event.event == "published":
                found = depth_at(event.i, event.round), event.i
                self._best = min(self._best or found, found)
        return self._best


def _rounds_by_request(visits) -> dict[int, np.ndarray]:
    """Request -> the sorted rounds in which it was visited."""
    i = visits["i"].to_numpy()
    order = np.argsort(i, kind="stable")
    owners, starts = np.unique(i[order], return_index=True)
    rounds = visits["round"].to_numpy()[order]
    return dict(zip(owners.tolist(), np.split(rounds, starts[1:]), strict=True))

"""One round, expanded from the columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from radixflow.trace.queues import Queues
from radixflow.trace.schema import Admission, Blocked, Other, Probe, Stop
from radixflow.trace.store import Store, blocked_of, other_of

_CHUNK = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundView:
    """One call of `schedule()`, with the queue it saw. Lists may be shared between views: don't change
    them."""

    n: int
    """The round's number."""
    t: int
    """Entry of `schedule()`, ns."""
    d: int
    """Nanoseconds inside `schedule()`."""
    selected: list[tuple[int, int]]
    """(request, tokens) in native order: running ones first, then those from the waiting queue."""
    admissions: list[Admission]
    blocked: list[Blocked]
    other: list[Other]
    order: list[int]
    """Requests passed over (parked, deferred, put aside), in the order visited."""
    queue: list[int]
    """The waiting queue in native order when the scan began; what the round preempted stands in it."""
    stop: Stop | None
    closed: str | None
    """Why the waiting queue was not entered at all."""
    resident: list[int]
    preempted: list[int]
    free: int
    probe: Probe | None
    host_ns: int | None
    """From `schedule()`'s return to `update_from_output()`'s entry; None where no answer was recorded."""
    released_by: str | None
    """Why admission released the arrivals that entered just before this round."""
    repeat: int
    """How many identical stalled rounds, this one included, the record stands for."""
    certain: bool
    """False where a gap leaves the queue unknown."""
    _unexamined: list = field(default_factory=list, repr=False, compare=False)

    @property
    def stalled(self) -> bool:
        """No token was scheduled."""
        return not self.selected

    @property
    def admitted(self) -> list[int]:
        """Requests that this round took from the waiting queue."""
        return [admission.i for admission in self.admissions]

    @property
    def unexamined(self) -> list[int]:
        """Requests in the queue that the scan didn't reach, in native order."""
        if not self._unexamined:
            self._unexamined.append(self._unreached())
        return self._unexamined[0]

    def _unreached(self) -> list[int]:
        if self.closed is not None:
            return self.queue
        seen = {*self.order, *self.admitted}
        if self.stop is not None and self.stop.i is not None:
            seen.add(self.stop.i)
        return [i for i in self.queue if i not in seen]


class RoundReader:
    """Rounds by number, or one after another."""

    def __init__(self, store: Store, queues: Queues):
        self._store = store
        self._queues = queues
        self._steps_size = -1
        self._hosts = np.empty(0, np.int64)
        self._repeats_size = (-1, -1)
        self._repeats = np.empty(0, np.int32)

    def row(self, n: int) -> int:
        """The row that holds round n. KeyError where there is none."""
        rounds = self._store.rounds.rows()
        row = int(np.searchsorted(rounds["n"], n, side="right")) - 1
        if row >= 0 and n < rounds["n"][row] + self.repeats()[row]:
            return row
        if 1 <= n <= self._store.last_round:
            raise KeyError(f"round {n} was not recorded: it lies in a gap or before this part of the trace")
        raise KeyError(f"no round {n}: the trace has rounds 1 to {self._store.last_round}")

    def first_row_from(self, n: int) -> int:
        """The first row whose rounds are n or later."""
        rounds = self._store.rounds.rows()
        return int(np.searchsorted(rounds["n"] + self.repeats() - 1, n))

    def repeats(self) -> np.ndarray:
        """How many rounds each row stands for."""
        rounds, repeats = self._store.rounds.rows(), self._store.repeats.rows()
        if self._repeats_size != (len(rounds), len(repeats)):
            counts = np.ones(len(rounds), np.int32)
            np.add.at(counts, repeats["row"], repeats["count"])
            self._repeats, self._repeats_size = counts, (len(rounds), len(repeats))
        return self._repeats

    def host_ns(self) -> np.ndarray:
        """Host time of each row in ns, -1 where no answer was recorded."""
        rounds, steps = self._store.rounds.rows(), self._store.steps.rows()
        if self._steps_size != (len(rounds), len(steps)):
            hosts = np.full(len(rounds), -1, np.int64)
            if len(rounds) and len(steps):
                row = np.searchsorted(rounds["n"], steps["n"])
                known = row < len(rounds)
                known[known] = rounds["n"][row[known]] == steps["n"][known]
                row = row[known]
                hosts[row] = steps["t"][known] - rounds["t"][row] - rounds["d"][row]
            self._hosts, self._steps_size = hosts, (len(rounds), len(steps))
        return self._hosts

    def views(self, first: int, last: int) -> Iterator[RoundView]:
        """Views of rows first..last-1."""
        store = self._store
        text = store.texts.name
        host_ns, repeats = self.host_ns(), self.repeats()
        orders = self._queues.orders(first, last)
        names = store.rounds.rows().dtype.names
        ends = {name[:-4]: index for index, name in enumerate(names) if name.endswith("_end")}
        at = {name: index for index, name in enumerate(names)}
        flat = {
            name: getattr(store, name).values() for name in ("passed", "resident", "preempted", "avoidable")
        }
        visits, probed = store.visits.values().reshape(-1, 2), store.probed.values().reshape(-1, 2)
        admissions = store.admissions.rows()[["i", "ready", "matched", "external"]]
        blocked, other = store.blocked.rows(), store.other.rows()
        doubtful = bool(store.gaps) or store.header.part > 0
        before = store.rounds.rows()[first - 1].tolist() if first else (0,) * len(names)
        for low in range(first, last, _CHUNK):
            for row, values in enumerate(store.rounds.rows()[low : min(low + _CHUNK, last)].tolist(), low):

                def part(name, before=before, values=values):
                    index = ends[name]
                    return slice(before[index], values[index])

                probe = stop = None
                if values[at["avoidable"]] >= 0:
                    others = probed[part("probed")]
                    probe = Probe(
                        avoidable=flat["avoidable"][part("avoidable")].tolist(),
                        others=[(i, text(cause)) for i, cause in others.tolist()],
                    )
                if values[at["stop_cause"]] >= 0:
                    stopper = values[at["stopped_by"]]
                    stop = Stop(cause=text(values[at["stop_cause"]]), i=stopper if stopper >= 0 else None)
                host = int(host_ns[row])
                yield RoundView(
                    n=values[at["n"]],
                    t=values[at["t"]],
                    d=values[at["d"]],
                    selected=[(i, tokens) for i, tokens in visits[part("visit")].tolist()],
                    admissions=[Admission(*a) for a in admissions[part("admission")].tolist()]
                    if values[at["new"]]
                    else [],
                    blocked=[blocked_of(store, b) for b in blocked[part("blocked")]]
                    if values[at["blocked"]]
                    else [],
                    other=[other_of(store, o) for o in other[part("other")]] if values[at["other"]] else [],
                    order=flat["passed"][part("passed")].tolist() if values[at["passed"]] else [],
                    queue=next(orders),
                    stop=stop,
                    closed=text(values[at["closed"]]),
                    resident=flat["resident"][part("resident")].tolist() if values[at["resident"]] else [],
                    preempted=flat["preempted"][part("preempted")].tolist()
                    if values[at["preempted"]]
                    else [],
                    free=values[at["free"]],
                    probe=probe,
                    host_ns=host if host >= 0 else None,
                    released_by=text(values[at["released_by"]]),
                    repeat=int(repeats[row]),
                    certain=not doubtful or self._queues.certain(row),
                )
                before = values

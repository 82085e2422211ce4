"""A trace in columns: takes records in file order, keeps numbers."""

from __future__ import annotations

from operator import add

import numpy as np

from radixflow.trace.columns import NONE, Flat, Names, Table
from radixflow.trace.schema import (
    Blocked,
    Cache,
    End,
    Finish,
    Gap,
    Header,
    Hold,
    Other,
    Repeat,
    Request,
    Round,
    Step,
)

MAX_JUMP = 20_000_000
"""How far a request's number may lie beyond the largest known one (a later part of a long run begins
high)."""

WAITS, WAITS_SKIPPED, LEAVES = 0, 1, 2
"""What a queue event does: enter the waiting queue's end, the skipped queue's end, or leave."""

PUBLISHED, EVICTED, CLEARED = 0, 1, 2

_ROUND = [
    *((name, "i8") for name in ("n", "t", "d", "tokens")),
    *((name, "i4") for name in ("rows", "new", "resident", "blocked", "other", "preempted", "passed")),
    *((name, "i4") for name in ("avoidable", "probed", "free", "stopped_by")),
    *((name, "i2") for name in ("stop_cause", "closed", "released_by")),
    *((f"{name}_end", "u4") for name in ("visit", "blocked", "other", "passed", "resident", "preempted")),
    *((f"{name}_end", "u4") for name in ("admission", "avoidable", "probed", "event", "request")),
]
_OTHER_FACTS = (
    "needed",
    "free",
    "reserved",
    "watermark",
    "total",
    "tokens_left",
    "block",
    "ready",
    "matched",
)
_OTHER = [
    *((name, "i4") for name in ("i", *_OTHER_FACTS, "producer", "boundary")),
    *((name, "i2") for name in ("cause", "gate", "status", "also")),
]
_REQUEST = [
    ("t", "i8"),
    ("arrival", "i8"),
    ("ordered", "i8"),
    *((name, "i4") for name in ("i", "prompt", "max_tokens", "priority", "group", "label")),
    *((name, "i1") for name in ("held", "deferred", "salted")),
    ("path_end", "u4"),
    ("names_end", "u4"),
]


class BadRecord(Exception):
    """A record contradicts the format. The message names the record, the reader adds the file and the line."""

    at: int | None = None
    """Its place among the records that were given; None where it is one of them."""


class Store:
    """Everything a trace's records say, in columns. Rounds are rows 0, 1, ... of `rounds`."""

    def __init__(self, header: Header):
        self.header = header
        self.end: End | None = None
        self.gaps: list[Gap] = []
        self.gap_rows: list[int] = []
        """How many rounds had been read before each gap."""
        self.ids: list[str | None] = []
        """By request number; None where a number was named but its record is missing."""
        self.row_of: dict[int, int] = {}
        """A request's row in `requests`."""
        self.last_round = 0

        self.texts = Names()
        """Causes, reasons, groups, labels."""
        self.texts.code("blocked")  # a cause of tables: reading adds no names
        self.lists = Names()
        """Tuples: cache groups of a Blocked, `also` of an Other."""
        self.streams = Names()

        self.rounds = Table(_ROUND)
        self.visits = Flat()
        """Request, tokens, request, tokens, ..."""
        self.admissions = Table([(name, "i4") for name in ("row", "i", "ready", "matched", "external")])
        self.blocked = Table(
            [*((x, "i4") for x in ("i", "producer", "boundary")), ("groups", "i2"), ("parked", "i1")]
        )
        self.other = Table(_OTHER)
        self.passed = Flat()
        self.resident = Flat()
        self.preempted = Flat()
        self.avoidable = Flat()
        self.probed = Flat()
        """Request, cause, request, cause, ..."""
        self.queues: dict[int, tuple[list[int], list[int]]] = {}
        """By row: the queues that a round's record states."""
        self.repeats = Table([("row", "i4"), ("count", "i4"), ("n", "i8"), ("t", "i8")])
        self.steps = Table([("n", "i8"), ("t", "i8"), ("d", "i8")])
        self.requests = Table(_REQUEST)
        self.paths = Flat()
        """Stream, tokens, stream, tokens, ... of all prompts, in rows' order."""
        self.prompt_names = Flat()
        self.tokens: dict[int, np.ndarray] = {}
        self.output_tokens: dict[int, np.ndarray] = {}
        self.finishes = Table(
            [("i", "i4"), ("t", "i8"), ("reason", "i2"), ("output", "i4"), ("n", "i8"), ("path_end", "u4")]
        )
        self.finish_paths = Flat()
        self.finish_row: dict[int, int] = {}
        self.holds = Table([("begin", "i8"), ("end", "i8"), ("reason", "i2"), ("request_end", "u4")])
        self.hold_requests = Flat()
        self.events = Flat()
        """Queue events, request * 4 + kind, in order."""
        self.cache = Table(
            [("n", "i8"), *((x, "i4") for x in ("i", "group", "start", "end", "by")), ("event", "i1")]
        )
        self.mismatches = Table([("n", "i8"), ("group", "i4"), ("tokens", "i4"), ("hashes", "i4")])

        self._released_by = -1
        self._ends = (0,) * 9
        """Of the last round, in the flat columns: in the order of the `_end` fields of `_ROUND`."""
        self._tables = [x for x in vars(self).values() if isinstance(x, Table | Flat)]
        self._request_columns = [self.resident, self.preempted, self.passed, self.hold_requests]
        self._checked = dict.fromkeys(map(id, [*self._request_columns, self.visits]), 0)
        self._take = {
            Round: self._round,
            Step: self._step,
            Cache: self._cache,
            Request: self._request,
            Finish: self._finish,
            Hold: self._hold,
            Repeat: self._repeat,
            Gap: self._gap,
            End: self._end,
            Header: lambda header: None,
        }

    def add(self, records: list) -> None:
        """Take records in file order. Raises BadRecord."""
        take = self._take
        try:
            for at, record in enumerate(records):  # noqa: B007 - an error names it
                take[record.__class__](record)
        except BadRecord as error:
            error.at = at
            raise
        try:
            for table in self._tables:
                table.fold()
        except (OverflowError, TypeError, ValueError) as error:
            raise BadRecord(f"a number is out of range ({error})") from error
        self._check_requests()

    def slot(self, row: int, column: str) -> slice:
        """The part of a flat column that belongs to a round: `store.passed.values()[store.slot(row,
        "passed")]`."""
        ends = self.rounds.rows()[column + "_end"]
        return slice(int(ends[row - 1]) if row else 0, int(ends[row]))

    # One method a kind

    def _round(self, r: Round) -> None:
        if r.n <= self.last_round:
            raise BadRecord(f"round {r.n} comes after round {self.last_round}, expected increasing numbers")
        selected = r.selected
        if len(selected) % 2:
            raise BadRecord(
                f"round {r.n}: `selected` has {len(selected)} numbers, expected pairs of request, tokens"
            )
        row = len(self.rounds)
        self.last_round = r.n
        self.visits.extend(selected)
        for a in r.admissions:
            self.admissions.append((row, a.i, a.ready, a.matched, a.external))
        for b in r.blocked:
            self.blocked.append((b.i, b.producer, b.boundary, self.lists.code(tuple(b.groups)), b.parked))
        for o in r.other:
            self._other(o)
        passed, resident, preempted = _known(r.order), _known(r.resident), _known(r.preempted)
        self.passed.extend(passed)
        self.resident.extend(resident)
        self.preempted.extend(preempted)
        avoidable = probed = -1
        if r.probe is not None:
            self.avoidable.extend(r.probe.avoidable)
            avoidable, probed = len(r.probe.avoidable), len(r.probe.others)
            for i, cause in r.probe.others:
                self.probed.append(i)
                self.probed.append(self.texts.code(cause))
        if r.queue is not None:
            self.queues[row] = (_known(r.queue[0]), _known(r.queue[1]))
        stop_cause, stopped_by = -1, -1
        if r.stop is not None:
            stop_cause = self.texts.code(r.stop.cause)
            stopped_by = -1 if r.stop.i is None else r.stop.i
        ends = self._ends = tuple(
            map(
                add,
                self._ends,
                (
                    len(selected) >> 1,
                    len(r.blocked),
                    len(r.other),
                    len(passed),
                    len(resident),
                    len(preempted),
                    len(r.admissions),
                    max(avoidable, 0),
                    max(probed, 0),
                ),
            )
        )
        self.rounds.append(
            (
                r.n,
                r.t,
                r.d,
                sum(selected[1::2]),
                len(selected) >> 1,
                len(r.admissions),
                len(resident),
                len(r.blocked),
                len(r.other),
                len(preempted),
                len(passed),
                avoidable,
                probed,
                r.free,
                stopped_by,
                stop_cause,
                self.texts.code(r.closed),
                self._released_by,
                *ends,
                len(self.events),
                len(self.requests),
            )
        )
        self._released_by = -1

    def _other(self, o: Other) -> None:
        code = self.texts.code
        facts = [getattr(o, name) for name in _OTHER_FACTS]
        facts += [o.producer, o.boundary]
        also = self.lists.code(tuple(o.also)) if o.also else -1
        self.other.append(
            (
                o.i,
                *(NONE if x is None else x for x in facts),
                code(o.cause),
                code(o.gate),
                code(o.status),
                also,
            )
        )

    def _step(self, s: Step) -> None:
        self.steps.append((s.n, s.t, s.d))

    def _cache(self, c: Cache) -> None:
        n = c.n or self.last_round
        if c.cleared:
            self.cache.append((n, -1, -1, 0, 0, -1, CLEARED))
        for i, group, start, end, by in c.evicted:
            self.cache.append((n, i, group, start, end, by, EVICTED))
        for i, group, start, end in c.published:
            self.cache.append((n, i, group, start, end, -1, PUBLISHED))
        for group, tokens, hashes in c.events:
            self.mismatches.append((n, group, tokens, hashes))

    def _request(self, r: Request) -> None:
        i = r.i
        if i in self.row_of:
            if r.part:
                return
            raise BadRecord(f"request {i} ({r.id!r}) comes twice")
        self._make_room(i)
        arrival = r.t if r.arrival is None else r.arrival
        self.ids[i] = r.id
        self.row_of[i] = len(self.requests)
        for stream, n in r.path:
            self.paths.append(self.streams.code(stream))
            self.paths.append(n)
        for label, n in r.names:
            self.prompt_names.append(self.texts.code(label))
            self.prompt_names.append(n)
        if r.token_ids is not None:
            self.tokens[i] = np.array(r.token_ids, np.int32)
        self.requests.append(
            (
                r.t,
                arrival,
                arrival if r.ordered_at is None else r.ordered_at,
                i,
                r.prompt,
                r.max_tokens,
                r.priority,
                self.texts.code(r.group),
                self.texts.code(r.label),
                r.held,
                r.deferred,
                r.salted,
                len(self.paths) >> 1,
                len(self.prompt_names) >> 1,
            )
        )
        if not r.held and not r.part:
            self.events.append(i * 4 + (WAITS_SKIPPED if r.deferred else WAITS))

    def _hold(self, h: Hold) -> None:
        requests = _known(h.requests)
        self.hold_requests.extend(requests)
        self.holds.append((h.begin, h.end, self.texts.code(h.reason), len(self.hold_requests)))
        self.events.extend([i * 4 + WAITS for i in requests if i not in self.finish_row])
        self._released_by = self.texts.code(h.reason)

    def _finish(self, f: Finish) -> None:
        if f.i in self.finish_row:
            raise BadRecord(f"request {f.i} finishes twice")
        for stream, n in f.path:
            self.finish_paths.append(self.streams.code(stream))
            self.finish_paths.append(n)
        if f.token_ids is not None:
            self.output_tokens[f.i] = np.array(f.token_ids, np.int32)
        self._make_room(f.i)
        self.finish_row[f.i] = len(self.finishes)
        self.finishes.append(
            (f.i, f.t, self.texts.code(f.reason), f.output, f.n, len(self.finish_paths) >> 1)
        )
        self.events.append(f.i * 4 + LEAVES)

    def _repeat(self, r: Repeat) -> None:
        if not len(self.rounds):
            return  # of a round before this part
        self.repeats.append((len(self.rounds) - 1, r.count, r.n, r.t))
        self.last_round = max(self.last_round, r.n)

    def _gap(self, g: Gap) -> None:
        self.gaps.append(g)
        self.gap_rows.append(len(self.rounds))
        self.last_round = max(self.last_round, g.last)

    def _end(self, e: End) -> None:
        self.end = e

    # Request numbers

    def _make_room(self, i: int) -> None:
        if i >= len(self.ids):
            if i >= len(self.ids) + MAX_JUMP:
                raise BadRecord(f"request number {i} after {len(self.ids) - 1}, expected the next one")
            self.ids.extend([None] * (i + 1 - len(self.ids)))
        elif i < 0:
            raise BadRecord(f"request number {i}, expected 0 or more")

    def _check_requests(self) -> None:
        """Numbers that rounds name must be requests; where their record is missing they get an empty
        place."""
        for flat in (*self._request_columns, self.visits):
            done = self._checked[id(flat)]
            values = flat.values()[done :: 2 if flat is self.visits else 1]
            if len(values):
                if values.min() < 0:
                    raise BadRecord(f"request number {values.min()}, expected 0 or more")
                self._make_room(int(values.max()))
            self._checked[id(flat)] = len(flat)


def _known(numbers: list[int]) -> list[int]:
    """Without the -1 that stands for a request that the recorder never saw."""
    return [i for i in numbers if i >= 0] if -1 in numbers else numbers


def other_of(store: Store, row: np.void) -> Other:
    """The record of a refusal, from its columns."""
    text = store.texts.name
    facts = {
        name: None if row[name] == NONE else int(row[name])
        for name in (*_OTHER_FACTS, "producer", "boundary")
    }
    return Other(
        i=int(row["i"]),
        cause=text(row["cause"]),
        gate=text(row["gate"]),
        status=text(row["status"]),
        also=list(store.lists.name(row["also"]) or ()),
        **facts,
    )


def blocked_of(store: Store, row: np.void) -> Blocked:
    """As other_of, for a visit refused because a state is in flight."""
    return Blocked(
        i=int(row["i"]),
        producer=int(row["producer"]),
        boundary=int(row["boundary"]),
        groups=list(store.lists.name(row["groups"]) or ()),
        parked=bool(row["parked"]),
    )

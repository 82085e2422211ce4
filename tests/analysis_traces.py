"""Traces for the tests of the accounting: Figure 1 from its hand-worked ledger, and random runs of a toy
scheduler that keeps its own books, so that what the analysis says can be held against them."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from radixflow.trace import open_trace
from radixflow.trace.schema import (
    SCHEMA,
    Admission,
    Blocked,
    Cache,
    Clock,
    Config,
    End,
    Finish,
    Gap,
    Group,
    Header,
    Hold,
    Other,
    Probe,
    Repeat,
    Request,
    Round,
    Step,
    Stop,
)

LEDGER = json.loads((Path(__file__).parent / "golden" / "figure1-ledger.json").read_text())


def written(path: Path, records: list):
    """Write the records to `path` and open them as a trace."""
    path.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    return open_trace(path)


def header(
    s: int = 4, t: int = 4096, block: int = 1024, states: int = 3, policy: str = "radix", **more
) -> Header:
    clock = more.pop("clock", Clock(wall_ns=0, monotonic_ns=0, virtual=True))
    groups = [Group(0, "full_attention", ["kv"], block)]
    groups += [Group(k + 1, "mamba", ["rec", "conv"], block) for k in range(states)]
    config = Config(
        max_num_seqs=s,
        max_num_batched_tokens=t,
        block_size=block,
        hash_block_size=block,
        num_blocks=200,
        groups=groups,
        **more,
    )
    return Header(
        schema=SCHEMA,
        id="0" * 16,
        policy=policy,
        engine="sim",
        config=config,
        clock=clock,
        versions={"radixflow": "test"},
    )


def figure1(policy: str) -> list:
    """Figure 1 as a trace, from the hand-worked ledger: 1 ms a round, 0.9 ms of it host time."""
    own = LEDGER["policies"][policy]
    names = list(LEDGER["prompts"])
    number = {name: i for i, name in enumerate(names)}
    records: list = [
        header(policy=policy, clock=Clock(wall_ns=0, monotonic_ns=0, virtual=True, arrivals=False))
    ]
    for name, prompt in LEDGER["prompts"].items():
        document, unique = f"doc{name[1]}", f"{name}-own"
        path = {"P": [(document, 1024)], "A": [(document, 1024), (unique, 620)], "D": [(unique, 950)]}[
            name[0]
        ]
        records.append(Request(number[name], name, 0, prompt, path=path))
    waiting = list(names)
    for k, (row, stopper) in enumerate(zip(own["rounds"], own["stopped_by"], strict=True)):
        n, t = k + 1, k * 1_000_000
        visits = row["row_visits"]
        chosen = [name for name, _ in visits]
        parked = [
            b
            for b in waiting
            if any(w["cause"] == "blocked" and w["rounds"] == [n, n] for w in own["waits"][b])
        ]
        stop = Stop("blocked", number[stopper]) if stopper else None
        left = [name for name in waiting if name not in chosen]
        if stopper is None and [name for name in left if name not in parked]:
            stop = Stop("rows")
        producers = {
            b: next(w["producer"] for w in own["waits"][b] if w["rounds"] == [n, n] and "producer" in w)
            for b in parked
        }
        records.append(
            Round(
                n,
                t,
                100_000,
                selected=[x for name, tokens in visits for x in (number[name], tokens)],
                admissions=[Admission(number[a], LEDGER["reused"][a], LEDGER["reused"][a]) for a in chosen],
                blocked=[
                    Blocked(number[b], number[producers[b]], 1024, [1, 2, 3], b != stopper) for b in parked
                ],
                order=[number[b] for b in parked if b != stopper],
                stop=stop,
                free=100,
                probe=Probe(avoidable=[number[name] for cause, name in row["empty"] if cause == "avoidable"]),
            )
        )
        published = [(number[p], g, 0, 1024) for p in chosen if p[0] == "P" for g in range(4)]
        records.append(Cache(n, published=published))
        records.append(Step(n, t + 1_000_000))
        records += [Finish(number[name], t + 1_000_000, "length", 1, n) for name in chosen]
        waiting = [name for name in left if name in parked] + [name for name in left if name not in parked]
    records.append(End(len(own["rounds"]) * 1_000_000, "finished", len(own["rounds"])))
    return records


@dataclass
class Books:
    """What the toy scheduler knows of each wait, round by round."""

    causes: dict[int, dict[int, tuple]] = field(default_factory=lambda: defaultdict(dict))
    """Request -> round -> `(cause, culprit or producer or None)` for each round that it waited through."""
    waits: dict[int, list[list[int | None]]] = field(default_factory=lambda: defaultdict(list))
    """Request -> `[begin ns, end ns or None]` of each wait."""
    slots: dict[int, dict[str, int]] = field(default_factory=dict)
    """Round -> slots by cause."""


_REFUSALS = (
    "capacity",
    "alignment",
    "never_fits",
    "deferred",
    "fragmented",
    "encoder",
    "chunking",
    "throttled",
)


class Toy:
    """A scheduler that decides by chance and writes down everything: S rows, T tokens, FCFS or priority."""

    def __init__(self, seed: int, gaps: bool = False):
        self.dice = random.Random(seed)
        self.s = self.dice.randint(1, 5)
        self.t_budget = self.dice.choice([64, 256, 1024])
        self.policy = self.dice.choice(["fcfs", "priority"])
        self.gaps = gaps
        self.now = self.dice.randint(0, 50)
        self.n = 0
        self.records: list = [header(self.s, self.t_budget, 64, scheduling_policy=self.policy)]
        self.books = Books()
        self.waiting: list[int] = []
        self.running: dict[int, int] = {}
        self.held: list[int] = []
        self.hold_begin = 0
        self.requests: list[Request] = []
        self.computed: dict[int, int] = {}
        self.ever: set[int] = set()
        self.known_until: int | None = None

    def run(self, rounds: int) -> list:
        for _ in range(rounds):
            self.arrive()
            if self.dice.random() < 0.08:
                self.abort()
            if self.waiting or self.running or self.held:
                self.round()
        if self.held:
            self.release(self.now)
        for i in [*self.waiting]:
            self.books.waits[i][-1][1] = None
        self.records.append(End(self.now, "finished", self.n))
        self.forget_releases()
        return self.records

    def forget_releases(self) -> None:
        """A release amid dropped rounds: nothing tells which of them came before it."""
        holes: list[range] = []
        for gap in (record for record in self.records if isinstance(record, Gap)):
            joins = bool(holes) and holes[-1].stop == gap.first
            holes[-1:] = (
                [range(holes[-1].start, gap.last + 1)]
                if joins
                else [*holes[-1:], range(gap.first, gap.last + 1)]
            )
        for causes in self.books.causes.values():
            for hole in holes:
                known = {causes[n][0] for n in hole if n in causes}
                if "admission" in known and len(known) > 1:
                    causes.update({n: ("unrecorded", None) for n in hole if n in causes})

    def arrive(self) -> None:
        for _ in range(self.dice.choice([0, 0, 1, 1, 2, 4])):
            i = len(self.requests)
            early = self.dice.choice([None, None, max(0, self.now - self.dice.randint(1, 30))])
            held = self.dice.random() < 0.25
            request = Request(
                i,
                f"r{i}",
                self.now,
                self.dice.randint(1, 400),
                path=[(f"s{i}", 400)],
                arrival=early,
                priority=self.dice.randint(0, 2),
                held=held,
            )
            self.requests.append(request)
            self.records.append(request)
            self.books.waits[i].append([request.t if early is None else early, None])
            if held:
                if not self.held:
                    self.hold_begin = self.now
                self.held.append(i)
            else:
                self.waiting.append(i)
            self.now += self.dice.choice([0, 0, 3])

    def abort(self) -> None:
        if self.waiting:
            i = self.dice.choice(self.waiting)
            self.waiting.remove(i)
            self.books.waits[i][-1][1] = self.now
            self.records.append(Finish(i, self.now, "abort", 0, self.n))

    def release(self, t: int) -> None:
        self.records.append(Hold(self.hold_begin, t, "work", list(self.held)))
        self.waiting += self.held
        self.held = []

    def ordered(self) -> list[int]:
        if self.policy == "fcfs":
            return list(self.waiting)
        return sorted(self.waiting, key=lambda i: self.requests[i].priority)

    def round(self) -> None:
        self.n += 1
        n, t = self.n, self.now
        d = self.dice.randint(0, 9)
        if self.held and self.dice.random() < 0.6:
            self.release(t + self.dice.randint(0, d))
        dice, left = self.dice, self.t_budget
        row = Round(n, t, d, free=dice.randint(0, 99))
        for i in list(self.running):
            tokens = min(left, dice.randint(0, 40))
            if tokens:
                row.selected += [i, tokens]
                self.computed[i] += tokens
                left -= tokens
            else:
                row.resident.append(i)
        queue = self.ordered()
        if self.running and dice.random() < 0.1:
            victim = dice.choice(row.resident or [None])
            if victim is not None:
                row.resident.remove(victim)
                del self.running[victim]
                row.preempted.append(victim)
                self.waiting.insert(0, victim)
                self.books.waits[victim].append([t, None])
                queue = self.ordered()
        default = self.scan(row, queue, left)
        chosen = {a.i for a in row.admissions}
        self.waiting = [i for i in self.waiting if i not in chosen]
        parked = [i for i in row.order if i in self.waiting]
        if self.policy == "fcfs":
            self.waiting = parked + [i for i in self.waiting if i not in parked]
        self.book(row, queue, chosen, default)
        self.probe(row, [i for i in queue if i not in chosen])
        self.emit(row)

    def scan(self, row: Round, queue: list[int], left: int) -> tuple | None:
        """Visit the queue; what those not visited have for a cause."""
        dice = self.dice
        if row.preempted:
            row.closed = "preemption"
            return ("not_entered", None)
        if dice.random() < 0.1:
            row.closed = dice.choice(["budget", "paused"])
            return ("not_entered", None)
        self.refused: dict[int, tuple] = {}
        for i in queue:
            if len(self.running) >= self.s:
                row.stop = Stop("rows")
                return ("rows", None)
            if left <= 0:
                row.stop = Stop("tokens")
                return ("tokens", None)
            fate = dice.random()
            if fate < 0.45:
                tokens = min(left, max(1, self.requests[i].prompt))
                row.selected += [i, tokens]
                row.admissions.append(Admission(i, 0, 0))
                self.running[i] = row.n
                self.computed[i] = tokens
                left -= tokens
                self.books.waits[i][-1][1] = row.t
                self.ever.add(i)
                continue
            if fate < 0.6 and self.running:
                producer = dice.choice(list(self.running))
                goes_on = dice.random() < 0.5
                row.blocked.append(Blocked(i, producer, 64, [1], goes_on))
                self.refused[i] = ("blocked", producer)
                cause = "blocked"
            else:
                cause = dice.choice(_REFUSALS)
                goes_on = cause in ("deferred", "fragmented")
                more = (
                    {"status": "grammar"}
                    if cause == "deferred"
                    else {"needed": 5, "free": 3, "tokens_left": left}
                )
                row.other.append(Other(i, cause, **more))
                self.refused[i] = (
                    {"encoder": "deferred", "throttled": "deferred", "chunking": "tokens"}.get(cause, cause),
                    None,
                )
            if goes_on:
                row.order.append(i)
            else:
                row.stop = Stop(cause, i)
                return ("unexamined", i)
        return None

    def book(self, row: Round, queue, chosen, default) -> None:
        for i in self.held:
            self.books.causes[i][row.n] = ("admission", None)
        refused = {} if row.closed else self.refused
        for i in queue:
            if i not in chosen:
                self.books.causes[i][row.n] = refused.get(i) or default

    def probe(self, row: Round, left: list[int]) -> None:
        free = self.s - len(row.selected) // 2 - len(row.resident)
        answers = left[: max(0, free)]
        k = self.dice.randint(0, len(answers))
        causes = [
            self.dice.choice(["blocked", "capacity", "alignment", "tokens", "encoder"]) for _ in answers[k:]
        ]
        held = self.held[: max(0, free - len(answers))]
        answers, causes = answers + held, causes + ["admission"] * len(held)
        row.probe = Probe(avoidable=answers[:k], others=list(zip(answers[k:], causes, strict=True)))
        table = defaultdict(int, row_visits=len(row.selected) // 2, resident=len(row.resident), avoidable=k)
        for cause in causes:
            table["deferred" if cause == "encoder" else cause] += 1
        table["idle"] = free - len(answers)
        self.books.slots[row.n] = dict(table)

    def emit(self, row: Round) -> None:
        step = Step(row.n, row.t + row.d + self.dice.randint(1, 20), self.dice.randint(0, 3))
        self.now = step.t + step.d
        records: list = [row]
        if not row.selected:
            again = self.dice.choice([0, 0, 3])
            if again:
                self.n += again
                records.append(Repeat(self.n, again, self.now))
                for causes in self.books.causes.values():
                    if row.n in causes:
                        causes.update(dict.fromkeys(range(row.n + 1, self.n + 1), causes[row.n]))
                self.now += 1
        else:
            records.append(step)
        done = [i for i in self.running if self.dice.random() < 0.15 and i not in row.resident]
        for i in done:
            del self.running[i]
            records.append(Finish(i, step.t, "length", 1, row.n))
        drop = (
            self.gaps and self.dice.random() < 0.15 and not done and not row.admissions and not row.preempted
        )
        if drop:
            self.records.append(Gap(self.n - row.n + 1, len(records), row.n, self.n))
            known = self.requests[0].t if self.known_until is None else self.known_until
            for i, causes in self.books.causes.items():
                if self.requests[i].t > known:  # nothing tells on which side of the dropped rounds it arrived
                    for n in range(row.n, self.n + 1):
                        causes.pop(n, None)
                lost = [
                    n for n in range(row.n, self.n + 1) if causes.get(n, ("admission",))[0] != "admission"
                ]
                causes.update(dict.fromkeys(lost, ("unrecorded", None)))
            self.books.slots.pop(row.n)
        else:
            self.records += records
            self.known_until = step.t if row.selected else row.t + row.d

"""Each wait as stretches with exactly one cause each, in rounds and nanoseconds that add up exactly.

A round gives everybody whom its scan didn't reach the same cause (`timeline`), and names the few that it
visited and refused. So a wait is a range of rounds minus the refusals of its own request, and the cost of
all waits together grows with what changed, not with rounds x queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from radixflow.analysis.causes import NOT_ENTERED, WAIT_CAUSES, WAIT_CODE
from radixflow.analysis.cost import NS
from radixflow.analysis.periods import Period, periods
from radixflow.analysis.refusals import Refusals
from radixflow.analysis.timeline import Timeline

IN_STEP, ADMISSION, UNRECORDED = (WAIT_CODE[name] for name in ("in_step", "admission", "unrecorded"))


class AccountingError(AssertionError):
    """A sum did not come out. The message names the request and the two sides."""


@dataclass(frozen=True, slots=True)
class WaitStretch:
    """Part of a wait with one cause: rounds `first_round` to `last_round`, `begin_ns` to `end_ns`.

    `in_step`, and a hold during which no round began, have time and no round: their rounds are None.
    """

    cause: str
    first_round: int | None
    last_round: int | None
    begin_ns: int
    end_ns: int
    facts: dict = field(default_factory=dict)
    """What CONTRACT names for the cause; requests by id. Of a stretch over which a number changed (free
    blocks, say), its last value."""

    @property
    def rounds(self) -> int:
        """Rounds in it."""
        return 0 if self.first_round is None else self.last_round - self.first_round + 1

    @property
    def ns(self) -> int:
        """Its length, nanoseconds."""
        return self.end_ns - self.begin_ns


class Ledger:
    """All waits of a trace. Build it once where several requests are asked about."""

    def __init__(self, trace):
        self.trace = trace
        self.timeline = Timeline.of(trace)
        self.periods = periods(trace, self.timeline)
        self.refusals = Refusals(trace, self.timeline)
        self._of: dict[int, list[Period]] = {}
        for period in self.periods:
            self._of.setdefault(period.i, []).append(period)

    def of(self, i: int) -> list[list[WaitStretch]]:
        """Request i's waits, each as its stretches: the first, then one after each preemption."""
        return [self.stretches(period) for period in self._of.get(i, [])]

    def first_wait(self, i: int) -> Period:
        """Request i's wait from arrival."""
        return self._of[i][0]

    def stretches(self, period: Period) -> list[WaitStretch]:
        """The wait's stretches in order, without holes or overlaps; checked to cover it exactly."""
        found = [stretch for stretch in self._head(period) if stretch.ns or stretch.rounds]
        found += self._body(period)
        at = period.begin
        for stretch in found:
            if stretch.begin_ns != at or stretch.end_ns < at:
                raise AccountingError(
                    self._complaint(period, f"a stretch begins at {stretch.begin_ns}, not at {at}")
                )
            at = stretch.end_ns
        if at != period.end:
            raise AccountingError(self._complaint(period, f"its stretches end at {at}, not at {period.end}"))
        return found

    def _complaint(self, period: Period, what: str) -> str:
        return f"wait of {self.trace.ids[period.i]} from {period.begin}: {what}"

    def _head(self, period: Period) -> Iterator[WaitStretch]:
        """From arrival to the first scan that could have reached it."""
        if period.again:
            return
        line = self.timeline
        reached = int(line.t[period.enter]) if period.enter < period.leave else period.end
        step = "unrecorded" if self._arrived_in_hole(period) else "in_step"
        if period.held is None:
            yield WaitStretch(step, None, None, period.begin, reached)
            return
        held, released = period.held
        rounds = range(period.held_from, period.enter)
        first = int(line.first[rounds[0]]) if rounds else None
        last = int(line.last[rounds[-1]]) if rounds else None
        yield WaitStretch(step, None, None, period.begin, held)
        yield WaitStretch("admission", first, last, held, released, {"held": (released - held) / NS})
        yield WaitStretch("in_step", None, None, released, reached)

    def _arrived_in_hole(self, period: Period) -> bool:
        """Whether rounds were dropped around its arrival, so that one of them may have seen it."""
        k = period.held_from - 1
        return k >= 0 and not self.timeline.recorded[k] and int(self.timeline.t[k]) <= period.begin

    def _body(self, period: Period) -> Iterator[WaitStretch]:
        """Round by round from `enter` to `leave`, equal neighbours joined."""
        a, b = period.enter, period.leave
        if a >= b:
            return
        line, refused = self.timeline, self.refusals.rows(period.i, a, b)
        cause = line.cause[a:b].copy()
        culprit = line.culprit[a:b].copy()
        stopper = culprit == period.i  # it stopped the scan, and its own refusal was not recorded
        cause[stopper] = line.culprit_cause[a:b][stopper]
        kind = np.full(b - a, -1, dtype=np.int64)
        at = self.refusals.line[refused] - a
        cause[at], culprit[at], kind[at] = self.refusals.cause[refused], -1, self.refusals.kind[refused]
        culprit[cause != WAIT_CODE["unexamined"]] = -1
        why = line.why[a:b]
        not_entered = cause == WAIT_CODE["not_entered"]
        same = (cause[1:] == cause[:-1]) & (culprit[1:] == culprit[:-1]) & (kind[1:] == kind[:-1])
        same &= ~(not_entered[1:] & (why[1:] != why[:-1]))
        same &= ~((culprit[1:] >= 0) & (line.culprit_cause[a + 1 : b] != line.culprit_cause[a : b - 1]))
        begins = np.append(0, np.flatnonzero(~same) + 1)
        for begin, end in zip(begins.tolist(), np.append(begins[1:], b - a).tolist(), strict=True):
            until = period.end if end == b - a else int(line.t[a + end])
            name = WAIT_CAUSES[cause[begin]]
            facts = self._facts(period.i, name, a + begin, a + end, kind[end - 1] >= 0)
            yield WaitStretch(
                name,
                int(line.first[a + begin]),
                min(int(line.last[a + end - 1]), period.through),
                int(line.t[a + begin]),
                until,
                facts,
            )

    def _facts(self, i: int, cause: str, a: int, b: int, refused: bool) -> dict:
        """The facts of stretch [a, b) of the timeline, of one cause."""
        line, ids = self.timeline, self.trace.ids
        if refused:
            return self.refusals.facts(i, b - 1)
        if cause == "unexamined":
            return {
                "culprit": ids[line.culprit[a]],
                "culprit_cause": WAIT_CAUSES[line.culprit_cause[a]],
            }
        if cause == "rows":
            return {"held_by_lower_priority": self._running_below(i, a, b)}
        if cause == "not_entered":
            facts = {"why": NOT_ENTERED.get(line.why[a], line.why[a])}
            if line.why[a] == "budget":
                facts["spent_by"] = self._spenders(a, b)
            return facts
        if cause == "tokens":
            return {"spent_by": self._spenders(a, b)}
        return {}

    def _running_below(self, i: int, a: int, b: int) -> list[str]:
        """Requests of worse priority that held a row at some time in [a, b), in order of arrival."""
        if self.trace.config.scheduling_policy != "priority":
            return []
        line, (own, priority, begun, gone) = self.timeline, self._tenure
        below = priority > priority[np.searchsorted(own, i)]
        holders = own[below & (begun <= line.last[b - 1]) & (gone >= line.first[a])]
        return [self.trace.ids[j] for j in holders.tolist() if not self._waited_throughout(j, a, b)]

    @cached_property
    def _tenure(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Of each request: number, priority, first round with a row, last round with one."""
        requests = self.trace.requests
        begun, gone = (
            requests[name].to_numpy(float, na_value=np.inf)
            for name in ("first_selected_round", "finish_round")
        )
        return requests.index.to_numpy(), requests["priority"].to_numpy(), begun, gone

    def _waited_throughout(self, j: int, a: int, b: int) -> bool:
        return any(p.enter <= a and b <= p.leave for p in self._of.get(j, ()) if p.again)

    def _spenders(self, a: int, b: int) -> list[str]:
        """Requests that took tokens in [a, b), most first; at most three."""
        rounds, i, tokens = self._visits
        low = np.searchsorted(rounds, self.timeline.first[a])
        high = np.searchsorted(rounds, self.timeline.last[b - 1], side="right")
        who, where = np.unique(i[low:high], return_inverse=True)
        taken = np.bincount(where, weights=tokens[low:high])
        return [self.trace.ids[j] for j in who[np.argsort(-taken, kind="stable")[:3]].tolist()]

    @cached_property
    def _visits(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return tuple(self.trace.visits[name].to_numpy() for name in ("round", "i", "tokens"))

    def totals(self) -> tuple[np.ndarray, np.ndarray]:
        """Rounds and nanoseconds by period and cause, two int64[P, len(WAIT_CAUSES)].

        Every row adds up to its period; `AccountingError` where one doesn't."""
        return self._totals

    @cached_property
    def _totals(self) -> tuple[np.ndarray, np.ndarray]:
        line, size = self.timeline, len(self.periods)
        rounds = np.zeros((size, len(WAIT_CAUSES)), dtype=np.int64)
        ns = np.zeros_like(rounds)
        if not size:
            return rounds, ns
        enter, leave, end, through = (
            np.array([getattr(p, name) for p in self.periods], dtype=np.int64)
            for name in ("enter", "leave", "end", "through")
        )
        length = np.diff(line.t)
        for code in np.unique(line.cause).tolist():
            mine = line.cause == code
            for target, values in ((rounds, line.counts), (ns, length)):
                summed = np.append(0, np.cumsum(np.where(mine, values, 0)))
                target[:, code] += np.where(
                    leave > enter, summed[leave] - summed[np.minimum(enter, leave)], 0
                )
        self._move_refused(rounds, ns, length, enter, leave)
        waited = np.flatnonzero(leave > enter)  # a request that left within a stretch waited only part of it
        late, more = line.t[leave[waited]] - end[waited], line.last[leave[waited] - 1] - through[waited]
        for k in np.flatnonzero((late != 0) | (more != 0)).tolist():
            p = int(waited[k])
            code = WAIT_CODE[self._last_cause(self.periods[p])]
            ns[p, code] -= late[k]
            rounds[p, code] -= more[k]
        for p, period in enumerate(self.periods):
            for stretch in self._head(period):
                rounds[p, WAIT_CODE[stretch.cause]] += stretch.rounds
                ns[p, WAIT_CODE[stretch.cause]] += stretch.ns
        begins = np.array([p.begin for p in self.periods], dtype=np.int64)
        wrong = np.flatnonzero(ns.sum(axis=1) != end - begins)
        if len(wrong):
            period = self.periods[wrong[0]]
            raise AccountingError(
                self._complaint(
                    period, f"its causes last {ns[wrong[0]].sum()} ns, it {period.end - period.begin}"
                )
            )
        return rounds, ns

    def _last_cause(self, period: Period) -> str:
        return self.stretches(period)[-1].cause

    def _move_refused(self, rounds, ns, length, enter, leave) -> None:
        """Give each round that refused a waiting request to the refusal's cause instead of the default."""
        refusals, line = self.refusals, self.timeline
        by_request: dict[int, list[int]] = {}
        for p, period in enumerate(self.periods):
            by_request.setdefault(period.i, []).append(p)
        owner = np.full(len(refusals.line), -1, dtype=np.int64)
        for i, own in by_request.items():
            low, high = refusals.range_of(i)
            for p in own:
                at = refusals.line[low:high]
                owner[low:high][(at >= enter[p]) & (at < leave[p])] = p
        k = np.flatnonzero(owner >= 0)
        at, p = refusals.line[k], owner[k]
        stoppers = np.flatnonzero(line.culprit >= 0)
        for target, values in ((rounds, line.counts), (ns, length)):
            np.subtract.at(target, (p, line.cause[at]), values[at])
            np.add.at(target, (p, refusals.cause[k]), values[at])
        # A stopper whose own refusal is missing counts under the cause that the stop names.
        named = set(zip(refusals.i.tolist(), refusals.line.tolist(), strict=True))
        for at in stoppers.tolist():
            i = int(line.culprit[at])
            if (i, at) in named:
                continue
            for p in by_request.get(i, ()):
                if enter[p] <= at < leave[p]:
                    for target, values in ((rounds, line.counts), (ns, length)):
                        target[p, line.cause[at]] -= values[at]
                        target[p, line.culprit_cause[at]] += values[at]

    def culprits(self) -> list[dict[str, str]]:
        """For each period, the request named longest by cause: `{cause: id}` where a cause names one."""
        return [self._culprits(period) for period in self.periods]

    def _culprits(self, period: Period) -> dict[str, str]:
        a, b = period.enter, period.leave
        named: dict[str, str] = {}
        if a >= b:
            return named
        line = self.timeline
        refused = self.refusals.rows(period.i, a, b)
        plain = np.ones(b - a, dtype=bool)
        plain[self.refusals.line[refused] - a] = False
        culprit = line.culprit[a:b]
        plain &= (culprit >= 0) & (culprit != period.i)
        length = np.diff(line.t[a : b + 1])
        if plain.any():
            named["unexamined"] = self.trace.ids[_heaviest(culprit[plain], length[plain])]
        producer = self.refusals.producer[refused]
        producing = producer >= 0
        if producing.any():
            at = self.refusals.line[refused][producing] - a
            named["blocked"] = self.trace.ids[_heaviest(producer[producing], length[at])]
        return named


def _heaviest(who: np.ndarray, weight: np.ndarray) -> int:
    """The value of `who` with the largest total weight (the earliest request where two are equal)."""
    values, where = np.unique(who, return_inverse=True)
    return int(values[np.argmax(np.bincount(where, weights=weight + 1e-3))])


def wait_of(trace, i: int) -> list[WaitStretch]:
    """Request i's waits as one list of stretches in order of time: from arrival to first selection (or to
    its finish or the trace's end), then after each preemption."""
    return [stretch for wait in Ledger(trace).of(i) for stretch in wait]


def waits(trace) -> pd.DataFrame:
    """One row a wait and cause: `request`, `i`, `again` (after a preemption), `cause`, `rounds`,
    `seconds`, `ns`, `culprit` (the request named longest: the producer of a `blocked` state, the one that
    stopped the scan before an `unexamined` one, else None), `outcome` (of the whole wait)."""
    ledger = Ledger(trace)
    rounds, ns = ledger.totals()
    culprits = ledger.culprits()
    p, code = np.nonzero((rounds > 0) | (ns > 0))
    chosen = [ledger.periods[k] for k in p.tolist()]
    return pd.DataFrame(
        {
            "request": [trace.ids[period.i] for period in chosen],
            "i": [period.i for period in chosen],
            "again": np.array([period.again for period in chosen], dtype=bool),
            "cause": [WAIT_CAUSES[c] for c in code.tolist()],
            "rounds": rounds[p, code],
            "seconds": ns[p, code] / NS,
            "ns": ns[p, code],
            "culprit": pd.array(
                [culprits[k].get(WAIT_CAUSES[c]) for k, c in zip(p.tolist(), code.tolist(), strict=True)],
                dtype=object,
            ),
            "outcome": [period.outcome for period in chosen],
        }
    )


def waits_by_cause(trace, ledger: Ledger | None = None) -> pd.DataFrame:
    """Totals over all waits, one row for each cause of `WAIT_CAUSES` (index `cause`): `requests` that had
    it, `rounds`, `seconds`, `ns`."""
    ledger = ledger or Ledger(trace)
    rounds, ns = ledger.totals()
    owners = np.array([period.i for period in ledger.periods], dtype=np.int64)
    had = (rounds > 0) | (ns > 0)
    return pd.DataFrame(
        {
            "requests": [len(np.unique(owners[had[:, c]])) for c in range(len(WAIT_CAUSES))],
            "rounds": rounds.sum(axis=0),
            "seconds": ns.sum(axis=0) / NS,
            "ns": ns.sum(axis=0),
        },
        index=pd.Index(WAIT_CAUSES, name="cause"),
    )

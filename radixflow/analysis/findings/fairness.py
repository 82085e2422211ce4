"""Findings about who waits for whom: `starvation` and `rows_held_by_lower_priority`."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from radixflow.analysis.causes import WAIT_CODE
from radixflow.analysis.findings.evidence import Evidence
from radixflow.analysis.findings.finding import WARNING, Finding, joined
from radixflow.analysis.prose import counted, listed, spans

CODES = ("starvation", "rows_held_by_lower_priority")

BATCHES = 2
"""Full batches of later arrivals that must have gone first."""


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding a request."""
    yield from _starvation(evidence)
    yield from _rows_held(evidence)


def _starvation(evidence: Evidence) -> Iterator[Finding]:
    """Requests overtaken by at least two batches' worth of later arrivals."""
    ledger, trace = evidence.ledger, evidence.trace
    line = ledger.timeline
    waits = [p for p in ledger.periods if not p.again]
    threshold = BATCHES * trace.config.max_num_seqs
    deferred = set(evidence.refusals.loc[evidence.refusals["cause"] == "deferred", "i"].tolist())
    later: list[int] = []
    found = []
    # Latest arrival first: `later` holds when each of those behind it was selected.
    for period in sorted(waits, key=lambda p: (p.enter, p.i), reverse=True):
        overtaken = bisect_left(later, period.leave)
        if overtaken >= threshold and period.i not in deferred and period.leave - period.enter > 1:
            found.append((period, overtaken))
        if period.outcome == "selected":
            insort(later, period.leave)
    for period, overtaken in sorted(found, key=lambda pair: pair[0].i):
        name, first = trace.ids[period.i], int(line.first[period.enter])
        last = int(line.last[period.leave - 1])
        ended = {"selected": "", "finished": " and left unserved", "waiting": " and waits still"}[
            period.outcome
        ]
        message = (
            f"{name} waited {counted(last - first + 1, 'round')}{ended} while {overtaken:,} requests that "
            f"came after it were selected before it ({counted(threshold, 'row')} are two full batches)."
        )
        facts = {"overtaken_by": overtaken, "rounds": last - first + 1, "outcome": period.outcome}
        yield Finding("starvation", WARNING, [name], [[first, last]], message, facts)


def _rows_held(evidence: Evidence) -> Iterator[Finding]:
    trace, ledger = evidence.trace, evidence.ledger
    if trace.config.scheduling_policy != "priority":
        return
    rounds, _ = ledger.totals()
    held: dict[int, tuple[list[tuple[int, int]], dict[str, None]]] = {}
    for period, waited in zip(ledger.periods, rounds[:, WAIT_CODE["rows"]].tolist(), strict=True):
        for stretch in ledger.stretches(period) if waited else ():
            holders = stretch.facts.get("held_by_lower_priority")
            if stretch.cause == "rows" and holders:
                where, who = held.setdefault(period.i, ([], {}))
                where.append((stretch.first_round, stretch.last_round))
                who.update(dict.fromkeys(holders))
    priority = trace.requests["priority"]
    for i, (where, who) in sorted(held.items()):
        stretches, holders = joined(where), list(who)
        message = (
            f"{trace.ids[i]} (priority {priority[i]}) waited in {spans(stretches)} for a row: all "
            f"{trace.config.max_num_seqs:,} were taken, some by {listed(holders)} of lower priority. vLLM "
            "takes memory from a running request of lower priority, but never its row."
        )
        lowest = max(int(priority[trace.index_of(name)]) for name in holders)
        facts = {"held_by": holders, "priority": int(priority[i]), "lowest_running_priority": lowest}
        yield Finding("rows_held_by_lower_priority", WARNING, [trace.ids[i]], stretches, message, facts)

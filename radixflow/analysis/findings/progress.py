"""Findings about requests that get nowhere: `no_progress` and `never_fits`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from radixflow.analysis.expand import preemptions
from radixflow.analysis.findings.evidence import Evidence
from radixflow.analysis.findings.finding import ERROR, Finding, joined, ranges
from radixflow.analysis.prose import counted, listed, spans

CODES = ("no_progress", "never_fits")

LONG = 100
"""Stalled rounds in a row that are too many even where the run went on afterwards."""

_PASSING = ("deferred", "paused", "throttled", "preemption")
"""Stalls that end by themselves: the scheduler waits on purpose (for a grammar, another machine, a user), or
the round took memory back from running requests, so that the next one finds other conditions."""


def find(evidence: Evidence) -> Iterator[Finding]:
    """Stalls that nothing in the scheduler would end, and requests larger than the pool."""
    yield from _no_progress(evidence)
    yield from _in_circles(evidence)
    yield from _never_fits(evidence)


def _no_progress(evidence: Evidence) -> Iterator[Finding]:
    trace = evidence.trace
    stalls = [
        (first, last, cause, i) for first, last, cause, i in evidence.seen.stalls if cause not in _PASSING
    ]
    stretches = joined((first, last) for first, last, _, _ in stalls if stalls)
    ended = trace.end is not None and trace.end.reason == "stalled"
    for first, last in stretches:
        to_the_end = last == trace.num_rounds
        if not (to_the_end and (ended or last > first) or last - first + 1 >= LONG):
            continue
        at = [(cause, i) for begin, _, cause, i in stalls if first <= begin <= last]
        cause, culprit = at[-1]
        waiting = trace.round(last).queue
        names = evidence.names(waiting)
        why = f" The scan stopped at {trace.ids[culprit]} ({cause})." if culprit is not None else ""
        until = "to the end of the trace" if to_the_end else f"{counted(last - first + 1, 'round')} long"
        message = (
            f"From round {first} on, {until}, nothing was scheduled and nothing ran, though {listed(names)} "
            f"waited.{why} Nothing in the scheduler would have changed that."
        )
        facts = {
            "stalled_rounds": last - first + 1,
            "cause": cause,
            "stopped_by": trace.ids[culprit] if culprit is not None else None,
            "free_blocks": trace.round(last).free,
            "run_ended": trace.end.reason if trace.end else None,
        }
        yield Finding("no_progress", ERROR, names, [[first, last]], message, facts)


def _in_circles(evidence: Evidence) -> Iterator[Finding]:
    """Stretches in which tokens were scheduled, but only ones that preemptions had thrown away before."""
    trace = evidence.trace
    lost = preemptions(trace)
    if not lost:
        return
    ended = trace.end is not None and trace.end.reason == "stalled"
    gained = [*_rounds_that_gained(trace), trace.num_rounds + 1]
    for before, after in pairwise(gained):
        first, last = before + 1, after - 1
        to_the_end = last == trace.num_rounds
        if not ((to_the_end and ended) or last - first + 1 >= LONG):
            continue
        again = {i: [n for n in rounds if before <= n <= last] for i, rounds in lost.items()}
        worst = max(again, key=lambda i: (len(again[i]), -i))
        if len(again[worst]) < 2:
            continue
        view = trace.round(last)
        thrown_out = [i for i, rounds in again.items() if rounds]
        names = evidence.names({*thrown_out, *view.queue})
        until = "to the end of the trace" if to_the_end else f"for {counted(last - first + 1, 'round')}"
        message = (
            f"From round {first} on, {until}, tokens were scheduled but nobody got further than before: "
            f"{trace.ids[worst]} was admitted, computed and preempted {counted(len(again[worst]), 'time')}. What it "
            f"needs next doesn't fit the pool, but what it needs first does, so it is admitted again. Nothing in "
            f"the scheduler would have changed that."
        )
        facts = {
            "cause": "preemption",
            "preempted": evidence.names(thrown_out),
            "preemptions": sum(map(len, again.values())),
            "free_blocks": view.free,
            "run_ended": trace.end.reason if trace.end else None,
        }
        yield Finding("no_progress", ERROR, names, [[first, last]], message, facts)


def _rounds_that_gained(trace) -> list[int]:
    """Rounds in which a request began further on than it ever had, or left."""
    visits, requests = trace.visits, trace.requests
    furthest = visits.groupby("i")["start"].cummax().groupby(visits["i"]).shift(fill_value=-1)
    further = visits.loc[visits["start"] > furthest, "round"]
    return sorted({*further.tolist(), *requests["finish_round"].dropna().astype(int).tolist()})


def _never_fits(evidence: Evidence) -> Iterator[Finding]:
    refused = evidence.refusals
    too_large = refused["needed"].gt(refused["total"]).fillna(False).astype(bool) & (
        refused["cause"] == "capacity"
    )
    never = refused[(refused["cause"] == "never_fits") | too_large]
    for i, own in never.groupby("i", sort=True):
        name = evidence.trace.ids[i]
        needed, total = own["needed"].max(), own["total"].max()
        known = bool(own["needed"].notna().any() and own["total"].notna().any())
        size = (
            f"{counted(int(needed), 'KV block')} and the whole pool has {int(total):,}"
            if known
            else "more than the pool"
        )
        rounds = ranges(own["round"].tolist())
        message = f"{name} needs {size}: it can never be admitted, and was refused in {spans(rounds)}."
        facts = {
            "needed": int(needed) if known else None,
            "total": int(total) if known else None,
            "gate": own["gate"].iloc[-1],
        }
        yield Finding("never_fits", ERROR, [name], rounds, message, facts)

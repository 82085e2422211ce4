"""`preemption_storm`: requests thrown out of memory over and over."""

from __future__ import annotations

from collections.abc import Iterator

from radixflow.analysis.findings.evidence import Evidence
from radixflow.analysis.findings.finding import WARNING, Finding, ranges
from radixflow.analysis.periods import preemptions
from radixflow.analysis.prose import counted, listed
from radixflow.analysis.recompute import recomputed_by_request

CODES = ("preemption_storm",)

TIMES = 3
"""Preemptions of one request, or of all together, from which on it is a storm and not an accident."""
SHARE = 4
"""Together they are a storm where one token in four is a recomputed one."""


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for the trace."""
    trace = evidence.trace
    lost = preemptions(trace)
    times = sorted(n for own in lost.values() for n in own)
    if len(times) < TIMES:
        return
    again = recomputed_by_request(trace)
    recomputed = sum(again.values())
    worst = max(lost, key=lambda i: (len(lost[i]), -i))
    rounds = trace.rounds
    scheduled = int(rounds.loc[times[0] :, "tokens"].sum())
    if len(lost[worst]) < TIMES and recomputed * SHARE < scheduled:
        return
    names = evidence.names(lost)
    message = (
        f"{counted(len(times), 'preemption')} of {listed(names)}: running requests outgrew the KV blocks, "
        f"and each time one lost all it had computed. {trace.ids[worst]} was preempted "
        f"{counted(len(lost[worst]), 'time')}; {recomputed:,} of the {scheduled:,} tokens scheduled from "
        f"round {times[0]} on had been computed before."
    )
    facts = {
        "preemptions": len(times),
        "worst": trace.ids[worst],
        "worst_times": len(lost[worst]),
        "recomputed_tokens": recomputed,
        "scheduled_tokens": scheduled,
        "free_blocks_min": int(rounds["free_blocks"].min()),
    }
    yield Finding("preemption_storm", WARNING, names, ranges(times), message, facts)

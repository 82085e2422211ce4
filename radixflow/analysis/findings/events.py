"""`cache_event_mismatch`: cache events whose tokens and hashes disagree."""

from __future__ import annotations

from collections.abc import Iterator

from radixflow.analysis.findings.evidence import Evidence
from radixflow.analysis.findings.finding import WARNING, Finding, ranges
from radixflow.analysis.prose import counted, listed

CODES = ("cache_event_mismatch",)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding a cache group, in runs that publish cache events."""
    if not evidence.config.kv_cache_events:
        return
    wrong = evidence.trace.mismatches
    blocks = {group.index: group.block_size for group in evidence.config.groups}
    for group, own in wrong.groupby("group", sort=True):
        tokens, hashes = int(own["tokens"].sum()), int(own["hashes"].sum())
        rounds = ranges(own["round"].tolist())
        visits = evidence.trace.visits
        names = evidence.names(visits.loc[visits["round"].isin(own["round"]), "i"].tolist())
        message = (
            f"{counted(len(own), 'store event')} of cache group {group} announced {tokens:,} tokens with "
            f"{hashes:,} block hashes, which stand for {hashes * blocks[group]:,}. Whoever rebuilds the cache "
            "from the events' token counts gets wrong positions; the trace's own records are right. In the "
            f"batch then: {listed(names)}."
        )
        facts = {
            "group": int(group),
            "events": len(own),
            "tokens": tokens,
            "hashes": hashes,
            "block": blocks[group],
        }
        yield Finding("cache_event_mismatch", WARNING, names, rounds, message, facts)

"""Findings about where the scan of the waiting queue ended.

`head_of_line`, `same_round_dependency` and `budget_below_block`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from radixflow.analysis.findings.evidence import Evidence, Overlooked
from radixflow.analysis.findings.finding import MOST, NOTE, WARNING, Finding, ranges
from radixflow.analysis.prose import counted, listed, spans

CODES = ("head_of_line", "same_round_dependency", "budget_below_block")


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding a code, and a cause where the scan stopped."""
    yield from _head_of_line(evidence)
    yield from _same_round_dependency(evidence)
    yield from _budget_below_block(evidence)


def _head_of_line(evidence: Evidence) -> Iterator[Finding]:
    by_cause: dict[str, list[Overlooked]] = defaultdict(list)
    for case in evidence.seen.overlooked:
        by_cause[case.cause].append(case)
    ids = evidence.trace.ids
    for cause, cases in sorted(by_cause.items()):
        names = evidence.names(i for case in cases for i in case.requests)
        rounds = ranges(case.round for case in cases)
        culprits = Counter(ids[case.culprit] for case in cases).most_common()
        slots = sum(len(case.requests) for case in cases)
        message = (
            f"In {spans(rounds)} the scan of the waiting queue stopped at "
            f"{listed(name for name, _ in culprits)} ({cause}) while {listed(names)}, further back, would "
            f"have fitted: {counted(slots, 'free row')} went unused."
        )
        facts = {
            "culprit_cause": cause,
            "culprits": [{"request": name, "rounds": n} for name, n in culprits[:MOST]],
            "slots": slots,
        }
        yield Finding("head_of_line", WARNING, names, rounds, message, facts)


def _same_round_dependency(evidence: Evidence) -> Iterator[Finding]:
    refused = evidence.refusals
    blocked = refused[refused["cause"] == "blocked"]
    if not len(blocked):
        return
    ids = evidence.trace.ids
    stopped = int((~blocked["parked"].fillna(False).astype(bool)).sum())
    names = evidence.names(blocked["i"].tolist())
    rounds = ranges(blocked["round"].tolist())
    pairs: dict[tuple, list[int]] = defaultdict(list)
    columns = (blocked[name].tolist() for name in ("round", "i", "producer", "boundary", "groups"))
    for n, i, producer, boundary, groups in zip(*columns, strict=True):
        pairs[(i, int(producer), int(boundary), tuple(groups or ()))].append(n)
    examples = [
        {
            "request": ids[i],
            "producer": ids[producer] if producer >= 0 else None,
            "boundary": boundary,
            "groups": list(groups),
            "rounds": ranges(own),
        }
        for (i, producer, boundary, groups), own in list(pairs.items())[:MOST]
    ]
    one = examples[0]
    outcome = (
        f"In {counted(stopped, 'visit')} the scan stopped there."
        if stopped
        else "Each was passed over and tried again in the next round, so the scan went on."
    )
    message = (
        f"{listed(names)} needed a state that another request of the same round was still writing (in "
        f"{spans(rounds)}; {one['request']}: the state at {one['boundary']:,} tokens, by "
        f"{one['producer'] or 'an unknown request'}). {outcome}"
    )
    facts = {"visits": len(blocked), "scan_stopped": stopped, "pairs": len(pairs), "examples": examples}
    yield Finding("same_round_dependency", WARNING if stopped else NOTE, names, rounds, message, facts)


def _budget_below_block(evidence: Evidence) -> Iterator[Finding]:
    refused = evidence.refusals
    short = refused[refused["cause"] == "alignment"]
    if not len(short):
        return
    config = evidence.config
    names = evidence.names(short["i"].tolist())
    rounds = ranges(short["round"].tolist())
    left = [int(x) for x in short["tokens_left"].dropna().tolist()]
    message = (
        f"{listed(names)} got nothing in {spans(rounds)}: {_between(left)} tokens of the budget of "
        f"{config.max_num_batched_tokens:,} were left, less than one block of {config.block_size:,}, and a chunk "
        "of a prompt must end on a block boundary."
    )
    facts = {
        "block": config.block_size,
        "budget": config.max_num_batched_tokens,
        "tokens_left": [min(left), max(left)] if left else None,
        "visits": len(short),
    }
    yield Finding("budget_below_block", WARNING, names, rounds, message, facts)


def _between(values: list[int]) -> str:
    if not values:
        return "the"
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"

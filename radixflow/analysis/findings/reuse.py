"""Findings about prompt tokens that were computed though others had computed them: `cold` in words."""

from __future__ import annotations

from collections.abc import Iterator

from radixflow.analysis.findings.cold import Cold, Mechanisms
from radixflow.analysis.findings.evidence import Evidence
from radixflow.analysis.findings.finding import MOST, NOTE, WARNING, Finding, ranges
from radixflow.analysis.prose import counted, listed, number

CODES = (
    "reuse_forgone",
    "prefix_shorter_than_block",
    "block_aligned_prompt",
    "draft_backoff",
    "state_evicted",
    "cache_decayed_while_waiting",
    "sparse_retention",
    "checkpoint_in_unique_tokens",
    "state_missing_at_match",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding a code."""
    yield from _state_missing(evidence)
    by_code: dict[str, list[Cold]] = {}
    for cold in Mechanisms(evidence).of(evidence.lookups):
        by_code.setdefault(cold.code, []).append(cold)
    for code in CODES:
        if code in by_code:
            yield _finding(evidence, by_code[code])


def _finding(evidence: Evidence, colds: list[Cold]) -> Finding:
    """All of one code: the place that cost most in words, the rest counted."""
    stories: dict[tuple | None, list[Cold]] = {}
    for cold in colds:
        stories.setdefault(cold.place, []).append(cold)
    worst = max(stories.values(), key=lambda story: sum(cold.tokens for cold in story))
    told = sum(cold.tokens for cold in worst)
    block, ids = evidence.config.block_size, evidence.trace.ids
    names = evidence.names(cold.lookup.i for cold in colds)
    who = listed(evidence.names(cold.lookup.i for cold in worst))
    first = ids[worst[0].lookup.i]
    message = _MESSAGES[worst[0].code](who, told, block, worst[0], first)
    tokens = sum(cold.tokens for cold in colds)
    if len(stories) > 1:
        message += (
            f" It happened at {counted(len(stories) - 1, 'other place')} too: "
            f"{counted(len(names), 'request')} and {counted(tokens, 'token')} in all."
        )
    helps = any(cold.facts.get("dense_would_give") != 0 for cold in colds)
    examples = [
        {
            "request": ids[c.lookup.i],
            "round": c.lookup.round,
            "tokens": c.tokens,
            "ready": c.lookup.ready,
            **c.facts,
        }
        for c in sorted(colds, key=lambda c: (-c.tokens, c.lookup.i))[:MOST]
    ]
    facts = {"tokens": tokens, "block": block, "places": len(stories), **worst[0].facts, "examples": examples}
    rounds = ranges(cold.lookup.round for cold in colds)
    return Finding(worst[0].code, WARNING if helps else NOTE, names, rounds, message, facts)


def _reuse_forgone(who: str, tokens: int, block: int, cold: Cold, first: str) -> str:
    facts = cold.facts
    return (
        f"{who} computed {counted(tokens, 'prompt token')} that {facts['producer']} was computing at that "
        f"moment: when it was admitted in round {cold.lookup.round}, {facts['producer']} had finished "
        f"{facts['computed_by_then']:,} of them and left a state at {facts['boundary']:,} later."
    )


def _prefix_shorter(who: str, tokens: int, block: int, cold: Cold, first: str) -> str:
    facts = cold.facts
    return (
        f"{who} and {facts['with']} begin with the same {counted(facts['shared'], 'token')}, "
        f"{facts['short_of_block']:,} short of one block of {block:,}. Only whole blocks are cached, so this "
        "prefix can never be reused."
    )


def _block_aligned(who: str, tokens: int, block: int, cold: Cold, first: str) -> str:
    facts = cold.facts
    if "left_by" not in facts:
        return (
            f"The prompt of {who} is exactly one block of {block:,} tokens. All of it had been computed, but "
            "the last token of a prompt is always computed again, and with it its whole block."
        )
    return (
        f"The prompt of {facts['left_by']} is exactly {facts['blocks']:,} blocks of {block:,} tokens, so its "
        f"last chunk ended at {facts['blocks'] * block:,}, where a look-up for the same prompt, which stops "
        f"one token short, cannot use the state. {who} found no state at {facts['matched']:,} and computed "
        f"{counted(tokens, 'token')} again."
    )


def _draft_backoff(who: str, tokens: int, block: int, cold: Cold, first: str) -> str:
    facts = cold.facts
    if "left_by" not in facts:
        return (
            f"{who} shared one block of {block:,} tokens. With speculative drafts the last matched block is "
            "computed again, so nothing of it was reused."
        )
    return (
        f"With speculative drafts a match ends one block early, at {facts['matched']:,} tokens here, while "
        f"the state that is kept belongs at {facts['state_at']:,}. So {facts['left_by']} left none that {who} "
        f"could resume from, and {counted(tokens, 'token')} were computed again."
    )


def _state_evicted(who: str, tokens: int, block: int, cold: Cold, first: str) -> str:
    return f"{_lost(cold, first)}, before {first} arrived. {who} computed {counted(tokens, 'token')} again."


def _decayed(who: str, tokens: int, block: int, cold: Cold, first: str) -> str:
    since = cold.facts["waiting_since_round"]
    return (
        f"{_lost(cold, first)}, while {first} waited (since round {since}). {who} computed "
        f"{counted(tokens, 'token')} again."
    )


def _lost(cold: Cold, first: str) -> str:
    facts = cold.facts
    if facts["cache_reset"]:
        how = "lost in a reset of the whole prefix cache"
    else:
        whom = f" to make room for {facts['evicted_by']}" if facts["evicted_by"] else ""
        how = f"evicted{whom}"
    return (
        f"{first} could have resumed from {facts['resumable']:,} tokens, but the entry at {facts['boundary']:,} "
        f"({facts['component']}, group {facts['group']}) was {how} in round {facts['evicted_in_round']}"
    )


def _sparse(who: str, tokens: int, block: int, cold: Cold, first: str) -> str:
    facts = cold.facts
    kept = f"kept only {_depths(facts['kept'])}" if facts["kept"] else "kept none"
    text = (
        f"{facts['computed_by']} computed the {facts['matched']:,} tokens that {who} matched and passed "
        f"through a state at {_depths(facts['dropped'])}, but sparse retention (interval "
        f"{_interval(facts['retention_interval'])}) {kept}. {who} computed {counted(tokens, 'token')} again."
    )
    if facts["dense_would_give"]:
        return f"{text} Dense retention would have let it resume at {facts['dense_would_give']:,}."
    return f"{text} Dense retention alone would not have helped: none of these lies within the match."


def _checkpoint(who: str, tokens: int, block: int, cold: Cold, first: str) -> str:
    facts = cold.facts
    return (
        f"{who} shared {facts['shared']:,} tokens with {facts['left_by']} and matched {facts['matched']:,}, but "
        f"the only state that {facts['left_by']} left, at {_depths(facts['states_at'])}, lies in tokens that "
        f"no other request has. {counted(tokens, 'token').capitalize()} were computed again."
    )


_MESSAGES = {
    "reuse_forgone": _reuse_forgone,
    "prefix_shorter_than_block": _prefix_shorter,
    "block_aligned_prompt": _block_aligned,
    "draft_backoff": _draft_backoff,
    "state_evicted": _state_evicted,
    "cache_decayed_while_waiting": _decayed,
    "sparse_retention": _sparse,
    "checkpoint_in_unique_tokens": _checkpoint,
}


def _interval(tokens: int | None) -> str:
    return f"{tokens:,}" if isinstance(tokens, int) else str(tokens)


def _depths(depths: list[int]) -> str:
    return f"{listed(map(number, depths))} tokens"


def _state_missing(evidence: Evidence) -> Iterator[Finding]:
    """Admissions whose match went deeper than what they could resume from."""
    short = [look for look in evidence.lookups if look.matched > look.ready]
    if not short:
        return
    tokens = sum(look.matched - look.ready for look in short)
    names = evidence.names(look.i for look in short)
    worst = max(short, key=lambda look: (look.matched - look.ready, -look.round))
    ids = evidence.trace.ids
    message = (
        f"{listed(names)} matched more of the prefix cache than could be resumed: a state was missing at the "
        f"match, and {counted(tokens, 'token')} were computed again. Most in one request: {ids[worst.i]} "
        f"matched {worst.matched:,} tokens in round {worst.round} and resumed from {worst.ready:,}."
    )
    facts = {
        "tokens": tokens,
        "lookups": len(short),
        "examples": [
            {"request": ids[look.i], "round": look.round, "matched": look.matched, "ready": look.ready}
            for look in short[:MOST]
        ],
    }
    yield Finding("state_missing_at_match", NOTE, names, ranges(look.round for look in short), message, facts)

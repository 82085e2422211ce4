"""Findings about prompt tokens that were computed though others had computed them: `cold` in words."""

from __future__ import annotations

from collections.abc import Iterator

from radixflow.analysis.findings.cold import Cold, Mechanisms
from radixflow.analysis.findings.evidence import Evidence
from radixflow.analysis.findings.finding import MOST, NOTE, WARNING, Finding, ranges
from radixflow.analysis.prose import counted, listed

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
    """One finding a code and prefix (a code and evictor, where something was lost)."""
    yield from _state_missing(evidence)
    alike: dict[tuple, list[Cold]] = {}
    for cold in Mechanisms(evidence).of(evidence.lookups):
        alike.setdefault((cold.code, *cold.subject), []).append(cold)
    for group in alike.values():
        yield _finding(evidence, group)


def _finding(evidence: Evidence, group: list[Cold]) -> Finding:
    first = group[0]
    tokens = sum(cold.tokens for cold in group)
    names = evidence.names(cold.lookup.i for cold in group)
    who, does = listed(names), "does" if len(names) == 1 else "do"
    what = _MESSAGES[first.code](who, does, tokens, evidence.config.block_size, first)
    facts = {"tokens": tokens, "block": evidence.config.block_size, "ready": first.lookup.ready, **first.facts}
    severity = NOTE if first.facts.get("dense_would_give") == 0 else WARNING
    rounds = ranges(cold.lookup.round for cold in group)
    return Finding(first.code, severity, names, rounds, what, facts)


def _reuse_forgone(who: str, does: str, tokens: int, block: int, cold: Cold) -> str:
    facts = cold.facts
    return (
        f"{who} computed {counted(tokens, 'prompt token')} that {facts['producer']} was computing at that moment: when "
        f"it was admitted in round {cold.lookup.round}, {facts['producer']} had finished {facts['computed_by_then']} of "
        f"them and left a state at {facts['boundary']} later."
    )


def _prefix_shorter(who: str, does: str, tokens: int, block: int, cold: Cold) -> str:
    facts = cold.facts
    return (
        f"{who} and {facts['with']} begin with the same {counted(facts['shared'], 'token')}, "
        f"{facts['short_of_block']} short of one block of {block}. Only whole blocks are cached, so this prefix can "
        "never be reused."
    )


def _block_aligned(who: str, does: str, tokens: int, block: int, cold: Cold) -> str:
    facts = cold.facts
    if "left_by" not in facts:
        return (
            f"The prompt of {who} is exactly one block of {block} tokens. All of it had been computed, but the last "
            "token of a prompt is always computed again, and with it its whole block."
        )
    return (
        f"The prompt of {facts['left_by']} is exactly {facts['blocks']} blocks of {block} tokens, so its last chunk ended "
        f"at {facts['blocks'] * block}, where a look-up for the same prompt, which stops one token short, cannot use the "
        f"state. {who} found no state at {facts['matched']} and computed {counted(tokens, 'token')} again."
    )


def _draft_backoff(who: str, does: str, tokens: int, block: int, cold: Cold) -> str:
    facts = cold.facts
    if "left_by" not in facts:
        return (
            f"{who} shared one block of {block} tokens. With speculative drafts the last matched block is computed "
            "again, so nothing of it was reused."
        )
    return (
        f"With speculative drafts a match ends one block early, at {facts['matched']} tokens here, while "
        f"the state that is kept belongs at {facts['state_at']}. So {facts['left_by']} left none that {who} could resume "
        f"from, and {counted(tokens, 'token')} were computed again."
    )


def _state_evicted(who: str, does: str, tokens: int, block: int, cold: Cold) -> str:
    return f"{_lost(cold, who)} {who} arrived after that and computed {counted(tokens, 'token')} again."


def _decayed(who: str, does: str, tokens: int, block: int, cold: Cold) -> str:
    since = cold.facts["waiting_since_round"]
    return (
        f"{_lost(cold, who)} {who} had been waiting since round {since}: admitted then, it would have reused it. "
        f"{counted(tokens, 'token').capitalize()} were computed again."
    )


def _lost(cold: Cold, who: str) -> str:
    facts = cold.facts
    how = "when the whole prefix cache was reset" if facts["cache_reset"] else f"to make room for {facts['evicted_by']}"
    if not facts["cache_reset"] and facts["evicted_by"] is None:
        how = "to make room"
    return (
        f"The cached prefix of {who}, up to {facts['boundary']} tokens, was evicted in round {facts['evicted_in_round']} "
        f"{how} (first missing: {facts['component']}, group {facts['group']})."
    )


def _sparse(who: str, does: str, tokens: int, block: int, cold: Cold) -> str:
    facts = cold.facts
    kept = f"kept only {_depths(facts['kept'])}" if facts["kept"] else "kept none"
    text = (
        f"{facts['computed_by']} computed the {facts['matched']} tokens that {who} matched and passed through a state at "
        f"{_depths(facts['dropped'])}, but sparse retention (interval {facts['retention_interval']}) {kept}. "
        f"{who} computed {counted(tokens, 'token')} again."
    )
    if facts["dense_would_give"]:
        return f"{text} Dense retention would have let it resume at {facts['dense_would_give']}."
    return f"{text} Dense retention alone would not have helped: none of these lies within the match."


def _checkpoint(who: str, does: str, tokens: int, block: int, cold: Cold) -> str:
    facts = cold.facts
    return (
        f"{who} shared {facts['shared']} tokens with {facts['left_by']} and matched {facts['matched']}, but the only state "
        f"that {facts['left_by']} left, at {_depths(facts['states_at'])}, lies in tokens that no other request has. "
        f"{counted(tokens, 'token').capitalize()} were computed again."
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


def _depths(depths: list[int]) -> str:
    return f"{listed(map(str, depths))} tokens"


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
        f"{listed(names)} matched more of the prefix cache than could be resumed: a state was missing at the match, and "
        f"{counted(tokens, 'token')} were computed again. Most in one request: {ids[worst.i]} matched {worst.matched} "
        f"tokens in round {worst.round} and resumed from {worst.ready}."
    )
    facts = {
        "tokens": tokens,
        "lookups": len(short),
        "examples": [
            {"request": ids[look.i], "round": look.round, "matched": look.matched, "ready": look.ready}
            for look in short[:MOST]
        ],
    }
    yield Finding(
        "state_missing_at_match", NOTE, names, ranges(look.round for look in short), message, facts
    )

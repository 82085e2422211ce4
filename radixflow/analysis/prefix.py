"""What the prefix cache held of a request's prompt when it was looked up."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from radixflow.analysis.places import CacheHistory
from radixflow.analysis.prose import listed
from radixflow.analysis.reuse import Missing, missing_states

_WHY = {
    "never_computed": "no request ever stopped there, so that state never existed by itself",
    "not_retained": "{by} computed through it in round {round}, but its state there was not kept",
    "evicted": "it was evicted{by_whom} in round {round}",
    "in_flight": "{by} was still computing it in that round",
    "between_boundaries": "that is not a block boundary of this group",
}


@dataclass(frozen=True, slots=True)
class Prefix:
    """A look-up. All lengths in tokens from the start of the prompt."""

    round: int | None
    """The round whose look-up this is: of the first admission, or the last round that the trace knows of a
    request that was never admitted."""
    matched: dict[int, int]
    """By cache group: the longest prefix that the group alone could serve. Full attention needs every
    block down to there, a recurrent group the state at that boundary only."""
    ready: int | None
    """h: what the request resumed from; None where no look-up was recorded."""
    junction: int | None
    """The longest single-group match, where it exceeds `ready`: a prefix shared with others that some
    group can't resume from (vLLM's `shared_prefix_boundary`)."""
    lookup_cap: int
    """The look-up stops at prompt - 1: the last token is always computed, since its output is wanted."""
    missing: list[Missing]
    """The groups without a state at the junction."""

    def to_dict(self) -> dict:
        """CONTRACT's `prefix`."""
        return {
            "matched": {str(group): tokens for group, tokens in self.matched.items()},
            "ready": self.ready,
            "junction": self.junction,
            "lookup_cap": self.lookup_cap,
        }

    def sentences(self) -> list[str]:
        """The look-up in words; empty where none was recorded."""
        if self.ready is None:
            return []
        if self.junction is None:
            if not self.ready:
                return ["Nothing of its prompt was in the prefix cache: all of it was computed."]
            return [f"It resumed from {self.ready:,} tokens that the prefix cache held."]
        lost = self.junction - self.ready
        text = (
            f"The cache knew {self.junction:,} tokens of its prompt, but it could resume from {self.ready:,} "
            f"only; the other {lost:,} were computed again."
        )
        for why in {missing.why: missing for missing in self.missing}.values():
            groups = listed(f"{other.group}" for other in self.missing if other.why == why.why)
            text += (
                f" Missing at {why.boundary:,} tokens: the {why.kind} state of group {groups}: {_reason(why)}."
            )
        return [text]


def _reason(missing: Missing) -> str:
    whom = f" to make room for {missing.by}" if missing.by else ""
    return _WHY[missing.why].format(by=missing.by or "a request", by_whom=whom, round=missing.round)


def prefix_of(trace, i: int) -> Prefix:
    """The look-up of request i at its first admission, or its last one where it never got in."""
    prompt = int(trace.requests.at[i, "prompt"])
    n, ready, matched = _lookup(trace, i)
    groups = _matched(trace, i, n, prompt - 1, matched)
    junction = matched if matched is not None and matched > (ready or 0) else None
    missing = []
    if junction is not None:
        row = pd.DataFrame({"i": [i], "round": [n], "matched": [junction]})
        missing = missing_states(trace, row)[0]
    return Prefix(n, groups, ready, junction, prompt - 1, missing)


def _lookup(trace, i: int) -> tuple[int | None, int | None, int | None]:
    """`(round, ready, matched)`; the last two None where nothing recorded them."""
    admissions = trace.admissions
    own = admissions[(admissions["i"] == i) & ~admissions["again"].astype(bool)]
    if len(own):
        row = own.iloc[0]
        return int(row["round"]), int(row["ready"]), int(row["matched"])
    refusals = trace.refusals
    own = refusals[(refusals["i"] == i) & refusals["ready"].notna()]
    if len(own):
        row = own.iloc[-1]
        matched = row["ready"] if pd.isna(row["matched"]) else row["matched"]
        return int(row["round"]), int(row["ready"]), int(matched)
    last = trace.num_rounds
    return (last or None), None, None


def _matched(trace, i: int, n: int | None, cap: int, longest: int | None) -> dict[int, int]:
    """By group, the longest prefix it could serve at the look-up of round n."""
    groups = trace.config.groups
    if n is None:
        return {group.index: 0 for group in groups}
    boundaries = {g.index: range(g.block_size, cap + 1, g.block_size) for g in groups}
    history = CacheHistory(trace, {(i, b) for own in boundaries.values() for b in own})
    found = {}
    for group in groups:
        best, attention = 0, "kv" in group.components
        for boundary in boundaries[group.index]:
            events = history.of(i, boundary).get(group.index, [])
            before = [event for event in events if event.round < n]
            found_now = (
                attention and boundary <= (longest or 0) and any(e.round == n and e.i != i for e in events)
            )
            if found_now or before and before[-1].event == "published":
                best = boundary
            elif attention:
                break
        found[group.index] = best if longest is None else min(best, longest)
    return found

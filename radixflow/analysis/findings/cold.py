"""Why a request computed tokens again that others had computed: at most one mechanism a request.

Each is decided by what the trace says of the look-up that admitted it (`Lookup`), in this order; what the
earlier ones explain, the later ones aren't asked about:

    reuse_forgone                 the others were still computing
    prefix_shorter_than_block     too little is shared
    block_aligned_prompt          the prompt is exactly k blocks and the look-up stops one token short
    draft_backoff                 drafts move match and state by a block
    state_evicted, cache_decayed_while_waiting    it was there and was lost
    sparse_retention, checkpoint_in_unique_tokens     it was never kept where it is shared (both may hold)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from radixflow.analysis.findings.evidence import Evidence
from radixflow.analysis.findings.fates import Fates
from radixflow.analysis.findings.lookups import Lookup
from radixflow.analysis.findings.publications import ChunkEnds, Publications
from radixflow.analysis.findings.ways import Followers
from radixflow.analysis.places import Place

_DEEPEST = 512
"""Boundaries below a match that are asked after, from the deepest on."""


@dataclass(slots=True)
class Cold:
    """One request that computed again what others had computed, and why."""

    code: str
    lookup: Lookup
    tokens: int
    """Computed again for this reason."""
    place: Place | None
    """Where the reuse should have begun; those with the same code and place tell one story."""
    facts: dict = field(default_factory=dict)


class Mechanisms:
    """Decides the mechanism of each look-up."""

    def __init__(self, evidence: Evidence):
        trace, config = evidence.trace, evidence.config
        self._trace = trace
        self._block = config.block_size
        self._drafts = config.spec_tokens > 0
        self._sparse = config.retention_interval is not None
        self._ways = evidence.ways
        self._published = Publications(trace, self._ways)
        self._chunk_ends = ChunkEnds(trace)
        self._prompt = dict(
            zip(trace.requests.index.tolist(), trace.requests["prompt"].tolist(), strict=True)
        )
        self._lost: list[tuple[Lookup, int]] = []
        self._admitted: dict[int, list[int]] = defaultdict(list)
        """Round -> those it admitted, in native order."""
        for n, i in zip(trace.admissions["round"].tolist(), trace.admissions["i"].tolist(), strict=True):
            self._admitted[n].append(i)

    @cached_property
    def _followers(self) -> Followers:
        return Followers(self._trace, self._ways)

    def of(self, lookups: list[Lookup]) -> list[Cold]:
        """Every look-up that has one, in order."""
        found: list[tuple[Lookup, list[Cold]]] = []
        for lookup in lookups:
            found.append((lookup, list(self._decide(lookup))))
        evicted = self._evictions()
        for lookup, own in found:
            own += evicted.get(lookup.i, [])
        return [cold for _, own in found for cold in own]

    def _decide(self, look: Lookup) -> Iterator[Cold]:
        block = self._block
        usable = look.usable(block, self._drafts)
        if (cold := self._forgone(look)) is not None:
            yield cold
        elif look.longest < block:
            yield from self._short(look)
        elif look.prompt == block and look.shared >= block:
            place = self._ways.of(look.i).at(block)
            yield Cold("block_aligned_prompt", look, block, place, {"blocks": 1, "shared": look.shared})
        elif self._drafts and not usable and min(look.shared, look.prompt - 1) >= block:
            place = self._ways.of(look.i).at(block)
            facts = {"matched": 0, "state_at": block, "shared": look.shared}
            yield Cold("draft_backoff", look, block, place, facts)
        elif usable > look.ready:
            yield from self._lower_than(look, usable)

    def _forgone(self, look: Lookup) -> Cold | None:
        """What a request still computing this prefix left for others later, had this one waited for it."""
        best = (look.ready, -1)
        for q, shared in look.computing:
            limit = min(shared, look.prompt - 1) // self._block * self._block
            limit = max(limit - self._block, 0) if self._drafts else limit
            for depth in self._boundaries(best[0], limit):
                reached = self._chunk_ends.before(q, self._trace.num_rounds + 1)
                if reached and reached[-1] >= depth and self._published.leaves(q, depth, look.round):
                    best = (depth, q)
                    break
        depth, q = best
        if q < 0:
            return None
        done = [end for end in self._chunk_ends.before(q, look.round) if end < depth]
        facts = {
            "producer": self._trace.ids[q],
            "boundary": depth,
            "computed_by_then": done[-1] if done else 0,
        }
        return Cold("reuse_forgone", look, depth - look.ready, self._ways.of(q).at(depth), facts)

    def _boundaries(self, low: int, high: int) -> range:
        """Block boundaries in (low, high], deepest first."""
        high = high // self._block * self._block
        return range(high, max(low, high - _DEEPEST * self._block), -self._block)

    def _short(self, look: Lookup) -> Iterator[Cold]:
        if look.longest * 8 < min(look.prompt, self._block):
            return  # a few tokens that all prompts begin with
        facts = {
            "shared": look.longest,
            "short_of_block": self._block - look.longest,
            "with": self._trace.ids[look.longest_with],
        }
        place = self._ways.of(look.i).at(look.longest)
        yield Cold("prefix_shorter_than_block", look, look.longest, place, facts)

    def _lower_than(self, look: Lookup, usable: int) -> Iterator[Cold]:
        """It resumed lower than what others had computed."""
        for depth in self._boundaries(look.ready, usable):
            if self._published.complete_before(look.i, depth, look.round):
                self._lost.append((look, depth))  # it existed, so it was lost again
                return
        match = min(look.matched, usable)
        if match <= look.ready:
            self._lost.append((look, usable))
            return
        yield from self._never_kept(look, match)

    def _never_kept(self, look: Lookup, match: int) -> Iterator[Cold]:
        """Attention has it down to `match`; no state was ever kept on the way there."""
        block, n = self._block, look.round
        place = self._ways.of(look.i).at(match)
        for q in look.through:
            prompt = self._prompt.get(q, 0)
            ends, kept = self._chunk_ends.before(q, n), self._published.kept(q, n)
            if self._drafts:
                backed_off = max(prompt // block * block - block, 0)
                if (match == backed_off and match in ends) or match + block in kept:
                    facts = {"matched": match, "state_at": match + block, "left_by": self._trace.ids[q]}
                    yield Cold("draft_backoff", look, match - look.ready, place, facts)
                    return
            elif prompt % block == 0 and match == prompt - block and match not in ends:
                facts = {"blocks": prompt // block, "matched": match, "left_by": self._trace.ids[q]}
                yield Cold("block_aligned_prompt", look, match - look.ready, place, facts)
                return
        yield from self._kept_elsewhere(look, match, place)

    def _kept_elsewhere(self, look: Lookup, match: int, place) -> Iterator[Cold]:
        n, ids = look.round, self._trace.ids
        kept: dict[int, list[int]] = {}
        dropped: dict[int, list[int]] = {}
        for q in look.through:
            own, way = self._published.kept(q, n), self._ways.of(q)
            ends = [
                end
                for end in self._chunk_ends.before(q, n)
                if not end % self._block and end <= self._prompt.get(q, 0)
            ]
            kept[q] = [depth for depth in own if way.at(depth) is not None]
            dropped[q] = [end for end in ends if end not in own and end > look.ready]
        lost = match - look.ready
        if self._sparse:
            inside = {q: max((end for end in ends if end <= match), default=0) for q, ends in dropped.items()}
            best = max(inside, key=inside.__getitem__, default=None)
            if best is not None and (inside[best] or (kept[best] and dropped[best])):
                facts = {
                    "retention_interval": self._trace.config.retention_interval,
                    "matched": match,
                    "computed_by": ids[best],
                    "dropped": dropped[best],
                    "kept": kept[best],
                    "dense_would_give": inside[best],
                }
                yield Cold("sparse_retention", look, lost, place, facts)
        keepers = [q for q, depths in kept.items() if depths]
        if keepers and all(self._unique(q, kept[q], look, match) for q in keepers):
            q = keepers[0]
            facts = {
                "matched": match,
                "shared": look.shared,
                "left_by": ids[q],
                "states_at": kept[q],
            }
            yield Cold("checkpoint_in_unique_tokens", look, lost, place, facts)

    def _unique(self, q: int, depths: list[int], look: Lookup, match: int) -> bool:
        """Whether all that q kept lies past the match, in tokens that nobody else's prompt has."""
        way = self._ways.of(q)
        return all(depth > match and self._followers.alone(q, way.at(depth)) for depth in depths)

    # -- what was there and was lost -------------------------------------------------------------------

    def _evictions(self) -> dict[int, list[Cold]]:
        """For look-ups that found less than had been published: who evicted it, and when."""
        wanted = [
            self._ways.of(look.i).at(b) for look, depth in self._lost for b in self._needed(look, depth)
        ]
        fates = Fates(self._trace, self._ways, wanted)
        found: dict[int, list[Cold]] = {}
        for look, depth in self._lost:
            cold = self._eviction(fates, look, depth)
            if cold is not None:
                found.setdefault(look.i, []).append(cold)
        return found

    def _needed(self, look: Lookup, depth: int) -> list[int]:
        """Boundaries whose entries decided the look-up: the first that attention had lost, and the
        state's."""
        kv = look.matched + self._block * (2 if self._drafts else 1)
        return [depth] if look.matched >= depth else [min(kv, depth), depth]

    def _eviction(self, fates: Fates, look: Lookup, depth: int) -> Cold | None:
        """The first entry on the way to `depth` that had been published and was gone; None where none is
        known."""
        order = self._admitted[look.round]
        later = order[order.index(look.i) :] if look.i in order else [look.i]
        for boundary in self._needed(look, depth):
            for group in fates.groups.values():
                attention = group.kind == "full_attention"
                if not attention and boundary != depth:
                    continue
                event = fates.last(look.i, boundary, group.index, look.round, later)
                if event is not None and event.event != "published":
                    return self._lost_entry(look, depth, boundary, group, event)
        return None

    def _lost_entry(self, look: Lookup, depth: int, boundary: int, group, event) -> Cold:
        began = look.queued_from
        waiting = began is not None and began < look.round and event.round >= began
        facts = {
            "resumable": depth,
            "boundary": boundary,
            "group": group.index,
            "component": group.kind,
            "evicted_in_round": event.round,
            "evicted_by": self._trace.ids[event.by] if event.by >= 0 else None,
            "cache_reset": event.event == "cleared",
            "waiting_since_round": began,
        }
        code = "cache_decayed_while_waiting" if waiting else "state_evicted"
        return Cold(code, look, depth - look.ready, self._ways.of(look.i).at(depth), facts)

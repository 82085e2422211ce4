"""`published_uncommitted`: cache entries whose tokens were never computed, read by another request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from radixflow.analysis.findings.evidence import Evidence
from radixflow.analysis.findings.fates import Fates
from radixflow.analysis.findings.finding import ERROR, MOST, Finding, ranges
from radixflow.analysis.findings.ways import Ways
from radixflow.analysis.places import Place
from radixflow.analysis.prose import listed

CODES = ("published_uncommitted",)

_WIDE = 1 << 32


@dataclass(frozen=True, slots=True)
class Uncommitted:
    """Request i published `group`'s entries in (`start`, `end`] in a round that didn't compute them."""

    round: int
    i: int
    group: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Read:
    """An admission that resumed from an entry that its publisher never computed."""

    reader: int
    round: int
    source: Uncommitted
    depth: int


def uncommitted(trace) -> list[Uncommitted]:
    """Publications that their own round didn't compute: the request isn't in the batch, or its tokens in it
    end before the span does. Requests that loaded tokens from a KV connector are left out: nobody here ran
    those."""
    cache = trace.cache
    chosen = cache[cache["event"] == "published"]
    if not len(chosen):
        return []
    visits = trace.visits
    keys = visits["round"].to_numpy(np.int64) * _WIDE + visits["i"].to_numpy(np.int64)
    order = np.argsort(keys, kind="stable")
    reached = (visits["start"].to_numpy(np.int64) + visits["tokens"].to_numpy(np.int64))[order]
    keys = keys[order]
    wanted = chosen["round"].to_numpy(np.int64) * _WIDE + chosen["i"].to_numpy(np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    end = np.zeros(len(wanted), np.int64)
    if len(keys):
        end = np.where(keys[at] == wanted, reached[at], -1)
    loaded = trace.admissions.loc[trace.admissions["external"] > 0, "i"]
    bad = (chosen["end"].to_numpy(np.int64) > end) & ~np.isin(chosen["i"].to_numpy(), loaded.to_numpy())
    # What a lost round computed is not known, so nothing is said of what it published.
    bad &= np.isin(chosen["round"].to_numpy(), trace.rounds.index.to_numpy())
    rows = chosen[bad]
    starts = np.maximum(rows["start"].to_numpy(np.int64), end[bad])
    columns = (rows[name].tolist() for name in ("round", "i", "group", "end"))
    return [
        Uncommitted(n, i, group, start, stop)
        for (n, i, group, stop), start in zip(zip(*columns, strict=True), starts.tolist(), strict=True)
    ]


def reads(trace, ways: Ways, sources: list[Uncommitted]) -> list[Read]:
    """Admissions that resumed from one of the sources while nobody had computed the same entry meanwhile. The
    publisher itself, when it comes back, reads it like anybody else."""
    if not sources:
        return []
    blocks = {group.index: group.block_size for group in trace.config.groups}
    states = {group.index for group in trace.config.groups if group.kind != "full_attention"}
    places: dict[Place, list[Uncommitted]] = defaultdict(list)
    depths: dict[str, set[int]] = defaultdict(set)
    for source in sources:
        for depth in range(source.end, source.start, -blocks[source.group]):
            place = ways.of(source.i).at(depth)
            if place is not None:
                places[place].append(source)
                depths[place[0]].add(depth)
    fates = Fates(trace, ways, places)
    admissions = trace.admissions
    found = []
    for n, reader, ready in zip(
        *(admissions[name].tolist() for name in ("round", "i", "ready")), strict=True
    ):
        way = ways.of(reader) if ready else None
        for stream in way.streams if way else ():
            for depth in sorted(d for d in depths.get(stream, ()) if d <= ready):
                for source in places.get(way.at(depth), ()):
                    if source.group in states and depth != ready:
                        continue  # a state is read at the boundary alone
                    last = fates.last(reader, depth, source.group, n)
                    if last is not None and last[:3] == (source.round, "published", source.i):
                        found.append(Read(reader, n, source, depth))
    return found


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding a publisher."""
    trace = evidence.trace
    by: dict[tuple[int, int], list[Read]] = defaultdict(list)
    for read in reads(trace, evidence.ways, uncommitted(trace)):
        by[(read.source.round, read.source.i)].append(read)
    for (n, i), own in by.items():
        name = trace.ids[i]
        gone = i in trace.round(n).preempted
        how = "was preempted in the same round" if gone else "was not in that round's batch as it ran"
        readers = evidence.names(read.reader for read in own)
        message = (
            f"{name} published cache entries in round {n} and {how}, so their tokens were never computed. "
            f"{listed(readers)} resumed from them nevertheless (up to {max(read.depth for read in own):,} "
            f"tokens): {'its' if len(readers) == 1 else 'their'} output rests on memory that holds something "
            "else."
        )
        facts = {
            "publisher": name,
            "published_in_round": n,
            "preempted": gone,
            "reads": len({(read.reader, read.round) for read in own}),
            "examples": [
                {
                    "request": trace.ids[read.reader],
                    "round": read.round,
                    "group": read.source.group,
                    "boundary": read.depth,
                }
                for read in own[:MOST]
            ],
        }
        rounds = ranges([n, *(read.round for read in own)])
        yield Finding("published_uncommitted", ERROR, readers, rounds, message, facts)

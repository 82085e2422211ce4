"""What-if: a workload out of a recorded trace, run again in virtual time under other rules.

A trace holds no text, and none is needed: a request's path names the streams that its prompt follows, so
that two prompts share exactly what their paths share, whatever the block size. docs/whatif.md says what is
taken from the trace, what is inferred, and what a trace can't tell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from radixflow.engines.arrivals import SECOND
from radixflow.engines.cost import LinearCost
from radixflow.engines.groups import CacheGroup
from radixflow.scheduling.eviction import get_eviction
from radixflow.scheduling.policies import get_policy
from radixflow.scheduling.settings import Settings
from radixflow.trace import TraceError
from radixflow.trace.files import later_parts
from radixflow.trace.parts import PartReader, Progress, existing
from radixflow.trace.paths import common_prefix
from radixflow.trace.schema import Config, Finish, Gap, Header, Other, Repeat, Request, Round, Step
from radixflow.workloads import EngineOptions, Workload, WorkloadRequest
from radixflow.workloads.engine_options import options_from

RECURRENT = ("rec", "conv")
MODELLED = ("full_attention", "mamba")
"""Kinds of cache group that the simulated engine has."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A recorded run, ready to be run again."""

    header: Header
    workload: Workload
    options: EngineOptions
    groups: list[CacheGroup]
    cost: LinearCost
    """a + b * tokens by least squares over the recorded rounds."""
    cost_error: float
    """Mean distance of the recorded rounds' times from it, as a share of their mean."""
    notes: tuple[str, ...] = ()
    """What the trace lacks or the simulated engine can't do, a line each; the replay differs by it."""


@dataclass(slots=True)
class _Seen:
    """One request as the trace tells of it."""

    record: Request
    answered: int
    """Rounds whose answer was known when it arrived, stalled ones included."""
    finish: Finish | None = None
    finish_answered: int = 0


@dataclass(slots=True)
class _Run:
    """What a pass over the records leaves."""

    header: Header
    requests: dict[int, _Seen] = field(default_factory=dict)
    work: list[tuple[int, int]] = field(default_factory=list)
    """Tokens and nanoseconds of each answered round."""
    gaps: dict[str, int] = field(default_factory=dict)
    deferred: dict[str, set[int]] = field(default_factory=dict)
    external: set[int] = field(default_factory=set)


def rebuild(path: str | Path, progress: Progress | None = None) -> Rebuilt:
    """The workload of a recorded run, and the engine that it ran on.

    Raises TraceError where the simulated engine can't have the trace's cache layout or the trace has no requests.
    """
    run = _read(Path(path), progress)
    if not run.requests:
        raise TraceError(f"{path}: holds no requests; expected at least one to replay")
    config = run.header.config
    groups = _groups(config, Path(path))
    clocked = run.header.clock.arrivals
    seen = list(run.requests.values())
    workload = Workload(
        name=run.header.workload or "trace",
        note=f"rebuilt from a trace recorded under {run.header.policy}",
        source="trace",
        requests=_requests(seen, clocked, virtual=run.header.clock.virtual),
    )
    cost, error = _fitted(run.work)
    return Rebuilt(run.header, workload, _options(config, groups), groups, cost, error, _notes(run, seen))


def replay(
    rebuilt: Rebuilt,
    trace: str | Path,
    policy: str | None = None,
    *,
    cost: LinearCost | None = None,
    probe: int = 1,
    progress: Callable[[int, int], None] | None = None,
    **changes: Any,
) -> str:
    """Run it again and write a trace; how the run ended (`finished`, `stalled`, `interrupted`).

    policy: another one than the recorded. changes: engine options by name (`max_num_seqs=16`, `num_blocks`,
    `block_size`, `retention_interval`, ...). Raises ValueError or WorkloadError, one line.
    """
    from radixflow.engines.simulated_run import simulate

    name = policy or rebuilt.header.policy
    return simulate(
        rebuilt.workload,
        changed(rebuilt.options, changes),
        rebuilt.groups,
        Settings(
            get_policy(name),
            trace=str(trace),
            probe=probe,
            workload=rebuilt.workload.name,
            eviction=get_eviction(rebuilt.header.config.eviction),
        ),
        cost or rebuilt.cost,
        progress,
        max_model_len=max(rebuilt.header.config.max_model_len, _longest(rebuilt.workload)),
    ).end


def changed(options: EngineOptions, changes: dict[str, Any]) -> EngineOptions:
    """The options with some replaced; the hash block follows the block where only that one is named."""
    if "block_size" in changes:
        changes = {"hash_block_size": changes["block_size"]} | changes
    return options_from(options.given() | changes)


def _longest(workload: Workload) -> int:
    return max(sum(n for _, n in request.segments()) + request.output_tokens for request in workload.requests)


# -- reading -----------------------------------------------------------------------------------------------


def _read(path: Path, progress: Progress | None) -> _Run:
    first = existing(path)
    run: _Run | None = None
    answered = 0
    ends: dict[int, int] = {}
    for part in (first, *later_parts(first)):
        reader = PartReader(part)
        for records in reader.records(progress):
            if run is None:
                run = _Run(reader.header)
            for record in records:
                if isinstance(record, Request):
                    if record.i not in run.requests:  # a later part repeats those that are still alive
                        run.requests[record.i] = _Seen(record, answered)
                elif isinstance(record, Round):
                    answered += not record.selected
                    ends[record.n] = record.t + record.d
                    for refusal in record.other:
                        _note_deferred(run, refusal)
                    run.external.update(entry.i for entry in record.admissions if entry.external)
                    if record.selected:
                        run.work.append((sum(record.selected[1::2]), record.n))
                elif isinstance(record, Repeat):
                    answered += record.count
                elif isinstance(record, Step):
                    answered += 1
                    ends[-record.n] = record.t
                elif isinstance(record, Finish):
                    seen = run.requests.get(record.i)
                    if seen is not None:
                        seen.finish, seen.finish_answered = record, answered
                elif isinstance(record, Gap):
                    run.gaps[record.what] = run.gaps.get(record.what, 0) + max(1, record.rounds)
    assert run is not None  # a file without a header is a TraceError
    run.work = _durations(run.work, ends)
    return run


def _note_deferred(run: _Run, refusal: Other) -> None:
    if refusal.cause == "deferred":
        run.deferred.setdefault(refusal.status or "connector", set()).add(refusal.i)


def _durations(work: list[tuple[int, int]], ends: dict[int, int]) -> list[tuple[int, int]]:
    """Tokens and nanoseconds of each round: from its launch, or the previous answer if later, to its answer."""
    durations, previous = [], 0
    for tokens, n in work:
        answer = ends.get(-n)
        if answer is not None:
            durations.append((tokens, answer - max(previous, ends[n])))
            previous = answer
    return durations


def _fitted(work: list[tuple[int, int]]) -> tuple[LinearCost, float]:
    """a + b * tokens, neither negative, and the mean distance from it as a share of the mean."""
    if not work:
        return LinearCost(0.010, 20e-6), 0.0
    tokens, times = (np.array(column, dtype=float) for column in zip(*work, strict=True))
    spread = float(np.var(tokens))
    b = max(0.0, float(np.mean((tokens - tokens.mean()) * (times - times.mean()))) / spread) if spread else 0.0
    a = float(times.mean()) - b * float(tokens.mean())
    if a < 0:
        a, b = 0.0, float(times.sum() / tokens.sum())
    error = float(np.abs(times - a - b * tokens).mean() / times.mean()) if times.mean() > 0 else 0.0
    return LinearCost(a / SECOND, b / SECOND), error


# -- building ----------------------------------------------------------------------------------------------


def _groups(config: Config, path: Path) -> list[CacheGroup]:
    for group in config.groups:
        if group.kind not in MODELLED:
            raise TraceError(
                f"{path}: cache group {group.index} is {group.kind}; a replay can have {' and '.join(MODELLED)}"
            )
        if group.block_size != config.block_size:
            raise TraceError(
                f"{path}: cache group {group.index} has blocks of {group.block_size} tokens, others "
                f"{config.block_size}; a replay can have one block size"
            )
    if not config.groups:
        raise TraceError(f"{path}: its header names no cache groups; expected at least one")
    return [CacheGroup(("kv",) if "kv" in g.components else RECURRENT, g.layers or 1) for g in config.groups]


def _options(config: Config, groups: list[CacheGroup]) -> EngineOptions:
    states = sum(group.components != ("kv",) for group in groups)
    return EngineOptions().resolved(
        block_size=config.block_size,
        hash_block_size=config.hash_block_size,
        num_blocks=config.num_blocks,
        state_groups=states,
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        scheduling_policy=config.scheduling_policy,
        retention_interval=config.retention_interval if states else None,
        spec_tokens=config.spec_tokens,
        async_scheduling=config.async_scheduling,
        kv_cache_events=config.kv_cache_events,
    )


def _requests(seen: list[_Seen], clocked: bool, virtual: bool) -> list[WorkloadRequest]:
    """In the order in which they reached the scheduler."""
    names = _unique([one.record.id for one in seen])
    origin = 0 if virtual else min(_arrived(one.record) for one in seen)
    leaders = _leaders(seen, clocked, virtual)
    made = []
    for k, one in enumerate(seen):
        record, when = one.record, {}
        if k in leaders:
            when["after"] = names[leaders[k]]
        elif clocked:
            when["arrival"] = (_arrived(record) - origin) / SECOND
        else:
            when["after_round"] = one.answered
        if one.finish is not None and one.finish.reason in ("abort", "error"):
            when["abort_after_round"] = one.finish_answered
        made.append(
            WorkloadRequest(
                id=names[k],
                prompt=[(stream, n) for stream, n in record.path if n > 0],
                output_tokens=_output(one),
                priority=record.priority,
                group=record.group,
                label=record.label,
                **when,
            )
        )
    return made


def _arrived(record: Request) -> int:
    return record.t if record.arrival is None else record.arrival


def _output(one: _Seen) -> int:
    """Tokens that it generates: as many as it did where it came to its own end."""
    finish = one.finish
    if finish is not None and finish.reason in ("stop", "repetition"):
        return max(1, finish.output)
    return one.record.max_tokens


def _leaders(seen: list[_Seen], clocked: bool, virtual: bool) -> dict[int, int]:
    """Of the requests that came the moment another ended: which one they go on from.

    In virtual time, whoever came at the very nanosecond at which somebody ended came because of it. Without a
    clock, rounds alone can't tell that from a request of the next round, so its prompt has to begin with the
    whole prompt of the one that ended: another turn of a conversation. On a real clock nothing tells.
    """
    if clocked and not virtual:
        return {}
    ended: dict[int, list[int]] = {}
    for k, one in enumerate(seen):
        if one.finish is not None:
            # A request ends before its last round's answer is recorded, but for one that was given up.
            ended.setdefault(one.finish_answered + (one.finish.reason != "abort"), []).append(k)
    leaders = {}
    for k, one in enumerate(seen):
        record = one.record
        found = []
        for j in ended.get(one.answered, ()) if record.arrival is None else ():
            leader = seen[j].record
            shared = common_prefix(record.path, leader.path)
            turn = leader.prompt == shared
            if j < k and (seen[j].finish.t == record.t if clocked else turn):
                found.append((turn, record.group is not None and record.group == leader.group, shared, -j))
        if found:
            leaders[k] = -max(found)[3]
    return leaders


def _unique(ids: list[str]) -> list[str]:
    """A server's clients may use an id again once it is free."""
    taken: dict[str, int] = {}
    names = []
    for name in ids:
        taken[name] = count = taken.get(name, 0) + 1
        names.append(name if count == 1 else f"{name}#{count}")
    return names


def _notes(run: _Run, seen: list[_Seen]) -> tuple[str, ...]:
    notes = []
    lost = {what: n for what, n in run.gaps.items() if what != "paths"}
    if lost:
        notes.append(f"rounds missing from the trace: {sum(lost.values()):,}; arrivals between them are approximate")
    if "paths" in run.gaps:
        notes.append("the trace forgot its prompts to bound its memory: prefixes shared across that point are lost")
    unknown = sum(one.record.path == [(f"r{one.record.i}", one.record.prompt)] for one in seen)
    if unknown:
        notes.append(f"prompts known by their length alone (images, embeddings): {unknown:,}; they share nothing")
    for status, who in sorted(run.deferred.items()):
        what = status.replace("_", " ")
        notes.append(f"requests that waited for {what}: {len(who):,}; the replay lets them in at once")
    if run.external:
        loaded = len(run.external)
        notes.append(f"requests that loaded tokens through a KV connector: {loaded:,}; the replay computes them")
    ordered = sum(one.record.ordered_at is not None for one in seen)
    if ordered:
        notes.append(f"requests ordered by a time of their own: {ordered:,}; the replay orders by arrival")
    unfinished = sum(one.finish is None for one in seen)
    if unfinished:
        notes.append(f"requests that had not ended: {unfinished:,}; the replay lets them generate all they may")
    aborted = sum(one.finish is not None and one.finish.reason in ("abort", "error") for one in seen)
    if aborted:
        notes.append(f"requests that were given up: {aborted:,}; the replay gives them up after the same round")
    config = run.header.config
    if config.long_prefill_token_threshold or config.watermark_blocks:
        notes.append("the engine had a long-prefill threshold or a watermark: the replay has neither")
    if not config.prefix_caching:
        notes.append("the engine had no prefix cache: the replay has one")
    return tuple(notes)

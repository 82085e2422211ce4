"""`rf.run`: a workload under a policy on one of the two engines, recorded."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from radixflow.engines.cost import LinearCost, RoundCost
from radixflow.engines.groups import CacheGroup, plain_groups
from radixflow.engines.profiles import get_profile
from radixflow.scheduling.eviction import get_eviction
from radixflow.scheduling.policies import get_policy
from radixflow.scheduling.settings import Settings
from radixflow.scheduling.versions import installed_vllm
from radixflow.trace import Trace, open_trace
from radixflow.workloads import EngineOptions, Workload, WorkloadError, load_workload

PLAIN_COST = LinearCost(a=0.010, b=20e-6)
"""Of a workload that names no model: 10 ms a round and 20 microseconds a token."""


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run: its trace, how it ended, and what it generated."""

    trace_path: Path
    end: str
    """`finished`, `stalled` or `interrupted`."""
    outputs: dict[str, list[int]] = field(repr=False)
    """Output token ids by request id (made up by the simulator, greedy on the real engine)."""
    notes: tuple[str, ...] = ()
    """What the workload asked of the real engine and vLLM did otherwise, a line each."""


def run(
    workload: str | Path | Workload,
    policy: str = "radixflow",
    *,
    engine: str = "sim",
    model: str | None = None,
    trace: str | Path | None = None,
    cost: RoundCost | None = None,
    probe: int = 1,
    eviction: str = "lru",
    include_tokens: bool = False,
    tokenizer: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Trace:
    """Run `workload` under `policy` and open the trace it wrote.

    workload: a built-in's name, a file, or a `Workload`.
    engine: `sim` (vLLM's real scheduler, a modelled worker, virtual time) or `vllm` (the real engine).
    model: a profile's name for `sim`; a tiny built-in, a folder or a hub id for `vllm`.
    trace: where to write; a temporary file by default.
    eviction: which free blocks give up their prefixes, `lru` (vLLM's own) or `rr` (rotating tails).
    options: `EngineOptions` by name, laid over the workload's own (`max_num_seqs=8`, ...).

    Raises WorkloadError or ValueError with one line that says what, where and what was expected.
    """
    done = run_workload(
        workload,
        policy,
        engine=engine,
        model=model,
        trace=trace,
        cost=cost,
        probe=probe,
        eviction=eviction,
        include_tokens=include_tokens,
        tokenizer=tokenizer,
        progress=progress,
        **options,
    )
    return open_trace(done.trace_path)


def run_workload(
    workload: str | Path | Workload,
    policy: str = "radixflow",
    *,
    engine: str = "sim",
    model: str | None = None,
    trace: str | Path | None = None,
    cost: RoundCost | None = None,
    probe: int = 1,
    eviction: str = "lru",
    include_tokens: bool = False,
    tokenizer: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Run:
    """As `run`, without opening the trace."""
    if not isinstance(workload, Workload):
        workload = load_workload(workload, tokenizer=tokenizer)
    installed_vllm()  # says how to install it, where it is missing
    path = Path(trace) if trace is not None else temporary_trace(workload.name, policy)
    settings = Settings(
        get_policy(policy),
        trace=str(path),
        probe=probe,
        include_tokens=include_tokens,
        workload=workload.name,
        model=model,
        eviction=get_eviction(eviction),
    )
    if engine == "vllm":
        from radixflow.engines.real import run_real

        real = run_real(
            workload, policy=policy, model=model, trace_path=path, options=options, probe=probe,
            eviction=eviction, include_tokens=include_tokens, progress=progress,
        )  # fmt: skip
        return Run(path, real.end, real.outputs, real.notes)
    if engine != "sim":
        raise ValueError(f"unknown engine {engine!r}: expected 'sim' or 'vllm'")
    return _simulate(workload, settings, model, cost, progress, options)


def agreements(runs: list[Run]) -> list[dict[str, int]]:
    """For each further run: of how many requests it generated the same tokens as the first."""
    first = runs[0].outputs
    return [
        {
            "same": sum(run.outputs.get(request) == tokens for request, tokens in first.items()),
            "requests": len(first.keys() | run.outputs.keys()),
        }
        for run in runs[1:]
    ]


def temporary_trace(workload: str, policy: str) -> Path:
    """A fresh trace file that nobody asked to keep."""
    return Path(tempfile.mkdtemp(prefix="radixflow-")) / f"{workload}-{policy}.rft.jsonl.zst"


def simulated_engine(
    workload: Workload, model: str | None, options: dict[str, Any]
) -> tuple[EngineOptions, list[CacheGroup], RoundCost]:
    """Resolved options, cache groups and round cost of a simulated engine.

    The command line goes before the workload's own options, those before the model's profile, and
    the profile before the defaults; a named model's cache groups can't be contradicted.
    """
    stated = workload.engine.given()
    made_for = workload.simulated_engine
    name = model or options.get("model") or stated.get("model")
    if name is None:
        resolved = made_for.resolved(**options)
        return resolved, plain_groups(resolved.state_groups), PLAIN_COST
    profile = get_profile(name)
    if model is None:  # the workload was made for this model: its own numbers go first
        base = EngineOptions(**(profile.engine_options() | stated))
    else:  # the user chose a model for a workload that was made for another one
        layout = {"block_size", "hash_block_size", "num_blocks", "state_groups", "model"}
        kept = {key: value for key, value in stated.items() if key not in layout}
        base = EngineOptions(**(profile.engine_options() | kept))
    resolved = base.resolved(**options)
    if resolved.state_groups != profile.state_groups:
        raise WorkloadError(
            f"state_groups is {resolved.state_groups}, but model {profile.name} has {profile.state_groups}; "
            "expected no other number beside a model"
        )
    return resolved, list(profile.groups), profile.cost


def _simulate(
    workload: Workload,
    settings: Settings,
    model: str | None,
    cost: RoundCost | None,
    progress: Callable[[int, int], None] | None,
    options: dict[str, Any],
) -> Run:
    resolved, groups, model_cost = simulated_engine(workload, model, options)
    from radixflow.engines.simulated_run import simulate

    outcome = simulate(workload, resolved, groups, settings, cost or model_cost, progress)
    return Run(Path(settings.trace or ""), outcome.end, outcome.outputs)

"""The real engine: a workload on vLLM itself, in this process, as an ordinary client would send it.

vLLM's `LLMEngine` is built with our scheduler and stepped from here (`VLLM_ENABLE_V1_MULTIPROCESSING=0`),
so that the first round sees every request that has no clock. Nothing of vLLM is replaced but the
scheduler class. Importing this module imports neither vLLM nor torch.
"""

from __future__ import annotations

import gc
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import UNSET

from radixflow.engines.tiny import MAX_POSITION_EMBEDDINGS, is_tiny, list_tiny_models, tiny_model_path
from radixflow.scheduling.eviction import get_eviction
from radixflow.scheduling.policies import get_policy
from radixflow.scheduling.settings import Settings
from radixflow.workloads import EngineOptions, Workload
from radixflow.workloads.engine_options import options_from

DEFAULT_MODEL = "tiny-nemotron-h"
TINY_CACHE_BYTES = 1 << 30
MIN_MODEL_LEN = 1024
"""Tokens; a shorter context saves nothing."""


@dataclass(frozen=True, slots=True)
class RealRun:
    """How a run on the real engine ended."""

    end: str
    """`finished`, `stalled` or `interrupted`."""
    outputs: dict[str, list[int]] = field(repr=False)
    """Greedy output tokens by request id; of an aborted request, those made until then."""
    margins: dict[str, list[float]] = field(repr=False)
    """Of each output token, how far its log-probability is above the second best; with `margins=True`."""
    rounds: int
    """Rounds whose output is known, stalled ones included."""
    start_seconds: float
    """From nothing to a ready engine, vLLM's import included."""
    wall_seconds: float
    """From the first request to the last token."""
    block_size: int
    """Tokens a block that vLLM settled on."""
    num_blocks: int
    notes: tuple[str, ...] = ()
    """What the workload asked of the engine and vLLM did otherwise, a line each."""


def run_real(
    workload: Workload,
    *,
    policy: str = "radixflow",
    model: str | None = None,
    trace_path: str | Path | None = None,
    options: Mapping[str, Any] | EngineOptions | None = None,
    probe: int = 1,
    eviction: str = "lru",
    include_tokens: bool = False,
    seed: int = 0,
    max_model_len: int | None = None,
    hf_overrides: Mapping[str, Any] | None = None,
    async_scheduling: bool = False,
    enable_prefix_caching: bool = True,
    engine_args: Mapping[str, Any] | None = None,
    margins: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> RealRun:
    """Run `workload` on vLLM under `policy`, greedily, and write the trace to `trace_path`.

    model: a tiny model's name (`tiny-nemotron-h` where None), a folder, or a hub id.
    trace_path: None records nothing.
    eviction: `lru` (vLLM's own) or `rr` (rotating tails).
    options: laid over the workload's own; `num_blocks` and `block_size` only where somebody states them.
    max_model_len: tokens; by default what the longest request needs.
    engine_args: further arguments of vLLM's `EngineArgs`, which win over all others.
    margins: also report how clear each greedy choice was, which tells where rounding may change one.
    progress: called with (finished, all) requests.

    Ctrl-C ends the run, closes the trace and gives `end == "interrupted"`. Raises WorkloadError where
    the workload doesn't fit the model, ValueError for an unknown policy or tiny model, and EngineError
    where vLLM refuses to start; one line each.
    """
    model = model or DEFAULT_MODEL
    stated = _stated(workload, options)
    settings = Settings(
        get_policy(policy),
        trace=str(trace_path) if trace_path is not None else None,
        probe=probe,
        include_tokens=include_tokens,
        workload=workload.name,
        model=model,
        eviction=get_eviction(eviction),
    )
    length = max_model_len or max(MIN_MODEL_LEN, _longest(workload))
    begin = time.monotonic()
    with _environment(model), _threads(model):
        arguments = _engine_arguments(model, stated, length, seed, hf_overrides)
        arguments["enable_prefix_caching"] = enable_prefix_caching
        arguments["async_scheduling"] = async_scheduling or bool(stated.get("async_scheduling"))
        arguments["scheduler_cls"] = _scheduler_class(workload, settings)
        arguments.update(engine_args or {})
        engine = _start(model, arguments)
        ready = time.monotonic()
        scheduler = engine.engine_core.engine_core.scheduler
        end, session = "fault", None
        try:
            from radixflow.engines.session import Session

            session = Session(workload, engine, margins=margins, progress=progress)
            end = session.run()
            return RealRun(
                end=end,
                outputs=session.outputs,
                margins=session.margins,
                rounds=session.rounds,
                start_seconds=ready - begin,
                wall_seconds=time.monotonic() - ready,
                block_size=scheduler.block_size,
                num_blocks=scheduler.kv_cache_manager.block_pool.num_gpu_blocks,
                notes=tuple(_notes(model, stated, scheduler)),
            )
        finally:
            if scheduler.observer is not None:
                scheduler.observer.close(end)
                scheduler.observer = None
            engine.engine_core.shutdown()
            del engine, scheduler, session
            gc.collect()


class EngineError(Exception):
    """vLLM would not start; one line with its reason."""


def _stated(workload: Workload, options: Mapping[str, Any] | EngineOptions | None) -> dict[str, Any]:
    """The engine options that somebody stated; None means dense for `retention_interval`, else nothing."""
    given = options.given() if isinstance(options, EngineOptions) else dict(options or {})
    kept = {
        name: value
        for name, value in given.items()
        if value is not UNSET and (value is not None or name == "retention_interval")
    }
    return workload.engine.given() | options_from(kept).given()


def _longest(workload: Workload) -> int:
    """Tokens of the longest request, its output included."""
    return max(
        (sum(n for _, n in request.segments()) or len(workload.token_ids(request))) + request.output_tokens
        for request in workload.requests
    )


def _engine_arguments(
    model: str, stated: Mapping[str, Any], length: int, seed: int, overrides: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Arguments of vLLM's `EngineArgs`. What nobody stated is left to vLLM, the budgets S and T aside."""
    resolved = EngineOptions(**{k: v for k, v in stated.items() if k in _BUDGETS}).resolved()
    arguments: dict[str, Any] = {
        "model": model,
        "skip_tokenizer_init": True,
        "disable_log_stats": True,
        "seed": seed,
        "max_model_len": length,
        "max_num_seqs": resolved.max_num_seqs,
        "max_num_batched_tokens": resolved.max_num_batched_tokens,
        "scheduling_policy": resolved.scheduling_policy,
        "hf_overrides": dict(overrides or {}),
    }
    if is_tiny(model):
        from radixflow.engines.random_weights import LOAD_FORMAT

        arguments |= {
            "model": str(tiny_model_path(model)),
            "load_format": LOAD_FORMAT,
            "enforce_eager": True,
            # Stated, so that vLLM doesn't ask for a share of the machine's memory.
            "kv_cache_memory_bytes": TINY_CACHE_BYTES,
        }
        if length > MAX_POSITION_EMBEDDINGS:
            arguments["hf_overrides"].setdefault("max_position_embeddings", length)
    for option, argument in _PASSED_ON.items():
        if option in stated:
            arguments[argument] = stated[option]
    if stated.get("kv_cache_events"):
        from vllm.config import KVEventsConfig

        arguments["kv_events_config"] = KVEventsConfig(enable_kv_cache_events=True, publisher="null")
    return arguments


_BUDGETS = ("max_num_seqs", "max_num_batched_tokens", "scheduling_policy")
_PASSED_ON = {
    "block_size": "block_size",
    "hash_block_size": "prefix_match_unit",
    "num_blocks": "num_gpu_blocks_override",
    "retention_interval": "prefix_cache_retention_interval",
}


def _scheduler_class(workload: Workload, settings: Settings) -> type:
    """`RadixFlowScheduler` with this run's settings, in the form in which vLLM takes a scheduler."""
    from radixflow.scheduling import RadixFlowScheduler
    from radixflow.scheduling.recorder import Recorder, RequestInfo, RunInfo, wall_clock
    from radixflow.scheduling.versions import installed_vllm, seams

    details = {
        request.id: RequestInfo(request.group, request.label, tuple(request.segments()))
        for request in workload.requests
    }

    def open_recorder(scheduler: Any, settings: Settings) -> Recorder:
        clock = wall_clock()
        clock.arrivals = workload.has_clock
        return Recorder(
            settings.trace or "",
            RunInfo(
                policy=settings.policy.name,
                engine="vllm",
                model=settings.model,
                workload=settings.workload,
                vllm=installed_vllm(),
                include_tokens=settings.include_tokens,
            ),
            seams().describe_config(scheduler, settings),
            clock,
            scheduler.clock,
            describe=details.get,
        )

    class RunScheduler:
        """Constructing it gives a RadixFlowScheduler."""

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return RadixFlowScheduler(*args, settings=settings, open_recorder=open_recorder, **kwargs)

    return RunScheduler


def _start(model: str, arguments: dict[str, Any]) -> Any:
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.engine.llm_engine import LLMEngine

    from radixflow.engines.plugin import register

    register()
    try:
        return LLMEngine.from_engine_args(EngineArgs(**arguments))
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        hint = "" if is_tiny(model) or "/" in model else f" (tiny models: {', '.join(list_tiny_models())})"
        raise EngineError(f"vLLM would not start with model {model!r}: {reason}{hint}") from error


def _notes(model: str, stated: Mapping[str, Any], scheduler: Any) -> Iterator[str]:
    named = stated.get("model")
    if named and named != model:
        yield f"the workload is made for {named}; this run's model is {model}"
    wanted = stated.get("block_size")
    if wanted and wanted != scheduler.block_size:
        yield f"block_size {wanted} was asked for; vLLM made it {scheduler.block_size} for {model}"
    groups = len(scheduler.check.state_managers)
    if "state_groups" in stated and stated["state_groups"] != groups:
        yield f"state_groups {stated['state_groups']} can't be chosen on a real model; {model} has {groups}"
    if stated.get("spec_tokens"):
        yield "spec_tokens needs a draft model: give vLLM one as speculative_config in engine_args"


@contextmanager
def _environment(model: str) -> Iterator[None]:
    """vLLM's variables for an engine in this process, quiet and offline; the user's own ones win.

    vLLM keeps its variables from the first engine of a process on, so they are made fresh here.
    """
    wanted = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
        "TRANSFORMERS_VERBOSITY": "error",
    }
    if is_tiny(model) or Path(model).is_dir():
        wanted["HF_HUB_OFFLINE"] = "1"
    fixed = {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        # The ids in the trace are the workload's; they are unique by the workload's own check.
        "VLLM_DISABLE_REQUEST_ID_RANDOMIZATION": "1",
    }
    before = dict(os.environ)
    os.environ.update({name: value for name, value in wanted.items() if name not in before} | fixed)
    from vllm import envs

    logger = logging.getLogger("vllm")
    level = logger.level
    logger.setLevel(os.environ["VLLM_LOGGING_LEVEL"])
    envs.disable_envs_cache()
    try:
        yield
    finally:
        for name in (*wanted, *fixed):
            if name in before:
                os.environ[name] = before[name]
            else:
                os.environ.pop(name, None)
        envs.disable_envs_cache()
        logger.setLevel(level)


@contextmanager
def _threads(model: str) -> Iterator[None]:
    """A tiny model runs on one thread: its operations are so small that a second one only gets in the way.

    vLLM's CPU worker replaces `torch.set_num_threads`; it is put back.
    """
    import torch

    set_threads, before = torch.set_num_threads, torch.get_num_threads()
    if is_tiny(model):
        set_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads = set_threads
        set_threads(before)

"""One simulated run with its recorder: what `rf.run(engine="sim")` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from radixflow.engines.cost import RoundCost
from radixflow.engines.groups import CacheGroup
from radixflow.engines.simulator import Outcome, Simulator, VirtualClock
from radixflow.engines.stand_in import build_scheduler
from radixflow.scheduling.recorder import Recorder, RequestInfo, RunInfo
from radixflow.scheduling.settings import Settings
from radixflow.scheduling.versions import installed_vllm, seams
from radixflow.trace.schema import Clock
from radixflow.workloads import EngineOptions, Workload
from radixflow.workloads.tokens import segment_array


def simulate(
    workload: Workload,
    options: EngineOptions,
    groups: list[CacheGroup],
    settings: Settings,
    cost: RoundCost,
    progress: Callable[[int, int], None] | None = None,
    *,
    max_model_len: int | None = None,
) -> Outcome:
    """Run to the end and close the trace, whatever happens. `options` are resolved.

    max_model_len: tokens; by default what the workload's longest sequence takes.
    """
    clock = VirtualClock()
    scheduler = build_scheduler(
        options,
        groups,
        settings,
        max_model_len=max_model_len or longest_sequence(workload),
        clock=clock,
        open_recorder=recorder_for(workload, clock),
    )
    end = "fault"
    try:
        outcome = Simulator(workload, scheduler, clock, cost, progress).run()
        end = outcome.end
        return outcome
    finally:
        if scheduler.observer is not None:
            scheduler.observer.close(end)


def longest_sequence(workload: Workload) -> int:
    """Tokens of the longest prompt with its output: the context length that the stand-in model has."""
    return max(
        sum(n for _, n in request.segments()) or len(workload.token_ids(request))
        for request in workload.requests
    ) + max(request.output_tokens for request in workload.requests)


def recorder_for(
    workload: Workload, clock: VirtualClock, synchronous: bool = True
) -> Callable[[Any, Settings], Recorder]:
    """Opens the recorder of a simulated run; `synchronous=False` writes from a thread, as a server's does."""
    requests = {request.id: request for request in workload.requests}

    def describe(request_id: str) -> RequestInfo | None:
        request = requests.get(request_id)
        if request is None:
            return None
        segments = request.segments()
        tokens = segment_array(segments) if segments else None
        return RequestInfo(request.group, request.label, tuple(segments), tokens)

    def open_recorder(scheduler: Any, settings: Settings) -> Recorder:
        return Recorder(
            settings.trace or "",
            RunInfo(
                policy=settings.policy.name,
                engine="sim",
                model=settings.model,
                workload=workload.name,
                vllm=installed_vllm(),
                include_tokens=settings.include_tokens,
            ),
            seams().describe_config(scheduler, settings),
            Clock(wall_ns=0, monotonic_ns=0, virtual=True, arrivals=workload.has_clock),
            clock,
            synchronous=synchronous,
            max_bytes=settings.max_bytes,
            max_parts=settings.max_parts,
            describe=describe,
        )

    return open_recorder

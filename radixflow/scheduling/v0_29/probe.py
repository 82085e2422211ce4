"""What the free slots of a round could have been (CONTRACT 1, avoidable bubble)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from vllm.v1.core.sched.request_queue import SchedulingPolicy
from vllm.v1.request import Request, RequestStatus

from radixflow.scheduling.v0_29.check import Budget
from radixflow.scheduling.v0_29.overlay import Overlay
from radixflow.trace.schema import Probe

if TYPE_CHECKING:
    from radixflow.scheduling.v0_29.seams import _Seams


def probe_free_slots(scheduler: _Seams, index: Callable[[str], int]) -> Probe:
    """Ask the native checks of each unselected waiting request against the round's final batch.

    Requests found Ready are counted one after another, each seeing the batch grown by those before.
    Changes nothing in the scheduler, its queues or its pool.
    """
    rows = scheduler.max_num_running_reqs - len(scheduler.running) - scheduler.num_waiting_for_streaming_input
    if rows <= 0:
        return Probe()
    avoidable: list[int] = []
    others: list[tuple[int, str]] = []
    overlay: Overlay | None = None
    budget = scheduler.budget
    for request in _waiting(scheduler):
        if len(avoidable) == rows:
            break
        cause = _passed_over_natively(request)
        if cause is None and (overlay.budget if overlay is not None else budget).spent:
            cause = "tokens"
        if cause is None:
            if overlay is None:
                left = Budget(budget.tokens, budget.input, budget.draft_slots, budget.running, budget.prefilling)
                overlay = Overlay(scheduler, scheduler.check, left)
            cause = overlay.refusal(request)
        if cause is None:
            assert overlay is not None
            verdict = overlay.judge(request)
            if verdict.outcome == "ready":
                overlay.admit(request, verdict)
                avoidable.append(index(request.request_id))
                continue
            cause = verdict.cause or "capacity"
        if len(others) < rows:
            others.append((index(request.request_id), cause))
    if scheduler.admission is not None:
        others += [(index(request_id), "admission") for request_id in scheduler.admission.held_ids]
    return Probe(avoidable, others[: rows - len(avoidable)])


def _waiting(scheduler: _Seams) -> Iterator[Request]:
    """The queue that the round left, in native order."""
    if scheduler.policy == SchedulingPolicy.PRIORITY:
        yield from sorted([*scheduler.skipped_waiting, *scheduler.waiting])
    else:
        yield from scheduler.skipped_waiting
        yield from scheduler.waiting


def _passed_over_natively(request: Request) -> str | None:
    if request.status not in (RequestStatus.WAITING, RequestStatus.PREEMPTED):
        return "deferred"
    if request.num_stale_output_tokens > 0 and not request.drop_stale_output:
        return "deferred"
    return "encoder" if request.has_encoder_inputs else None

"""vLLM 0.29's scheduler with the policies and the recorder attached at its own seams.

No line of `Scheduler.schedule()` is copied or edited. The native waiting loop already knows how to
pass over a request: `_is_blocked_waiting_status` true and `_try_promote_blocked_waiting_request`
false make it pop the request, keep it registered and go on; next round it comes first, in native
order. `_select_waiting_queue_for_scheduling` runs just before, and its queue's head is the request
about to be visited. Deciding there and answering through the other two is the whole traversal, for
the synchronous and the asynchronous scheduler, FCFS and priority alike.

A fault in policy or recorder is logged once and falls back to native, untraced scheduling.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from vllm.logger import init_logger
from vllm.v1.core.kv_cache_manager import KVCacheBlocks, KVCacheManager
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.interface import PauseState
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.request_queue import RequestQueue
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import Request, RequestStatus

from radixflow.scheduling.admission import Admission, Release, WorkerState
from radixflow.scheduling.recorder import Recorder
from radixflow.scheduling.settings import Settings, read_settings
from radixflow.scheduling.v0_29.check import Budget, Hit, NativeCheck
from radixflow.scheduling.v0_29.describe import open_recorder
from radixflow.scheduling.v0_29.eviction import RotatingBlockPool, rotate_tails
from radixflow.scheduling.v0_29.observer import Observer
from radixflow.scheduling.v0_29.traversal import Traversal

logger = init_logger("vllm.radixflow")


class RadixFlowScheduler:
    """Any vLLM engine's scheduler: `scheduler_cls="radixflow.RadixFlowScheduler"`.

    One name serves both kinds of engine: constructing it gives the subclass of vLLM's `Scheduler` or
    `AsyncScheduler` that the configuration asks for. Policy and trace come from
    `additional_config["radixflow"]` or the environment (`radixflow.scheduling.settings`).
    """

    def __new__(cls, vllm_config: Any = None, *args: Any, **kwargs: Any) -> RadixFlowScheduler:
        if cls is RadixFlowScheduler:
            asynchronous = vllm_config.scheduler_config.async_scheduling
            cls = AsyncRadixFlowScheduler if asynchronous else SyncRadixFlowScheduler
        return object.__new__(cls)


class _Seams(RadixFlowScheduler):
    """The overrides, mixed in before vLLM's class."""

    clock: Callable[[], int]
    """Nanoseconds; the simulator puts its virtual clock here."""

    def __init__(self, vllm_config: Any, *args: Any, **kwargs: Any) -> None:
        settings = kwargs.pop("settings", None) or read_settings(getattr(vllm_config, "additional_config", None))
        self.clock = kwargs.pop("clock", time.monotonic_ns)
        recorder = kwargs.pop("open_recorder", open_recorder)
        super().__init__(vllm_config, *args, **kwargs)  # type: ignore[call-arg]
        self._attach(settings, recorder)

    def _attach(self, settings: Settings, recorder: Callable[[_Seams, Settings], Recorder]) -> None:
        policy = settings.policy
        self.check = NativeCheck(self)  # type: ignore[arg-type]
        self.budget = Budget(0, 0, 0)
        self.admission = Admission(policy.admission) if policy.admission else None
        self.traversal: Traversal | None = None
        # Full attention has no state to wait for, so there is nothing to traverse and nothing to pay.
        # A connector's remote hits can supersede the local ones that the decision would rest on.
        if policy.traversal and self.check.state_managers and self.connector is None:
            self.traversal = Traversal(self, fragmentation=policy.fragmentation)
        self.eviction: RotatingBlockPool | None = None
        if settings.eviction == "rr" and self.kv_cache_manager.enable_caching:
            self.eviction = rotate_tails(self.kv_cache_manager, self.fault)
        self.observer: Observer | None = None
        if settings.trace is not None:
            self.observer = Observer(self, recorder(self, settings), settings.probe)
        self._visiting: Request | None = None
        self._passing: Request | None = None
        self._handed_back: Hit | None = None
        if self.traversal or self.observer:
            self.kv_cache_manager.__class__ = _WatchedKVCacheManager
            self.kv_cache_manager.scheduler = self  # type: ignore[attr-defined]

    @property
    def _watched(self) -> bool:
        return self.traversal is not None or self.observer is not None

    def _tell(self, what: str, *args: Any) -> None:
        """Tell the recorder, if there is one; its fault never reaches vLLM."""
        observer = self.observer
        if observer is not None:
            try:
                getattr(observer, what)(*args)
            except Exception as error:
                self.fault("recorder", error)

    def fault(self, what: str, error: Exception) -> None:
        """Back to native, untraced scheduling; the engine never notices."""
        logger.exception("radixflow: %s failed (%s); going on with native, untraced scheduling", what, error)
        self._passing = None
        self.traversal = None
        if self.eviction is not None:
            self.eviction.rotation = None
        admission, self.admission = self.admission, None
        observer, self.observer = self.observer, None
        if observer is not None:
            try:
                observer.close("fault")
            except Exception:
                logger.exception("radixflow: the trace could not be closed")
        if admission is not None and len(admission):
            for request in admission.release(self.clock(), "fault").requests:
                super().add_request(request)  # type: ignore[misc]

    # -- arrivals ----------------------------------------------------------------------------------

    def add_request(self, request: Request) -> None:
        self._withdraw((request.request_id,))
        if request.request_id in self.requests:  # a session's next turn, or vLLM's complaint of a duplicate
            self._tell("queue_changed")
            super().add_request(request)  # type: ignore[misc]
            return
        hold = self.admission is not None and not request.resumable
        self._tell("arrived", request, hold)
        if hold and self.admission is not None:
            self.admission.hold(request, self.clock())
        else:
            super().add_request(request)  # type: ignore[misc]

    def _withdraw(self, request_ids: Iterable[str]) -> None:
        """Those of the given that are held enter vLLM's queue, where vLLM can end them."""
        if self.admission is not None and len(self.admission):
            for request_id in request_ids:
                if request_id in self.admission:
                    self._enter(self.admission.withdraw(request_id, self.clock()))

    def _enter(self, release: Release) -> None:
        for request in release.requests:
            super().add_request(request)  # type: ignore[misc]
        self._tell("released", release)

    def _admit(self) -> None:
        assert self.admission is not None
        worker = WorkerState(
            has_work=bool(self.running or self.waiting or self.skipped_waiting),
            free_rows=self.max_num_running_reqs - len(self.running) - self.num_waiting_for_streaming_input,
            token_budget=self.max_num_scheduled_tokens,
            token_demand=self._token_demand,
        )
        now = self.clock()
        reason = self.admission.due(now, worker)
        if reason is not None:
            self._enter(self.admission.release(now, reason))

    def _token_demand(self, requests: list[Request]) -> int:
        return sum(request.num_tokens - self.check.lookup(request).tokens for request in requests)

    def next_release_ns(self) -> int | None:
        """When held requests enter the queue at the latest; None where nobody is held."""
        return self.admission.deadline_ns if self.admission is not None else None

    # -- a round -----------------------------------------------------------------------------------

    def schedule(self, throttle_prefills: bool = False) -> SchedulerOutput:
        if self.admission is not None and len(self.admission):
            try:
                self._admit()
            except Exception as error:
                self.fault("admission", error)
        if not self._watched:
            return super().schedule(throttle_prefills)  # type: ignore[misc]
        self._begin_round(throttle_prefills)
        output = super().schedule(throttle_prefills)  # type: ignore[misc]
        self._tell("scheduled", output)
        return output

    def _begin_round(self, throttle_prefills: bool) -> None:
        speculative = self.vllm_config.speculative_config
        paused = self._pause_state == PauseState.PAUSED_ALL
        self.budget.reset(
            tokens=0 if paused else self.max_num_scheduled_tokens,
            input=self.scheduler_config.max_num_batched_tokens,
            draft_slots=speculative.max_num_new_slots_for_drafting if speculative is not None else 0,
        )
        self._passing = self._handed_back = None
        self._tell("begin_round", throttle_prefills)

    def _select_waiting_queue_for_scheduling(self) -> RequestQueue | None:
        queue = super()._select_waiting_queue_for_scheduling()  # type: ignore[misc]
        if queue is not None and (self.traversal is not None or self.observer is not None):
            try:
                self._before_visit(queue.peek_request())
            except Exception as error:
                self.fault("policy", error)
        return queue

    def _before_visit(self, request: Request) -> None:
        self._passing = self._handed_back = None
        self._tell("visiting", request)
        traversal = self.traversal
        if traversal is None or not traversal.may_pass_over(request):
            return
        verdict = traversal.decide(request)
        # In this mode vLLM's own look-up announces the reused blocks, so it must happen.
        if not (self.enable_kv_cache_events and getattr(request, "kv_cache_report_mode", None) == "full"):
            self._handed_back = verdict.hit
        if verdict.outcome == "ready":
            return
        self._passing = request
        self._tell("passed_over", request, verdict)

    def _is_blocked_waiting_status(self, status: RequestStatus) -> bool:  # type: ignore[override]
        return self._passing is not None or super()._is_blocked_waiting_status(status)  # type: ignore[misc]

    def _try_promote_blocked_waiting_request(self, request: Request) -> bool:
        if self._passing is request:
            self._passing = None
            return False
        return super()._try_promote_blocked_waiting_request(request)  # type: ignore[misc]

    def _get_local_prefix_cache_hit(self, request: Request) -> tuple[KVCacheBlocks, int, int, bool]:
        hit = self._handed_back
        if hit is not None:
            # The look-up that the decision was made on; nothing is looked up twice.
            self._handed_back = None
            found = (hit.blocks, hit.tokens, hit.junction, False)
        else:
            found = super()._get_local_prefix_cache_hit(request)  # type: ignore[misc]
        self._tell("looked_up", found)
        return found

    # -- what the recorder needs to know -------------------------------------------------------------

    def _preempt_request(self, request: Request, timestamp: float, drop_stale_output: bool = False) -> None:
        super()._preempt_request(request, timestamp, drop_stale_output)  # type: ignore[misc]
        self._tell("preempted", request)

    def update_from_output(self, scheduler_output: SchedulerOutput, model_runner_output: Any) -> Any:
        if self.observer is None:
            return super().update_from_output(scheduler_output, model_runner_output)  # type: ignore[misc]
        begin = self.clock()
        result = super().update_from_output(scheduler_output, model_runner_output)  # type: ignore[misc]
        self._tell("stepped", scheduler_output, begin)
        return result

    def _handle_stopped_request(self, request: Request) -> bool:
        finished = super()._handle_stopped_request(request)  # type: ignore[misc]
        if not finished:
            self._tell("queue_changed")
        return finished

    def _free_request(self, request: Request, delay_free_blocks: bool = False) -> Any:
        self._tell("finished", request)
        return super()._free_request(request, delay_free_blocks)  # type: ignore[misc]

    # -- held requests are unfinished too --------------------------------------------------------------

    def finish_requests(self, request_ids: str | Iterable[str] | None, finished_status: RequestStatus) -> list[Request]:
        if self.admission is not None and len(self.admission):
            if isinstance(request_ids, str):
                request_ids = (request_ids,)
            elif request_ids is not None:
                request_ids = list(request_ids)
            self._withdraw(self.admission.held_ids if request_ids is None else request_ids)
        return super().finish_requests(request_ids, finished_status)  # type: ignore[misc]

    def get_num_unfinished_requests(self) -> int:
        unfinished = super().get_num_unfinished_requests()  # type: ignore[misc]
        if self.admission is not None and self._pause_state == PauseState.UNPAUSED:
            unfinished += len(self.admission)
        return unfinished

    def get_request_counts(self) -> tuple[int, int]:
        running, waiting = super().get_request_counts()  # type: ignore[misc]
        return running, waiting + (len(self.admission) if self.admission is not None else 0)

    def shutdown(self) -> None:
        self._tell("close", "shutdown")
        super().shutdown()  # type: ignore[misc]


class SyncRadixFlowScheduler(_Seams, Scheduler):
    """For engines that schedule a step after the previous one's output is known."""


class AsyncRadixFlowScheduler(_Seams, AsyncScheduler):
    """For engines that schedule a step while the previous one runs."""


class _WatchedKVCacheManager(KVCacheManager):
    """Tells its scheduler what `allocate_slots` was asked and answered."""

    scheduler: _Seams

    def allocate_slots(self, request: Request, num_new_tokens: int, *args: Any, **kwargs: Any) -> Any:
        scheduler = self.scheduler
        if scheduler.observer is not None:
            scheduler.observer.cache.allocating = request
        blocks = super().allocate_slots(request, num_new_tokens, *args, **kwargs)
        running = request.status == RequestStatus.RUNNING
        if blocks is not None:
            budget = scheduler.budget
            budget.take(num_new_tokens)
            if running:
                budget.running = True
                budget.prefilling |= request.is_prefill_chunk
        if not running:
            if blocks is None:
                scheduler._tell("refused", request, num_new_tokens, kwargs)
            else:
                scheduler._tell("selected", request)
        return blocks

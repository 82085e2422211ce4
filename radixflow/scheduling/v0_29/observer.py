"""Translates what vLLM 0.29 does in a round into the trace's records.

vLLM disguises "state pending" as memory shortage and keeps no reason for a refusal, so each reason
is derived here, at the moment of the refusal, from the objects that refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from vllm.v1.core.sched.interface import PauseState
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.request_queue import SchedulingPolicy
from vllm.v1.request import Request, RequestStatus

from radixflow.scheduling.admission import Release
from radixflow.scheduling.recorder import Recorder
from radixflow.scheduling.v0_29.cache_watch import CacheWatch
from radixflow.scheduling.v0_29.check import Hit, Verdict
from radixflow.scheduling.v0_29.probe import probe_free_slots
from radixflow.trace.schema import Admission, Blocked, Other, Round, Stop

if TYPE_CHECKING:
    from radixflow.scheduling.v0_29.seams import _Seams

_DEFERRED = {
    RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR: "grammar",
    RequestStatus.WAITING_FOR_REMOTE_KVS: "remote_kv",
    RequestStatus.WAITING_FOR_STREAMING_REQ: "streaming",
}
_REASONS = {
    RequestStatus.FINISHED_STOPPED: "stop",
    RequestStatus.FINISHED_LENGTH_CAPPED: "length",
    RequestStatus.FINISHED_ABORTED: "abort",
    RequestStatus.FINISHED_IGNORED: "length",
    RequestStatus.FINISHED_ERROR: "error",
    RequestStatus.FINISHED_REPETITION: "repetition",
}
_ARRIVAL_TOLERANCE_NS = 1_000
_ARRIVAL_LIMIT_NS = 3_600_000_000_000
"""Arrival times further back are the client's own idea of time (tests, priorities), not waits."""


class Observer:
    """One traced scheduler's eyes. The seams call it; it never changes what they do."""

    def __init__(self, scheduler: _Seams, recorder: Recorder, probe: int) -> None:
        self._scheduler = scheduler
        self._recorder = recorder
        self._probe_every = probe
        self._arrival_anchor = (recorder.clock.wall_ns, recorder.clock.monotonic_ns)
        self.cache = CacheWatch(scheduler.kv_cache_manager, recorder.index, self.told)
        self._in_flight: deque[int] = deque()
        self._carried: list[int] = []
        """Preempted by calls that were no rounds; the next round reports them."""
        self._begin_lists()

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        """A copied scheduler (a test's oracle, a what-if) is not observed."""
        return None

    def told(self, what: Callable[..., None], *args: Any) -> None:
        """Run one of the methods below; its fault is ours alone and never reaches vLLM."""
        try:
            what(*args)
        except Exception as error:
            self._scheduler.fault("recorder", error)

    def _begin_lists(self) -> None:
        self._visit: Request | None = None
        self._visited = False
        self._found: tuple[Any, int, int, bool] | None = None
        self._admissions: list[Admission] = []
        self._blocked: list[Blocked] = []
        self._other: list[Other] = []
        self._order: list[int] = []
        self._preempted: list[int] = []
        self._stop: Stop | None = None
        self._queue: tuple[list[int], list[int]] | None = None
        self.cache.begin_round()

    # -- requests ------------------------------------------------------------------------------------

    def arrived(self, request: Request, held: bool) -> None:
        wall, monotonic = self._arrival_anchor
        now = self._scheduler.clock()
        ordered_at = round(request.arrival_time * 1e9) - wall + monotonic
        lag = now - ordered_at
        known = _ARRIVAL_TOLERANCE_NS < lag < _ARRIVAL_LIMIT_NS
        by_priority = self._scheduler.policy == SchedulingPolicy.PRIORITY
        odd = by_priority and not known and not 0 <= lag <= _ARRIVAL_TOLERANCE_NS
        lora = request.lora_request.lora_name if request.lora_request is not None else ""
        self._recorder.arrived(
            request.request_id,
            request.prompt_token_ids if not request.mm_features else None,
            prompt=request.num_prompt_tokens,
            namespace=f"{request.cache_salt or ''}\n{lora}",
            max_tokens=request.max_tokens,
            priority=request.priority,
            arrival=ordered_at if known else None,
            ordered_at=ordered_at if odd else None,
            held=held,
            deferred=request.status in _DEFERRED,
            salted=request.cache_salt is not None,
        )

    def released(self, release: Release) -> None:
        ids = [request.request_id for request in release.requests]
        self._recorder.held(release.begin_ns, release.end_ns, release.reason, ids)

    def queue_changed(self) -> None:
        """A session's next turn, or the like: the reader is told the queue itself."""
        self._recorder.queue_changed()

    def finished(self, request: Request) -> None:
        reason = _REASONS.get(request.status, "error")
        self._recorder.finished(request.request_id, reason, request.output_token_ids)

    def preempted(self, request: Request) -> None:
        self._preempted.append(self._recorder.index(request.request_id))

    # -- the scan ------------------------------------------------------------------------------------

    def begin_round(self, throttled: bool) -> None:
        self._began = self._scheduler.clock()
        self._throttled = throttled
        self._begin_lists()
        self._carried = [i for i in self._carried if self._recorder.is_live(i)]
        if self._recorder.queue_wanted:
            scheduler = self._scheduler
            self._queue = self._numbers(scheduler.skipped_waiting), self._numbers(scheduler.waiting)

    def _numbers(self, queue: Iterable[Request]) -> list[int]:
        """A queue by numbers, without those that the round's `preempted` is about to put there."""
        numbers = [self._recorder.index(request.request_id) for request in queue]
        return [i for i in numbers if i not in self._carried]

    def visiting(self, request: Request) -> None:
        if self._visit is not None and not self._visited:
            self._passed_natively(self._visit)
        self._visit, self._visited, self._found = request, False, None

    def looked_up(self, found: tuple[Any, int, int, bool]) -> None:
        self._found = found

    def passed_over(self, request: Request, verdict: Verdict) -> None:
        """Our policy parks it (Blocked) or puts it aside (fragmentation)."""
        self._visited = True
        i = self._recorder.index(request.request_id)
        self._order.append(i)
        if verdict.outcome == "blocked":
            self._blocked.append(self._blocked_record(i, verdict, parked=True))
        else:
            self._other.append(self._other_record(i, verdict))

    def selected(self, request: Request) -> None:
        self._visited = True
        tokens = junction = 0
        if self._found is not None:
            _, tokens, junction, _ = self._found
        i = self._recorder.index(request.request_id)
        self._admissions.append(Admission(i, tokens, max(tokens, junction)))

    def refused(self, request: Request, tokens: int, kwargs: dict[str, Any]) -> None:
        """`allocate_slots` answered None. Which of its gates, and what did it see?"""
        self._visited = True
        check = self._scheduler.check
        found = self._found or (self._scheduler.kv_cache_manager.empty_kv_cache_blocks, 0, 0, False)
        hit = Hit(kwargs.get("new_computed_blocks") or found[0], kwargs.get("num_new_computed_tokens", 0), found[2])
        verdict = check.judge_chunk(
            request,
            hit,
            tokens,
            free_blocks=self._scheduler.kv_cache_manager.block_pool.get_num_free_blocks(),
            in_flight=check.groups_in_flight(hit),
            has_scheduled=bool(kwargs.get("has_scheduled_reqs", True)),
            reserved=kwargs.get("reserved_blocks", 0),
        )
        i = self._recorder.index(request.request_id)
        if verdict.outcome == "blocked":
            self._blocked.append(self._blocked_record(i, verdict, parked=False))
        else:
            self._other.append(self._other_record(i, verdict))
        self._stop = Stop(verdict.cause or "capacity", i)

    def _blocked_record(self, i: int, verdict: Verdict, parked: bool) -> Blocked:
        return Blocked(i, self._producer(verdict), verdict.hit.tokens, verdict.groups, parked)

    def _producer(self, verdict: Verdict) -> int:
        blocks = verdict.hit.blocks.blocks
        return next((self.cache.producer(blocks[group][-1].block_hash) for group in verdict.groups), -1)

    def _other_record(self, i: int, verdict: Verdict) -> Other:
        blocked_too = "blocked" in verdict.also
        return Other(
            i,
            verdict.cause or "capacity",
            gate=verdict.gate,
            ready=verdict.hit.tokens or None,
            matched=verdict.hit.matched or None,
            also=verdict.also,
            producer=self._producer(verdict) if blocked_too else None,
            boundary=verdict.hit.tokens if blocked_too else None,
            **verdict.facts,
        )

    def _passed_natively(self, request: Request) -> None:
        """vLLM's own skip-and-go-on exits of the waiting loop."""
        i = self._recorder.index(request.request_id)
        self._order.append(i)
        self._other.append(Other(i, "deferred", status=self._why_deferred(request) or "connector"))

    def _why_deferred(self, request: Request) -> str | None:
        if request.status in _DEFERRED:
            return _DEFERRED[request.status]
        if request.num_stale_output_tokens > 0 and not request.drop_stale_output:
            return "stale_output"
        scheduler = self._scheduler
        if self._found is None and scheduler.lora_config is not None and request.lora_request is not None:
            return "lora"
        if self._found is not None and scheduler.ec_connector is not None and request.mm_features:
            return "encoder"
        if self._found is not None and scheduler.connector is not None:
            return "connector"
        return None

    # -- the round's end -----------------------------------------------------------------------------

    def scheduled(self, output: SchedulerOutput) -> None:
        scheduler, recorder = self._scheduler, self._recorder
        now = scheduler.clock()
        scheduled = output.num_scheduled_tokens
        if self._visit is not None and not self._visited:
            self._close_scan(self._visit)
        if not scheduled and (self._in_flight or not self._unfinished()):
            self._carried += self._preempted
            if self._order:
                recorder.queue_changed()  # the scan moved requests though it was no round
            return
        recorder.round += 1
        self._settle_budget(scheduled)
        record = self._make_round(recorder.round, scheduled, now)
        self._carried = []
        if scheduled:
            self._in_flight.append(record.n)
            recorder.rounded(record, self.cache.take(record.n))
        else:
            recorder.stalled(record)
            if (cache := self.cache.take(record.n)) is not None:
                recorder.cached(cache)

    def _settle_budget(self, scheduled: dict[str, int]) -> None:
        """What the final batch left: vLLM gives back what a request preempted in its own round had taken."""
        scheduler, budget = self._scheduler, self._scheduler.budget
        if self._preempted and scheduler._pause_state != PauseState.PAUSED_ALL:
            tokens = sum(scheduled.values())
            budget.tokens = scheduler.max_num_scheduled_tokens - tokens
            budget.input = scheduler.scheduler_config.max_num_batched_tokens - tokens
            budget.input -= len(scheduled) * budget.draft_slots

    def _unfinished(self) -> bool:
        scheduler = self._scheduler
        waiting = len(scheduler.waiting) + len(scheduler.skipped_waiting)
        return bool(scheduler.running) or waiting > scheduler.num_waiting_for_streaming_input

    def _close_scan(self, request: Request) -> None:
        """The scan ended at `request` without asking for blocks, or vLLM passed over it last."""
        if self._why_deferred(request) is not None:
            self._passed_natively(request)
            return
        i = self._recorder.index(request.request_id)
        hit = Hit(*self._found[:3]) if self._found is not None else self._scheduler.check.lookup(request)
        if self._throttled:
            self._other.append(Other(i, "throttled", ready=hit.tokens, matched=hit.matched))
            self._stop = Stop("throttled", i)
            return
        check, budget = self._scheduler.check, self._scheduler.budget
        _, cause = check.chunk(request, hit, budget)
        verdict = check.cut_short(hit, cause or "encoder", budget, check.groups_in_flight(hit))
        self._other.append(self._other_record(i, verdict))
        self._stop = Stop(verdict.cause or "encoder", i)

    def _make_round(self, n: int, scheduled: dict[str, int], now: int) -> Round:
        scheduler, index = self._scheduler, self._recorder.index
        selected: list[int] = []
        for request_id, tokens in scheduled.items():
            selected.append(index(request_id))
            selected.append(tokens)
        admissions = self._admissions
        if scheduler.connector is not None:  # asynchronous loads got blocks but run nothing yet
            admissions = [entry for entry in admissions if entry.i in set(selected[::2])]
        resident = []
        if len(scheduler.running) > len(scheduled):
            resident = [index(r.request_id) for r in scheduler.running if r.request_id not in scheduled]
        waiting = len(scheduler.waiting) + len(scheduler.skipped_waiting)
        closed, stop = None, self._stop
        if waiting > len(self._order) and stop is None:
            if self._preempted:
                closed = "preemption"
            elif scheduler._pause_state != PauseState.UNPAUSED:
                closed = "paused"
            elif self._visit is None:
                closed = "budget" if scheduler.budget.spent else "rows"
            else:
                stop = Stop("tokens" if scheduler.budget.spent else "rows")
        probe = None
        if self._probe_every and n % self._probe_every == 0:
            probe = probe_free_slots(scheduler, self._recorder.index)
        return Round(
            n=n,
            t=self._began,
            d=now - self._began,
            selected=selected,
            admissions=admissions,
            blocked=self._blocked,
            other=self._other,
            order=self._order,
            stop=stop,
            closed=closed,
            resident=resident,
            preempted=self._carried + self._preempted,
            free=scheduler.kv_cache_manager.block_pool.get_num_free_blocks(),
            probe=probe,
            queue=self._queue,
        )

    def stepped(self, output: SchedulerOutput, begin: int) -> None:
        if output.num_scheduled_tokens and self._in_flight:
            self._recorder.stepped(self._in_flight.popleft(), begin, self._scheduler.clock() - begin)

    def close(self, reason: str) -> None:
        """Write what is pending, end the trace, and look away."""
        self.cache.close()
        if (cache := self.cache.take(self._recorder.round)) is not None:
            self._recorder.cached(cache)
        self._recorder.close(reason)

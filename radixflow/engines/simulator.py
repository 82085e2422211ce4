"""The simulated engine: vLLM's own scheduler driven by a modelled worker in virtual time.

Everything that decides is vLLM's code; only the model's forward pass is replaced, by a cost in
seconds and one made-up token a request. docs/simulator.md lists every assumption.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from vllm.sampling_params import SamplingParams
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus

from radixflow.engines.arrivals import SECOND, Arrivals
from radixflow.engines.block_hashes import BlockHasher
from radixflow.engines.cost import RoundCost, RoundWork
from radixflow.engines.livelock import Livelock
from radixflow.workloads import Workload, WorkloadRequest


@dataclass(slots=True)
class VirtualClock:
    """Nanoseconds since the run began; calling it reads it."""

    now: int = 0

    def __call__(self) -> int:
        return self.now


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a simulated run ended."""

    end: str
    """`finished`, `stalled` or `interrupted`."""
    outputs: dict[str, list[int]]
    """Made-up output tokens of the finished requests, by id."""


class Simulator:
    """One run of a workload."""

    def __init__(
        self,
        workload: Workload,
        scheduler: Any,
        clock: VirtualClock,
        cost: RoundCost,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._workload = workload
        self._scheduler = scheduler
        self._clock = clock
        self._cost = cost
        self._progress = progress
        self._hasher = BlockHasher(workload, scheduler.hash_block_size)
        self._arrivals = Arrivals(workload)
        self._livelock = Livelock(scheduler)
        self._outputs: dict[str, list[int]] = {}
        self._live: dict[str, Request] = {}
        self._params: dict[int, SamplingParams] = {}
        self._rounds = 0
        """Rounds whose output is known, stalled ones included."""
        self._in_flight: deque[tuple[SchedulerOutput, set[str], int]] = deque()
        self._depth = 2 if scheduler.scheduler_config.async_scheduling else 1
        self._worker_free = 0
        self._circling = False

    def run(self) -> Outcome:
        """Until every request has finished, the run stalls, or the user interrupts it."""
        turns = self.turns()
        try:
            while True:
                next(turns)
        except StopIteration as stopped:
            end = stopped.value
        except KeyboardInterrupt:
            end = "interrupted"
        return Outcome(end, self._outputs)

    def turns(self) -> Generator[None, None, str]:
        """The run, one call of the scheduler or one answer of the worker after another; returns how it ended."""
        scheduler, clock = self._scheduler, self._clock
        while True:
            yield
            self._deliver()
            if scheduler.has_requests() and len(self._in_flight) < self._depth and not self._circling:
                output = scheduler.schedule()
                self._circling = bool(output.preempted_req_ids) and self._in_circles()
                if output.total_num_scheduled_tokens:
                    self._launch(output)
                    if len(self._in_flight) < self._depth:
                        continue
                elif not self._in_flight:
                    scheduler.update_from_output(output, _EMPTY)
                    if (end := self._wait(output)) is not None:
                        return end
                    continue
            if self._in_flight:
                output, sampling, done = self._in_flight.popleft()
                clock.now = max(clock.now, done)
                self._complete(output, sampling)
            elif self._circling:
                return "stalled"
            elif not scheduler.has_unfinished_requests():
                soonest = self._arrivals.next_time()
                if soonest is None and not self._arrivals.skip_to_next_round(self._rounds):
                    return "finished"
                clock.now = max(clock.now, soonest or 0)

    def _wait(self, output: SchedulerOutput) -> str | None:
        """Nothing was scheduled and nothing runs: time passes, a stalled round counts, or the run is over."""
        scheduler = self._scheduler
        stalled = bool(scheduler.running or scheduler.waiting or scheduler.skipped_waiting)
        if stalled:
            left = self._count_round()
            if left or output.preempted_req_ids or self._arrivals.due(self._clock.now, self._rounds):
                return None  # blocks came free, or somebody came: the next round is another one
        events = [t for t in (scheduler.next_release_ns(), self._arrivals.next_time()) if t is not None]
        if events:
            self._clock.now = max(self._clock.now, min(events))
            return None
        if not stalled:
            return None
        return None if self._arrivals.waits_for_rounds() else "stalled"

    def _in_circles(self) -> bool:
        """Whether all is as it was at an earlier preemption, and nothing from outside will change that."""
        steps = (tuple(step.num_scheduled_tokens.items()) for step, _, _ in self._in_flight)
        return not self._arrivals.to_come() and self._livelock.caught(steps)

    # -- requests ------------------------------------------------------------------------------------

    def _deliver(self) -> None:
        for spec in self._arrivals.take(self._clock.now, self._rounds):
            self.add(spec)

    def add(self, spec: WorkloadRequest) -> None:
        """The request arrives now."""
        request = self._make_request(spec)
        self._live[spec.id] = request
        self._scheduler.add_request(request)

    def _make_request(self, spec: WorkloadRequest) -> Request:
        params = self._params.get(spec.output_tokens)
        if params is None:
            params = SamplingParams(max_tokens=spec.output_tokens, temperature=0.0, ignore_eos=True)
            self._params[spec.output_tokens] = params
        arrival = spec.arrival if spec.arrival is not None else self._clock.now / SECOND
        return Request(
            request_id=spec.id,
            prompt_token_ids=self._hasher.prompt(spec),
            sampling_params=params,
            pooling_params=None,
            arrival_time=arrival,
            priority=spec.priority,
            cache_salt=spec.salt,
            block_hasher=self._hasher,
        )

    # -- the worker ----------------------------------------------------------------------------------

    def _launch(self, output: SchedulerOutput) -> None:
        work = RoundWork(rows=len(output.num_scheduled_tokens), tokens=output.total_num_scheduled_tokens)
        start = max(self._clock.now, self._worker_free)
        self._worker_free = start + round(self._cost(work) * SECOND)
        # A later schedule() may move these on before this step's output is known.
        sampling = {request_id for request_id in output.num_scheduled_tokens if self._completes(request_id)}
        self._in_flight.append((output, sampling, self._worker_free))

    def _completes(self, request_id: str) -> bool:
        return not self._live[request_id].is_prefill_chunk

    def _complete(self, output: SchedulerOutput, sampling: set[str]) -> None:
        """The worker's answer: one token for each request whose context is complete."""
        scheduler = self._scheduler
        ids = list(output.num_scheduled_tokens)
        sampled = [self._sample(request_id) if request_id in sampling else [] for request_id in ids]
        answer = ModelRunnerOutput(ids, {request_id: k for k, request_id in enumerate(ids)}, sampled)
        finished = []
        for core_outputs in scheduler.update_from_output(output, answer).values():
            for made in core_outputs.outputs:
                self._outputs.setdefault(made.request_id, []).extend(made.new_token_ids)
                if made.new_token_ids:
                    self._livelock.progressed()
                if made.finish_reason is not None:
                    finished.append(made.request_id)
        if scheduler.num_spec_tokens and not scheduler.scheduler_config.async_scheduling:
            self._draft(ids)
        self._ended(finished)
        self._count_round()

    def _count_round(self) -> bool:
        """One more round is known; whether clients gave requests up after it."""
        self._rounds += 1
        doomed = [request_id for request_id in self._arrivals.aborts(self._rounds) if request_id in self._live]
        if doomed:
            self._scheduler.finish_requests(doomed, RequestStatus.FINISHED_ABORTED)
            self._ended(doomed)
        return bool(doomed)

    def _ended(self, request_ids: list[str]) -> None:
        for request_id in request_ids:
            del self._live[request_id]
            self._arrivals.finished(request_id)
        if request_ids and self._progress is not None:
            total = len(self._workload.requests)
            self._progress(total - len(self._live) - len(self._arrivals), total)

    def _sample(self, request_id: str) -> list[int]:
        request = self._live.get(request_id)
        if request is None:  # aborted while the step ran
            return []
        return [
            _FIRST_OUTPUT_ID + (zlib.crc32(request_id.encode()) + request.num_output_tokens) % _OUTPUT_IDS
        ]

    def _draft(self, request_ids: list[str]) -> None:
        """Drafts are proposed to everybody who decodes, and none is accepted."""
        proposals = [[0] * self._scheduler.num_spec_tokens for _ in request_ids]
        self._scheduler.update_draft_token_ids(DraftTokenIds(request_ids, proposals))


_EMPTY = ModelRunnerOutput([], {})
_FIRST_OUTPUT_ID = 1 << 20
"""Above every vocabulary, so that made-up output never matches a prompt."""
_OUTPUT_IDS = 1 << 20

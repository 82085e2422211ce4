"""One workload's requests, sent to a running vLLM engine in this process, and its steps."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from vllm import SamplingParams

from radixflow.engines.arrivals import SECOND, Arrivals
from radixflow.engines.livelock import Livelock
from radixflow.workloads import Workload, WorkloadRequest


class Session:
    """The client's side of a run."""

    def __init__(
        self,
        workload: Workload,
        engine: Any,
        *,
        margins: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._workload = workload
        self._engine = engine
        self._progress = progress
        self._scheduler = engine.engine_core.engine_core.scheduler
        self._vocab_size = engine.model_config.get_vocab_size()
        self._arrivals = Arrivals(workload)
        self._live: set[str] = set()
        self._logprobs = 2 if margins else None
        self.outputs: dict[str, list[int]] = {}
        self.margins: dict[str, list[float]] = {}
        self.rounds = 0
        self._in_flight: deque[tuple[tuple[str, int], ...]] = deque()
        """Tokens by request of the steps whose output isn't known yet."""
        self._scheduled = 0
        """Tokens of the latest `schedule()`."""
        self._preempted = False
        """Whether it preempted somebody: blocks came free, and the next round is another one."""
        self._livelock = Livelock(self._scheduler)
        self._watch()
        self._wall = time.time()
        self._start = time.monotonic_ns()

    def _watch(self) -> None:
        """Count the scheduler's rounds: `after_round` speaks of them, and the engine doesn't tell."""
        schedule, update = self._scheduler.schedule, self._scheduler.update_from_output

        def counted_schedule(*args: Any, **kwargs: Any) -> Any:
            output = schedule(*args, **kwargs)
            self._scheduled = output.total_num_scheduled_tokens
            self._preempted = bool(output.preempted_req_ids)
            if self._scheduled:
                self._in_flight.append(tuple(output.num_scheduled_tokens.items()))
            return output

        def counted_update(output: Any, *args: Any, **kwargs: Any) -> Any:
            result = update(output, *args, **kwargs)
            if output.total_num_scheduled_tokens:
                self._in_flight.popleft()
                self.rounds += 1
            return result

        self._scheduler.schedule = counted_schedule
        self._scheduler.update_from_output = counted_update

    def run(self) -> str:
        """Until every request has finished, the run stalls, or the user interrupts it."""
        try:
            return self._loop()
        except KeyboardInterrupt:
            return "interrupted"
        finally:
            del self._scheduler.schedule, self._scheduler.update_from_output

    def _loop(self) -> str:
        while True:
            self._deliver()
            if not (self._in_flight or self._scheduler.has_requests()):
                soonest = self._arrivals.next_time()
                if soonest is not None:
                    self._sleep_until(soonest)
                elif not self._arrivals.skip_to_next_round(self.rounds):
                    return "finished"
                continue
            rounds = self.rounds
            self._scheduled, self._preempted = 0, False
            self._collect(self._engine.step())
            if self._scheduled == 0 and not self._in_flight and self.rounds == rounds:
                if (end := self._wait()) is not None:
                    return end
            for done in range(rounds, self.rounds):
                self._abort(self._arrivals.aborts(done + 1))
            if self._preempted and self._in_circles():
                return "stalled"

    def _wait(self) -> str | None:
        """Nothing was scheduled and nothing runs: a stalled round counts, time passes, or the run is over."""
        scheduler = self._scheduler
        stalled = bool(scheduler.running or scheduler.waiting or scheduler.skipped_waiting)
        if stalled:
            self.rounds += 1
            left = self._abort(self._arrivals.aborts(self.rounds))
            if left or self._preempted or self._arrivals.due(self._now(), self.rounds):
                return None
        if scheduler.next_release_ns() is not None:
            return None  # vLLM polls while all are held; so do we
        soonest = self._arrivals.next_time()
        if soonest is not None:
            self._sleep_until(soonest)
            return None
        return "stalled" if stalled and not self._arrivals.waits_for_rounds() else None

    def _in_circles(self) -> bool:
        """Whether all is as it was at an earlier preemption, and nothing from outside will change that."""
        return not self._arrivals.to_come() and self._livelock.caught(self._in_flight)

    def _now(self) -> int:
        """Nanoseconds since the run began."""
        return time.monotonic_ns() - self._start

    def _sleep_until(self, when: int) -> None:
        time.sleep(max(0, when - self._now()) / SECOND)

    # -- requests ------------------------------------------------------------------------------------

    def _deliver(self) -> None:
        for request in self._arrivals.take(self._now(), self.rounds):
            self._send(request)

    def _send(self, request: WorkloadRequest) -> None:
        prompt: dict[str, Any] = {"prompt_token_ids": self._workload.token_ids(request, self._vocab_size)}
        if request.salt is not None:
            prompt["cache_salt"] = request.salt
        self.outputs[request.id] = []
        self._live.add(request.id)
        self._engine.add_request(
            request.id,
            prompt,
            SamplingParams(
                temperature=0.0,
                max_tokens=request.output_tokens,
                ignore_eos=True,
                detokenize=False,
                logprobs=self._logprobs,
            ),
            arrival_time=None if request.arrival is None else self._wall + request.arrival,
            priority=request.priority,
        )

    def _collect(self, answers: list[Any]) -> None:
        ended = []
        for answer in answers:
            made = answer.outputs[0]
            if len(made.token_ids) > len(self.outputs[answer.request_id]):
                self._livelock.progressed()
            self.outputs[answer.request_id] = list(made.token_ids)
            if made.logprobs:
                self.margins[answer.request_id] = [_margin(choices) for choices in made.logprobs]
            if answer.finished:
                ended.append(answer.request_id)
        self._ended(ended)

    def _abort(self, doomed: list[str]) -> bool:
        """Whether anybody of them was there."""
        alive = [request_id for request_id in doomed if request_id in self._live]
        self._engine.abort_request(alive)
        self._ended(alive)
        return bool(alive)

    def _ended(self, request_ids: list[str]) -> None:
        for request_id in request_ids:
            self._live.discard(request_id)
            self._arrivals.finished(request_id)
        if request_ids and self._progress is not None:
            total = len(self._workload.requests)
            self._progress(total - len(self._live) - len(self._arrivals), total)


def _margin(choices: dict[int, Any]) -> float:
    """How far the best log-probability of a position is above the second best."""
    best, second = sorted((choice.logprob for choice in choices.values()), reverse=True)[:2]
    return best - second

"""A simulated run without a trace: what the paper's tables need of it, counted while it runs.

A trace says why; two hundred runs of six thousand requests only have to say how many and how long. The
scheduler is the same one, unwatched, so a tally costs next to nothing.
"""

from __future__ import annotations

import hashlib
import logging
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from vllm.v1.core.sched.output import SchedulerOutput

from radixflow.engines.cost import RoundCost
from radixflow.engines.groups import CacheGroup
from radixflow.engines.simulated_run import longest_sequence
from radixflow.engines.simulator import Simulator, VirtualClock
from radixflow.engines.stand_in import build_scheduler
from radixflow.scheduling.policies import Policy
from radixflow.scheduling.settings import Settings
from radixflow.workloads import EngineOptions, Workload


@dataclass(slots=True)
class Tally:
    """Counts and times of one run. Times are virtual nanoseconds since it began."""

    end: str = ""
    """`finished`, `stalled` or `interrupted`."""
    rounds: int = 0
    """Calls of `schedule()` that scheduled a token."""
    row_visits: int = 0
    scheduled_tokens: int = 0
    prompt_tokens: int = 0
    """Of the requests that were admitted."""
    reused_tokens: int = 0
    """Of those, served from the cache at first admission."""
    preemptions: int = 0
    host_ns: int = 0
    """Sum over rounds of `schedule()`'s return to `update_from_output()`'s entry (synchronous scheduling)."""
    arrived: dict[str, int] = field(default_factory=dict)
    selected: dict[str, int] = field(default_factory=dict)
    """When the `schedule()` that first selected a request was called."""
    finished: dict[str, int] = field(default_factory=dict)
    round_tokens: array[int] = field(default_factory=lambda: array("q"))
    round_rows: array[int] = field(default_factory=lambda: array("q"))
    digest: str = ""
    """Of every round's requests and tokens in order: equal digests, equal runs round for round."""


class TallyingSimulator(Simulator):
    """Counts where the worker starts a round and where requests arrive and end."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tally = Tally()
        self._hash = hashlib.blake2b(digest_size=16)

    def _make_request(self, spec: Any) -> Any:
        now = self._clock.now
        # A request that came while a step ran has waited since it came, not since the scheduler took it.
        timed = spec.arrival is not None
        self.tally.arrived[spec.id] = min(now, round(spec.arrival * 1e9)) if timed else now
        return super()._make_request(spec)

    def _launch(self, output: SchedulerOutput) -> None:
        tally, now, scheduled = self.tally, self._clock.now, output.num_scheduled_tokens
        started = max(now, self._worker_free)
        super()._launch(output)
        tally.rounds += 1
        tally.row_visits += len(scheduled)
        tally.scheduled_tokens += output.total_num_scheduled_tokens
        tally.round_rows.append(len(scheduled))
        tally.round_tokens.append(output.total_num_scheduled_tokens)
        tally.host_ns += self._worker_free - started
        tally.preemptions += len(output.preempted_req_ids or ())
        self._hash.update(repr(list(scheduled.items())).encode())
        for new in output.scheduled_new_reqs:
            tally.selected[new.req_id] = now
            tally.reused_tokens += new.num_computed_tokens
            tally.prompt_tokens += len(new.prompt_token_ids or ())

    def _ended(self, request_ids: list[str]) -> None:
        self.tally.finished.update(dict.fromkeys(request_ids, self._clock.now))
        super()._ended(request_ids)

    def counted(self) -> Tally:
        self.tally.end = self.run().end
        self.tally.digest = self._hash.hexdigest()
        return self.tally


def tally_run(
    workload: Workload,
    options: EngineOptions,
    groups: list[CacheGroup],
    policy: Policy,
    cost: RoundCost,
    *,
    max_model_len: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Tally:
    """Run `workload` under `policy` in virtual time. `options` are resolved (`EngineOptions.resolved`)."""
    logging.getLogger("vllm").setLevel(logging.ERROR)  # it says its configuration for every scheduler built
    clock = VirtualClock()
    scheduler = build_scheduler(
        options,
        groups,
        Settings(policy),
        max_model_len=max_model_len or longest_sequence(workload),
        clock=clock,
        open_recorder=_none,
    )
    return TallyingSimulator(workload, scheduler, clock, cost, progress).counted()


def _none(*_: Any) -> Any:
    raise AssertionError("settings without a trace open no recorder")

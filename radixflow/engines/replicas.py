"""Several simulated engines over one stream of requests, in one virtual time.

    arrivals   --t1--t2------t3--->  choose(request, replicas) -> one of them
    replica 0  [round][round]  [round]
    replica 1    [ round ][round]

Each replica is an engine of its own with its own clock. Before a request is handed out at time t, every replica is
moved on to t, so whoever chooses sees all of them as they are then.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from vllm.distributed.kv_events import AllBlocksCleared, BlockStored, EventPublisher
from vllm.v1.core.kv_cache_utils import maybe_convert_block_hash

from radixflow.engines.arrivals import SECOND, Arrivals
from radixflow.engines.cost import RoundCost
from radixflow.engines.groups import CacheGroup
from radixflow.engines.simulated_run import longest_sequence
from radixflow.engines.simulator import VirtualClock
from radixflow.engines.stand_in import build_scheduler
from radixflow.engines.tally import Tally, TallyingSimulator
from radixflow.scheduling.policies import Policy
from radixflow.scheduling.settings import Settings
from radixflow.workloads import EngineOptions, Workload, WorkloadRequest


@dataclass(frozen=True, slots=True)
class CacheChange:
    """One of vLLM's cache events."""

    what: str
    """`stored`, `removed` or `cleared`."""
    names: Sequence[Any] = ()
    """Blocks, as events name them (`event_name`)."""
    group: int = 0


def event_name(block_hash: bytes) -> Any:
    """What vLLM's events call the block with this hash."""
    return maybe_convert_block_hash(block_hash)  # type: ignore[arg-type]


class _Published(EventPublisher):
    """Keeps what the scheduler publishes after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Any] = []

    def publish(self, events: Any) -> None:
        self.events += events.events

    def shutdown(self) -> None:
        """There is nothing to close."""


class _Elsewhere(Arrivals):
    """Nobody is still to come of its own accord, but somebody may be sent at `next`."""

    def __init__(self, workload: Workload) -> None:
        super().__init__(msgspec.structs.replace(workload, requests=[]))
        self.next: int | None = None

    def next_time(self) -> int | None:
        return self.next

    def to_come(self) -> bool:
        return self.next is not None


class Replica(TallyingSimulator):
    """One engine of several. Its requests are handed to it."""

    def __init__(self, number: int, workload: Workload, scheduler: Any, clock: VirtualClock, cost: RoundCost) -> None:
        super().__init__(workload, scheduler, clock, cost)
        self._arrivals: _Elsewhere = _Elsewhere(workload)
        self._published = scheduler.kv_event_publisher = _Published()
        self.number = number
        self.ended: list[str] = []
        """Requests that have ended since somebody last looked."""
        self.stalled = False
        self._turns: Generator[None, None, str] | None = None

    @property
    def now(self) -> int:
        """Its clock, in nanoseconds."""
        return self._clock.now

    @property
    def busy(self) -> bool:
        return bool(self._live) and not self.stalled

    @property
    def running(self) -> int:
        """Requests that it is running."""
        return len(self._scheduler.running)

    @property
    def waiting_tokens(self) -> int:
        """Prompt tokens that it has accepted and not computed yet."""
        return sum(max(0, r.num_prompt_tokens - r.num_computed_tokens) for r in self._live.values())

    def changes(self) -> Iterator[CacheChange]:
        """What its prefix cache has gained and lost since the last call."""
        events, self._published.events = self._published.events, []
        for event in events:
            if isinstance(event, AllBlocksCleared):
                yield CacheChange("cleared")
            else:
                what = "stored" if isinstance(event, BlockStored) else "removed"
                yield CacheChange(what, event.block_hashes, event.group_idx or 0)

    def take(self, spec: WorkloadRequest, time: int) -> None:
        """The request is handed over at `time`; where a step runs, the scheduler sees it after that."""
        self._clock.now = max(self._clock.now, time)
        self.stalled = False
        self.add(spec)

    def turn(self, until: int | None) -> None:
        """One call of the scheduler, or one answer of the worker; waiting for nothing it goes no further than `until`,
        when somebody may be sent."""
        self._arrivals.next = until
        if self._turns is None:
            self._turns = self.turns()
            next(self._turns)
        try:
            next(self._turns)
        except StopIteration as ended:
            self._turns = None
            self.stalled = ended.value == "stalled"

    def counted(self) -> Tally:
        """The tally, once nobody is sent any more."""
        self._arrivals.next = None
        return super().counted()

    def _ended(self, request_ids: list[str]) -> None:
        super()._ended(request_ids)
        self.ended += request_ids


Choose = Callable[[WorkloadRequest, Sequence[Replica]], int]
"""Which replica takes a request that arrives now."""
Watch = Callable[[Replica], None]
"""Called after each turn of a replica, before anybody else moves."""


def run_replicas(
    workload: Workload,
    count: int,
    options: EngineOptions,
    groups: list[CacheGroup],
    policy: Policy,
    cost: RoundCost,
    choose: Choose,
    watch: Watch = lambda replica: None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Tally]:
    """Run the workload over `count` replicas; one tally each. `options` are resolved.

    Requests come by clock, or after another one has ended (on whichever replica). ValueError for one that comes
    after a round: several engines have no common count of rounds.
    """
    by_round = next((request for request in workload.requests if request.after_round is not None), None)
    if by_round is not None:
        raise ValueError(f"request {by_round.id!r} comes after a round: several engines have no common count of them")
    logging.getLogger("vllm").setLevel(logging.ERROR)
    replicas = [_replica(k, workload, options, groups, policy, cost) for k in range(count)]
    after: dict[str, list[WorkloadRequest]] = {}
    due: list[tuple[int, int, WorkloadRequest]] = []
    for k, request in enumerate(workload.requests):
        if request.after is not None:
            after.setdefault(request.after, []).append(request)
        else:
            heapq.heappush(due, (round((request.arrival or 0.0) * SECOND), k, request))
    order, done = len(workload.requests), 0
    while True:
        behind = min((r for r in replicas if r.busy), key=lambda r: r.now, default=None)
        if behind is not None and (not due or behind.now < due[0][0]):
            behind.turn(due[0][0] if due else None)
            watch(behind)
            for request_id in behind.ended:
                for request in after.pop(request_id, ()):
                    order += 1
                    heapq.heappush(due, (behind.now, order, request))
            if behind.ended and progress is not None:
                done += len(behind.ended)
                progress(done, len(workload.requests))
            behind.ended.clear()
        elif due:
            time, _, request = heapq.heappop(due)
            replicas[choose(request, replicas)].take(request, time)
        else:
            return [replica.counted() for replica in replicas]


def _replica(
    number: int,
    workload: Workload,
    options: EngineOptions,
    groups: list[CacheGroup],
    policy: Policy,
    cost: RoundCost,
) -> Replica:
    clock = VirtualClock()
    scheduler = build_scheduler(
        msgspec.structs.replace(options, kv_cache_events=True),
        groups,
        Settings(policy),
        max_model_len=longest_sequence(workload),
        clock=clock,
        open_recorder=_none,
    )
    return Replica(number, workload, scheduler, clock, cost)


def _none(*_: Any) -> Any:
    raise AssertionError("settings without a trace open no recorder")

"""Random small workloads for the scheduler's property tests, and a run that lets a test look in."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import currently_in_test_context, note
from hypothesis import strategies as st

from radixflow.engines.groups import CacheGroup, plain_groups
from radixflow.engines.run import PLAIN_COST
from radixflow.engines.simulator import Outcome, Simulator, VirtualClock
from radixflow.engines.stand_in import build_scheduler
from radixflow.scheduling.policies import get_policy
from radixflow.scheduling.settings import Settings
from radixflow.workloads import EngineOptions, Workload, WorkloadRequest

sys.setrecursionlimit(50_000)  # deep copies walk vLLM's linked list of free blocks


@st.composite
def workloads(
    draw: st.DrawFn,
    state_groups: st.SearchStrategy[int] | None = None,
    clock: bool = False,
) -> Workload:
    """Prompts that share prefixes, pools that may be too small, budgets that cut."""
    block = draw(st.sampled_from([16, 32, 64]))
    groups = draw(st.integers(0, 3) if state_groups is None else state_groups)
    prompts = draw(st.lists(_prompt(block), min_size=2, max_size=9))
    retention = draw(st.sampled_from([0, None, 2 * block])) if groups else 0
    engine = EngineOptions(
        block_size=block,
        hash_block_size=block // draw(st.sampled_from([1, 1, 2])) if groups else block,
        num_blocks=draw(st.integers(8, 70)),
        state_groups=groups,
        max_num_seqs=draw(st.integers(1, 6)),
        max_num_batched_tokens=draw(st.integers(block // 2 + 8, 8 * block)),
        retention_interval=retention,
        scheduling_policy=draw(st.sampled_from(["fcfs", "priority"])),
        spec_tokens=draw(st.sampled_from([0, 0, 0, 2])),
        async_scheduling=draw(st.booleans()),
    )
    requests = []
    for k, prompt in enumerate(prompts):
        arrival = (
            {"arrival": draw(st.integers(0, 40)) / 1000}
            if clock
            else {"after_round": draw(st.sampled_from([0, 0, 0, 1, 2, 3]))}
        )
        requests.append(
            WorkloadRequest(
                id=f"q{k}",
                prompt=prompt,
                output_tokens=draw(st.integers(1, 20)),
                priority=draw(st.integers(0, 2)),
                abort_after_round=draw(st.sampled_from([None, None, None, None, 1, 3, 6])),
                **arrival,
            )
        )
    return Workload(name="random", engine=engine, requests=requests)


@st.composite
def _prompt(draw: st.DrawFn, block: int) -> list[tuple[str, int]]:
    shared = draw(st.lists(st.tuples(st.sampled_from("ABC"), st.integers(1, 3 * block)), max_size=2))
    own = draw(st.tuples(st.sampled_from("uvwxyz"), st.integers(1, 2 * block)))
    aligned = draw(st.booleans())
    prompt = [(label, block * max(1, n // block) if aligned else n) for label, n in shared]
    return [*prompt, own]


@dataclass
class Watched:
    """A simulated run whose every `schedule()` a test may look at."""

    scheduler: Any
    batches: list[dict[str, int]]
    outcome: Outcome


def watch(
    workload: Workload,
    policy: str,
    *,
    trace: str | None = None,
    probe: int = 1,
    eviction: str = "lru",
    groups: list[CacheGroup] | None = None,
    before: Callable[[Any], Any] = lambda scheduler: None,
    after: Callable[[Any, dict[str, int], Any], None] = lambda scheduler, batch, seen: None,
    prepare: Callable[[Any], None] = lambda scheduler: None,
) -> Watched:
    """Run `workload`; `before` sees the scheduler ahead of each round, `after` what came of it."""
    from radixflow.engines.simulated_run import longest_sequence, recorder_for

    if currently_in_test_context():  # a counterexample is printed whole
        note(f"engine {workload.engine}, requests {workload.requests}")
    options = workload.simulated_engine.resolved()
    clock = VirtualClock()
    scheduler = build_scheduler(
        options,
        groups or plain_groups(options.state_groups),
        Settings(get_policy(policy), trace=trace, probe=probe, eviction=eviction),
        max_model_len=longest_sequence(workload),
        clock=clock,
        open_recorder=recorder_for(workload, clock),
    )
    prepare(scheduler)
    batches: list[dict[str, int]] = []
    schedule = scheduler.schedule

    def watched_schedule(*args: Any) -> Any:
        seen = before(scheduler)
        output = schedule(*args)
        batch = dict(output.num_scheduled_tokens)
        if batch:
            batches.append(batch)
        after(scheduler, batch, seen)
        return output

    scheduler.schedule = watched_schedule
    outcome = Simulator(workload, scheduler, clock, PLAIN_COST).run()
    if scheduler.observer is not None:
        scheduler.observer.close(outcome.end)
    del scheduler.schedule
    return Watched(scheduler, batches, outcome)

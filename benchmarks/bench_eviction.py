"""LRU against rotating tails: what those that come back have lost, and what the choice costs.

    python benchmarks/bench_eviction.py [--seeds N] [--turns N]

Agents on the simulated engine, full attention and hybrids, at several capacities: kept share beside the theory,
missed tokens and time to first token of the returns (docs/eviction.md reads the tables). Then the time that
`get_new_blocks` and the pool's bookkeeping take in vLLM's scheduler, rotating over native, measured side by side.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from radixflow.analysis import summarize_evictions
from radixflow.analysis.evictions import EvictionSummary
from radixflow.engines.run import run
from radixflow.workloads import load_workload

CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("all fit", {"capacity": 1.2}, {}),
    ("capacity 0.9", {"capacity": 0.9}, {}),
    ("capacity 0.8", {"capacity": 0.8}, {}),
    ("capacity 0.6", {"capacity": 0.6}, {}),
    ("capacity 0.4", {"capacity": 0.4}, {}),
    ("active don't fit", {"agents": 12, "active": 0.5, "capacity": 0.3}, {}),
    ("by clock, 0.9", {"capacity": 0.9, "pause": 2.0}, {}),
    ("hybrid, sparse", {"capacity": 0.9}, {"state_groups": 1, "retention_interval": 0}),
    ("hybrid, dense", {"capacity": 0.9}, {"state_groups": 1, "retention_interval": None}),
    (
        "hybrid, dense, T=512",
        {"capacity": 0.9},
        {"state_groups": 1, "retention_interval": None, "max_num_batched_tokens": 512},
    ),
]


COLUMNS = ("n", "n_a", "m", "h theory", "h", "whole", "partial", "missed mean", "p95", "p99", "TTFT p99 ms")


def measure(
    options: dict[str, Any], engine: dict[str, Any], seeds: int, turns: int
) -> dict[str, list[EvictionSummary]]:
    found: dict[str, list[EvictionSummary]] = {"lru": [], "rr": []}
    for seed in range(seeds):
        workload = load_workload("agents", turns=turns, growth=16, seed=seed, **options)
        for eviction, summaries in found.items():
            trace = run(workload, "radix", eviction=eviction, probe=0, **engine)
            summaries.append(summarize_evictions(trace))
    return found


def mean(summaries: list[EvictionSummary], what: str, key: str | None = None) -> float:
    values = [getattr(summary, what) for summary in summaries]
    return statistics.fmean(value[key] if key else value for value in values)


def returns_table(seeds: int, turns: int) -> Table:
    table = Table(title=f"agents, {seeds} seeds, {turns} turns each on average")
    for name in ("", "", *COLUMNS):
        table.add_column(name, justify="right" if name else "left")
    for name, options, engine in CASES:
        for eviction, found in measure(options, engine, seeds, turns).items():
            table.add_row(
                name if eviction == "lru" else "",
                eviction,
                f"{mean(found, 'trajectories'):.0f}",
                f"{mean(found, 'active'):.1f}",
                f"{mean(found, 'capacity'):.1f}",
                f"{mean(found, 'theory', 'kept'):.3f}",
                f"{mean(found, 'measured', 'kept'):.3f}",
                f"{mean(found, 'whole_misses'):.0f}",
                f"{mean(found, 'partial_misses'):.0f}",
                f"{mean(found, 'missed', 'mean'):.0f}",
                f"{mean(found, 'missed', 'p95'):.0f}",
                f"{mean(found, 'missed', 'p99'):.0f}",
                f"{1000 * mean(found, 'ttft', 'p99'):.0f}",
                end_section=eviction == "rr",
            )
    return table


def scheduler_seconds(eviction: str, capacity: float) -> float:
    """Inside vLLM's schedule() and update_from_output(), untraced."""
    from radixflow.engines.groups import plain_groups
    from radixflow.engines.run import PLAIN_COST
    from radixflow.engines.simulated_run import longest_sequence, recorder_for
    from radixflow.engines.simulator import Simulator, VirtualClock
    from radixflow.engines.stand_in import build_scheduler
    from radixflow.scheduling import get_policy
    from radixflow.scheduling.settings import Settings

    workload = load_workload("agents", capacity=capacity)
    clock = VirtualClock()
    scheduler = build_scheduler(
        workload.simulated_engine.resolved(),
        plain_groups(0),
        Settings(get_policy("radix"), eviction=eviction),
        max_model_len=longest_sequence(workload),
        clock=clock,
        open_recorder=recorder_for(workload, clock),
    )
    spent = 0.0

    def timed(method: Any) -> Any:
        def call(*args: Any) -> Any:
            nonlocal spent
            begin = time.perf_counter()
            try:
                return method(*args)
            finally:
                spent += time.perf_counter() - begin

        return call

    scheduler.schedule = timed(scheduler.schedule)
    scheduler.update_from_output = timed(scheduler.update_from_output)
    Simulator(workload, scheduler, clock, PLAIN_COST).run()
    return spent


def cost_line(capacity: float, repeats: int) -> str:
    ratios = []
    for _ in range(repeats):
        native, rotating = scheduler_seconds("lru", capacity), scheduler_seconds("rr", capacity)
        ratios.append(rotating / native)
    return f"scheduler time, rr / lru, capacity {capacity}: {statistics.median(ratios):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=12)
    given = parser.parse_args()
    console = Console(width=140)
    console.print(returns_table(given.seeds, given.turns))
    for capacity in (1.2, 0.8):
        console.print(cost_line(capacity, repeats=5))


if __name__ == "__main__":
    main()

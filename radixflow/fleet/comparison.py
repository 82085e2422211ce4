"""The same stream over the same replicas under several routings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from radixflow.fleet.routers import ROUTINGS
from radixflow.workloads import Workload

if TYPE_CHECKING:
    from radixflow.engines.tally import Tally

Working = Callable[[str], AbstractContextManager[Callable[[int, int], None] | None]]


def compare_routings(
    workload: Workload,
    replicas: int,
    routings: Sequence[str] = tuple(ROUTINGS),
    policy: str = "radixflow",
    model: str | None = None,
    working: Working = lambda words: nullcontext(),
    **options: Any,
) -> pd.DataFrame:
    """One row a routing: latency (seconds), reuse, rounds and the fullest replica's share of requests.

    Simulated, in virtual time (docs/simulator.md). ValueError for an unknown routing, fewer than one replica, or a
    workload whose requests come after rounds.
    """
    from radixflow.engines.replicas import run_replicas
    from radixflow.engines.run import simulated_engine
    from radixflow.scheduling.policies import get_policy

    unknown = [name for name in routings if name not in ROUTINGS]
    if unknown:
        raise ValueError(f"routing {unknown[0]!r}: unknown, expected one of {', '.join(ROUTINGS)}")
    if replicas < 1:
        raise ValueError(f"{replicas} replicas, expected 1 or more")
    resolved, groups, cost = simulated_engine(workload, model, options)
    rows = []
    for name in routings:
        router = ROUTINGS[name](workload, resolved, groups, replicas)
        with working(f"{workload.name} over {replicas} replicas, {name}") as progress:
            tallies = run_replicas(
                workload,
                replicas,
                resolved,
                groups,
                get_policy(policy),
                cost,
                router.choose,
                router.watch,
                progress,
            )
        rows.append({"routing": name, **_row(tallies)})
    return pd.DataFrame(rows).set_index("routing")


def _row(tallies: Sequence[Tally]) -> dict[str, float]:
    waited = [(tally.finished[id] - tally.arrived[id]) / 1e9 for tally in tallies for id in tally.finished]
    first = [(tally.selected[id] - tally.arrived[id]) / 1e9 for tally in tallies for id in tally.selected]
    prompt = sum(tally.prompt_tokens for tally in tallies)
    taken = [len(tally.arrived) for tally in tallies]
    p50, p95, p99 = np.percentile(waited, [50, 95, 99]) if waited else (np.nan,) * 3
    return {
        "requests": sum(taken),
        "completed": len(waited),
        "latency_mean": float(np.mean(waited)) if waited else np.nan,
        "latency_p50": float(p50),
        "latency_p95": float(p95),
        "latency_p99": float(p99),
        "first_selected_wait_mean": float(np.mean(first)) if first else np.nan,
        "reuse_rate": sum(tally.reused_tokens for tally in tallies) / prompt if prompt else 0.0,
        "rounds": sum(tally.rounds for tally in tallies),
        "fullest_share": max(taken) / max(1, sum(taken)),
    }

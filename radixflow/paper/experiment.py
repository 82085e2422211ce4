"""The experiment: all cells of a plan, on several cores or a Ray cluster, resumed where it stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from radixflow.engines.profiles import get_profile
from radixflow.paper.cell import Cell, CellResult, read_result, run_cell, standard_cell, write_result
from radixflow.paper.published import PUBLISHED
from radixflow.scheduling.policies import get_policy
from radixflow.workloads.paper import ORDERS, STREAMS

POLICIES = ("radix", "radix+timer5", "radix+timer10", "radix+flex", "radixflow", "radixflow+frag")
"""The paper's six."""
CELLS = "cells"
"""Folder of the cells' results inside the experiment's."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run: every combination. `changes` are fields of `Cell` laid over the standard cell."""

    models: Sequence[str] = tuple(PUBLISHED)
    policies: Sequence[str] = POLICIES
    streams: Sequence[str] = STREAMS
    orders: Sequence[int] = ORDERS
    seeds: Sequence[int] = (0,)
    changes: dict[str, Any] = field(default_factory=dict)

    def cells(self) -> list[Cell]:
        """All cells. Raises ValueError for an unknown name and for an empty list."""
        for name in ("models", "policies", "streams", "orders", "seeds"):
            if not getattr(self, name):
                raise ValueError(f"no {name}; expected at least one")
        for stream in self.streams:
            if stream not in STREAMS:
                raise ValueError(f"unknown stream {stream!r}: expected one of {', '.join(STREAMS)}")
        for model in self.models:
            if get_profile(model).name not in PUBLISHED:
                raise ValueError(f"{model} isn't in the paper: expected one of {', '.join(PUBLISHED)}")
        for policy in self.policies:
            get_policy(policy)
        return [
            standard_cell(model, policy, stream, order, seed, **self.changes)
            for seed in self.seeds
            for model in self.models
            for policy in self.policies
            for stream in self.streams
            for order in self.orders
        ]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an experiment is."""

    done: int
    total: int
    resumed: int
    """Of those done, how many were there already."""
    seconds_left: float | None
    """By the time that the cells so far took; None before the first."""


def run_experiment(
    cells: Iterable[Cell],
    folder: str | Path,
    *,
    jobs: int = 1,
    ray: str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> list[CellResult]:
    """Run the cells that `folder` doesn't hold yet; the results of all, in the cells' order.

    jobs: processes on this machine (joblib). ray: the address of a Ray cluster (`auto`, `ray://host:port`,
    or `local` to start one here), whose workers need radixflow and vLLM; `folder` need not be shared.
    A killed run has whole cells or none, and goes on where it stopped. A KeyboardInterrupt says how many there are.
    """
    cells = list(cells)
    names = [cell.name for cell in cells]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the cell {twice} is asked for twice; expected each once")
    store = Path(folder) / CELLS
    store.mkdir(parents=True, exist_ok=True)
    found = {cell: read_result(_file(store, cell), cell) for cell in cells}
    todo = [cell for cell, result in found.items() if result is None]
    resumed, begin = len(cells) - len(todo), time.monotonic()

    def tell(done: int) -> None:
        if progress is not None:
            each = (time.monotonic() - begin) / done if done else None
            left = None if each is None else each * (len(todo) - done)
            progress(Progress(resumed + done, len(cells), resumed, left))

    tell(0)
    try:
        for done, (cell, result) in enumerate(_computed(todo, jobs, ray), 1):
            write_result(_file(store, cell), result)
            found[cell] = result
            tell(done)
    except KeyboardInterrupt:
        kept = sum(result is not None for result in found.values())
        raise KeyboardInterrupt(
            f"{kept} of {len(cells)} cells are kept in {store}, and the same command goes on from there"
        ) from None
    return [result for result in found.values() if result is not None]


def _file(store: Path, cell: Cell) -> Path:
    return store / f"{cell.name}.json"


def _computed(cells: list[Cell], jobs: int, ray: str | None) -> Iterator[tuple[Cell, CellResult]]:
    """As they come."""
    if not cells or (jobs == 1 and ray is None):
        yield from map(_compute, cells)
        return
    try:
        from joblib import Parallel, delayed
    except ImportError:
        raise ImportError("--jobs and --ray need joblib: pip install 'radixflow[paper]'") from None

    if ray is None:
        parallel = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
        yield from _pairs(parallel(delayed(_compute)(cell) for cell in cells))
        return
    with _cluster(ray) as workers, Parallel(n_jobs=workers, batch_size=1) as parallel:
        # joblib's Ray backend answers a whole list at once: lists short enough that a killed run keeps most.
        for begin in range(0, len(cells), 4 * workers):
            yield from _pairs(parallel(delayed(_compute)(cell) for cell in cells[begin : begin + 4 * workers]))


def _pairs(computed: Any) -> Iterator[tuple[Cell, CellResult]]:
    """joblib says that a result may be None; ours never is."""
    return iter(computed)


def _compute(cell: Cell) -> tuple[Cell, CellResult]:
    return cell, run_cell(cell)


@contextmanager
def _cluster(address: str) -> Iterator[int]:
    """joblib's work on a Ray cluster; the number of its cores."""
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError:
        raise ImportError("--ray needs Ray: pip install 'ray>=2.40'") from None
    from joblib import parallel_config

    started = not ray.is_initialized()
    if started:
        ray.init(address=address, log_to_driver=False)
    register_ray()
    try:
        with parallel_config("ray"):
            yield max(1, int(ray.cluster_resources().get("CPU", 1)))
    finally:
        if started:
            ray.shutdown()


def results_table(results: Iterable[CellResult]) -> pd.DataFrame:
    """Tidy: a row a cell. Times in seconds, `reuse` in percent.

    Columns `model`, `policy`, `stream`, `order`, `seed`; `rounds`, `row_visits`, `scheduled_tokens`,
    `prompt_tokens`, `reused_tokens`, `preemptions`, `host_ns`, `questions`, `finished`, `end`, `span`,
    `latency`, `latency_p50`, `latency_p95`, `latency_p99`, `first_selected`, `branch_latency`, `reuse`,
    `rows_per_round`, `tokens_per_round`, `throughput` (finished questions a second of the span), `digest`.
    """
    rows = []
    for result in results:
        latency = pd.Series(result.latency, dtype=float) / 1e6
        waits = pd.Series(result.first_selected, dtype=float) / 1e6
        counts = (
            "rounds row_visits scheduled_tokens prompt_tokens reused_tokens preemptions host_ns "
            "questions finished end branch_latency digest"
        ).split()
        rows.append(
            {key: result.cell[key] for key in ("model", "policy", "stream", "order", "seed")}
            | {key: getattr(result, key) for key in counts}
            | {
                "span": result.span / 1e6,
                "latency": latency.mean(),
                **{f"latency_p{q}": latency.quantile(q / 100) for q in (50, 95, 99)},
                "first_selected": waits.mean(),
                "reuse": 100 * result.reused_tokens / max(1, result.prompt_tokens),
                "rows_per_round": result.row_visits / max(1, result.rounds),
                "tokens_per_round": result.scheduled_tokens / max(1, result.rounds),
                "throughput": 1e6 * result.finished / max(1, result.span),
            }
        )
    return pd.DataFrame(rows)

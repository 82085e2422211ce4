"""The paper's tables out of the cells' results, tidy, with intervals over seeds and orders.

A *replicate* is one order of one seed: its three streams have their own shuffle and arrivals. Policies are
compared within a replicate, so that what they share cancels; intervals are Student's t over replicates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from radixflow.analysis.cost import CostIdentity, HostCost
from radixflow.paper.cell import CellResult
from radixflow.paper.published import FURTHER, PUBLISHED, RADIX, RADIXFLOW, TRAVERSAL_BY_STREAM

METRICS = (
    "latency",
    "latency_p50",
    "latency_p95",
    "latency_p99",
    "first_selected",
    "rounds",
    "reuse",
    "rows_per_round",
    "tokens_per_round",
    "host_seconds",
    "host_per_1000_tokens",
    "throughput",
    "preemptions",
)
"""Times in seconds, `reuse` in percent of prompt tokens, `throughput` in questions a second of the span from the
first arrival to the last finish, streams one after another."""
SHOWN = ("latency", "rounds", "reuse", "rows_per_round", "first_selected")
"""Those of the paper's Tables 1 and 2."""
LEVEL = 0.95
KEYS = ["model", "policy"]


def replicates(results: Iterable[CellResult], by: Sequence[str] = KEYS) -> pd.DataFrame:
    """One row a group of `by` and replicate (`seed`, `order`): METRICS over the group's streams.

    `by` may also name `stream`. Means and percentiles are over questions, not over streams' means.
    """
    groups: dict[tuple, list[CellResult]] = {}
    for result in results:
        key = tuple(result.cell[name] for name in (*by, "seed", "order"))
        groups.setdefault(key, []).append(result)
    return pd.DataFrame(
        dict(zip((*by, "seed", "order"), key, strict=True)) | pooled(cells) for key, cells in groups.items()
    )


def pooled(cells: Sequence[CellResult]) -> dict[str, float]:
    """METRICS over some cells of one policy."""
    latency = np.concatenate([cell.latency for cell in cells]) / 1e6
    waits = np.concatenate([cell.first_selected for cell in cells]) / 1e6
    total = {
        name: sum(getattr(cell, name) for cell in cells)
        for name in (
            *("rounds", "row_visits", "scheduled_tokens", "prompt_tokens", "reused_tokens"),
            *("host_ns", "finished", "span", "preemptions"),
        )
    }
    p50, p95, p99 = np.percentile(latency, (50, 95, 99)).tolist() if len(latency) else (math.nan,) * 3
    rounds, host = max(1, total["rounds"]), total["host_ns"] / 1e9
    return {
        "latency": float(latency.mean()) if len(latency) else math.nan,
        "latency_p50": p50,
        "latency_p95": p95,
        "latency_p99": p99,
        "first_selected": float(waits.mean()) if len(waits) else math.nan,
        "rounds": total["rounds"],
        "reuse": 100 * total["reused_tokens"] / max(1, total["prompt_tokens"]),
        "rows_per_round": total["row_visits"] / rounds,
        "tokens_per_round": total["scheduled_tokens"] / rounds,
        "host_seconds": host,
        "host_per_1000_tokens": 1000 * host / max(1, total["scheduled_tokens"]),
        "throughput": 1e6 * total["finished"] / max(1, total["span"]),
        "preemptions": total["preemptions"],
    }


def metrics_table(results: Iterable[CellResult], by: Sequence[str] = KEYS) -> pd.DataFrame:
    """Tidy: a row a group of `by`, METRICS as means over replicates, `replicates` how many.

    `rounds`, `host_seconds` and `preemptions` are sums over both orders, as the paper counts them.
    """
    table = replicates(results, by)
    if table.empty:
        return table
    orders = table["order"].nunique()
    made = table.groupby(list(by), sort=False)[list(METRICS)].mean()
    for name in ("rounds", "host_seconds", "preemptions"):
        made[name] *= orders
    made["replicates"] = table.groupby(list(by), sort=False).size()
    return made.reset_index()


def changes(
    results: Iterable[CellResult], pairs: Iterable[tuple[str, str]], by: Sequence[str] = ("model",)
) -> pd.DataFrame:
    """Tidy: for each pair (policy, against), group of `by` and metric: the change in percent with its interval.

    Columns `by`, `policy`, `against`, `metric`, `change`, `low`, `high`, `replicates`, `said`. `reuse` changes
    in points instead. `low` and `high` are NaN with fewer than two replicates; `said` is "less", "more", or
    "inside the interval" where it can't be told from none, "one replicate" where there is no interval.
    """
    table = replicates(results, (*by, "policy"))
    rows = []
    keys = [*by, "seed", "order"]
    for policy, against in pairs:
        ours = table[table["policy"] == policy].set_index(keys)
        base = table[table["policy"] == against].set_index(keys)
        both = ours.index.intersection(base.index)
        for metric in METRICS:
            after, before = ours.loc[both, metric], base.loc[both, metric]
            moved = after - before if metric == "reuse" else 100 * (after / before - 1)
            moved = moved.where((after != 0) | (before != 0), 0.0)
            for group, values in moved.groupby(level=list(range(len(by))), sort=False):
                found = values.to_numpy(float)
                low, high = interval(found)
                labels = group if isinstance(group, tuple) else (group,)
                rows.append(
                    dict(zip(by, labels, strict=True))
                    | {"policy": policy, "against": against, "metric": metric}
                    | {"change": float(np.mean(found)), "low": low, "high": high, "replicates": len(found)}
                    | {"said": said(float(np.mean(found)), low, high)}
                )
    return pd.DataFrame(rows)


def interval(values: np.ndarray, level: float = LEVEL) -> tuple[float, float]:
    """Student's t interval of the mean; NaNs for fewer than two values."""
    n = len(values)
    if n < 2:
        return math.nan, math.nan
    half = student(n - 1, level) * float(np.std(values, ddof=1)) / math.sqrt(n)
    mean = float(np.mean(values))
    return mean - half, mean + half


def student(freedom: int, level: float = LEVEL) -> float:
    """Two-sided quantile of Student's t, by bisection on its distribution function."""
    tail = (1 - level) / 2
    grid = np.linspace(0, math.pi / 2, 20_001)
    # With t = sqrt(v) tan(u), the density in u is cos(u)^(v - 1) up to a constant.
    density = np.cos(grid) ** (freedom - 1)
    mass = np.concatenate(([0.0], np.cumsum((density[1:] + density[:-1]) / 2)))
    u = np.interp(0.5 - tail, mass / mass[-1] / 2, grid)
    return math.sqrt(freedom) * math.tan(float(u))


def said(change: float, low: float, high: float) -> str:
    """What an interval allows to say of a change."""
    if math.isnan(change):
        return "not measured"
    if change == 0 and (math.isnan(low) or low == high == 0):
        return "none"
    if math.isnan(low):
        return "one replicate"
    if low <= 0 <= high:
        return "inside the interval"
    return "less" if change < 0 else "more"


def ablation(results: Iterable[CellResult]) -> pd.DataFrame:
    """Which part of the gain is admission and which traversal, a model and stream (`all` over them): tidy as
    `changes`, with `part`."""
    parts = {
        ("radix+flex", RADIX): "admission",
        (RADIXFLOW, "radix+flex"): "traversal",
        (RADIXFLOW, RADIX): "both",
        ("radixflow+frag", RADIXFLOW): "fragmentation",
    }
    results = list(results)
    whole = changes(results, parts, ("model",)).assign(stream="all")
    table = pd.concat([whole, changes(results, parts, ("model", "stream"))], ignore_index=True)
    if table.empty:
        return table
    named = [parts[pair] for pair in zip(table["policy"], table["against"], strict=True)]
    return table[table["metric"].isin(["rounds", "latency", "reuse"])].assign(part=pd.Series(named, table.index))


def ablation_wide(table: pd.DataFrame, metric: str = "rounds") -> pd.DataFrame:
    """`ablation`'s rows of one metric, a row a model and stream in its order, a column a part: tuples (change, low,
    high, said), None where a part wasn't measured."""
    if table.empty:
        return table
    own = table[table["metric"] == metric]
    parts = [part for part in ("admission", "traversal", "both", "fragmentation") if part in set(own["part"])]
    made: dict[tuple[str, str], dict[str, Any]] = {}
    for row in own.itertuples():
        made.setdefault((row.model, row.stream), {})[row.part] = (row.change, row.low, row.high, row.said)
    return pd.DataFrame(
        {"model": model, "stream": stream} | {part: found.get(part) for part in parts}
        for (model, stream), found in made.items()
    )


def cost_identities(results: Iterable[CellResult], against: str = RADIX) -> pd.DataFrame:
    """T0 - T1 = (K0 - K1) c0 - K1 (c1 - c0) for every cell's pair with `against`, in exact rationals.

    Columns `model`, `policy`, `stream`, `order`, `seed`, those of `CostIdentity.to_dict()`, and `residual`:
    left minus right side, nanoseconds, 0 unless something is wrong.
    """
    results = list(results)
    base = {_place(result): result for result in results if result.cell["policy"] == against}
    rows = []
    for result in results:
        first = base.get(_place(result))
        if result.cell["policy"] == against or first is None:
            continue
        identity = CostIdentity(*(HostCost(cell.rounds, cell.host_ns, 0) for cell in (first, result)))
        residual = identity.saved_ns - (identity.fewer_rounds_ns - identity.dearer_rounds_ns)
        rows.append(
            {key: result.cell[key] for key in ("model", "policy", "stream", "order", "seed")}
            | identity.to_dict()
            | {"residual": float(residual)}
        )
    return pd.DataFrame(rows)


def _place(result: CellResult) -> tuple:
    return tuple(result.cell[key] for key in ("model", "stream", "order", "seed"))


def side_by_side(results: Iterable[CellResult]) -> pd.DataFrame:
    """Ours beside the paper's: the change from `radix` to `radixflow` in each metric that the paper gives, and
    the further changes of its text.

    Columns `model`, `stream`, `metric`, `policy`, `against`, `ours`, `low`, `high`, `published`, `published_low`,
    `published_high` (between what it lies, by its printed digits), `unit` (percent, or points for reuse), `inside`
    (whether the published change, as far as it is known, is in our interval; None without one). Models in the order
    of the results.
    """
    results = list(results)
    pairs = dict.fromkeys([(RADIXFLOW, RADIX), *((row[2], row[3]) for row in FURTHER)])
    ours = changes(results, pairs)
    if ours.empty:
        return ours
    wanted = []
    models = list(dict.fromkeys(result.cell["model"] for result in results))
    for model in models:
        for metric in SHOWN if model in PUBLISHED else ():
            wanted.append((model, "all", metric, RADIXFLOW, RADIX, PUBLISHED[model].change(metric)))
    wanted += [(model, "all", metric, policy, base, change) for model, metric, policy, base, change in FURTHER]
    streams = changes(results, [(RADIXFLOW, "radix+flex")], ("model", "stream"))
    wanted += [
        ("Qwen3.5-27B", stream, "rounds", RADIXFLOW, "radix+flex", change)
        for stream, change in TRAVERSAL_BY_STREAM.items()
    ]
    wanted = [row for model in models for row in wanted if row[0] == model]
    found = pd.concat([ours.assign(stream="all"), streams], ignore_index=True).set_index(
        ["model", "stream", "metric", "policy", "against"]
    )
    rows = []
    for *key, published in wanted:
        if tuple(key) not in found.index:
            continue
        row = found.loc[tuple(key)]
        inside = None if math.isnan(row["low"]) else published.may_be(row["low"], row["high"])
        rows.append(
            dict(zip(("model", "stream", "metric", "policy", "against"), key, strict=True))
            | {"ours": row["change"], "low": row["low"], "high": row["high"], "published": published.value}
            | {"published_low": published.low, "published_high": published.high}
            | {"unit": "points" if key[2] == "reuse" else "percent", "inside": inside}
        )
    return pd.DataFrame(rows)

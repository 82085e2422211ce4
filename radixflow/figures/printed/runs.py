"""Many runs as one table: what the paper's Figures 3 and 4 and its tables are drawn from.

`runs_frame` makes it of traces; any other source will do that has the same columns:

    model, policy     text, required
    stream, order     what the run's workload was; runs are compared where both are the same
    seed              where runs were repeated
    the numbers of `analysis.Summary`, distributions as `latency_mean`, `latency_p95`, ...
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from radixflow.analysis import summarize

COUNTS = ("requests", "completed", "aborted", "rounds", "stalled_rounds", "scheduled_tokens", "row_visits")
COUNTS += ("empty_slots", "avoidable_slots", "blocked_visits", "recomputed_tokens", "host_seconds", "wall_seconds")
SETTING = ("stream", "order", "seed")
DISTRIBUTIONS = ("latency", "first_selected_wait")


def flat_summary(trace: Any) -> dict[str, Any]:
    """A trace's summary with its distributions as `latency_mean`, `latency_p50`, ...; None where unknown."""
    flat: dict[str, Any] = {}
    for name, value in summarize(trace).to_dict().items():
        if name in DISTRIBUTIONS:
            flat |= {f"{name}_{part}": value[part] if value else None for part in ("mean", "p50", "p95", "p99")}
        else:
            flat[name] = value
    return flat


def runs_frame(*traces: Any) -> pd.DataFrame:
    """One row a trace: `id`, `model`, `policy`, `stream` (the workload), and its summary's numbers."""
    rows = []
    for trace in traces:
        flat = flat_summary(trace)
        named = {
            "id": trace.id,
            "model": trace.header.model or trace.header.workload or "run",
            "policy": trace.header.policy,
            "stream": trace.header.workload or "",
        }
        rows.append(named | {name: value for name, value in flat.items() if name not in named})
    return pd.DataFrame(rows)


def by_policy(runs: pd.DataFrame) -> pd.DataFrame:
    """One row a model and policy, over all its streams, orders and seeds.

    Counts and times of whole runs are summed; `rows_per_round` is row visits over rounds where both are there;
    everything else is the mean over the runs, weighted by `requests` where that is there. Models and policies
    keep the order in which they come.
    """
    numeric = [name for name in runs.columns if pd.api.types.is_numeric_dtype(runs[name]) and name not in SETTING]
    rows = []
    for key, own in runs.groupby(["model", "policy"], sort=False):
        row: dict[str, Any] = dict(zip(("model", "policy"), tuple(key), strict=True))
        for name in numeric:
            values = own[name].astype(float)
            known = values.notna()
            if not bool(known.any()):
                row[name] = None
            elif name in COUNTS:
                row[name] = own[name].sum()
            else:
                weights = own["requests"].astype(float)[known] if "requests" in own else None
                row[name] = float(np.average(values[known], weights=weights))
        if "row_visits" in row and row.get("rounds"):
            row["rows_per_round"] = row["row_visits"] / row["rounds"]
        rows.append(row)
    return pd.DataFrame(rows)


def base_policy(runs: pd.DataFrame) -> str:
    """The policy that others are shown against: `radix` where it is there, else the first."""
    policies = list(dict.fromkeys(runs["policy"]))
    return "radix" if "radix" in policies else policies[0]


def ratios(runs: pd.DataFrame, metric: str) -> pd.DataFrame:
    """A metric against the base policy's: a row a model and policy with `base` (its value), `ratio` (of the two
    values over all runs), and `low`, `high`, the range of the ratio over streams, orders and seeds."""
    totals = by_policy(runs)
    keys = zip(totals["model"], totals["policy"], strict=True)
    whole = dict(zip(keys, totals[metric].astype(float).tolist(), strict=True))
    base = base_policy(runs)
    setting = [name for name in SETTING if name in runs.columns]
    single = runs.groupby(["model", "policy", *setting], sort=False, dropna=False)[metric].mean()
    rows = []
    for (model, policy), value in whole.items():
        against = whole.get((model, base), 0.0)
        if not against > 0 or value != value:
            continue
        each = np.asarray(single[model, policy] / single[model, base], dtype=float).reshape(-1)
        each = each[np.isfinite(each)]
        row = {"model": model, "policy": policy, "base": against, "ratio": value / against}
        rows.append(row | {"low": min(each, default=row["ratio"]), "high": max(each, default=row["ratio"])})
    return pd.DataFrame(rows, columns=["model", "policy", "base", "ratio", "low", "high"])

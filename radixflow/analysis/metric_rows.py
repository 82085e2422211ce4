"""A run's metrics in words and numbers, as every table of them says it: page, print, notebook."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from radixflow.analysis.prose import seconds


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _mean(value: float) -> str:
    return f"{value:,.2f}"


def _share(value: float) -> str:
    return f"{value:.1%}"


METRICS: dict[str, tuple[str, Callable[[float], str]]] = {
    "rounds": ("Rounds", _count),
    "lower_bound_rounds": ("Lower bound of rounds", _count),
    "stalled_rounds": ("Stalled rounds", _count),
    "rows_per_round": ("Rows a round", _mean),
    "empty_slots": ("Empty slots", _count),
    "avoidable_slots": ("Avoidable slots", _count),
    "blocked_visits": ("Blocked visits", _count),
    "reuse_rate": ("Prompt tokens reused", _share),
    "scheduled_tokens": ("Scheduled tokens", _count),
    "recomputed_tokens": ("Recomputed tokens", _count),
    "latency_mean": ("Latency, mean", seconds),
    "latency_p50": ("Latency, median", seconds),
    "latency_p95": ("Latency, 95th percentile", seconds),
    "latency_p99": ("Latency, 99th percentile", seconds),
    "first_selected_wait_mean": ("Wait until first selected, mean", seconds),
    "first_selected_wait_p99": ("Wait until first selected, 99th percentile", seconds),
    "host_seconds": ("Host time of all rounds", seconds),
    "wall_seconds": ("Whole run", seconds),
    "requests": ("Requests", _count),
    "completed": ("Completed", _count),
    "aborted": ("Aborted", _count),
    "row_visits": ("Row visits", _count),
}
"""Key of `Summary.flat()` and `Comparison.metrics` -> words, and how its numbers are written."""

_IF_ANY = ("aborted", "stalled_rounds", "recomputed_tokens")
"""Rows that are left out where every run has zero."""

Cell = tuple[str, str]
"""A number as it is written, and how it stands to the first run's (empty where there is nothing to say)."""


def metric_rows(
    numbers: Sequence[Mapping[str, float | None]], names: Sequence[str] = tuple(METRICS)
) -> list[tuple[str, list[Cell]]]:
    """A row a metric that any run has: its words, and a cell a run. `numbers`: each run's `Summary.flat()`."""
    rows = []
    for name in names:
        words, written = METRICS[name]
        values = [own.get(name) for own in numbers]
        known = [value for value in values if value is not None]
        if not known or (name in _IF_ANY and not any(known)):
            continue
        first = values[0]
        cells = []
        for value in values:
            compared = value and first and value != first
            change = _change(value / first) if compared else ""
            cells.append(("-", "") if value is None else (written(float(value)), change))
        rows.append((words, cells))
    return rows


def metric_table(
    numbers: Sequence[Mapping[str, float | None]], labels: Sequence[str], names: Sequence[str] = tuple(METRICS)
) -> pd.DataFrame:
    """The same as a DataFrame of text: a row a metric, a column a run."""
    rows = {
        words: [f"{number} ({change})" if change else number for number, change in cells]
        for words, cells in metric_rows(numbers, names)
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(labels))


def _change(ratio: float) -> str:
    return f"\u00d7 {ratio:,.2f}" if ratio < 10 else f"\u00d7 {ratio:,.0f}"

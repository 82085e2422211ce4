"""Everything that an experiment's results give: tables as CSV and LaTeX, figures, a page of text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd

from radixflow.paper.cell import CellResult
from radixflow.paper.costs import fitted_costs
from radixflow.paper.experiment import results_table
from radixflow.paper.fit import uncertainty
from radixflow.paper.latex import write_latex
from radixflow.paper.page import results_page
from radixflow.paper.published import PAPERS, PUBLISHED_HERE, published_table
from radixflow.paper.tables import ablation, changes, cost_identities, metrics_table, side_by_side
from radixflow.paper.words import METRIC

TABLES = "tables"
REPORT = "report.md"
TABLE1 = {name: METRIC[name].head for name in ("latency", "rounds", "reuse")}
TABLE2 = {name: METRIC[name].head for name in ("rows_per_round", "first_selected")}
"""Columns of the paper's Tables 1 and 2 with their headings."""


def paper_tables(results: Iterable[CellResult]) -> dict[str, pd.DataFrame]:
    """By name: `cells`, `metrics`, `metrics_by_stream`, `table1`, `table2`, `changes`, `ablation`, `tails`,
    `cost_identity`, `side_by_side`, `round_cost`. docs/paper.md says what each holds."""
    results = list(results)
    policies = list(dict.fromkeys(result.cell["policy"] for result in results))
    base = policies[0]
    metrics = metrics_table(results)
    tails = metrics.filter(["model", "policy", "latency_p50", "latency_p95", "latency_p99", "first_selected"])
    return {
        "cells": results_table(results),
        "metrics": metrics,
        "metrics_by_stream": metrics_table(results, ("model", "policy", "stream")),
        "table1": beside_published(metrics, TABLE1),
        "table2": beside_published(metrics, TABLE2),
        "changes": changes(results, [(policy, base) for policy in policies[1:]]),
        "ablation": ablation(results),
        "tails": tails,
        "cost_identity": cost_identities(results, base),
        "side_by_side": side_by_side(results),
        "round_cost": round_costs(metrics["model"]),
    }


def beside_published(metrics: pd.DataFrame, columns: dict[str, str]) -> pd.DataFrame:
    """The paper's table: index model, columns (heading, policy): first those of the paper's own table (`papers_own`),
    the published ones (`policy, published`) beside ours, then our other policies."""
    published = published_table().set_index(["model", "policy"])
    ours = metrics.set_index(["model", "policy"])
    models = list(dict.fromkeys(metrics["model"]))
    policies = list(dict.fromkeys(metrics["policy"]))
    made: dict[tuple[str, str], list[float]] = {}
    for name, heading in columns.items():
        for policy in (*PAPERS, *(policy for policy in policies if policy not in PAPERS)):
            if policy in policies:
                made[heading, policy] = [ours[name].get((model, policy)) for model in models]
            if policy in published.index.unique("policy"):
                made[heading, f"{policy}{PUBLISHED_HERE}"] = [published[name].get((model, policy)) for model in models]
    frame = pd.DataFrame(made, index=pd.Index(models, name="model"))
    frame.columns = pd.MultiIndex.from_tuples(list(made))
    return frame


def round_costs(models: Iterable[str] | None = None) -> pd.DataFrame:
    """The fitted round costs, of these models or all: `a_ms`, `b_us`, what was aimed at and what was reached, how
    well it is determined.

    `a_uncertain`, `b_uncertain`: how far each may be off, as a share, if both figures are known to 1%.
    """
    rows = []
    fits = fitted_costs()
    for fit in (fits[model] for model in dict.fromkeys(fits if models is None else models) if model in fits):
        a_off, b_off = uncertainty(fit)
        rows.append(
            {
                "model": fit.model,
                "a_ms": 1e3 * fit.a,
                "b_us": 1e6 * fit.b,
                "latency_target": fit.targets["latency"],
                "latency_reached": fit.reached["latency"],
                "rounds_target": fit.targets["rounds"],
                "rounds_reached": fit.reached["rounds"],
                "a_uncertain": a_off,
                "b_uncertain": b_off,
                "a_at_floor": fit.at_floor,
            }
        )
    return pd.DataFrame(rows)


def figure_runs(results: Iterable[CellResult]) -> pd.DataFrame:
    """One row a cell as `radixflow.figures` wants runs for Figures 3 and 4 (its `printed_runs`)."""
    table = results_table(results)
    named = {"latency": "latency_mean", "first_selected": "first_selected_wait_mean", "questions": "requests"}
    return (
        table.rename(columns=named)
        .assign(reuse_rate=table["reuse"] / 100, host_seconds=table["host_ns"] / 1e9, wall_seconds=table["span"])
        .filter(
            [
                *("model", "policy", "stream", "order", "seed", "requests", "rounds", "row_visits", "rows_per_round"),
                *("latency_mean", "latency_p50", "latency_p95", "latency_p99", "first_selected_wait_mean"),
                *("reuse_rate", "host_seconds", "wall_seconds"),
            ]
        )
    )


def write_report(
    results: Iterable[CellResult],
    folder: str | Path,
    *,
    command: str = "",
    progress: Callable[[str], None] | None = None,
) -> dict[str, pd.DataFrame]:
    """Write `report.md`, `tables/*.csv`, `tables/*.tex`, `figures/*.pdf` and `.svg` into `folder`; the tables."""
    from radixflow import figures

    results = list(results)
    folder = Path(folder)
    store = folder / TABLES
    store.mkdir(parents=True, exist_ok=True)
    tell = progress or (lambda what: None)
    made = paper_tables(results)
    for name, table in made.items():
        tell(f"table {name}")
        flat = table.reset_index() if table.columns.nlevels > 1 else table
        if flat.columns.nlevels > 1:
            flat = flat.set_axis([": ".join(part for part in column if part) for column in flat.columns], axis=1)
        flat.to_csv(store / f"{name}.csv", index=False)
    (folder / REPORT).write_text(results_page(made, command), encoding="utf-8")
    write_latex(made, store)
    runs = figure_runs(results)
    pictures = folder / "figures"
    pictures.mkdir(exist_ok=True)
    for name, draw in (("figure3-latency", figures.latency_by_model), ("figure4-rounds", figures.rounds_by_model)):
        tell(name)
        for suffix in (".pdf", ".svg"):
            draw(runs).save(pictures / (name + suffix), command=command)
    return made

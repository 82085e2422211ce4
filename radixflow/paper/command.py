"""What `radixflow paper` does: one of four things, by its options."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
from rich.text import Text

from radixflow.paper.calibrate import calibrate
from radixflow.paper.cell import Cell, CellResult
from radixflow.paper.claims import claims
from radixflow.paper.console import cells_bar, err, out, show_claims, show_frame, show_report
from radixflow.paper.costs import FittedCost
from radixflow.paper.experiment import Plan, run_experiment
from radixflow.paper.fit import fit_cost, uncertainty
from radixflow.paper.report import write_report
from radixflow.paper.sensitivity import KNOBS, sensitivity


@dataclass(frozen=True, slots=True)
class Where:
    """Where cells run and their results go."""

    folder: Path
    jobs: int = 1
    ray: str | None = None


def experiment(plan: Plan, where: Where, *, command: str = "", quiet: bool = False) -> dict[str, Any]:
    """Run what isn't there yet, write the report, print it unless `quiet`; what `--json` prints."""
    with cells_bar("paper") as bar:
        results = run_experiment(plan.cells(), where.folder, jobs=where.jobs, ray=where.ray, progress=bar)
    tables = write_report(results, where.folder, command=command)
    said = claims(tables)
    if not quiet:
        show_report(tables)
        show_claims(said)
        out.print(Text(f"\nto read: {where.folder / 'report.md'}; tables and figures beside it"), soft_wrap=True)
    flat = {name: _records(table) for name, table in tables.items() if name != "cells"}
    return {"folder": str(where.folder), "cells": len(results), "claims": dict(said), **flat}


def runner(where: Where, what: str) -> Callable[[Iterable[Cell]], list[CellResult]]:
    """Runs cells with a bar, keeping their results in the folder."""

    def run(cells: Iterable[Cell]) -> list[CellResult]:
        with cells_bar(what) as bar:
            return run_experiment(cells, where.folder, jobs=where.jobs, ray=where.ray, progress=bar)

    return run


def calibration(models: list[str], where: Where, *, quiet: bool = False) -> dict[str, Any]:
    """Budgets on held-out questions with native scheduling alone."""
    table = calibrate(models, runner(where, "calibrating"))
    table.to_csv(where.folder / "calibration.csv", index=False)
    if not quiet:
        show_frame(table[table["best"] | table["frozen"]], "Budgets by Radix on 64 held-out questions", 3)
        out.print(f"all pairs: {where.folder / 'calibration.csv'}; frozen budgets stay as they are")
    return {"calibration": _records(table)}


def fits(models: list[str], where: Where, *, quiet: bool = False) -> dict[str, Any]:
    """Fit the round costs anew and write them to `costs.json` in the folder; the frozen ones stay."""
    found: list[FittedCost] = []
    for model in models:
        # Cells of a fit differ in their cost alone, which isn't in a file's name, so they aren't kept.
        found.append(fit_cost(model, progress=lambda line: err.print(line)))
    where.folder.mkdir(parents=True, exist_ok=True)
    path = where.folder / "costs.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(found)))
    rows = [
        {"model": f.model, "a_ms": 1e3 * f.a, "b_us": 1e6 * f.b, **{f"{k}_off_%": 100 * v for k, v in f.misfit.items()}}
        | dict(zip(("a_uncertain", "b_uncertain"), uncertainty(f), strict=True))
        for f in found
    ]
    if not quiet:
        show_frame(pd.DataFrame(rows), "Round costs fitted to Radix alone", 3)
        out.print(f"written to {path}")
    return {"costs": rows}


def sensitivities(
    knobs: list[str], where: Where, *, command: str = "", quiet: bool = False, **choices: Any
) -> dict[str, Any]:
    """One assumption changed at a time: its table and its plot, and all plots as one."""
    from radixflow.paper.sensitivity_figure import sensitivity_figure

    made: dict[str, Any] = {}
    tables: dict[str, pd.DataFrame] = {}
    for knob in list(KNOBS) if knobs == ["all"] else knobs:
        tables[knob] = table = sensitivity(knob, runner(where, knob), **choices)
        table.to_csv(where.folder / f"sensitivity-{knob}.csv", index=False)
        for suffix in (".pdf", ".svg"):
            sensitivity_figure({knob: table}).save(where.folder / f"sensitivity-{knob}{suffix}", command=command)
            sensitivity_figure(tables).save(where.folder / f"sensitivity{suffix}", command=command)
        columns = ["value", "policy", "rounds", "latency", "latency_p95", "longest_wait", "reuse", "preemptions"]
        if not quiet:
            show_frame(table[columns], f"Sensitivity: {KNOBS[knob].note}", 3)
        made[knob] = _records(table)
    return {"sensitivity": made}


def agreement(model: str, where: Where, *, quiet: bool = False, **choices: Any) -> dict[str, Any]:
    """First-token agreement and rounds on the real engine."""
    from radixflow.paper.agreement import real_agreement

    found = real_agreement(model, where.folder, **choices)
    found.table.to_csv(where.folder / "agreement.csv", index=False)
    if not quiet:
        show_frame(found.table.dropna(axis=1, how="all"), f"First tokens on the real engine: {model}", 3)
        for note in found.notes:
            err.print(f"note: {note}")
        if not found.on_gpu:
            out.print("on a CPU: agreement, rounds and reuse; its speed says nothing about a GPU's")
    return {"model": model, "on_gpu": found.on_gpu, "agreement": _records(found.table), "notes": list(found.notes)}


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    flat = table.reset_index() if table.index.name else table
    if flat.columns.nlevels > 1:
        flat = flat.set_axis([": ".join(part for part in column if part) for column in flat.columns], axis=1)
    return msgspec.json.decode(flat.to_json(orient="records", double_precision=15))

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
from radixflow.paper.console import cells_bar, err, out, show_claims, show_report
from radixflow.paper.costs import FittedCost
from radixflow.paper.experiment import Plan, run_experiment
from radixflow.paper.fit import fit_cost, uncertainty
from radixflow.paper.frames import show_frame
from radixflow.paper.made import about_to_replace, remember
from radixflow.paper.report import REPORT, write_report
from radixflow.paper.sensitivity import KNOBS, sensitivity, sensitivity_cells


@dataclass(frozen=True, slots=True)
class Where:
    """Where cells run and their results go."""

    folder: Path
    jobs: int = 1
    ray: str | None = None
    replace: bool = False
    """Also what another experiment left there."""

    def claims(self, report: str, files: str, parts: Iterable[str]) -> None:
        """Before anything runs: say what will be replaced, or refuse (`made.about_to_replace`)."""
        if told := about_to_replace(self.folder, report, files, parts, self.replace):
            err.print(Text(f"note: {told}"), soft_wrap=True)


def experiment(plan: Plan, where: Where, *, command: str = "", quiet: bool = False) -> dict[str, Any]:
    """Run what isn't there yet, write the report, print it unless `quiet`; what `--json` prints."""
    cells = plan.cells()
    names = [cell.name for cell in cells]
    where.claims(REPORT, f"{REPORT}, tables/ and figures/", names)
    results = runner(where, "paper")(cells)
    try:
        remember(where.folder, REPORT, names, command)
        tables = write_report(results, where.folder, command=command)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"all {len(cells)} cells are kept, and the same command makes the report") from None
    said = claims(tables)
    if not quiet:
        to_read = Text(f"to read: {where.folder / REPORT}; tables (CSV, LaTeX) and figures beside it")
        out.print(to_read, soft_wrap=True)
        out.print()
        show_report(tables)
        show_claims(said)
        out.print()
        out.print(to_read, soft_wrap=True)
    flat = {name: _records(table) for name, table in tables.items() if name != "cells"}
    return {"folder": str(where.folder), "cells": len(results), "claims": dict(said), **flat}


def runner(where: Where, what: str) -> Callable[[Iterable[Cell]], list[CellResult]]:
    """Runs cells with a bar, keeping their results in the folder."""

    def run(cells: Iterable[Cell]) -> list[CellResult]:
        with cells_bar(what) as bar:
            return run_experiment(cells, where.folder, jobs=where.jobs, ray=where.ray, progress=bar)

    return run


def calibration(models: list[str], where: Where, *, command: str = "", quiet: bool = False) -> dict[str, Any]:
    """Budgets on held-out questions with native scheduling alone."""
    name = "calibration.csv"
    where.claims(name, name, models)
    table = calibrate(models, runner(where, "calibrating"))
    remember(where.folder, name, models, command)
    table.to_csv(where.folder / name, index=False)
    if not quiet:
        show_frame(table[table["best"] | table["frozen"]], "Budgets by Radix on 64 held-out questions")
        out.print(Text(f"all pairs: {where.folder / name}; frozen budgets stay as they are"), soft_wrap=True)
    return {"calibration": _records(table)}


def fits(models: list[str], where: Where, *, command: str = "", quiet: bool = False) -> dict[str, Any]:
    """Fit the round costs anew and write them to `costs.json` in the folder; the frozen ones stay."""
    name = "costs.json"
    where.claims(name, name, models)
    found: list[FittedCost] = []
    try:
        for model in models:
            # Cells of a fit differ in their cost alone, which isn't in a file's name, so they aren't kept.
            found.append(fit_cost(model, progress=lambda line: err.print(line)))
    except KeyboardInterrupt:
        raise KeyboardInterrupt("a fit keeps nothing before its end; --models NAME fits one model") from None
    where.folder.mkdir(parents=True, exist_ok=True)
    path = where.folder / name
    remember(where.folder, name, models, command)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(found)))
    rows = [
        {"model": f.model, "a_ms": 1e3 * f.a, "b_us": 1e6 * f.b, **{f"{k}_off_%": 100 * v for k, v in f.misfit.items()}}
        | dict(zip(("a_uncertain", "b_uncertain"), uncertainty(f), strict=True))
        for f in found
    ]
    if not quiet:
        heads = {"a_ms": "a (ms)", "b_us": "b (us)", "a_uncertain": "a known to (%)", "b_uncertain": "b known to (%)"}
        heads |= {"latency_off_%": "latency off (%)", "rounds_off_%": "rounds off (%)"}
        shares = {name: [100 * row[name] for row in rows] for name in ("a_uncertain", "b_uncertain")}
        shown = pd.DataFrame(rows).assign(**shares).rename(columns=heads)
        show_frame(shown, "Round costs fitted to Radix alone")
        out.print(Text(f"written to {path}"), soft_wrap=True)
    return {"costs": rows}


def sensitivities(
    knobs: list[str], where: Where, *, command: str = "", quiet: bool = False, **choices: Any
) -> dict[str, Any]:
    """One assumption changed at a time: its table and its plot, and all plots as one."""
    from radixflow.paper.sensitivity_figure import sensitivity_figure

    made: dict[str, Any] = {}
    tables: dict[str, pd.DataFrame] = {}
    knobs = list(KNOBS) if knobs == ["all"] else knobs
    cells = {knob: [cell.name for _, cell in sensitivity_cells(knob, **choices)] for knob in knobs}
    for knob in knobs:
        where.claims(f"sensitivity-{knob}.csv", f"sensitivity-{knob}.csv and its plot", cells[knob])
    together = [name for knob in knobs for name in cells[knob]] if len(knobs) > 1 else []
    if together:
        where.claims("sensitivity.svg", "sensitivity.pdf and .svg", together)
    for knob in knobs:
        tables[knob] = table = sensitivity(knob, runner(where, knob), **choices)
        remember(where.folder, f"sensitivity-{knob}.csv", cells[knob], command)
        table.to_csv(where.folder / f"sensitivity-{knob}.csv", index=False)
        for suffix in (".pdf", ".svg"):
            sensitivity_figure({knob: table}).save(where.folder / f"sensitivity-{knob}{suffix}", command=command)
        columns = ["value", "policy", "rounds", "latency", "latency_p95", "longest_wait", "reuse", "preemptions"]
        if not quiet:
            show_frame(table[columns], f"Sensitivity: {KNOBS[knob].note}", labels=2)
        made[knob] = _records(table)
    if together:  # one knob has its plot already, and mustn't take the place of all
        remember(where.folder, "sensitivity.svg", together, command)
        for suffix in (".pdf", ".svg"):
            sensitivity_figure(tables).save(where.folder / f"sensitivity{suffix}", command=command)
    return {"sensitivity": made}


def agreement(
    model: str, where: Where, *, command: str = "", quiet: bool = False, policies: list[str], **choices: Any
) -> dict[str, Any]:
    """First-token agreement and rounds on the real engine."""
    from radixflow.paper.agreement import real_agreement

    name = "agreement.csv"
    asked = " ".join([model, *(f"{key}={value}" for key, value in sorted(choices.items()) if value is not None)])
    parts = [f"{asked} {policy}" for policy in policies]
    where.claims(name, f"{name} and its traces", parts)
    found = real_agreement(model, where.folder, policies=policies, **choices)
    remember(where.folder, name, parts[: len(found.table)], command)
    found.table.to_csv(where.folder / name, index=False)
    if not quiet:
        show_frame(found.table.dropna(axis=1, how="all"), f"First tokens on the real engine: {model}")
        for note in found.notes:
            err.print(Text(f"note: {note}"), soft_wrap=True)
        if not found.on_gpu:
            out.print("on a CPU: agreement, rounds and reuse; its speed says nothing about a GPU's")
    return {"model": model, "on_gpu": found.on_gpu, "agreement": _records(found.table), "notes": list(found.notes)}


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    flat = table.reset_index() if table.index.name else table
    if flat.columns.nlevels > 1:
        flat = flat.set_axis([": ".join(part for part in column if part) for column in flat.columns], axis=1)
    return msgspec.json.decode(flat.to_json(orient="records", double_precision=15))

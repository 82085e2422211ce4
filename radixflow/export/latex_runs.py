"""The LaTeX tables of recorded runs: metrics, cost identity, waits and slots by cause, and the paper's
Tables 1 and 2."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from radixflow.analysis import SLOT_CAUSES, WAIT_CAUSES, Comparison, compare, slots, waits_by_cause
from radixflow.export.files import Progress, new_file, new_folder, trace_name, traces_of
from radixflow.export.latex import latex_document, latex_table
from radixflow.figures.printed.runs import COUNTS, flat_summary

METRICS: dict[str, str] = {
    "requests": "requests",
    "completed": "completed",
    "aborted": "aborted",
    "rounds": "rounds",
    "stalled_rounds": "stalled rounds",
    "lower_bound_rounds": "rounds, lower bound",
    "scheduled_tokens": "scheduled tokens",
    "row_visits": "row visits",
    "rows_per_round": "rows a round",
    "empty_slots": "empty slots",
    "avoidable_slots": "avoidable slots",
    "blocked_visits": "blocked visits",
    "reuse_rate": "reuse (%)",
    "recomputed_tokens": "recomputed tokens",
    "latency_mean": "latency, mean (s)",
    "latency_p50": "latency, p50 (s)",
    "latency_p95": "latency, p95 (s)",
    "latency_p99": "latency, p99 (s)",
    "first_selected_wait_mean": "wait for first selection, mean (s)",
    "first_selected_wait_p50": "wait for first selection, p50 (s)",
    "first_selected_wait_p95": "wait for first selection, p95 (s)",
    "first_selected_wait_p99": "wait for first selection, p99 (s)",
    "host_seconds": "host time (s)",
    "wall_seconds": "wall time (s)",
}
"""Names of a summary's numbers in print."""

TABLE1: dict[str, str] = {"latency_mean": "latency (s)", "rounds": "rounds", "reuse_rate": "reuse (%)"}
TABLE2: dict[str, str] = {"rows_per_round": "rows a round", "first_selected_wait_mean": "first selected (s)"}
"""Columns of the paper's Tables 1 and 2, for `by_model`."""


def by_model(runs: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    """The shape of the paper's tables: a row a model, and under each metric a column a policy.

    Arguments: `runs`, one row a model and policy with the summary's numbers (`figures.printed_runs.by_policy`
    makes it of runs over several streams); `columns`, the metrics to show with their headings (`TABLE1`,
    `TABLE2`). Rates become percent. Models and policies keep the order in which they come.
    """
    order = list(dict.fromkeys(runs["policy"]))
    table = {}
    for name, heading in columns.items():
        wide = runs.pivot(index="model", columns="policy", values=name)
        for policy in order:
            table[heading, policy] = wide[policy] * 100 if name.endswith("_rate") else wide[policy]
    frame = pd.DataFrame(table)
    frame.columns = pd.MultiIndex.from_tuples(list(table))
    return frame.loc[list(dict.fromkeys(runs["model"]))].rename_axis("model")


def to_latex(traces: Any, path: str | os.PathLike[str], command: str = "", progress: Progress | None = None) -> Path:
    r"""Write the tables of one run, or of several beside one another.

    Where `path` ends in `.tex`, one document that compiles. Otherwise a folder: `metrics.tex`, `waits.tex`,
    `slots.tex` and, of two runs or more, `cost.tex`, each to `\input`, and `document.tex` that shows them all.
    `command`, what made them, stands in a comment. Raises ValueError and OSError with one line where `path`
    can't be written.
    """
    given = traces_of(traces)
    path = Path(path)
    made = run_tables(given, progress)
    origin = f"radixflow: {command or 'radixflow.export.to_latex'}; traces " + ", ".join(map(trace_name, given))
    comment = "% " + " ".join(origin.split()) + "\n"
    if path.suffix.lower() == ".tex":
        with new_file(path, given) as part:
            part.write_text(comment + latex_document(made.values()), encoding="utf-8")
        return path
    with new_folder(path, (".pdf",)) as folder:
        for name, text in made.items():
            (folder / f"{name}.tex").write_text(comment + text, encoding="utf-8")
        inputs = [rf"\input{{{name}}}" for name in made]
        (folder / "document.tex").write_text(comment + latex_document(inputs), encoding="utf-8")
    return path


def run_tables(traces: list[Any], progress: Progress | None = None) -> dict[str, str]:
    """The tables as LaTeX, by name."""
    if len(traces) > 1:
        comparison = compare(*traces)
        labels, metrics = comparison.labels, comparison.metrics
        waited = {"rounds": comparison.wait_rounds, "seconds": comparison.waits}
        kept = comparison.slots
    else:
        labels = [traces[0].header.policy]
        metrics = pd.DataFrame({labels[0]: flat_summary(traces[0])}, dtype=object)
        table = waits_by_cause(traces[0])
        waited = {unit: table[[unit]].set_axis(labels, axis=1) for unit in ("rounds", "seconds")}
        kept = slots(traces[0]).totals.to_frame(labels[0])
    if progress is not None:
        progress(1, 1)
    names = " and ".join(dict.fromkeys(str(trace.header.workload or "a recorded run") for trace in traces))
    found = {"metrics": _metrics(metrics, labels, names)}
    if len(traces) > 1:
        found["cost"] = _cost(comparison, names)
    found["waits"] = _waits(waited, labels, names, any(trace.header.clock.arrivals for trace in traces))
    found["slots"] = _slots(kept, names)
    return found


def _metrics(metrics: pd.DataFrame, labels: list[str], names: str) -> str:
    shown = [name for name in METRICS if name in metrics.index and metrics.loc[name, labels].notna().any()]
    rows = metrics.loc[shown, labels].astype(object)
    for name in shown:
        rows.loc[name] = [_printed(name, value) for value in rows.loc[name]]
    rows = rows.rename(index=METRICS).rename_axis(None)
    for label in labels[1:]:
        rows[f"{label} / {labels[0]}"] = metrics.loc[shown, f"{label} / {labels[0]}"].to_numpy()
    return latex_table(rows, f"Metrics of {names}.", "tab:metrics")


def _printed(name: str, value: Any) -> Any:
    """Rates as percent, and counts as whole numbers, which a table of mixed rows has as floats."""
    if value is None or value != value:
        return None
    if name.endswith("_rate"):
        return value * 100
    return int(value) if name in COUNTS and not name.endswith("seconds") or name == "lower_bound_rounds" else value


def _cost(comparison: Comparison, names: str) -> str:
    rows, notes = {}, []
    first = comparison.labels[0]
    for label, cost, refused in zip(comparison.labels[1:], comparison.costs, comparison.refusals, strict=True):
        if cost is None:
            notes.append(f"{label}: {refused}.")
            continue
        said = cost.to_dict()
        rows[label] = {
            ("rounds", first): said["rounds"][0],
            ("rounds", "this run"): said["rounds"][1],
            ("ms a round", first): said["mean_round_seconds"][0] * 1e3,
            ("ms a round", "this run"): said["mean_round_seconds"][1] * 1e3,
            ("host time saved (s)", "in all"): said["saved_seconds"],
            ("host time saved (s)", "fewer rounds"): said["fewer_rounds_seconds"],
            ("host time saved (s)", "dearer rounds"): -said["dearer_rounds_seconds"],
        }
    frame = pd.DataFrame.from_dict(rows, orient="index").astype(object)
    if rows:
        frame.columns = pd.MultiIndex.from_tuples(list(frame.columns))
    notes.append("Saved = fewer rounds + dearer rounds, exactly: (K0 - K1) c0 - K1 (c1 - c0).")
    return latex_table(frame, f"Cost identity of {names}, against {first}.", "tab:cost", notes)


def _waits(waited: dict[str, pd.DataFrame], labels: list[str], names: str, clocked: bool) -> str:
    units = ("rounds", "seconds") if clocked else ("rounds",)
    columns = {(unit, label): waited[unit][label] for unit in units for label in labels}
    frame = pd.DataFrame(columns)
    frame = frame[(frame != 0).any(axis=1)]
    for column in columns:
        if column[0] == "rounds":
            frame[column] = frame[column].astype("int64").astype(object)
    total = pd.DataFrame({column: [frame[column].sum()] for column in columns}, index=["in all"])
    frame = pd.concat([frame.rename(index=_words(WAIT_CAUSES)), total]).rename_axis("cause")
    frame.columns = pd.MultiIndex.from_tuples(list(columns))
    notes = ["All requests together; each stretch of a wait has exactly one cause."]
    return latex_table(frame, f"What requests of {names} waited for.", "tab:waits", notes, totals=1)


def _slots(kept: pd.DataFrame, names: str) -> str:
    frame = kept[(kept != 0).any(axis=1)].astype("int64")
    total = frame.sum().to_frame("in all").T
    frame = pd.concat([frame.rename(index=_words(SLOT_CAUSES)), total]).rename_axis("slot")
    notes = ["Of each round with a token, S slots: row visits, and each empty one with its cause."]
    return latex_table(frame, f"What became of the row slots of {names}.", "tab:slots", notes, totals=1)


def _words(causes: tuple[str, ...]) -> dict[str, str]:
    return {cause: cause.replace("_", " ") for cause in causes}

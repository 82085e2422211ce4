"""The results as a page of Markdown: what ran, what must hold, and ours beside the paper's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from radixflow.paper.claims import claims
from radixflow.paper.console import cell_text

SHOWN = ("latency", "rounds", "reuse", "rows_per_round", "first_selected")


def results_page(tables: dict[str, pd.DataFrame], command: str = "") -> str:
    """The report of `write_report`'s tables; numbers only, no interpretation."""
    cells = tables["cells"]
    models, seeds = len(set(cells["model"])), len(set(cells["seed"]))
    parts = [
        "## Results",
        f"{len(cells)} cells: {models} models, {cells['policy'].nunique()} policies, "
        f"{cells['stream'].nunique()} streams, {cells['order'].nunique()} orders, {seeds} "
        f"{'seed' if seeds == 1 else 'seeds'}; {int(cells['questions'].sum()):,} questions, all simulated."
        + (f" Made by `{command}`." if command else ""),
        "\n".join(f"- {'yes' if holds else '**NO**'}: {sentence}" for sentence, holds in claims(tables)),
        "### Reductions beside the paper's",
        "Change from radix to radixflow in percent (reuse in points), 95% interval over replicates in brackets.",
        _reductions(tables["side_by_side"]),
        "### What the text of the paper gives besides",
        _further(tables["side_by_side"]),
        "### Latency, rounds, reuse",
        _beside(tables["table1"], (3, 0, 2)),
        "### Rows a round, wait until first selected",
        _beside(tables["table2"], (2, 3)),
        "### Which part of the gain is which (rounds, percent)",
        _ablation(tables["ablation"]),
        "### Tails of latency, seconds",
        _markdown(tables["tails"].columns, tables["tails"].itertuples(index=False), 3),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def costs_table(costs: pd.DataFrame) -> str:
    """The fitted round costs in Markdown."""
    heads = (
        *("model", "a, ms", "b, us", "latency reached / target, s", "rounds reached / target", "rounds off"),
        *("a known to", "b known to"),
    )
    rows = [
        (
            row.model,
            f"{row.a_ms:.2f}{' (floor)' if row.a_at_floor else ''}",
            f"{row.b_us:.2f}",
            f"{row.latency_reached:.3g} / {row.latency_target:g}",
            f"{row.rounds_reached:,.0f} / {row.rounds_target:,.0f}",
            f"{100 * (row.rounds_reached / row.rounds_target - 1):+.0f}%",
            _known(row.a_uncertain),
            _known(row.b_uncertain),
        )
        for row in costs.itertuples()
    ]
    return _markdown(heads, rows)


def _known(share: float) -> str:
    return "not at all" if math.isinf(share) or share > 1 else f"{100 * share:.1f}%"


def _reductions(beside: pd.DataFrame) -> str:
    if beside.empty:
        return ""
    plain = beside[(beside["policy"] == "radixflow") & (beside["against"] == "radix") & (beside["stream"] == "all")]
    rows = []
    for model, own in plain.groupby("model", sort=False):
        row: list[str] = [str(model)]
        for metric in SHOWN:
            found = own[own["metric"] == metric]
            row += _ours_and_theirs(found.iloc[0], 2) if len(found) else ["-", "-"]
        rows.append(row)
    heads = ["model"]
    for metric in SHOWN:
        heads += [metric.replace("_", " "), "paper"]
    return _markdown(heads, rows)


def _further(beside: pd.DataFrame) -> str:
    if beside.empty:
        return ""
    plain = (beside["policy"] == "radixflow") & (beside["against"] == "radix") & beside["metric"].isin(SHOWN)
    rows = [
        (
            row.model,
            row.stream,
            row.metric.replace("_", " "),
            f"{row.against} to {row.policy}",
            *_ours_and_theirs(row, 1),
        )
        for row in beside[~(plain & (beside["stream"] == "all"))].itertuples()
    ]
    return _markdown(("model", "stream", "metric", "change from", "ours, percent", "paper"), rows)


def _ours_and_theirs(row: Any, digits: int) -> list[str]:
    ours = f"{row.ours:+.{digits}f}"
    if not math.isnan(row.low):
        ours += f" [{row.low:+.{digits}f}, {row.high:+.{digits}f}]"
    return [ours, f"{row.published:+.{digits}f}" + (" inside" if row.inside else "")]


def _beside(table: pd.DataFrame, digits: Sequence[int]) -> str:
    headings = list(dict.fromkeys(column[0] for column in table.columns))
    kept = [column for column in table.columns if column[1].split(",")[0] in ("radix", "radix+flex", "radixflow")]
    places = dict(zip(headings, digits, strict=True))
    rows = [
        [str(model), *(cell_text(float(table.loc[model, column]), places[column[0]]) for column in kept)]
        for model in table.index
    ]
    return _markdown(["model", *(f"{column[0]}: {column[1]}" for column in kept)], rows)


def _ablation(table: pd.DataFrame) -> str:
    if table.empty:
        return ""
    own = table[table["metric"] == "rounds"]
    parts = [part for part in ("admission", "traversal", "both", "fragmentation") if part in set(own["part"])]
    rows = []
    for model, stream in dict.fromkeys(zip(own["model"], own["stream"], strict=True)):
        by_part = own[(own["model"] == model) & (own["stream"] == stream)].set_index("part")
        cells = []
        for part in parts:
            if part not in by_part.index:
                cells.append("-")
                continue
            row = by_part.loc[part]
            within = " (inside)" if row["said"] == "inside the interval" else ""
            cells.append(f"{row['change']:+.1f}{within}")
        rows.append([model, stream, *cells])
    return _markdown(["model", "stream", *parts], rows)


def _markdown(heads: Iterable[str], rows: Iterable[Iterable[Any]], digits: int = 2) -> str:
    heads = [str(head).replace("_", " ") for head in heads]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in rows:
        lines.append("| " + " | ".join(cell_text(value, digits) for value in row) + " |")
    return "\n".join(lines)

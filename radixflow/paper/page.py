"""The results as a page of Markdown: what ran, what must hold, and ours beside the paper's."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from radixflow.paper.claims import claims
from radixflow.paper.frames import cell_text
from radixflow.paper.published import PAPERS, PUBLISHED_HERE, QUESTIONS, RADIX, RADIXFLOW
from radixflow.paper.tables import SHOWN, ablation_wide
from radixflow.paper.words import METRIC, metric_of, number, words

POINTS = 3
"""Decimals of a change of reuse: the paper gives reuse to a thousandth of a percent."""


def results_page(tables: dict[str, pd.DataFrame], command: str = "") -> str:
    """The report of `write_report`'s tables; numbers only, no interpretation."""
    cells = tables["cells"]
    counts = [
        _counted(len(set(cells[name])), f"{name}", "policies" if name == "policy" else f"{name}s")
        for name in ("model", "policy", "stream", "order", "seed")
    ]
    parts = [
        "## Results",
        f"{_counted(len(cells), 'cell', 'cells')}: {', '.join(counts)}; {int(cells['questions'].sum()):,} questions, "
        "all simulated." + (f" Made by `{command}`." if command else ""),
        part_of_the_whole(cells),
        "\n".join(f"- {'yes' if holds else '**NO**'}: {sentence}" for sentence, holds in claims(tables)),
    ]
    sections = {
        "Reductions beside the paper's": _reductions(tables["side_by_side"]),
        "What the text of the paper gives besides": _further(tables["side_by_side"]),
        "Latency, rounds, reuse": "Published latencies have three significant digits.\n\n" + _beside(tables["table1"]),
        "Rows a round, wait until first selected": _beside(tables["table2"]),
        "Which part of the gain is which (rounds, percent)": _ablation(tables["ablation"]),
        "Tails of latency, seconds": _tails(tables["tails"]),
    }
    parts += [f"### {heading}\n\n{section}" for heading, section in sections.items() if section]
    return "\n\n".join(part for part in parts if part) + "\n"


def _counted(n: int, one: str, many: str) -> str:
    return f"{n:,} {one if n == 1 else many}"


def part_of_the_whole(cells: pd.DataFrame) -> str:
    """A sentence, where these cells aren't all that the paper ran; else nothing."""
    asked = set(cells.groupby(["model", "policy", "seed"])["questions"].sum().tolist())
    if asked == {QUESTIONS}:
        return ""
    most = f"{max(asked):,} of its {QUESTIONS:,} questions" if max(asked) < QUESTIONS else "other questions"
    return f"Not the paper's whole experiment ({most}): rounds and times don't compare with the published ones."


def costs_table(costs: pd.DataFrame) -> str:
    """The fitted round costs in Markdown."""
    frame = costs_frame(costs)
    return _markdown(frame.columns, frame.itertuples(index=False))


def costs_frame(costs: pd.DataFrame) -> pd.DataFrame:
    """The fitted round costs in words."""
    return pd.DataFrame(
        {
            "model": row.model,
            "a, ms": f"{row.a_ms:.2f}{' (floor)' if row.a_at_floor else ''}",
            "b, us": f"{row.b_us:.2f}",
            "latency reached / target, s": f"{row.latency_reached:.3f} / {row.latency_target:.3f}",
            "rounds reached / target": f"{row.rounds_reached:,.0f} / {row.rounds_target:,.0f}",
            "rounds off": f"{100 * (row.rounds_reached / row.rounds_target - 1):+.0f}%",
            "a known to": _known(row.a_uncertain),
            "b known to": _known(row.b_uncertain),
        }
        for row in costs.itertuples()
    )


def _known(share: float) -> str:
    return "not at all" if math.isinf(share) or share > 1 else f"{100 * share:.1f}%"


def _reductions(beside: pd.DataFrame) -> str:
    if beside.empty:
        return ""
    plain = beside[tables_own(beside)]
    rows = []
    for model, own in plain.groupby("model", sort=False):
        row: list[str] = [str(model)]
        for metric in SHOWN:
            found = own[own["metric"] == metric]
            row += _ours_and_theirs(found.iloc[0], POINTS if metric == "reuse" else 2) if len(found) else ["-", "-"]
        rows.append(row)
    heads = ["model"]
    for metric in SHOWN:
        heads += [words(metric), "paper"]
    how = (
        "Change from radix to radixflow in percent (reuse in points), 95% interval over replicates in brackets. "
        "*Inside*: the paper's change, which is known to the printed digits only, may lie in our interval."
    )
    return f"{how}\n\n{_markdown(heads, rows)}" if rows else ""


def tables_own(beside: pd.DataFrame) -> np.ndarray:
    """Which rows of `side_by_side` come from the paper's Tables 1 and 2, and not from its text."""
    plain = (beside["policy"] == RADIXFLOW) & (beside["against"] == RADIX) & (beside["stream"] == "all")
    return (plain & beside["metric"].isin(SHOWN)).to_numpy(bool)


def _further(beside: pd.DataFrame) -> str:
    if beside.empty:
        return ""
    rows = [
        (row.model, row.stream, words(row.metric), f"{row.against} to {row.policy}", *_ours_and_theirs(row, 1))
        for row in beside[~tables_own(beside)].itertuples()
    ]
    return _markdown(("model", "stream", "metric", "change from", "ours, percent", "paper"), rows) if rows else ""


def _ours_and_theirs(row: Any, digits: int) -> list[str]:
    ours = spread(row.ours, row.low, row.high, digits)
    return [ours, number(row.published, digits, signed=True) + (" inside" if row.inside else "")]


def spread(change: float, low: float, high: float, digits: int = 2) -> str:
    """A change with its interval, where it has one."""
    told = [number(value, digits, signed=True) if not math.isnan(value) else "-" for value in (change, low, high)]
    return told[0] if math.isnan(low) else f"{told[0]} [{told[1]}, {told[2]}]"


def _beside(table: pd.DataFrame) -> str:
    kept = papers_own(table)
    rows = [
        [str(model), *(cell_text(float(value), _decimals(column[0])) for column, value in row.items())]
        for model, row in kept.iterrows()
    ]
    return _markdown(["model", *(f"{column[0]}: {column[1]}" for column in kept.columns)], rows)


def papers_own(table: pd.DataFrame) -> pd.DataFrame:
    """The columns of `beside_published` that the paper's own table has, and `radix+flex`; all where it has none."""
    kept = [column for column in table.columns if column[1].removesuffix(PUBLISHED_HERE) in PAPERS]
    ours = any(not column[1].endswith(PUBLISHED_HERE) for column in kept)
    return table.loc[:, kept] if ours else table


def _decimals(head: str) -> int:
    found = metric_of(head)
    return found.decimals if found else 2


def _ablation(table: pd.DataFrame) -> str:
    wide = ablation_wide(table)
    if wide.empty:
        return ""

    def cell(found: tuple[float, float, float, str] | None) -> str:
        if found is None:
            return "-"
        return number(found[0], 1, signed=True) + (" (inside)" if found[3] == "inside the interval" else "")

    rows = [[*row[:2], *map(cell, row[2:])] for row in wide.itertuples(index=False, name=None)]
    return "A change whose interval holds zero is marked *(inside)*.\n\n" + _markdown(wide.columns, rows)


def _tails(table: pd.DataFrame) -> str:
    plain = [METRIC[name].words if name in METRIC else name for name in table.columns]
    return _markdown(plain, table.itertuples(index=False), 3)


def _markdown(heads: Iterable[str], rows: Iterable[Iterable[Any]], digits: int = 2) -> str:
    heads = [str(head).replace("_", " ") for head in heads]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in rows:
        lines.append("| " + " | ".join(cell_text(value, digits) for value in row) + " |")
    return "\n".join(lines)

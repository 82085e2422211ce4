"""A comparison of runs as HTML, for the page that replays offline: metrics, charts, and the requests."""

from __future__ import annotations

import base64
from html import escape
from typing import Any

import pandas as pd

from radixflow.analysis import CostRefused, compare
from radixflow.analysis.compare import Comparison
from radixflow.analysis.metric_rows import metric_rows
from radixflow.figures.cards import CAUSE_WORDS
from radixflow.figures.printed import comparison as printed_comparison

MAX_REQUESTS = 1000
"""Requests in the table; the rest are counted."""

CHARTS = (
    ("Rows a round", printed_comparison.rows_a_round),
    ("Slots by cause", printed_comparison.slots_by_cause),
    ("Waits by cause", printed_comparison.waits_of_causes),
    ("Latency tail", printed_comparison.latency),
    ("Host time saved", printed_comparison.cost),
)


def comparison_html(traces: list[Any]) -> str:
    """Cards for two runs or more."""
    found = compare(*traces)
    clocked = all(trace.header.clock.arrivals for trace in traces)
    cards = [f"<h2>Compare</h2>{_metrics(found)}", *(_chart(words, make, traces) for words, make in CHARTS)]
    shown = "".join(f'<section class="card">{card}</section>' for card in cards if card)
    return f'{shown}<section class="card wide"><h3>Requests</h3>{_requests(found, clocked)}</section>'


def _metrics(found: Comparison) -> str:
    head = "".join(f"<th scope=col>{escape(label)}</th>" for label in found.labels)
    rows = (
        f"<tr><th scope=row>{escape(words)}</th>"
        + "".join(f'<td>{escape(number)} <span class="soft">{escape(change)}</span></td>' for number, change in cells)
        + "</tr>"
        for words, cells in metric_rows([one.flat() for one in found.summaries])
    )
    return f"<table><thead><tr><th scope=col>Metric</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _chart(words: str, make: Any, traces: list[Any]) -> str:
    """Nothing where the runs have no such numbers: without a clock, no latency."""
    try:
        # Not SVG: a hatch of dots alone has 300 kB there.
        data = make(*traces).render("png", "column", source_line=False)
    except (CostRefused, ValueError):
        return ""
    image = base64.b64encode(data).decode()
    return f'<h3>{words}</h3><img alt="{words}" src="data:image/png;base64,{image}">'


def _requests(found: Comparison, clocked: bool) -> str:
    fields = [("first_selected_round", "first round"), ("wait_rounds", "rounds waited")]
    fields += [("wait_seconds", "waited, ms"), ("latency", "latency, ms")] if clocked else []
    fields += [("cause", "mostly")]
    spans = "".join(f"<th scope=colgroup colspan={len(fields)}>{escape(label)}</th>" for label in found.labels)
    names = "".join(f"<th scope=col>{words}</th>" for _ in found.labels for _, words in fields)
    rows = []
    for id, row in found.requests.iloc[:MAX_REQUESTS].iterrows():
        cells = "".join(
            f"<td>{escape(_written(name, row[label, name]))}</td>" for label in found.labels for name, _ in fields
        )
        rows.append(f"<tr><th scope=row>{escape(str(id))}</th>{cells}</tr>")
    more = len(found.requests) - len(rows)
    rest = f'<p class="soft">and {more:,} more</p>' if more > 0 else ""
    head = f"<tr><th></th>{spans}</tr><tr><th scope=col>request</th>{names}</tr>"
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>{rest}"


def _written(name: str, value: Any) -> str:
    if value is None or pd.isna(value):
        return "-" if name != "cause" else ""
    if name == "cause":
        return CAUSE_WORDS.get(value, str(value))
    if name in ("wait_seconds", "latency"):
        return f"{1000 * float(value):,.1f}"
    return f"{int(value):,}"

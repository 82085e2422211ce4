"""A comparison of runs as HTML, for the page that replays offline: metrics, charts, and the requests."""

from __future__ import annotations

import base64
from html import escape
from typing import Any

import pandas as pd

from radixflow.analysis import CostRefused, compare
from radixflow.analysis.compare import Comparison
from radixflow.analysis.metric_rows import metric_rows
from radixflow.figures.printed import comparison as printed_comparison
from radixflow.figures.wording import cause_words

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
    told = metric_rows([one.flat() for one in found.summaries])
    # Numbers end at one edge, whatever stands beside them.
    wide = [max((len(cells[k][1]) for _, cells in told), default=0) for k in range(len(found.labels))]

    def cell(number: str, change: str, room: int) -> str:
        beside = f' <span class="change soft" style="min-width:{room}ch">{escape(change)}</span>' if room else ""
        return escape(number) + beside

    head = "".join(f"<th scope=col>{cell(label, '', n)}</th>" for label, n in zip(found.labels, wide, strict=True))
    rows = (
        f"<tr><th scope=row>{escape(words)}</th>"
        + "".join(f"<td>{cell(*one, n)}</td>" for one, n in zip(cells, wide, strict=True))
        + "</tr>"
        for words, cells in told
    )
    return _scrolling(
        "Metrics",
        f"<table><thead><tr><th scope=col>Metric</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>",
    )


def _scrolling(name: str, table: str) -> str:
    """A table that is wider than the page moves sideways in a frame of its own."""
    return f'<div class="scroll" tabindex=0 role=region aria-label="{name}">{table}</div>'


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
    names = "".join(f"<th scope=col{_kind(name)}>{words}</th>" for _ in found.labels for name, words in fields)
    rows = []
    for id, row in found.requests.iloc[:MAX_REQUESTS].iterrows():
        cells = "".join(
            f"<td{_kind(name)}>{escape(_written(name, row[label, name]))}</td>"
            for label in found.labels
            for name, _ in fields
        )
        name = escape(str(id))
        rows.append(f'<tr><th scope=row title="{name}">{name}</th>{cells}</tr>')
    more = len(found.requests) - len(rows)
    rest = f'<p class="soft">and {more:,} more</p>' if more > 0 else ""
    head = f"<tr><th></th>{spans}</tr><tr><th scope=col>request</th>{names}</tr>"
    return _scrolling("Requests", f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>") + rest


def _kind(name: str) -> str:
    """Words begin at one edge, where numbers end at one."""
    return " class=why" if name == "cause" else ""


def _written(name: str, value: Any) -> str:
    if value is None or pd.isna(value):
        return "-" if name != "cause" else ""
    if name == "cause":
        return cause_words(str(value))
    if name in ("wait_seconds", "latency"):
        return f"{1000 * float(value):,.1f}"
    return f"{int(value):,}"

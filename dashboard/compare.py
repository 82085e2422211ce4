"""Comparison of two to six runs: in short below a replay, in full in its own view."""

from __future__ import annotations

from typing import Any

import dash_ag_grid
import numpy as np
import pandas as pd
from dash import dcc, html

from radixflow.analysis.compare import Comparison, compare
from radixflow.analysis.diverge import Divergence
from radixflow.analysis.metric_rows import METRICS, metric_rows
from radixflow.figures import charts
from radixflow.figures.wording import cause_words

from .api import MAX_TRACES
from .library import Library

MAX_ROWS = 5000
"""Requests in the table; of more, those that waited longest in any of the runs."""


_GRID_THEME = (
    "themeQuartz.withParams({backgroundColor: 'var(--rf-panel)', foregroundColor: 'var(--rf-text)', "
    "headerBackgroundColor: 'var(--rf-sunken)', borderColor: 'var(--rf-line)', accentColor: 'var(--accent)', "
    "headerTextColor: 'var(--rf-text)', fontFamily: 'inherit', fontSize: 15, wrapperBorderRadius: 8})"
)


SHORT = (
    "rounds",
    "rows_per_round",
    "avoidable_slots",
    "reuse_rate",
    "latency_mean",
    "latency_p99",
    "host_seconds",
)


def body(library: Library, keys: list[str], whole: bool, theme: str) -> list[Any]:
    """What stands in the comparison's panel. Raises UnknownTrace, TraceError."""
    out: list[Any] = [_picker(library, keys)] if whole else []
    if len(keys) < 2:
        return [*out, html.P("Choose a second run to compare with.", className="soft")]
    with library.reading_all(keys, long=True) as opened:
        found = compare(*(one.trace for one in opened))
        out += [
            _parting(label, part, found.labels[0])
            for label, part in zip(found.labels[1:], found.divergences, strict=True)
        ]
        if found.warnings:
            out.append(html.Ul([html.Li(line) for line in found.warnings], className="warnings"))
        if not whole:
            return [*out, _table(found, SHORT)]
        clocked = all(one.trace.header.clock.arrivals for one in opened)
        rows = {
            label: one.trace.rounds.loc[one.trace.rounds["tokens"] > 0, "rows"]
            for label, one in zip(found.labels, opened, strict=True)
        }
        row_budget = max(one.trace.config.max_num_seqs for one in opened)
    waited = found.waits if clocked else found.wait_rounds
    grid = [
        _chart("Rows a round", charts.rows_a_round(rows, row_budget, theme)),
        _chart("Slots by cause", charts.slots_by_cause(found.slots, theme)),
        _chart("Waits by cause", charts.waits_by_cause(waited, theme, "seconds" if clocked else "rounds")),
    ]
    if clocked:
        latency = {label: found.requests[label]["latency"] for label in found.labels}
        grid.append(_chart("Latency, and its tail", charts.latency_ecdf(latency, theme), tall=True))
    costs = {label: cost.to_dict() if cost else None for label, cost in zip(found.labels[1:], found.costs, strict=True)}
    if any(costs.values()):
        grid.append(_chart("Host time saved", charts.cost_identity(costs, theme, found.labels[0]), _identity(found)))
    refused = [f"{label}: {why}." for label, why in zip(found.labels[1:], found.refusals, strict=True) if why]
    if refused:
        out.append(html.P(["No cost identity. ", *refused], className="soft"))
    return [
        *out,
        html.Div([_table(found, tuple(METRICS)), html.Div(grid, className="charts")], className="side-by-side"),
        html.Div([_requests_title(len(found.requests)), _requests(found, clocked)], className="chart wide"),
    ]


def _picker(library: Library, keys: list[str]) -> html.Div:
    """All runs of the first one's workload; a press adds or removes one."""
    known = {described["key"]: described for described in library.list()}
    for key in keys:
        known.setdefault(key, library.describe(key))
    group = known[keys[0]]["group"] if keys else None
    buttons = []
    for key, described in known.items():
        if group is not None and described["group"] != group:
            continue
        chosen = key in keys
        after = [other for other in keys if other != key] if chosen else [*keys, key]
        buttons.append(
            html.Button(
                described["policy"],
                type="button",
                className="toggle",
                title=described["file"],
                disabled=not after or len(after) > MAX_TRACES,
                **{"aria-pressed": str(chosen).lower(), "data-traces": ".".join(after)},
            )
        )
    return html.Div(buttons, className="chips", role="group", **{"aria-label": "Runs compared"})


def _parting(label: str, part: Divergence | None, first: str) -> html.P:
    if part is None:
        return html.P([html.B(label), f" decided as {first} did in every round."])
    words: list[Any] = [html.B(label), f" and {first} part in "]
    words.append(
        html.Button(f"round {part.round:,}", type="button", className="link", **{"data-round": str(part.round)})
    )
    words.append(f": {part.said(label, first)}")
    return html.P(words, className="parting")


def _table(found: Comparison, names: tuple[str, ...]) -> html.Div:
    told = metric_rows([one.flat() for one in found.summaries], names)
    # Each run's changes have as much room as the longest of them, so that its numbers end at one edge.
    wide = [max((len(cells[k][1]) for _, cells in told), default=0) for k in range(len(found.labels))]

    def cell(number: str, change: str, room: int) -> list[Any]:
        beside = html.Span(change, className="change", style={"minWidth": f"{room}ch"})
        return [number, " ", beside] if room else [number]

    head = [
        html.Th("Metric", scope="col", className="corner"),
        *(html.Th(cell(label, "", room), scope="col") for label, room in zip(found.labels, wide, strict=True)),
    ]
    rows = [
        html.Tr(
            [
                html.Th(words, scope="row"),
                *(html.Td(cell(*one, room)) for one, room in zip(cells, wide, strict=True)),
            ]
        )
        for words, cells in told
    ]
    table = html.Table([html.Thead(html.Tr(head)), html.Tbody(rows)], className="metrics")
    return html.Div(
        table, className="table-scroll", tabIndex=0, role="region", **{"aria-label": "Metrics side by side"}
    )


def _identity(found: Comparison) -> list[Any]:
    told = zip(found.labels[1:], found.costs, strict=True)
    return [html.P(f"{label}: {cost.text}", className="soft") for label, cost in told if cost is not None]


def _chart(title: str, figure: Any, notes: list[Any] | None = None, tall: bool = False) -> html.Div:
    figure.update_layout(autosize=True, margin={"l": 8, "r": 8, "t": 8, "b": 8})
    return html.Div(
        [
            html.H3(title),
            *(notes or []),
            dcc.Graph(
                figure=figure,
                responsive=True,
                config={"displayModeBar": False, "displaylogo": False, "showTips": False},
                style={"height": "360px" if tall else "280px"},
            ),
        ],
        className="chart",
    )


def _requests_title(count: int) -> html.H3:
    if count <= MAX_ROWS:
        return html.H3("Requests")
    note = f"the {MAX_ROWS:,} of {count:,} that waited longest; Save gives all of them as CSV"
    return html.H3(["Requests ", html.Span(note, className="soft")])


def _requests(found: Comparison, clocked: bool) -> dash_ag_grid.AgGrid:
    table = found.requests
    numbers = np.arange(len(table))
    if len(table) > MAX_ROWS:
        waited = table.xs("wait_seconds" if clocked else "wait_rounds", axis=1, level=1).max(axis=1)
        longest = np.argsort(-waited.fillna(0).to_numpy(dtype=float), kind="stable")[:MAX_ROWS]
        numbers = np.sort(longest)
        table = table.iloc[numbers]
    columns: list[dict[str, Any]] = [{"field": "request", "headerName": "Request", "width": 160, "filter": True}]
    # Fixed widths: with flexible ones the grid now and then keeps its rows hidden.
    width = max(154, 1180 // (len(found.labels) * (5 if clocked else 3)))
    number = {"type": "numericColumn", "width": width}
    data = pd.DataFrame({"n": numbers, "request": table.index.astype(str)})
    for k, label in enumerate(found.labels):
        own = table[label]
        shown = [("first_selected_round", "First round"), ("wait_rounds", "Rounds waited")]
        if clocked:
            shown += [("wait_seconds", "Waited, ms"), ("latency", "Latency, ms")]
        children = []
        for name, words in shown:
            values = pd.to_numeric(own[name], errors="coerce").to_numpy(dtype=float)
            if name in ("wait_seconds", "latency"):
                values = (values * 1000).round(3)
            data[f"{name}{k}"] = values
            children.append({"field": f"{name}{k}", "headerName": words, **number})
        data[f"cause{k}"] = [cause_words(cause) if isinstance(cause, str) else "" for cause in own["cause"]]
        children.append({"field": f"cause{k}", "headerName": "Mostly", "width": max(width, 205), "filter": True})
        columns.append({"headerName": label, "children": children})
    rows = data.astype(object).where(data.notna(), None).to_dict("records")
    return dash_ag_grid.AgGrid(
        id="requests-grid",
        rowData=rows,
        columnDefs=columns,
        defaultColDef={"sortable": True, "resizable": True},
        # The page's variables, so that the grid follows the theme by itself.
        dashGridOptions={
            "theme": {"function": _GRID_THEME},
            "animateRows": False,
            "suppressFieldDotNotation": True,
        },
        style={"height": f"{min(440, 120 + 42 * len(rows))}px"},
    )

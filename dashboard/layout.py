"""The page: what stands where. What moves is filled in by callbacks and by the modules in `assets/`."""

from __future__ import annotations

from typing import Any

from dash import dcc, html

from . import classroom

VIEWS = (("replay", "Replay"), ("compare", "Compare"), ("classroom", "Classroom"))


def page() -> html.Div:
    """The whole page, the same for every session: nothing in it belongs to one of them."""
    return html.Div(
        [
            html.A("Skip to the timeline", href="#timeline", className="skip"),
            _header(),
            html.Main(
                [
                    _toolbar(),
                    html.Section(
                        classroom.panel(),
                        id="classroom",
                        className="card classroom",
                        **{"aria-label": "Classroom"},
                    ),
                    html.Div([_stage(), _aside()], className="desk"),
                    html.Section(
                        [html.H2("Compare"), html.Div(id="compare-body", className="compare-body")],
                        id="compare",
                        className="card compare",
                        **{"aria-label": "Compare"},
                    ),
                ],
                id="main",
            ),
            html.Div(id="message", role="alert", className="message", hidden=True),
            # Written by the page's modules, read by the callback.
            dcc.Store(id="comparison"),
            html.Div(id="laid-out", hidden=True),
        ],
        id="page",
        **{"data-view": "replay"},
    )


def _header() -> html.Header:
    tabs = [
        html.Button(words, type="button", className="tab", **{"data-view": view, "aria-pressed": "false"})
        for view, words in VIEWS
    ]
    return html.Header(
        [
            html.Div(
                [html.Span(className="mark", **{"aria-hidden": "true"}), html.H1("radixflow")],
                className="brand",
            ),
            html.Nav(tabs, **{"aria-label": "Views"}),
            html.Div(id="live-status", className="live-status", role="status", children="Loading"),
            html.Div(
                [
                    _downloads(),
                    html.Button("Copy link", type="button", id="copy-link", className="quiet"),
                    html.Button("Dark", type="button", id="theme", className="quiet", **{"aria-label": "Switch theme"}),
                ],
                className="header-tools",
            ),
        ],
        className="top",
    )


def _downloads() -> html.Details:
    """What is shown, to take away; the links' addresses follow the state."""
    pictures = ("svg", "pdf", "png")
    offers = [
        ("Timelines", "timeline", pictures),
        ("Prefix tree", "tree", pictures),
        ("Metrics", "metrics", pictures),
        ("Rows a round", "rows", pictures),
        ("Slots by cause", "slots", pictures),
        ("Waits by cause", "waits", pictures),
        ("Latency tail", "latency", pictures),
        ("Host time saved", "cost", pictures),
        ("Replay, works offline", "replay", ("html",)),
    ]
    rows = [
        html.Li(
            [html.Span(words)]
            + [
                html.A(
                    format.upper(),
                    href="#",
                    className="download",
                    **{"data-what": what, "data-format": format, "aria-label": f"{words} as {format.upper()}"},
                )
                for format in formats
            ]
        )
        for words, what, formats in offers
    ]
    return html.Details([html.Summary("Save", className="quiet"), html.Ul(rows)], className="downloads", id="downloads")


def _toolbar() -> html.Div:
    return html.Div(
        [
            _select("trace-select", "Workload"),
            _select("policy-a", "Policy A"),
            _select("policy-b", "Policy B"),
            html.Div(
                [
                    html.Button("Rounds", type="button", **{"data-axis": "round", "aria-pressed": "true"}),
                    html.Button("Time", type="button", **{"data-axis": "time", "aria-pressed": "false"}),
                ],
                className="segmented",
                role="group",
                **{"aria-label": "Align timelines by"},
            ),
            html.Div(id="run-facts", className="run-facts"),
        ],
        className="toolbar",
    )


def _select(id: str, label: str) -> html.Label:
    return html.Label([html.Span(label), html.Select(id=id)], className="field")


def _stage() -> html.Div:
    return html.Div(
        [
            html.Section(
                [html.Div(className="lane", id=f"lane-{k}", hidden=k > 0) for k in range(6)],
                id="timeline",
                className="card timelines",
                **{"aria-label": "Round timeline"},
            ),
            _transport(),
            html.Section(
                [
                    html.H2("Waiting queue", title="In native order, as the scan found it"),
                    html.Div(id="queue", className="chips queue", tabIndex=0),
                ],
                className="card queue-card",
                **{"aria-label": "Waiting queue"},
            ),
            html.Section(id="tree", className="card tree", **{"aria-label": "Prefix tree"}),
            html.Div(id="node", className="card node"),
        ],
        className="stage",
    )


def _transport() -> html.Div:
    return html.Div(
        [
            html.Div(
                [
                    _step("first", "First round", "step"),
                    _step("back", "One round back", "step"),
                    html.Button(
                        _icon("play"),
                        type="button",
                        id="play",
                        className="play",
                        **{"aria-label": "Play", "aria-pressed": "false"},
                    ),
                    _step("next", "One round on", "step"),
                    _step("last", "Last round", "step"),
                ],
                className="steps",
            ),
            html.Output(id="round-readout", className="readout", children="Round"),
            # The page puts the slider #round-slider in: it must never wait for a callback.
            html.Div(className="slider-host"),
            html.Select(
                [html.Option(f"{speed} / s", value=str(speed)) for speed in (1, 2, 5, 10, 30)],
                id="speed",
                title="Rounds a second while playing",
                **{"aria-label": "Speed"},
            ),
            html.Div(
                [
                    html.Span("Next", className="soft"),
                    html.Button("bubble", type="button", **{"data-jump": "bubble"}),
                    html.Button("blocked", type="button", **{"data-jump": "blocked"}),
                    html.Button("stop", type="button", **{"data-jump": "stop"}),
                    html.Button("parting", type="button", **{"data-jump": "parting"}),
                ],
                className="jumps",
                role="group",
                **{"aria-label": "Jump to the next"},
            ),
        ],
        className="card transport",
    )


def _step(name: str, label: str, kind: str) -> html.Button:
    return html.Button(
        _icon(name), type="button", className=kind, title=label, **{"data-step": name, "aria-label": label}
    )


def _icon(name: str) -> Any:
    return html.Span(className=f"icon icon-{name}", **{"aria-hidden": "true"})


def _aside() -> html.Aside:
    return html.Aside(
        [
            html.Section(
                id="round-inspector",
                className="card inspector",
                tabIndex=0,
                **{"aria-label": "Round"},
            ),
            html.Section(
                id="request-inspector",
                className="card inspector",
                tabIndex=0,
                **{"aria-label": "Request"},
            ),
        ]
    )

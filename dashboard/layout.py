"""The page: what stands where. What moves is filled in by callbacks and by the modules in `assets/`."""

from __future__ import annotations

from typing import Any

from dash import dcc, html

from . import classroom
from .exports import OFFERS, PICTURES

VIEWS = (("replay", "Replay"), ("compare", "Compare"), ("engines", "Engines"), ("classroom", "Classroom"))


def page(of_index: bool = False) -> html.Div:
    """The whole page, the same for every session: nothing in it belongs to one of them. of_index: the engines are
    those of a running index."""
    return html.Div(
        [
            html.A("Skip to the timeline", href="#timeline", className="skip"),
            _header(),
            html.Main(
                [
                    html.P(id="no-traces", className="notice", role="status", hidden=True),
                    _toolbar(),
                    html.Section(
                        classroom.panel(),
                        id="classroom",
                        className="card classroom",
                        **{"aria-label": "Classroom"},
                    ),
                    _engines(),
                    _nothing(),
                    classroom.starting(),
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
        **{"data-view": "replay", "data-engines": "index" if of_index else "traces"},
    )


def _engines() -> html.Section:
    return html.Section(
        [
            html.Div(
                [
                    html.H2("Engines"),
                    html.P(id="engines-source", className="soft", role="status"),
                    html.Div(
                        [
                            html.Button(
                                format.upper(),
                                type="button",
                                className="quiet",
                                **{"data-format": format, "aria-label": f"Save this picture as {format.upper()}"},
                            )
                            for format in PICTURES
                        ],
                        id="engines-save",
                        className="engines-save",
                        role="group",
                        **{"aria-label": "Save this picture"},
                    ),
                ],
                className="engines-head",
            ),
            html.Div(id="engines-choice", className="chips", role="group", **{"aria-label": "Runs shown as engines"}),
            html.Div(
                [
                    html.Div(id="engines-tree", className="engines-tree"),
                    html.Div(id="engines-pane", className="engines-pane", tabIndex=0),
                ],
                className="engines-desk",
            ),
        ],
        id="engines",
        className="card engines",
        **{"aria-label": "Engines"},
    )


def _header() -> html.Header:
    tabs = [
        html.Button(
            words, type="button", className="tab", **{"data-view": view, "data-words": words, "aria-pressed": "false"}
        )
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


SAVED = {
    "Views": {
        "timeline": "Timelines",
        "tree": "Prefix tree",
        "round": "Round and queue",
        "request": "Request",
        "trajectories": "Trajectories, whole run",
        "bars": "Trajectories at this round",
        "replay": "Replay, works offline",
    },
    "Charts": {
        "rows": "Rows a round",
        "slots": "Slots by cause",
        "waits": "Waits by cause",
        "latency": "Latency tail",
        "cost": "Host time saved",
    },
    "Tables": {
        "metrics": "Metrics",
        "requests": "Requests",
    },
}
"""The Save menu: what `exports.OFFERS` has, in groups, in words."""


def _downloads() -> html.Details:
    """What is shown, to take away; the links' addresses follow the state."""
    menu: list[Any] = []
    for group, offers in SAVED.items():
        menu.append(html.H2(group))
        menu.append(html.Ul([_offer(what, words) for what, words in offers.items()]))
    return html.Details(
        [html.Summary("Save", className="quiet"), html.Div(menu, className="saves")],
        className="downloads",
        id="downloads",
    )


def _offer(what: str, words: str) -> html.Li:
    links = [
        html.A(
            format.upper(),
            href="#",
            className="download",
            **{"data-what": what, "data-format": format, "aria-label": f"{words} as {format.upper()}"},
        )
        for format in OFFERS[what]
    ]
    return html.Li([html.Span(words), *links])


def _toolbar() -> html.Div:
    return html.Div(
        [
            _select("trace-select", "Workload"),
            _select("policy-a", "Policy A"),
            _select("policy-b", "Policy B"),
            html.Div(
                [
                    _axis("Rounds", "round", "true"),
                    _axis("Time", "time", "false"),
                ],
                className="segmented",
                role="group",
                **{"aria-label": "Align timelines by"},
            ),
            html.Div(id="run-facts", className="run-facts"),
        ],
        className="toolbar",
    )


def _axis(words: str, axis: str, pressed: str) -> html.Button:
    return html.Button(words, type="button", **{"data-axis": axis, "data-words": words, "aria-pressed": pressed})


def _select(id: str, label: str) -> html.Label:
    return html.Label([html.Span(label), html.Select(id=id)], className="field")


def _nothing() -> html.Section:
    """Stands where a replay would, while no run is chosen."""
    return html.Section(
        [
            html.H2("No run is open"),
            html.P("A replay and a comparison need a recorded run. There are three ways to one:"),
            html.Ul(
                [
                    html.Li(["name traces when you start: ", html.Code("radixflow dash run.rft.jsonl.zst")]),
                    html.Li(["offer a folder of them: ", html.Code("radixflow dash --trace-dir traces")]),
                    html.Li(
                        [
                            "or make one now, in the ",
                            html.Button("Classroom", type="button", className="link", **{"data-view": "classroom"}),
                            ".",
                        ]
                    ),
                ]
            ),
        ],
        id="nothing",
        className="card nothing",
        hidden=True,
        **{"aria-label": "No run is open"},
    )


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
            _trajectories(),
        ],
        className="stage",
    )


def _trajectories() -> html.Section:
    """Contexts that grow turn by turn; the page shows it where somebody comes back to one."""
    signs = [
        ("own", "there to go on from"),
        ("shared", "shared with others"),
        ("dead", "no state goes with it"),
        ("lost", "lost"),
        ("gone", "nothing of its own left"),
    ]
    legend = [
        html.Li([html.Span(className=f"bar-sign sign-{name}"), html.Span(words)], className=f"of-{name}")
        for name, words in signs
    ]
    return html.Section(
        [
            html.Div([html.H2("Trajectories"), html.Ul(legend, className="bar-legend")], className="bar-head"),
            html.Div(className="bar-columns"),
            html.P(className="bar-words"),
            html.P(className="bar-folded soft"),
        ],
        id="trajectories",
        className="card trajectories",
        hidden=True,
        **{"aria-label": "Trajectories"},
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

"""Pictures of a trace: what is drawn is computed once (pure), then rendered for screen and print.

    rf.figures.timeline(trace).save("f.pdf")    rf.figures.tree(trace, at_round=3)
    rf.figures.compare(a, b)                    rf.figures.export_html([a, b], "replay.html")
    rf.figures.slots_by_cause(a, b)             and waits_by_cause, rows_a_round, latency, cost, metrics
    rf.figures.round(trace, 3)                  what a round decided, and why; rf.figures.request(trace, "A1")
    rf.figures.requests(a, b)                   all requests side by side
    rf.figures.trajectories(a, b)               whose prefix went, over the run; at_round=n: as bars
    rf.figures.latency_by_model(runs)           and rounds_by_model, of a table such as runs_frame(a, b, ...)

`windows` and `icicle` compute what timeline and tree show, `palette` the colours, `charts` the Plotly
charts of comparisons. matplotlib and Plotly are imported when something is drawn.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from radixflow.figures import icicle, windows
from radixflow.figures.palette import Colours

if TYPE_CHECKING:
    from radixflow.figures.figure import Figure

_PRINTED = {
    "slots_by_cause": ("printed.comparison", "slots_by_cause"),
    "waits_by_cause": ("printed.comparison", "waits_of_causes"),
    "rows_a_round": ("printed.comparison", "rows_a_round"),
    "latency": ("printed.comparison", "latency"),
    "cost": ("printed.comparison", "cost"),
    "metrics": ("printed.table", "metrics"),
    "round": ("printed.inspectors", "round"),
    "request": ("printed.inspectors", "request"),
    "requests": ("printed.requests", "requests"),
    "trajectories": ("printed.trajectories", "trajectories"),
    "latency_by_model": ("printed.models", "latency_by_model"),
    "rounds_by_model": ("printed.models", "rounds_by_model"),
    "runs_frame": ("printed.runs", "runs_frame"),
}
__all__ = ["Colours", "compare", "export_html", "icicle", "timeline", "tree", "windows", *_PRINTED]


def __getattr__(name: str) -> Any:
    if name not in _PRINTED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, function = _PRINTED[name]
    return getattr(import_module(f"{__name__}.{module}"), function)


def timeline(trace: Any, first: int = 1, last: int | None = None, colours: Colours | None = None) -> Figure:
    """The round timeline of rounds first..last (the whole run by default), as a `Figure`."""
    from radixflow.figures import chart

    return chart.timeline(trace, first, last, colours)


def tree(trace: Any, at_round: int, colours: Colours | None = None, max_nodes: int = 40) -> Figure:
    """The prefix tree as round `at_round` left it, as a `Figure`."""
    from radixflow.figures import chart

    return chart.tree(trace, at_round, colours, max_nodes)


def compare(
    *traces: Any,
    first: int = 1,
    last: int | None = None,
    colours: Colours | None = None,
    beside: bool = False,
    labels: Sequence[str] = (),
) -> Figure:
    """Timelines of two to six traces under one another, or `beside` one another, as a `Figure`.

    `labels`: titles in place of the policies, one a trace.
    """
    from radixflow.figures import chart

    return chart.compare(*traces, first=first, last=last, colours=colours, beside=beside, labels=labels)


def export_html(
    traces: Any | Iterable[Any],
    path: str | os.PathLike[str],
    first: int = 1,
    last: int | None = None,
    title: str | None = None,
) -> Path:
    """One self-contained HTML file that replays a run, or several under one another, offline."""
    from radixflow.figures.offline import page

    return page.export_html(traces, path, first, last, title)

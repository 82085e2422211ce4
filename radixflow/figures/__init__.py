"""Pictures of a trace: what is drawn is computed once (pure), then rendered for screen and print.

    rf.figures.timeline(trace).save("f.pdf")    rf.figures.tree(trace, at_round=3)
    rf.figures.compare(a, b)                    rf.figures.export_html([a, b], "replay.html")

`windows` and `icicle` compute what timeline and tree show, `palette` the colours, `charts` the Plotly
charts of comparisons. matplotlib and Plotly are imported when something is drawn.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from radixflow.figures import icicle, windows
from radixflow.figures.palette import Colours

if TYPE_CHECKING:
    from radixflow.figures.figure import Figure

__all__ = ["Colours", "compare", "export_html", "icicle", "timeline", "tree", "windows"]


def timeline(trace: Any, first: int = 1, last: int | None = None, colours: Colours | None = None) -> Figure:
    """The round timeline of rounds first..last (the whole run by default), as a `Figure`."""
    from radixflow.figures import chart

    return chart.timeline(trace, first, last, colours)


def tree(trace: Any, at_round: int, colours: Colours | None = None, max_nodes: int = 40) -> Figure:
    """The prefix tree as round `at_round` left it, as a `Figure`."""
    from radixflow.figures import chart

    return chart.tree(trace, at_round, colours, max_nodes)


def compare(*traces: Any, first: int = 1, last: int | None = None, colours: Colours | None = None) -> Figure:
    """Timelines of two to six traces under one another, as a `Figure`."""
    from radixflow.figures import chart

    return chart.compare(*traces, first=first, last=last, colours=colours)


def export_html(
    traces: Any | Iterable[Any],
    path: str | os.PathLike[str],
    first: int = 1,
    last: int | None = None,
    title: str | None = None,
) -> Path:
    """One self-contained HTML file that replays a run, or several under one another, offline."""
    from radixflow.figures import page

    return page.export_html(traces, path, first, last, title)

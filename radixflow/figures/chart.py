"""`rf.figures.timeline`, `.tree` and `.compare`: from traces to figures that print and display."""

from __future__ import annotations

from typing import Any

from radixflow.figures import icicle, printed_timeline, printed_tree, windows
from radixflow.figures.figure import Figure
from radixflow.figures.palette import THEMES, Colours

MAX_COMPARED = 6


def timeline(trace: Any, first: int = 1, last: int | None = None, colours: Colours | None = None) -> Figure:
    """The round timeline of rounds first..last (the whole run by default).

    Up to 160 rounds are drawn cell by cell, more as shares of the S slots.
    """
    return _timelines([trace], first, last, colours, f"timeline of trace {trace.id}")


def compare(*traces: Any, first: int = 1, last: int | None = None, colours: Colours | None = None) -> Figure:
    """Timelines of two to six traces under one another, aligned by round, one colour a request.

    Raises ValueError for another number of traces.
    """
    if not 2 <= len(traces) <= MAX_COMPARED:
        raise ValueError(f"compare: {len(traces)} traces given, expected 2 to {MAX_COMPARED}")
    return _timelines(list(traces), first, last, colours, "traces " + ", ".join(trace.id for trace in traces))


def tree(trace: Any, at_round: int, colours: Colours | None = None, max_nodes: int = 40) -> Figure:
    """The prefix tree as a round left it, with who runs, waits and is blocked."""
    layout = icicle.layout(trace, at_round, colours, max_nodes)
    above, below, row = 0.52, 0.06, 0.19

    def height(width: float) -> float:
        return above + below + row * max(1, layout["rows"])

    def draw(figure: Any, theme: str) -> None:
        wide, high = figure.get_size_inches()
        axes = figure.add_axes((0.01, below / high, 0.98, 1 - (above + below) / high))
        printed_tree.draw(axes, layout, theme)
        printed_tree.legend(figure, layout, theme)
        figure.text(
            0.012, 0.995, f"round {layout['round']}", color=THEMES[theme]["text"], va="top", fontweight="bold"
        )

    return Figure(draw, height, f"prefix tree of trace {trace.id} at round {layout['round']}")


def _timelines(
    traces: list[Any], first: int, last: int | None, colours: Colours | None, made_from: str
) -> Figure:
    colours = colours if colours is not None else Colours.of(*traces)
    drawn = [
        windows.window(trace, first, last if last is not None else trace.num_rounds, colours)
        for trace in traces
    ]
    if all(window["mode"] == "empty" for window in drawn):
        raise ValueError(
            f"rounds {first} to {last}: none of them is in the trace, expected 1 to {traces[0].num_rounds}"
        )
    drawn = [window for window in drawn if window["mode"] != "empty"]
    begin, end = min(w["first"] for w in drawn), max(w["last"] for w in drawn)
    top, title, gap, below, bottom, left = 0.2, 0.34, 0.1, 0.12, 0.3, 0.52
    each = [title + sum(printed_timeline.heights(window)) + gap + below for window in drawn]

    def height(width: float) -> float:
        return top + sum(each) + bottom

    def draw(figure: Any, theme: str) -> None:
        wide, high = figure.get_size_inches()
        classes: set[str] = set()
        y = high - top
        for k, window in enumerate(drawn):
            rows, tokens = printed_timeline.heights(window)
            y -= title
            figure.text(
                0.02,
                (y + title - 0.02) / high,
                window["policy"],
                color=THEMES[theme]["text"],
                va="top",
                fontweight="bold",
            )
            box = (left / wide, 1 - (left + 0.1) / wide)
            rows_axes = figure.add_axes((box[0], (y - rows) / high, box[1], rows / high))
            y -= rows + gap
            tokens_axes = figure.add_axes((box[0], (y - tokens) / high, box[1], tokens / high))
            y -= tokens + below
            classes |= printed_timeline.draw(rows_axes, tokens_axes, window, theme)
            for axes in (rows_axes, tokens_axes):
                axes.set_xlim(begin - 0.5, end + 0.5)
            if k < len(drawn) - 1:
                tokens_axes.tick_params(labelbottom=False)
            else:
                tokens_axes.set_xlabel("round", color=THEMES[theme]["text"])
        cells = any(
            w["mode"] == "cells" and w["last"] - w["first"] < printed_timeline.MAX_PRINTED_CELLS
            for w in drawn
        )
        printed_timeline.legend(figure, classes, theme, 1 - 0.05 / high, cells)

    return Figure(draw, height, made_from)

"""`rf.figures.timeline`, `.tree` and `.compare`: from traces to figures that print and display."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from radixflow.analysis.run_labels import run_labels
from radixflow.figures import icicle, windows
from radixflow.figures.figure import Figure
from radixflow.figures.palette import Colours
from radixflow.figures.printed import tree as printed_tree
from radixflow.figures.printed.panels import Panels

MAX_COMPARED = 6


def timeline(trace: Any, first: int = 1, last: int | None = None, colours: Colours | None = None) -> Figure:
    """The round timeline of rounds first..last (the whole run by default).

    Up to 160 rounds are drawn cell by cell, more as shares of the S slots.
    """
    call = f"radixflow.figures.timeline(trace{_range(first, last)})"
    return _timelines([trace], first, last, colours, f"timeline of trace {trace.id}", call)


def compare(
    *traces: Any,
    first: int = 1,
    last: int | None = None,
    colours: Colours | None = None,
    beside: bool = False,
    labels: Sequence[str] = (),
) -> Figure:
    """Timelines of two to six traces, aligned by round, one colour a request: under one another, or `beside`
    one another where the page is wide enough for it. `labels`: titles in place of the policies, one a trace.

    Raises ValueError for another number of traces, or of labels.
    """
    if not 2 <= len(traces) <= MAX_COMPARED:
        raise ValueError(f"compare: {len(traces)} traces given, expected 2 to {MAX_COMPARED}")
    if labels and len(labels) != len(traces):
        raise ValueError(f"compare: {len(labels)} labels given, expected {len(traces)}, one a trace")
    names = ", ".join(f"t{k}" for k in range(1, len(traces) + 1))
    more = (", beside=True" if beside else "") + (f", labels={list(labels)}" if labels else "")
    call = f"radixflow.figures.compare({names}{_range(first, last)}{more})"
    made_from = "timelines of traces " + ", ".join(trace.id for trace in traces)
    return _timelines(list(traces), first, last, colours, made_from, call, beside, labels)


def _range(first: int, last: int | None) -> str:
    return ("" if first == 1 else f", first={first}") + ("" if last is None else f", last={last}")


def tree(trace: Any, at_round: int, colours: Colours | None = None, max_nodes: int = 40) -> Figure:
    """The prefix tree as a round left it, with who runs, waits and is blocked."""
    layout = icicle.layout(trace, at_round, colours, max_nodes)
    page = printed_tree.Page(layout)
    made_from = f"prefix tree of trace {trace.id} at round {layout['round']}"
    return Figure(page.draw, page.height, made_from, f"radixflow.figures.tree(trace, {at_round})")


def _timelines(
    traces: list[Any],
    first: int,
    last: int | None,
    colours: Colours | None,
    made_from: str,
    call: str,
    beside: bool = False,
    labels: Sequence[str] = (),
) -> Figure:
    colours = colours if colours is not None else Colours.of(*traces)
    drawn = [windows.window(trace, first, last if last is not None else trace.num_rounds, colours) for trace in traces]
    for window, label in zip(drawn, labels or run_labels(traces), strict=True):
        window["policy"] = label
    if all(window["mode"] == "empty" for window in drawn):
        raise ValueError(
            f"rounds {first} {'on' if last is None else f'to {last}'}: none of them is in the trace, "
            f"expected 1 to {traces[0].num_rounds}"
        )
    panels = Panels([window for window in drawn if window["mode"] != "empty"], beside)
    return Figure(panels.draw, panels.height, made_from, call)

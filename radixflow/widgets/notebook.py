"""`rf.player(trace)`: the dashboard's timeline and tree in a notebook, on one cursor.

The canvas module draws; this class answers what it asks for. Only the rounds in view travel to the
page (a window), never the whole run, so a notebook with a long run stays small.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anywidget
import traitlets

from radixflow.figures import compare, icicle, timeline, windows
from radixflow.figures.palette import Colours

CANVAS = Path(__file__).with_name("canvas.mjs")
FIRST_WINDOW = 200
"""Rounds that travel at once when the widget is made."""


class Player(anywidget.AnyWidget):
    """One or several runs under one another, and the prefix tree of the one in focus.

    `round` (int) and `selected` (a request's id or None) can be observed and set from Python. Where
    no widget can be drawn (nbconvert, GitHub), the notebook holds a static picture instead.
    """

    _esm = CANVAS

    overview = traitlets.List().tag(sync=True)
    label = traitlets.List().tag(sync=True)
    window = traitlets.Dict().tag(sync=True)
    tree = traitlets.Dict().tag(sync=True)
    round = traitlets.Int(1).tag(sync=True)
    selected = traitlets.Unicode(None, allow_none=True).tag(sync=True)
    theme = traitlets.Enum(["auto", "light", "dark"], "auto").tag(sync=True)
    playing = traitlets.Bool(False).tag(sync=True)
    height = traitlets.Int(560).tag(sync=True)
    wanted = traitlets.Dict(allow_none=True).tag(sync=True)
    wanted_tree = traitlets.Dict(allow_none=True).tag(sync=True)

    def __init__(self, *traces: Any, labels: list[str] | None = None, **traits: Any) -> None:
        if not traces:
            raise ValueError("player() needs a trace: rf.player(rf.run('figure1'))")
        self._traces = traces
        self._colours = Colours.of(*traces)
        super().__init__(
            overview=[windows.overview(trace) for trace in traces],
            label=labels or [trace.header.policy for trace in traces],
            window=self._window(0, 1, FIRST_WINDOW),
            tree=icicle.layout(traces[0], 1, self._colours),
            **traits,
        )

    def _window(self, run: int, first: int, last: int) -> dict[str, Any]:
        return {"run": run, **windows.window(self._traces[run], first, last, self._colours)}

    @traitlets.observe("wanted")
    def _answer_window(self, change: dict[str, Any]) -> None:
        wanted = change["new"]
        if wanted:
            self.window = self._window(int(wanted["run"]), int(wanted["first"]), int(wanted["last"]))

    @traitlets.observe("wanted_tree")
    def _answer_tree(self, change: dict[str, Any]) -> None:
        wanted = change["new"]
        if wanted:
            trace = self._traces[int(wanted["run"])]
            at_round = min(max(1, int(wanted["round"])), trace.num_rounds)
            self.tree = icicle.layout(trace, at_round, self._colours)

    @traitlets.validate("round")
    def _existing_round(self, proposal: dict[str, Any]) -> int:
        longest = max(trace.num_rounds for trace in self._traces)
        return min(max(1, proposal["value"]), max(1, longest))

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """The widget, and a static figure for readers that can't run it."""
        bundle: Any = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        first, *others = self._traces
        figure = compare(first, *others) if others else timeline(first)
        still = figure._repr_mimebundle_()
        return {"image/png": still["image/png"], **(data or {})}, metadata


def player(*traces: Any, labels: list[str] | None = None, **traits: Any) -> Player:
    """A player of one to six traces. `height` (px) and `theme` (`auto`, `light`, `dark`) are traits."""
    return Player(*traces, labels=labels, **traits)

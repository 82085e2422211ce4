"""`rf.player(trace)`: the dashboard's timeline and tree in a notebook, on one cursor.

The canvas module draws; this class answers what it asks for. Only the rounds in view travel to the
page (a window), never the whole run, so a notebook with a long run stays small.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anywidget
import traitlets

from radixflow.analysis.run_labels import run_labels
from radixflow.figures import compare, icicle, timeline, windows
from radixflow.figures.palette import Colours

CANVAS = Path(__file__).with_name("canvas.mjs")
FIRST_WINDOW = 200
"""Rounds that travel at once when the widget is made."""
_RUN_HEIGHT, _TREE_HEIGHT = 190, 320
"""Pixels for each run, and for the tree with the buttons."""
STILL_ROUNDS = 160
"""Rounds in the static picture: as many as are drawn cell by cell."""


class Player(anywidget.AnyWidget):
    """One or several runs under one another, and the prefix tree of the one in focus.

    `round` (int) and `selected` (a request's id or None) can be observed and set from Python. Where
    no widget can be drawn (nbconvert, GitHub), the notebook holds a static picture instead.
    """

    _esm = CANVAS

    overview = traitlets.List().tag(sync=True)
    label = traitlets.List().tag(sync=True)
    window = traitlets.Union([traitlets.Dict(), traitlets.List()]).tag(sync=True)
    tree = traitlets.Dict().tag(sync=True)
    round = traitlets.Int(1).tag(sync=True)
    selected = traitlets.Unicode(None, allow_none=True).tag(sync=True)
    theme = traitlets.Enum(["auto", "light", "dark"], "auto").tag(sync=True)
    playing = traitlets.Bool(False).tag(sync=True)
    height = traitlets.Int().tag(sync=True)
    wanted = traitlets.Dict(allow_none=True).tag(sync=True)
    wanted_tree = traitlets.Dict(allow_none=True).tag(sync=True)

    def __init__(self, *traces: Any, labels: list[str] | None = None, **traits: Any) -> None:
        if not traces:
            raise ValueError("player() needs a trace: rf.player(rf.run('figure1'))")
        if labels is None:
            labels = run_labels(traces)
        height = _TREE_HEIGHT + _RUN_HEIGHT * len(traces)
        super().__init__(label=labels, **{"height": height} | traits, **self._drawn(traces))

    @property
    def traces(self) -> tuple[Any, ...]:
        """The runs on show, from top to bottom."""
        return self._traces

    def show(self, *traces: Any) -> None:
        """Put other runs in the place of those on show, as many as there were; the cursor stays where it can."""
        if len(traces) != len(self._traces):
            raise ValueError(f"show: {len(traces)} traces given, expected {len(self._traces)}, as the player was made")
        drawn = self._drawn(traces)
        if self.selected is not None and not any(self.selected in trace.ids for trace in traces):
            drawn["selected"] = None
        with self.hold_sync():
            self.wanted = self.wanted_tree = None
            for name, value in drawn.items():
                setattr(self, name, value)
            self.round = self.round  # validated against the new runs

    def _drawn(self, traces: tuple[Any, ...]) -> dict[str, Any]:
        """What the page gets of these runs at first."""
        self._traces = traces
        self._colours = Colours.of(*traces)
        return {
            "overview": [windows.overview(trace) for trace in traces],
            "window": [self._window(run, 1, FIRST_WINDOW) for run in range(len(traces))],
            "tree": icicle.layout(traces[0], 1, self._colours),
        }

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

    def still(self) -> bytes:
        """The runs as a PNG, for readers who can't run the widget."""
        first, *others = self._traces
        last = min(STILL_ROUNDS, max(trace.num_rounds for trace in self._traces))
        named = len(self.label) == len(self._traces) and self.label != run_labels(self._traces)
        labels = self.label if named else ()
        figure = compare(first, *others, last=last, labels=labels) if others else timeline(first, last=last)
        return figure.render("png")

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """The widget, and a static figure for readers that can't run it."""
        return with_still(super()._repr_mimebundle_(**kwargs), self.still())


def with_still(bundle: Any, picture: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """A widget's mime bundle with a PNG beside it."""
    data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
    return {"image/png": picture, **(data or {})}, metadata


def player(*traces: Any, labels: list[str] | None = None, **traits: Any) -> Player:
    """A player of one to six traces. `height` (px) and `theme` (`auto`, `light`, `dark`) are traits."""
    return Player(*traces, labels=labels, **traits)

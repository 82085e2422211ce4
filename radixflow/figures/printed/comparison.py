"""Printed charts of one run or several: slots and waits by cause, rows a round, latency, cost identity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from radixflow.analysis import CostRefused, cost_identity, slots, waits_by_cause
from radixflow.analysis.causes import SLOT_CAUSES, WAIT_CAUSES
from radixflow.analysis.run_labels import run_labels
from radixflow.figures.figure import Figure
from radixflow.figures.lettering import fit, legend, legend_lines, line_height, width_of
from radixflow.figures.palette import SLOTS, THEMES, fill, slot_class, strong
from radixflow.figures.patterns import COSTS, DASHES, RUN_HUES, RUNS, of_cause
from radixflow.figures.wording import cause_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NS = 10**9
MAX_RUNS = len(RUN_HUES)

Labels = Sequence[str]


def slots_by_cause(*traces: Any) -> Figure:
    """What became of the row slots: a bar a run, in slots, hatched by cause."""
    table = pd.DataFrame(
        {label: slots(trace).totals for label, trace in zip(run_labels(traces), traces, strict=True)}
    ).loc[list(SLOT_CAUSES)]
    return _figure(_Stacked(table, "slots"), traces, "slots by cause", "slots_by_cause")


def waits_of_causes(*traces: Any) -> Figure:
    """What requests waited for, all together: a bar a run, in seconds, or in rounds where there is no clock."""
    unit = "seconds" if all(trace.header.clock.arrivals for trace in traces) else "rounds"
    columns = {label: waits_by_cause(trace)[unit] for label, trace in zip(run_labels(traces), traces, strict=True)}
    table = pd.DataFrame(columns).loc[list(WAIT_CAUSES)]
    return _figure(_Stacked(table, f"{unit} waited"), traces, "waits by cause", "waits_by_cause")


def rows_a_round(*traces: Any) -> Figure:
    """Share of rounds by their number of rows, a bar a run. Row budgets up to 32 have a bar a number."""
    budget = max(trace.config.max_num_seqs for trace in traces)
    wide = -(-budget // 32)
    edges = np.arange(0.5, budget + wide + 0.5, wide)
    shares = {}
    for label, trace in zip(run_labels(traces), traces, strict=True):
        rounds = trace.rounds
        counts, _ = np.histogram(rounds.loc[rounds["tokens"] > 0, "rows"], edges)
        shares[label] = 100 * counts / max(1, counts.sum())
    return _figure(_Histogram(shares, edges), traces, "rows a round", "rows_a_round")


def latency(*traces: Any) -> Figure:
    """Share of requests whose latency is longer than so many seconds, on a log scale, so that tails show.

    Raises ValueError where a run has no clock or completed nothing.
    """
    spans = {}
    for label, trace in zip(run_labels(traces), traces, strict=True):
        done = trace.requests[~trace.requests["finish_reason"].isin(["abort", "error"])].dropna(subset=["finish_t"])
        if not trace.header.clock.arrivals or not len(done):
            raise ValueError(f"{trace.path}: no latencies, expected a workload with arrival times")
        spans[label] = np.sort((done["finish_t"] - done["arrival"]).to_numpy(np.int64) / NS)
    return _figure(_Tail(spans), traces, "latency", "latency")


def cost(*traces: Any) -> Figure:
    """What each run's saving of host time against the first is made of: fewer rounds, less the dearer rest.

    Raises ValueError for a single run, and `CostRefused` where no run has the identity.
    """
    if len(traces) < 2:
        raise ValueError(f"cost: {len(traces)} trace given, expected two or more")
    labels, rows, refused = run_labels(traces), {}, None
    for label, trace in zip(labels[1:], traces[1:], strict=True):
        try:
            said = cost_identity(traces[0], trace).to_dict()
        except CostRefused as error:
            refused = error
            continue
        rows[label] = tuple(sign * said[key] for _, key, sign, *_ in COSTS)
    if refused is not None and not rows:
        raise refused
    return _figure(_Cost(rows, labels[0]), traces, "cost identity", "cost")


# -- what is drawn


class _Stacked:
    """Bars from the left, one a run, a part a cause."""

    BAR, STEP = 0.2, 0.3

    def __init__(self, table: pd.DataFrame, unit: str):
        self.table = table[(table != 0).any(axis=1)].astype(float)
        self.unit = unit
        self.whole = "seconds" not in unit  # slots and rounds are whole
        self.labels = list(table.columns)

    def height(self) -> float:
        return self.STEP * len(self.labels)

    def names(self) -> list[str]:
        return self.labels

    def draw(self, axes: Axes, theme: str) -> None:
        left = np.zeros(len(self.labels))
        y = np.arange(len(self.labels))
        for cause in self.table.index:
            values = self.table.loc[cause].to_numpy()
            _without_zeros(axes.barh(y, values, self.BAR / self.STEP, left=left, **cause_look(str(cause), theme)))
            left += values
        axes.set_ylim(len(self.labels) - 0.5, -0.5)
        axes.set_xlim(0, 1.02 * max(left.max(initial=0), 1e-9))
        axes.set_xlabel(self.unit)

    def handles(self, theme: str) -> list[Any]:
        from matplotlib.patches import Patch

        return [Patch(label=cause_words(str(c)), **cause_look(str(c), theme)) for c in self.table.index]


def cause_look(cause: str, theme: str) -> dict[str, Any]:
    """A patch of a slot's or a wait's cause: colours and hatch, for matplotlib."""
    if cause == "row_visits":
        return {"fc": THEMES[theme]["occupied"], "ec": "none"}
    name = slot_class(cause)
    back, ink = SLOTS[name][theme]
    return {"fc": back, "ec": ink, "lw": 0.5, "hatch": of_cause(cause).hatch, "hatchcolor": ink}


def _without_zeros(bars: Any) -> None:
    """A bar of nothing would leave its edge as a line."""
    for bar in bars:
        bar.set_visible(bool(bar.get_width() and bar.get_height()))


class _Histogram:
    """Bars side by side for each number of rows."""

    def __init__(self, shares: dict[str, np.ndarray], edges: np.ndarray):
        self.shares, self.edges = shares, edges

    def height(self) -> float:
        return 1.3

    def names(self) -> None:
        return None

    def draw(self, axes: Axes, theme: str) -> None:
        wide = (self.edges[1] - self.edges[0]) * 0.84 / len(self.shares)
        for k, (label, values) in enumerate(self.shares.items()):
            x = self.edges[:-1] + (self.edges[1] - self.edges[0]) * 0.08 + wide * k
            _without_zeros(axes.bar(x, values, wide, align="edge", **_run_look(k, theme), label=label))
        axes.set_xlim(self.edges[0], self.edges[-1])
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("rows a round")
        axes.set_ylabel("share of rounds")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}%")

    def handles(self, theme: str) -> list[Any]:
        from matplotlib.patches import Patch

        return [Patch(label=label, **_run_look(k, theme)) for k, label in enumerate(self.shares)]


def _run_look(k: int, theme: str) -> dict[str, Any]:
    hue = RUN_HUES[k]
    return {
        "fc": fill(hue, 0),
        "ec": strong(hue),
        "lw": 0.5,
        "hatch": RUNS[k].hatch,
        "hatchcolor": strong(hue),
    }


class _Tail:
    """Steps down from 1: who took longer than so many seconds."""

    def __init__(self, spans: dict[str, np.ndarray]):
        self.spans = spans

    def height(self) -> float:
        return 1.5

    def names(self) -> None:
        return None

    def draw(self, axes: Axes, theme: str) -> None:
        for k, values in enumerate(self.spans.values()):
            share = 100 * (1 - np.arange(len(values)) / len(values))
            axes.plot(values, share, drawstyle="steps-post", **self._line(k, theme))
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}%")
        axes.set_ylim(top=100)
        axes.set_xlim(left=0)
        axes.set_xlabel("latency, seconds")
        axes.set_ylabel("took longer")

    def handles(self, theme: str) -> list[Any]:
        from matplotlib.lines import Line2D

        return [Line2D([], [], label=label, **self._line(k, theme)) for k, label in enumerate(self.spans)]

    @staticmethod
    def _line(k: int, theme: str) -> dict[str, Any]:
        ink = strong(RUN_HUES[k]) if theme == "light" else fill(RUN_HUES[k], 0)
        return {"color": ink, "ls": (0, DASHES[k]) if DASHES[k] else "-"}


class _Cost:
    """Three bars a run: fewer rounds, dearer rounds, and what that saved in all."""

    whole = False
    STEP = 0.5

    def __init__(self, rows: dict[str, tuple[float, ...]], first: str):
        self.rows, self.first = rows, first

    def height(self) -> float:
        return self.STEP * max(1, len(self.rows))

    def names(self) -> list[str]:
        return list(self.rows)

    def draw(self, axes: Axes, theme: str) -> None:
        y = np.arange(len(self.rows))
        for k in range(len(COSTS)):
            values = [row[k] for row in self.rows.values()]
            _without_zeros(axes.barh(y + (k - 1) * 0.27, values, 0.25, **self._look(k)))
        axes.axvline(0, color=THEMES[theme]["line_strong"], lw=0.7)
        axes.set_ylim(len(self.rows) - 0.5, -0.5)
        axes.set_xlabel(f"host seconds saved against {self.first}", parse_math=False)

    def handles(self, theme: str) -> list[Any]:
        from matplotlib.patches import Patch

        return [Patch(label=name, **self._look(k)) for k, (name, *_) in enumerate(COSTS)]

    def _look(self, k: int) -> dict[str, Any]:
        *_, hue, pattern = COSTS[k]
        return {"fc": fill(hue, 0), "ec": strong(hue), "lw": 0.5, "hatch": pattern.hatch, "hatchcolor": strong(hue)}


# -- the page around it


def _figure(chart: Any, traces: Sequence[Any], what: str, call: str) -> Figure:
    if not 1 <= len(traces) <= MAX_RUNS:
        raise ValueError(f"{what}: {len(traces)} traces given, expected 1 to {MAX_RUNS}")

    def top(width: float) -> float:
        labels = [handle.get_label() for handle in chart.handles("light")]
        return 0.1 + len(legend_lines(labels, width - 0.1)) * line_height() * 1.15

    def height(width: float) -> float:
        return top(width) + chart.height() + 2.9 * line_height()

    def draw(figure: Any, theme: str) -> None:
        wide, high = figure.get_size_inches()
        colours = THEMES[theme]
        names = chart.names()
        left = 0.5 if names is None else min(0.4 * wide, max(map(width_of, names), default=0) + 0.12)
        box = (left / wide, (high - top(wide) - chart.height()) / high)
        axes = figure.add_axes((*box, (wide - left - 0.1) / wide, chart.height() / high))
        chart.draw(axes, theme)
        axes.set_facecolor(colours["panel"])
        axes.tick_params(colors=colours["text_soft"], labelcolor=colours["text"])
        for name in (axes.xaxis.label, axes.yaxis.label):
            name.set_color(colours["text"])
        if names is not None:
            axes.set_yticks(range(len(names)), [fit(name, left - 0.1) for name in names], parse_math=False)
            axes.tick_params(axis="y", length=0)
        if names is not None:
            axes.xaxis.get_major_locator().set_params(nbins=max(3, int((wide - left) / 0.6)), integer=chart.whole)
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        for side, spine in axes.spines.items():
            spine.set_visible(side in ("left", "bottom"))
            spine.set_color(colours["line_strong"])
        legend(figure, chart.handles(theme), colours["text"], wide, high - 0.03, high)

    made_from = f"{what} of traces {', '.join(trace.id for trace in traces)}"
    arguments = ", ".join(f"t{k}" for k in range(1, len(traces) + 1))
    return Figure(draw, height, made_from, f"radixflow.figures.{call}({arguments})")

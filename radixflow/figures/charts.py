"""Plotly charts that compare runs, from plain tables: colours, dashes and patterns as everywhere else.

Each takes a mapping of run label to its data, and a theme; each returns a `plotly.graph_objects.Figure`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from radixflow.figures.palette import SLOTS, THEMES, fill, slot_class, strong
from radixflow.figures.patterns import COSTS, DASHES, RUN_HUES, RUNS, of_cause
from radixflow.figures.wording import cause_words

if TYPE_CHECKING:
    import plotly.graph_objects as go

FONT = "ui-sans-serif, system-ui, 'Noto Sans', 'Liberation Sans', sans-serif"


def rows_a_round(rows: Mapping[str, Sequence[int] | pd.Series], row_budget: int, theme: str = "light") -> go.Figure:
    """How many rows the rounds had: share of rounds by number of rows, a bar a run.

    Arguments: per run the rows of each round with a token (`trace.rounds.rows`), and S.
    """
    figure = _figure(theme, "rows a round", "share of rounds")
    wide = -(-row_budget // 32)
    edges = np.arange(1, row_budget + wide + 1, wide)
    for k, (label, values) in enumerate(rows.items()):
        counts, _ = np.histogram(np.asarray(values, dtype=float), edges - 0.5)
        total = max(1, counts.sum())
        names = [str(a) if wide == 1 else f"{a} to {min(a + wide - 1, row_budget)}" for a in edges[:-1]]
        figure.add_bar(
            x=names,
            y=counts / total,
            name=_plain(label),
            marker=_run_marker(k, counts),
            hovertemplate="%{x} rows: %{y:.1%} of rounds<extra>" + _plain(label) + "</extra>",
        )
    figure.update_layout(barmode="group", yaxis_tickformat=".0%")
    figure.update_xaxes(type="category")
    return figure


def latency_ecdf(latency: Mapping[str, Sequence[float] | pd.Series], theme: str = "light") -> go.Figure:
    """Share of requests that finished within a latency (seconds), and below it the tail: the share that
    took longer, on a log scale."""
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.08, row_heights=[0.55, 0.45])
    _styled(figure, theme)
    for k, (label, values) in enumerate(latency.items()):
        x = np.sort(pd.Series(values, dtype=float).dropna().to_numpy())
        if not len(x):
            continue
        share = np.arange(1, len(x) + 1) / len(x)
        dash = ",".join(f"{2.2 * part:.1f}px" for part in DASHES[k % 6]) or "solid"
        line = {"color": _run_colour(k, theme), "dash": dash, "width": 2.2, "shape": "hv"}
        extra = f"<extra>{_plain(label)}</extra>"
        figure.add_scatter(
            x=x,
            y=share,
            name=_plain(label),
            line=line,
            mode="lines",
            row=1,
            col=1,
            legendgroup=label,
            hovertemplate="%{y:.1%} within %{x:.4g} s" + extra,
        )
        # The largest one has nobody beyond it; log scales end before zero.
        beyond = 1 - share[:-1]
        figure.add_scatter(
            x=x[:-1],
            y=beyond,
            name=_plain(label),
            line=line,
            mode="lines",
            row=2,
            col=1,
            legendgroup=label,
            showlegend=False,
            hovertemplate="%{y:.2%} longer than %{x:.4g} s" + extra,
        )
    figure.update_yaxes(title_text="finished within", tickformat=".0%", row=1, col=1)
    figure.update_yaxes(title_text="took longer", type="log", tickformat=".2~%", row=2, col=1)
    figure.update_xaxes(title_text="latency, seconds", row=2, col=1)
    return figure


def cost_identity(
    costs: Mapping[str, Mapping[str, Any] | None], theme: str = "light", first: str = "the first run"
) -> go.Figure:
    """What each run's saving of host time is made of: fewer rounds, less what the rest got dearer.

    Arguments: per run `CostIdentity.to_dict()` against the run called `first`; runs with None (refused) are left out.
    """
    figure = _figure(theme, f"host seconds saved against {_plain(first)}", "")
    shown = {label: cost for label, cost in costs.items() if cost is not None and "saved_seconds" in cost}
    for name, key, sign, hue, pattern in COSTS:
        values = [sign * cost[key] for cost in shown.values()]
        figure.add_bar(
            y=[_plain(label) for label in shown],
            x=values,
            orientation="h",
            name=name,
            marker={
                "color": fill(hue, 0),
                "line": _line(strong(hue), values),
                "pattern": {"shape": pattern.shape, "fgcolor": strong(hue), "fillmode": "overlay", "size": 7},
            },
            hovertemplate="%{x:.4g} s<extra>" + name + "</extra>",
        )
    figure.update_layout(barmode="group")
    figure.update_yaxes(autorange="reversed")
    figure.add_vline(x=0, line={"color": THEMES[theme]["line_strong"], "width": 1})
    return figure


def slots_by_cause(slots: pd.DataFrame, theme: str = "light") -> go.Figure:
    """What became of the row slots, stacked a run. `slots`: index cause, a column a run
    (`Comparison.slots`)."""
    return _stacked(slots, "slots", theme)


def waits_by_cause(waits: pd.DataFrame, theme: str = "light", unit: str = "seconds") -> go.Figure:
    """What requests waited for, stacked a run. `waits`: index cause, a column a run
    (`Comparison.waits`, or `wait_rounds` with `unit="rounds"`)."""
    return _stacked(waits, f"{unit} waited", theme)


def _stacked(table: pd.DataFrame, unit: str, theme: str) -> go.Figure:
    figure = _figure(theme, unit, "")
    for cause in table.index:
        values = pd.to_numeric(table.loc[cause]).fillna(0)
        if not values.any():
            continue
        marker = _cause_marker(str(cause), theme)
        if marker["line"]["width"]:
            marker["line"] = _line(marker["line"]["color"], values)
        figure.add_bar(
            y=[_plain(str(column)) for column in table.columns],
            x=values.to_numpy(),
            orientation="h",
            name=cause_words(str(cause)),
            marker=marker,
            hovertemplate="%{x:,.6~g} " + unit + "<extra>" + cause_words(str(cause)) + "</extra>",
        )
    figure.update_layout(barmode="stack", bargap=0.35, legend={"traceorder": "normal"})
    figure.update_yaxes(autorange="reversed")
    if "seconds" not in unit:
        few = table.apply(pd.to_numeric).sum().max() < 6  # parts of a slot or a round make no sense
        figure.update_xaxes(tickformat=",", **({"dtick": 1} if few else {}))
    return figure


def _cause_marker(cause: str, theme: str) -> dict[str, Any]:
    if cause == "row_visits":
        return {"color": THEMES[theme]["occupied"], "line": {"width": 0}}
    name = slot_class(cause)
    back, ink = SLOTS[name][theme]
    pattern = of_cause(cause)
    return {
        "color": back,
        "line": {"color": ink, "width": 1},
        "pattern": {
            "shape": pattern.shape,
            "fgcolor": ink,
            "bgcolor": back,
            "size": pattern.pixels,
            # Strokes stay as thick where they are further apart.
            "solidity": round((2.0 if pattern.shape in "x+" else 2.45) / pattern.pixels, 3),
        },
    }


def _line(ink: str, values: Sequence[float]) -> dict[str, Any]:
    """Edges of bars; a bar of nothing has none, or it would be a line."""
    return {"color": ink, "width": [1 if value else 0 for value in values]}


def _run_colour(k: int, theme: str) -> str:
    hue = RUN_HUES[k % len(RUN_HUES)]
    return strong(hue) if theme == "light" else fill(hue, 0)


def _run_marker(k: int, values: Sequence[float]) -> dict[str, Any]:
    hue = RUN_HUES[k % len(RUN_HUES)]
    return {
        "color": fill(hue, 0),
        "line": _line(strong(hue), values),
        "pattern": {"shape": RUNS[k % 6].shape, "fgcolor": strong(hue), "fillmode": "overlay", "size": 6},
    }


def _plain(label: str) -> str:
    """Plotly reads labels as HTML: ids and labels from outside are text."""
    return label.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _figure(theme: str, x: str, y: str) -> go.Figure:
    import plotly.graph_objects as go

    figure = go.Figure()
    _styled(figure, theme)
    figure.update_xaxes(title_text=x)
    figure.update_yaxes(title_text=y)
    return figure


def _styled(figure: go.Figure, theme: str) -> None:
    colours = THEMES[theme]
    figure.update_layout(
        template="none",
        font={"family": FONT, "size": 13, "color": colours["text"]},
        paper_bgcolor=colours["panel"],
        plot_bgcolor=colours["panel"],
        margin={"l": 76, "r": 20, "t": 36, "b": 52},
        legend={
            "orientation": "h",
            "yanchor": "bottom",
            "y": 1.01,
            "xanchor": "left",
            "x": 0,
            "font": {"size": 13},
        },
        hoverlabel={"font": {"family": FONT, "size": 13}},
    )
    axis = {
        "gridcolor": colours["line"],
        "linecolor": colours["line_strong"],
        "zerolinecolor": colours["line_strong"],
        "tickfont": {"size": 12},
        "title": {"font": {"size": 13}},
        "automargin": True,
    }
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)

"""The paper's Figures 3 and 4: latency, rounds, rows a round and tails, by model and policy.

Each takes the table that `printed_runs` describes and returns a `Figure`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pandas as pd

from radixflow.figures.figure import Figure
from radixflow.figures.lettering import fit, legend, legend_lines, line_height, width_of
from radixflow.figures.palette import THEMES, fill, strong
from radixflow.figures.printed.runs import base_policy, by_policy, ratios

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POLICY_LOOKS: dict[str, tuple[int, str]] = {
    "radix": (0, "o"),
    "radix+timer5": (9, "v"),
    "radix+timer10": (3, "^"),
    "radix+flex": (5, "s"),
    "radixflow": (4, "D"),
    "radixflow+frag": (7, "P"),
    "radixflow+noadmit": (11, "X"),
}
"""Hue (of `palette.HUES`) and marker of each policy; any other takes the next ones."""

ALL_FROM = 5.0
"""Inches of width from which four panels stand in a row, two otherwise."""

Panel = tuple[str, Callable[["Axes", "Bands", str], None]]


def latency_by_model(runs: pd.DataFrame) -> Figure:
    """Figure 3: mean latency of each model and policy against native scheduling, whose seconds stand beside.

    A line is the range over streams and orders. ValueError where no run has a latency.
    """
    _need(runs, "latency_mean")
    panel = _relative(runs, "latency_mean", "mean latency", _seconds)
    return _figure([panel], runs, "latency by model and policy", "latency_by_model")


def rounds_by_model(runs: pd.DataFrame) -> Figure:
    """Figure 4: rounds against native scheduling, rows a round, and the tails of latency where there are any."""
    _need(runs, "rounds")
    panels = [_relative(runs, "rounds", "rounds", lambda value: f"{value:,.0f}"), _rows(runs)]
    for part in ("p95", "p99"):
        if f"latency_{part}" in runs and bool(runs[f"latency_{part}"].notna().any()):
            panels.append(_relative(runs, f"latency_{part}", f"{part} latency", _seconds))
    return _figure(panels, runs, "rounds, rows a round and tails by model and policy", "rounds_by_model")


def _need(runs: pd.DataFrame, metric: str) -> None:
    missing = [name for name in ("model", "policy", metric) if name not in runs]
    if missing:
        raise ValueError(f"runs: no column {missing[0]}, expected model, policy and {metric}")
    if not bool(runs[metric].notna().any()):
        raise ValueError(f"runs: no run has {metric}: the workload has no clock, expected one with arrivals")


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value < 1000 else f"{value:,.0f} s"


def _looks(policies: list[str]) -> dict[str, tuple[int, str]]:
    found, spare = {}, iter([(1, "<"), (6, ">"), (10, "p"), (2, "h"), (8, "*")] * len(policies))
    for policy in policies:
        found[policy] = POLICY_LOOKS[policy] if policy in POLICY_LOOKS else next(spare)
    return found


def _relative(runs: pd.DataFrame, metric: str, name: str, words: Callable[[float], str]) -> Panel:
    table = ratios(runs, metric).rename(columns={"ratio": "value"})
    base = base_policy(runs)
    bases = {model: words(value) for model, value in zip(table["model"], table["base"], strict=True)}

    def draw(axes: Axes, bands: Bands, theme: str) -> None:
        wide = axes.get_position().width * axes.figure.get_figwidth()
        low, high = min(1, table["low"].min()), max(1, table["high"].max())
        low, high = low - 0.06 * (high - low + 0.01), high + 0.06 * (high - low + 0.01)
        # The base policy's own value stands right of its marker: room for the longest.
        share = min(0.6, (max(map(width_of, bases.values())) + 0.1) / wide)
        axes.set_xlim(low, max(high, (1 - share * low) / (1 - share)))
        axes.axvline(1, color=THEMES[theme]["line_strong"], lw=0.7, zorder=1)
        _points(axes, table, bands, theme)
        for model, text in bases.items():
            axes.annotate(
                text,
                (1, bands.at(model, base)),
                xytext=(4, 0),
                textcoords="offset points",
                va="center_baseline",
                color=THEMES[theme]["text_soft"],
            )

    return f"{name} / {base}", draw


def _rows(runs: pd.DataFrame) -> Panel:
    table = by_policy(runs)[["model", "policy", "rows_per_round"]].rename(columns={"rows_per_round": "value"})
    table["low"] = table["high"] = table["value"]

    def draw(axes: Axes, bands: Bands, theme: str) -> None:
        axes.set_xlim(0, 1.1 * float(table["value"].max()))
        _points(axes, table, bands, theme)

    return "rows a round", draw


class Bands:
    """Where a model's band lies, and in it each policy's line: inches from the top."""

    LINE, GAP = 0.08, 0.12

    def __init__(self, runs: pd.DataFrame):
        self.models = list(dict.fromkeys(runs["model"]))
        self.policies = list(dict.fromkeys(runs["policy"]))
        # A name needs a line of text, however few policies there are.
        self.band = max(self.LINE * len(self.policies), 0.1) + self.GAP
        self.height = self.band * len(self.models)

    def at(self, model: str, policy: str) -> float:
        top = self.band * self.models.index(model) + self.GAP / 2
        return top + self.LINE * (self.policies.index(policy) + 0.5)


def _points(axes: Axes, table: pd.DataFrame, bands: Bands, theme: str) -> None:
    """A marker a model and policy, with its range behind it."""
    looks = _looks(bands.policies)
    for row in table.itertuples():
        hue, marker = looks[row.policy]
        y = bands.at(row.model, row.policy)
        ink, face = _inks(hue, theme)
        if row.high > row.low:
            axes.plot([row.low, row.high], [y, y], color=ink, lw=0.8, solid_capstyle="butt", zorder=2)
        axes.plot([row.value], [y], marker=marker, ls="none", mfc=face, mec=ink, mew=0.7, zorder=3)
    for k in range(1, len(bands.models)):
        axes.axhline(k * bands.band, color=THEMES[theme]["line"], lw=0.5, zorder=0)


def _inks(hue: int, theme: str) -> tuple[str, str]:
    return (strong(hue), fill(hue, 0)) if theme == "light" else (fill(hue, 0), strong(hue))


def _figure(panels: list[Panel], runs: pd.DataFrame, what: str, call: str) -> Figure:
    policies = list(dict.fromkeys(runs["policy"]))
    looks = _looks(policies)

    def handles(theme: str) -> list[Any]:
        from matplotlib.lines import Line2D

        found = []
        for policy in policies:
            ink, face = _inks(looks[policy][0], theme)
            mark = {"marker": looks[policy][1], "mfc": face, "mec": ink, "mew": 0.7}
            found.append(Line2D([], [], ls="none", label=policy, **mark))
        return found

    bands = Bands(runs)

    def columns(width: float) -> int:
        return min(len(panels), 4 if width >= ALL_FROM else 2)

    def top(width: float) -> float:
        lines = legend_lines([handle.get_label() for handle in handles("light")], width - 0.1)
        return 0.05 + len(lines) * line_height() * 1.15

    def panel_height() -> float:
        return 1.4 * line_height() + bands.height + 2.4 * line_height()

    def height(width: float) -> float:
        return top(width) + -(-len(panels) // columns(width)) * panel_height()

    def draw(figure: Any, theme: str) -> None:
        wide, high = figure.get_size_inches()
        colours = THEMES[theme]
        left = min(0.4 * wide, max(map(width_of, bands.models)) + 0.12)
        each = (wide - left) / columns(wide)
        for k, (name, paint) in enumerate(panels):
            line, place = divmod(k, columns(wide))
            x, y = left + each * place, high - top(wide) - line * panel_height()
            letter = f"({'abcdefgh'[k]}) " if len(panels) > 1 else ""
            heading = {"color": colours["text"], "va": "top", "fontweight": "bold", "parse_math": False}
            figure.text(x / wide, y / high, letter + name, **heading)
            y -= 1.4 * line_height() + bands.height
            axes = figure.add_axes((x / wide, y / high, (each - 0.1) / wide, bands.height / high))
            axes.set_facecolor(colours["panel"])
            axes.set_ylim(bands.height, 0)
            paint(axes, bands, theme)
            axes.xaxis.get_major_locator().set_params(nbins=max(2, int(each / 0.42)))
            axes.tick_params(colors=colours["text_soft"], labelcolor=colours["text"])
            middles = [bands.band * (at + 0.5) for at in range(len(bands.models))]
            names = [fit(model, left - 0.1) for model in bands.models] if place == 0 else [""] * len(middles)
            axes.set_yticks(middles, names, parse_math=False)
            axes.tick_params(axis="y", length=0)
            for side, spine in axes.spines.items():
                spine.set_visible(side in ("left", "bottom"))
                spine.set_color(colours["line_strong"])
        legend(figure, handles(theme), colours["text"], wide, high - 0.03, high)

    ids = [str(value) for value in runs["id"].unique()] if "id" in runs else []
    origin = f" of traces {', '.join(ids)}" if 0 < len(ids) <= 12 else f" of {len(ids) or len(runs)} runs"
    if len(ids) > 12:
        origin += f", traces {ids[0]} to {ids[-1]}"
    return Figure(draw, height, what + origin, f"radixflow.figures.{call}(runs)")

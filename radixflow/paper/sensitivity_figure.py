"""The sensitivity plot: what each policy changes against Radix, over one thing that was varied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from radixflow.figures.figure import Figure
from radixflow.figures.lettering import legend, line_height, width_of
from radixflow.figures.palette import SLOTS, THEMES, fill, strong
from radixflow.figures.printed.models import POLICY_LOOKS
from radixflow.paper.sensitivity import KNOBS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BASE = "radix"
CHANGES = {"rounds": "rounds", "latency": "mean latency", "latency_p95": "p95 latency", "longest_wait": "longest wait"}
"""Columns of the table that are drawn as changes against `BASE`, with their names."""

_PLOT, _FOOT, _HEAD = 0.85, 0.44, 0.28
"""Inches: a panel's height, its tick labels, the figure's own heading."""


def changes(table: pd.DataFrame) -> pd.DataFrame:
    """`sensitivity`'s table of one knob against `BASE` at the same value: `value`, `policy`, each of `CHANGES` in
    percent, and `preemptions`, how many more."""
    base = table[table["policy"] == BASE].set_index("value")
    own = table[table["policy"] != BASE]
    out = {"value": own["value"], "policy": own["policy"]}
    for name in CHANGES:
        out[name] = 100 * (own[name] / base[name].loc[own["value"]].to_numpy(float) - 1)
    out["preemptions"] = own["preemptions"] - base["preemptions"].loc[own["value"]].to_numpy()
    return pd.DataFrame(out)


def sensitivity_figure(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """A row a knob (name -> `sensitivity`'s table), a panel a metric: below the line a policy helps, in the tint
    above it it hurts. The values stand at equal distances, in their order. Where anything was preempted, the
    number of preemptions stands in place of the longest wait."""
    first = next(iter(tables.values()))
    where = f"{first['model'].iloc[0]}, {first['stream'].iloc[0]} stream"
    looks = {policy: POLICY_LOOKS[policy] for policy in dict.fromkeys(first["policy"]) if policy != BASE}

    def row_height() -> float:
        return _PLOT + _FOOT + 2.7 * line_height()

    def draw(figure: Any, theme: str) -> None:
        wide, high = figure.get_size_inches()
        heading = {"color": THEMES[theme]["text"], "va": "top", "fontweight": "bold", "parse_math": False}
        figure.text(0.04 / wide, 1 - 0.04 / high, f"Change against {BASE}: {where}", **heading)
        legend(figure, _handles(looks, theme), THEMES[theme]["text"], wide, high - 0.04, high)
        for at, (knob, table) in enumerate(tables.items()):
            top = high - _HEAD - at * row_height()
            figure.text(0.04 / wide, top / high, KNOBS[knob].note, **heading)
            _row(figure, table, looks, theme, top - 1.3 * line_height())

    return Figure(
        draw,
        lambda width: _HEAD + row_height() * len(tables),
        f"sensitivity to {', '.join(tables)}; {where}",
        "radixflow.paper.sensitivity_figure(tables)",
    )


def _row(figure: Any, table: pd.DataFrame, looks: dict[str, tuple[int, str]], theme: str, top: float) -> None:
    wide, high = figure.get_size_inches()
    told = changes(table)
    panels = {name: f"{words}, %" for name, words in CHANGES.items()}
    if table["preemptions"].to_numpy().any():
        del panels["longest_wait"]
        panels["preemptions"] = "preemptions, number"
    left = 0.1 + width_of("-00.0")
    each = (wide - 0.04) / len(panels)
    below = top - 1.4 * line_height() - _PLOT
    for k, (name, words) in enumerate(panels.items()):
        x = 0.04 + k * each
        figure.text(x / wide, top / high, words, color=THEMES[theme]["text_soft"], va="top", parse_math=False)
        room = ((x - 0.04 + left) / wide, below / high, (each - left - 0.06) / wide, _PLOT / high)
        _panel(figure.add_axes(room), told, name, looks, theme, list(dict.fromkeys(table["value"])))


def _panel(
    axes: Axes, told: pd.DataFrame, name: str, looks: dict[str, tuple[int, str]], theme: str, values: list[str]
) -> None:
    colours = THEMES[theme]
    axes.set_facecolor(colours["panel"])
    for policy, look in looks.items():
        own = told[told["policy"] == policy].set_index("value")[name]
        ink, face = _inks(look[0], theme)
        marks = {"marker": look[1], "mfc": face, "mec": ink, "mew": 0.7}
        axes.plot(range(len(values)), [own.get(value) for value in values], color=ink, clip_on=False, zorder=3, **marks)
    # A change of a fraction of a percent isn't drawn as if it were a large one.
    low, high = min(told[name].min(), -2), max(told[name].max(), 2)
    axes.set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))
    axes.axhspan(0, high + (high - low), color=SLOTS["avoidable"][theme][0], alpha=0.55, lw=0, zorder=0)
    axes.axhline(0, color=colours["line_strong"], lw=0.7, zorder=1)
    axes.set_xlim(-0.3, len(values) - 0.7)
    short = [_short(value) for value in values]
    tight = sum(map(width_of, short)) + 0.06 * len(short) > axes.get_position().width * axes.figure.get_figwidth()
    axes.set_xticks(range(len(values)), short, rotation=50 if tight else 0)
    axes.yaxis.get_major_locator().set_params(nbins=4)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.tick_params(colors=colours["text_soft"], labelcolor=colours["text"], pad=2)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "left")
        spine.set_color(colours["line_strong"])


def _short(value: str) -> str:
    """A tick's label: .5 for 0.5, 8k for 8192."""
    if value.isdigit() and int(value) >= 1024 and int(value) % 1024 == 0:
        return f"{int(value) // 1024}k"
    return value.removeprefix("0") if value.startswith("0.") else value


def _inks(hue: int, theme: str) -> tuple[str, str]:
    return (strong(hue), fill(hue, 0)) if theme == "light" else (fill(hue, 0), strong(hue))


def _handles(looks: dict[str, tuple[int, str]], theme: str) -> list[Any]:
    from matplotlib.lines import Line2D

    found = []
    for policy, (hue, marker) in looks.items():
        ink, face = _inks(hue, theme)
        found.append(Line2D([], [], color=ink, marker=marker, mfc=face, mec=ink, mew=0.7, label=policy))
    return found

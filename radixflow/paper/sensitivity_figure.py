"""The sensitivity plot: rounds, mean latency and the worst wait over one thing that was varied."""

from __future__ import annotations

from typing import Any

import pandas as pd

from radixflow.figures.figure import Figure
from radixflow.figures.palette import THEMES, fill, strong
from radixflow.figures.printed_models import POLICY_LOOKS

PANELS = {
    "rounds": "rounds",
    "latency": "mean latency (s)",
    "longest_wait": "longest wait (s)",
    "preemptions": "preemptions",
}


def sensitivity_figure(table: pd.DataFrame, note: str) -> Figure:
    """`table` is `sensitivity`'s, of one knob. The values stand at equal distances, in their order."""
    values = list(dict.fromkeys(table["value"]))
    panels = [name for name in PANELS if table[name].to_numpy().any()]
    title = f"{note}; {table['model'].iloc[0]}, {table['stream'].iloc[0]} stream"

    def draw(figure: Any, theme: str) -> None:
        colours = THEMES[theme]
        figure.suptitle(title, color=colours["text"], x=0.01, ha="left", fontweight="bold", parse_math=False)
        for at, name in enumerate(panels, 1):
            axes = figure.add_subplot(1, len(panels), at)
            axes.set_facecolor(colours["panel"])
            axes.set_title(PANELS[name], color=colours["text"], loc="left")
            for policy, own in table.groupby("policy", sort=False):
                hue, marker = POLICY_LOOKS[str(policy)]
                x = [values.index(value) for value in own["value"]]
                ink = strong(hue) if theme == "light" else fill(hue, 0)
                axes.plot(x, own[name], color=ink, marker=marker, ms=3, lw=1, label=policy)
            axes.set_xticks(range(len(values)), values, rotation=45 if len(values) > 5 else 0)
            axes.tick_params(colors=colours["text_soft"], labelcolor=colours["text"])
            axes.set_ylim(bottom=0)
            for side, spine in axes.spines.items():
                spine.set_visible(side in ("left", "bottom"))
                spine.set_color(colours["line_strong"])
            if at == 1:
                axes.legend(frameon=False, labelcolor=colours["text"])
        figure.tight_layout(rect=(0, 0, 1, 0.99))

    return Figure(draw, lambda width: 2.4, title, "radixflow.paper.sensitivity_figure(table, note)")

"""The metrics of runs side by side, as a printed table."""

from __future__ import annotations

from typing import Any

from radixflow.analysis import compare
from radixflow.analysis.metric_rows import metric_rows
from radixflow.figures.figure import Figure
from radixflow.figures.lettering import fit, line_height, width_of
from radixflow.figures.palette import THEMES

_GAP = 0.2
"""Inches between columns."""
_NEAR = 0.08
"""Inches between a number and how it stands to the first run's."""
_LEAD = 1.35
"""Lines of text from one row to the next."""


def metrics(*traces: Any) -> Figure:
    """A row a metric, a column a run, and how each number stands to the first run's.

    Raises ValueError for fewer than two runs.
    """
    from matplotlib.lines import Line2D

    if len(traces) < 2:
        raise ValueError(f"metrics: {len(traces)} trace given, expected two or more")
    found = compare(*traces)
    rows = metric_rows([one.flat() for one in found.summaries])

    def height(width: float) -> float:
        return (len(rows) + 1.6) * line_height() * _LEAD

    def draw(figure: Any, theme: str) -> None:
        wide, high = figure.get_size_inches()
        colours, step = THEMES[theme], line_height() * _LEAD
        changes = [max(width_of(cells[k][1]) for _, cells in rows) for k in range(len(found.labels))]
        numbers = [
            max(width_of(label, bold=True) - (changes[k] and changes[k] + _NEAR), *(width_of(c[k][0]) for _, c in rows))
            for k, label in enumerate(found.labels)
        ]
        columns = [n + (change and change + _NEAR) for n, change in zip(numbers, changes, strict=True)]
        names = max(width_of(words) for words, _ in rows)
        # As wide as it has to be; on narrow paper the words give way.
        names = min(names, max(0.6, wide - 0.1 - sum(columns) - _GAP * len(columns)))
        edges = [0.05 + names + sum(columns[: k + 1]) + _GAP * (k + 1) for k in range(len(columns))]

        def write(x: float, line: float, text: str, right: bool = True, **look: Any) -> None:
            y = 1 - (line + 0.5) * step / high
            align = "right" if right else "left"
            figure.text(
                x / wide, y, text, ha=align, va="center", parse_math=False, **{"color": colours["text"], **look}
            )

        def rule(line: float, thick: float) -> None:
            y = 1 - line * step / high
            figure.add_artist(Line2D([0.05 / wide, edges[-1] / wide], [y, y], lw=thick, color=colours["line_strong"]))

        rule(0.05, 0.8)
        for label, edge in zip(found.labels, edges, strict=True):
            write(edge, 0.1, label, weight="bold")
        rule(1.15, 0.5)
        for line, (words, cells) in enumerate(rows, 1):
            write(0.05, line + 0.2, fit(words, names), right=False, color=colours["text_soft"])
            for k, (number, change) in enumerate(cells):
                write(edges[k] - (changes[k] and changes[k] + _NEAR), line + 0.2, number)
                write(edges[k], line + 0.2, change, color=colours["text_soft"])
        rule(len(rows) + 1.3, 0.8)

    made_from = f"metrics of traces {', '.join(trace.id for trace in traces)}"
    arguments = ", ".join(f"t{k}" for k in range(1, len(traces) + 1))
    return Figure(draw, height, made_from, f"radixflow.figures.metrics({arguments})")

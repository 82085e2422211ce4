"""Round timelines of one run or several on a page: under one another, or beside one another where it is wide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from radixflow.figures.lettering import legend, legend_lines, line_height, width_of
from radixflow.figures.palette import THEMES
from radixflow.figures.printed import timeline as printed_timeline

if TYPE_CHECKING:
    import matplotlib.figure

GAP, BELOW, RIGHT = 0.08, 0.12, 0.06
"""Inches between rows and tokens, below a run's panels, and right of them."""
BESIDE_FROM = 5.0
"""Inches of width from which runs may stand beside one another."""


class Panels:
    """The layout of windows (`windows.window`): how high it is, and drawing it."""

    def __init__(self, drawn: list[dict[str, Any]], beside: bool = False):
        self.drawn = drawn
        self.beside = beside
        self.span = (min(w["first"] for w in drawn), max(w["last"] for w in drawn))
        self.classes = set().union(*map(printed_timeline.classes, drawn))
        self.marks = set().union(*map(printed_timeline.marks, drawn))
        self.cells = any(map(printed_timeline.in_cells, drawn))

    def _columns(self, width: float) -> int:
        return len(self.drawn) if self.beside and width >= BESIDE_FROM else 1

    def _left(self) -> float:
        """Inches for the names and numbers left of the axes."""
        widest = max(width_of(f"{w['T']:,}") for w in self.drawn)
        return widest + line_height() + 0.12

    def _top(self, width: float) -> float:
        handles = self._handles("light")
        return 0.05 + len(legend_lines([h.get_label() for h in handles], width - 0.1)) * line_height() * 1.15

    def _handles(self, theme: str) -> list[Any]:
        return printed_timeline.handles(self.classes, theme, self.cells, self.marks)

    def _title(self) -> float:
        """Inches for a run's policy, and the marks above its rows."""
        return line_height() * (2.35 if self.marks else 1.5)

    def _panel(self, window: dict[str, Any]) -> float:
        return self._title() + sum(printed_timeline.heights(window)) + GAP + BELOW

    def height(self, width: float) -> float:
        """Inches high at a width in inches."""
        panels = [self._panel(window) for window in self.drawn]
        inner = max(panels) if self._columns(width) > 1 else sum(panels)
        return self._top(width) + inner + 2.2 * line_height()

    def draw(self, figure: matplotlib.figure.Figure, theme: str) -> None:
        """Draw all of it on an empty figure of that height."""
        wide, high = figure.get_size_inches()
        columns = self._columns(wide)
        each = wide / columns
        top = high - self._top(wide)
        y = top
        for k, window in enumerate(self.drawn):
            if columns > 1:
                y = top
            x = each * k if columns > 1 else 0.0
            last = columns > 1 or k == len(self.drawn) - 1
            self._run(figure, window, theme, (x, y, each), names=x == 0, last=last)
            y -= self._panel(window)
        legend(figure, self._handles(theme), THEMES[theme]["text"], wide, high - 0.03, high)

    def _run(
        self,
        figure: matplotlib.figure.Figure,
        window: dict[str, Any],
        theme: str,
        place: tuple[float, float, float],
        names: bool,
        last: bool,
    ) -> None:
        wide, high = figure.get_size_inches()
        x, y, each = place
        rows, tokens = printed_timeline.heights(window)
        left = self._left()
        text = THEMES[theme]["text"]
        policy = window["policy"]
        figure.text((x + 0.03) / wide, y / high, policy, color=text, va="top", fontweight="bold", parse_math=False)
        y -= self._title() + rows
        box = ((x + left) / wide, (each - left - RIGHT) / wide)
        rows_axes = figure.add_axes((box[0], y / high, box[1], rows / high))
        y -= GAP + tokens
        tokens_axes = figure.add_axes((box[0], y / high, box[1], tokens / high))
        printed_timeline.draw(rows_axes, tokens_axes, window, theme, self.span)
        for axes, name in ((rows_axes, "row"), (tokens_axes, "tokens")):
            axes.set_ylabel("")
            if names:
                at = axes.get_position()
                figure.text(
                    (x + 0.03) / wide, at.y0 + at.height / 2, name, color=text, rotation=90, va="center", ha="left"
                )
        if last:
            self._ticks(tokens_axes, each - left - RIGHT)
            tokens_axes.set_xlabel("round", color=text)
        else:
            tokens_axes.tick_params(labelbottom=False)

    def _ticks(self, axes: Any, inches: float) -> None:
        """Whole rounds, as many as there is room for, none that would stick out of the page."""
        from matplotlib.ticker import MaxNLocator

        begin, end = self.span
        wide = width_of(f"{end:,}")
        most = max(1, int(inches / (wide + 0.15)))
        places = MaxNLocator(nbins=most, integer=True, steps=[1, 2, 2.5, 5, 10]).tick_values(begin, end)
        inch = inches / (end - begin + 1)
        shown = [int(n) for n in places if begin <= n <= end and (end + 0.5 - n) * inch + RIGHT >= wide / 2]
        axes.set_xticks(shown, [f"{n:,}" for n in shown])

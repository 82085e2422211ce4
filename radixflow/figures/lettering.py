"""How wide words are on paper, and what to do where they don't fit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from radixflow.figures.glyphs import printable

HANDLE = 0.30
"""Inches that a legend's patch and the room around an entry take."""


def width_of(text: str, bold: bool = False) -> float:
    """Inches of a line of text in the current style's font and size."""
    import matplotlib

    return _width(text, bold, matplotlib.rcParams["font.size"], tuple(matplotlib.rcParams["font.family"]))


@lru_cache(maxsize=20_000)
def _width(text: str, bold: bool, size: float, family: tuple[str, ...]) -> float:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family=list(family), size=size, weight="bold" if bold else "normal")
    return text_to_path.get_text_width_height_descent(printable(text), font, ismath=False)[0] / 72


def line_height() -> float:
    """Inches from one line of text to the next."""
    import matplotlib

    return matplotlib.rcParams["font.size"] * 1.3 / 72


def fit(text: str, inches: float, bold: bool = False) -> str:
    """The text, cut with an ellipsis where it is wider than so many inches; empty where nothing fits."""
    kept = text[: _most(inches)]
    if len(kept) == len(text) and width_of(text, bold) <= inches:
        return text
    text = kept
    while text and width_of(text + "…", bold) > inches:
        text = text[:-1]
    return text + "…" if text else ""


def fit_id(id: str, inches: float, bold: bool = False) -> str:
    """The same for ids: cut in the middle, since they are told apart by either end."""
    letters = _most(inches)
    if len(id) <= letters and width_of(id, bold) <= inches:
        return id
    for kept in range(min(letters, len(id) - 1), 0, -1):
        head = kept // 2
        if width_of(text := f"{id[:head]}…{id[head - kept :]}", bold) <= inches:
            return text
    return ""


def _most(inches: float) -> int:
    """More letters than fit into so many inches, however narrow: of a longer text no more are looked at."""
    return max(8, int(100 * inches))


def legend_lines(labels: Sequence[str], inches: float) -> list[list[int]]:
    """Which entries of a legend stand on each line, by number."""
    lines: list[list[int]] = [[]]
    used = 0.0
    for k, label in enumerate(labels):
        wide = HANDLE + width_of(label)
        if lines[-1] and used + wide > inches:
            lines.append([])
            used = 0.0
        lines[-1].append(k)
        used += wide
    return lines


def legend(figure: Any, handles: Sequence[Any], colour: str, inches: float, top: float, high: float) -> None:
    """Draw handles as lines of a legend from `top` inches above the figure's lower edge downward, at the right."""
    for k, line in enumerate(legend_lines([handle.get_label() for handle in handles], inches - 0.1)):
        figure.add_artist(
            figure.legend(
                handles=[handles[at] for at in line],
                loc="upper right",
                bbox_to_anchor=(1 - 0.03 / inches, (top - k * line_height() * 1.15) / high),
                ncols=len(line),
                frameon=False,
                labelcolor=colour,
                handlelength=1.4,
                handleheight=0.85,
                columnspacing=1.0,
                handletextpad=0.4,
                borderaxespad=0,
                borderpad=0,
            )
        )
        figure.legends.pop()

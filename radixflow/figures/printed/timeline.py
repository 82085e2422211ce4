"""The round timeline on paper: the same window as the screen's, drawn by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from radixflow.figures.lettering import fit_id, line_height, width_of
from radixflow.figures.palette import (
    CELL_TEXT,
    SLOTS,
    THEMES,
    fill,
    gauge,
    luminance,
    slot_class,
    strong,
    visit,
)
from radixflow.figures.patterns import PATTERNS
from radixflow.figures.windows import unpack
from radixflow.figures.wording import cause_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HATCHES: dict[str, str | None] = {name: pattern.hatch for name, pattern in PATTERNS.items()}
VISITS = ("waiting", "running")
SHARES: tuple[tuple[str, str | None], ...] = (
    ("rows", None),
    ("resident", "resident"),
    ("avoidable", "avoidable"),
    ("refused", "other"),
    ("idle", "idle"),
    ("unprobed", "unprobed"),
)
"""Fields of a long window from the bottom up, and the class in which each is drawn."""
MAX_PRINTED_CELLS = 160
"""Rounds drawn cell by cell on paper; longer windows are drawn as shares."""


def in_cells(window: dict[str, Any]) -> bool:
    """Whether the window is drawn cell by cell; else as shares of the slots."""
    return window["mode"] == "cells" and window["last"] - window["first"] < MAX_PRINTED_CELLS


def classes(window: dict[str, Any]) -> set[str]:
    """The classes of slots that a window has, for its legend."""
    if in_cells(window):
        kinds = np.unique(unpack(window["cells"], "<i4").reshape(-1, 6)[:, 3]).tolist()
        return {slot_class(window["kinds"][kind]) for kind in kinds if window["kinds"][kind] not in VISITS}
    values = unpack(window["level"]["values"], "<f4").reshape(len(window["fields"]), -1)
    drawn = {name for name, row in zip(window["fields"], values, strict=True) if row.max(initial=0) > 1e-6}
    return {kept for field, kept in SHARES if kept is not None and field in drawn}


def heights(window: dict[str, Any]) -> tuple[float, float]:
    """Inches of the row area and of the token area."""
    rows = window["S"]
    return min(2.4, max(0.7, rows * (0.21 if rows <= 12 else 0.045))), 0.42


def draw(
    rows_axes: Axes,
    tokens_axes: Axes,
    window: dict[str, Any],
    theme: str,
    span: tuple[int, int] | None = None,
) -> None:
    """Draw a window on two axes that share x, which shows rounds `span` (the window's own by default)."""
    begin, end = span or (window["first"], window["last"])
    small = in_cells(window)
    if small:
        inches = rows_axes.get_position().width * rows_axes.figure.get_figwidth() / (end - begin + 1)
        _cells(rows_axes, tokens_axes, window, theme, inches)
    else:
        _shares(rows_axes, tokens_axes, window, theme)
    colours = THEMES[theme]
    for axes, top in ((rows_axes, window["S"]), (tokens_axes, window["T"])):
        axes.set_xlim(begin - 0.5, end + 0.5)
        axes.set_ylim(0, top)
        axes.set_facecolor(colours["panel"])
        axes.tick_params(colors=colours["text_soft"], labelcolor=colours["text"])
        for side, spine in axes.spines.items():
            spine.set_color(colours["line_strong"])
            spine.set_visible(side in ("left", "bottom"))
    rows_axes.tick_params(labelbottom=False, bottom=False)
    step = 1 if window["S"] <= 8 else window["S"] // 4 or 1
    ticks = range(step, window["S"] + 1, step)
    rows_axes.set_yticks([row - 0.5 for row in ticks] if small else list(ticks), [str(row) for row in ticks])
    tokens_axes.set_yticks([0, window["T"]], ["0", f"{window['T']:,}"])
    tokens_axes.xaxis.get_major_locator().set_params(integer=True)
    rows_axes.set_ylabel("row", color=colours["text"])
    tokens_axes.set_ylabel("tokens", color=colours["text"])
    tokens_axes.axhline(window["T"], color=colours["line_strong"], lw=0.6, ls=(0, (3, 2)), clip_on=False)


def _cells(rows_axes: Axes, tokens_axes: Axes, window: dict[str, Any], theme: str, inches: float) -> None:
    from matplotlib.patches import Rectangle

    first, last, size, budget = window["first"], window["last"], window["S"], window["T"]
    colours = THEMES[theme]
    kinds = window["kinds"]
    requests = window["requests"]
    labels = size <= 16 and rows_axes.get_position().height * rows_axes.figure.get_figheight() / size >= line_height()
    gap = 0.02 / max(inches, 0.02) if inches > 0.06 else 0.0
    stack = np.zeros(last - first + 1)
    lowest = np.full(last - first + 1, size)
    cells: list[tuple[float, float, float, float, str]] = []
    spent: list[tuple[float, float, float, float, str]] = []
    runs = sorted(unpack(window["cells"], "<i4").reshape(-1, 6).tolist())
    follows: dict[tuple[int, int], int] = {}
    for row, start, span, kind, request, _ in runs:
        if kinds[kind] in VISITS:
            follows[row, start] = follows[row, start + span - 1] = request
    for row, start, span, kind, request, tokens in runs:
        name = kinds[kind]
        who = requests[request] if request >= 0 else None
        if name in VISITS:
            hue, tone = who["colour"]
            # A request that goes on reads as one bar.
            wide = span if follows.get((row, start + span)) == request else span - gap
            ground = visit((hue, tone), tokens, budget, colours["panel"])
            cells.append((start - 0.5, row + 0.05, wide, 0.9, ground))
            part = 0.9 * min(1.0, tokens / budget)
            if part > 0.01:
                cells.append((start - 0.5, row + 0.05, wide, part, gauge(hue, tone)))
            if part > 0.03 and size <= 16:
                rows_axes.plot(
                    [start - 0.5, start - 0.5 + wide],
                    [row + 0.05 + part] * 2,
                    color=strong(hue),
                    lw=0.6,
                    solid_capstyle="butt",
                )
            for n in range(start, start + span):
                low = stack[n - first]
                spent.append((n - 0.5, low, 1 - gap, tokens, fill(hue, tone)))
                stack[n - first] += tokens
            new = start == first or follows.get((row, start - 1), -1) != request
            if labels and new and inches * span > 0.15:
                text_colour = CELL_TEXT if luminance(ground) > 0.18 else "#ffffff"
                rows_axes.text(
                    start - 0.46,
                    row + 0.5,
                    fit_id(who["id"], inches * span - 0.06, bold=True),
                    color=text_colour,
                    va="center",
                    ha="left",
                    fontweight="bold",
                    clip_on=True,
                )
            continue
        kept = slot_class(name)
        back, ink = SLOTS[kept][theme]
        for n in range(start, start + span):
            if name != "resident":
                lowest[n - first] = min(lowest[n - first], row)
            rows_axes.add_patch(
                Rectangle(
                    (n - 0.5, row + 0.05),
                    1 - gap,
                    0.9,
                    fc=back,
                    hatch=HATCHES[SLOTS[kept]["pattern"]],
                    hatchcolor=ink,
                    ec=ink if kept == "avoidable" else "none",
                    lw=0.6,
                )
            )
            if labels and who is not None and inches > 0.15:
                rows_axes.text(
                    n - 0.44,
                    row + 0.5,
                    fit_id(who["id"], inches - 0.07),
                    color=colours["text"],
                    va="center",
                    ha="left",
                    clip_on=True,
                    bbox={"fc": back, "ec": "none", "pad": 0.8},
                )
    _rectangles(rows_axes, cells, "none", 0)
    _rectangles(tokens_axes, spent, colours["panel"], 0.25)
    _marks(rows_axes, window, theme, inches, lowest)


def _rectangles(axes: Axes, parts: list[tuple[float, float, float, float, str]], edge: str, width: float) -> None:
    """Many plain rectangles (x, y, width, height, colour) at once: one patch each takes ten times as long."""
    from matplotlib.collections import PolyCollection

    if parts:
        corners = [[(x, y), (x + w, y), (x + w, y + h), (x, y + h)] for x, y, w, h, _ in parts]
        colours = [colour for *_, colour in parts]
        axes.add_collection(
            PolyCollection(corners, facecolors=colours, edgecolors=edge, linewidths=width), autolim=False
        )


def _marks(axes: Axes, window: dict[str, Any], theme: str, inches: float, lowest: np.ndarray) -> None:
    """Above the rows: who stopped the scan (square), who was parked (ring), and for whom they wait."""
    first = window["first"]
    names = [request["id"] for request in window["requests"]]
    parked: dict[int, list[tuple[int, int, int]]] = {}
    for n, request, producer, _, kept in unpack(window["parked"], "<i4").reshape(-1, 5).tolist():
        parked.setdefault(n, []).append((request, producer, kept))
    stops = {n: (request, cause) for n, request, cause in unpack(window["stops"], "<i4").reshape(-1, 3).tolist()}
    colours = THEMES[theme]
    up = axes.get_xaxis_transform()
    for n in sorted({*stops, *parked}):
        items = [
            (request, producer, n in stops and stops[n][0] == request) for request, producer, _ in parked.get(n, ())
        ]
        stopper = stops.get(n, (-1, 0))
        if stopper[0] >= 0:
            ink = SLOTS[slot_class(window["kinds"][stopper[1]])][theme][1]
            axes.plot(
                [n - 0.5, n + 0.5],
                [lowest[n - first]] * 2,
                color=ink,
                lw=1.6,
                solid_capstyle="butt",
                clip_on=False,
            )
            if not any(stop for _, _, stop in items):
                items.append((stopper[0], -1, True))
        if not items:
            continue
        ink = SLOTS["blocked"][theme][1]
        text = _said(items, names, inches - 0.05)
        if text:
            axes.text(n - 0.48, 1.04, text, transform=up, color=colours["text"], va="bottom", ha="left", clip_on=False)
        else:
            stop = any(stop for _, _, stop in items)
            axes.plot(
                [n],
                [1.06],
                transform=up,
                marker="s" if stop else "o",
                ms=min(3.0, inches * 40),
                mfc=ink if stop else "none",
                mec=ink,
                mew=0.6,
                ls="none",
                clip_on=False,
            )


def _said(items: list[tuple[int, int, bool]], names: list[str], inches: float) -> str:
    """As much of `■ A1 ← P1` as a round's width holds; empty where not even a name does."""
    signs = ["■" if stop else "○" for _, _, stop in items]
    short = [f"{sign} {names[r]}" for sign, (r, _, _) in zip(signs, items, strict=True)]
    whole = [f"{word} ← {names[p]}" if p >= 0 else word for word, (_, p, _) in zip(short, items, strict=True)]
    tries = ["  ".join(whole), "  ".join(short)]
    if len(items) > 1:
        if len(set(signs)) == 1:
            tries.append(f"{signs[0]} {' '.join(names[r] for r, _, _ in items)}")
        tries += [f"{short[0]} +{len(items) - 1}", f"{short[0].replace(' ', '', 1)}+{len(items) - 1}"]
    return next((text for text in tries if width_of(text) <= inches), "")


def _shares(rows_axes: Axes, tokens_axes: Axes, window: dict[str, Any], theme: str) -> None:
    """A long window: what the S slots were, a bin of rounds at a time."""
    level = window["level"]
    values = dict(zip(window["fields"], unpack(level["values"], "<f4").reshape(len(window["fields"]), -1), strict=True))
    edges = level["first"] - 0.5 + level["bin"] * np.arange(level["count"] + 1, dtype=float)
    edges[-1] = min(edges[-1], window["last"] + 0.5)
    # More steps than the page can show only make the file large.
    every = -(-level["count"] // 700)
    starts = np.arange(0, level["count"], every)
    edges = np.append(edges[starts], edges[-1])
    values = {
        name: np.add.reduceat(v, starts) / np.diff(np.append(starts, level["count"])) for name, v in values.items()
    }
    colours = THEMES[theme]
    low = np.zeros(len(starts))
    for field, kept in SHARES:
        high = low + values[field]
        if values[field].max(initial=0) > 1e-6:
            if kept is None:
                rows_axes.stairs(high, edges, baseline=low, fill=True, fc=colours["occupied"], ec="none")
            else:
                back, ink = SLOTS[kept][theme]
                rows_axes.stairs(
                    high,
                    edges,
                    baseline=low,
                    fill=True,
                    fc=back,
                    hatch=HATCHES[SLOTS[kept]["pattern"]],
                    hatchcolor=ink,
                    ec="none",
                    lw=0,
                )
        low = high
    tokens_axes.stairs(values["tokens"], edges, fill=True, fc=colours["budget"], ec="none")


def handles(drawn: set[str], theme: str, cells: bool, marks: set[str]) -> list[Any]:
    """Legend entries of the patterns in use, and of the marks above the rows."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    colours = THEMES[theme]
    visit_words = "row visit" if cells else "rows in use"
    found: list[Any] = [Patch(fc=fill(0, 0) if cells else colours["occupied"], ec="none", label=visit_words)]
    for name in SLOTS:
        if name in drawn:
            back, ink = SLOTS[name][theme]
            pattern = HATCHES[SLOTS[name]["pattern"]]
            found.append(Patch(fc=back, hatch=pattern, hatchcolor=ink, ec=ink, lw=0.5, label=cause_words(name)))
    for sign, marker, label in (("stop", "s", "scan stopped"), ("park", "o", "parked")):
        if sign in marks:
            face = colours["text"] if sign == "stop" else "none"
            found.append(Line2D([], [], marker=marker, ls="none", mfc=face, mec=colours["text"], mew=0.7, label=label))
    return found


def marks(window: dict[str, Any]) -> set[str]:
    """Which marks stand above a window's rows: `stop`, `park`."""
    if not in_cells(window):
        return set()
    stops = unpack(window["stops"], "<i4").reshape(-1, 3)
    parked = unpack(window["parked"], "<i4").reshape(-1, 5)
    stopped = {(n, i) for n, i, _ in stops.tolist() if i >= 0}
    found = {"stop"} if stopped else set()
    return found | ({"park"} if any((n, i) not in stopped for n, i, *_ in parked.tolist()) else set())

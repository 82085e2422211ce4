"""The tree across engines on paper: the same layout as the screen's, drawn by matplotlib."""

from __future__ import annotations

from typing import Any

from radixflow.figures import shared_tree
from radixflow.figures.figure import Figure
from radixflow.figures.lettering import fit, legend, legend_lines, line_height, width_of
from radixflow.figures.palette import CELL_TEXT, SLOTS, THEMES, fill, luminance, mix, strong
from radixflow.figures.printed.timeline import HATCHES
from radixflow.figures.printed.tree import MARKERS, states, token_axis

ROW, BELOW = 0.19, 0.06
"""Inches of a row with one or two engines, and below the last one."""
LANE = 0.085
"""Inches of an engine's lane."""


def engines(picture: Any, title: str, made_from: str) -> Figure:
    """A picture of an index (`radixflow.index.picture.Snapshot`) as a `Figure`.

    title: what stands above it. made_from: where it comes from. ValueError where nothing is cached.
    """
    layout = shared_tree.layout(picture)
    if not layout["nodes"]:
        raise ValueError("nothing is cached, expected an index that holds something")
    row = max(ROW, LANE * max(node["lanes"] for node in layout["nodes"]) + 0.04)

    def above(width: float) -> float:
        lines = len(
            legend_lines([handle.get_label() for handle in _handles(layout, "light")], _room(width, title) - 0.1)
        )
        return 0.05 + lines * line_height() * 1.15 + 2.3 * line_height() + 0.06

    def height(width: float) -> float:
        return above(width) + row * layout["rows"] + BELOW

    def draw(figure: Any, theme: str) -> None:
        wide, high = figure.get_size_inches()
        axes = figure.add_axes((0.01, BELOW / high, 0.98, 1 - (above(wide) + BELOW) / high))
        _draw(axes, layout, theme, row)
        text, entries = THEMES[theme]["text"], _handles(layout, theme)
        for k, line in enumerate(legend_lines([handle.get_label() for handle in entries], _room(wide, title) - 0.1)):
            top = high - 0.03 - k * line_height() * 1.15
            legend(figure, [entries[at] for at in line], text, wide, top, high)
        figure.text(0.03 / wide, (high - 0.03) / high, title, color=text, va="top", fontweight="bold", parse_math=False)

    return Figure(draw, height, made_from)


def _room(width: float, title: str) -> float:
    """Inches that the heading leaves for the legend."""
    return max(1.0, width - width_of(title, bold=True) - 0.2)


def _draw(axes: Any, layout: dict[str, Any], theme: str, row: float) -> None:
    colours = THEMES[theme]
    extent = max(1, layout["extent"])
    inch = axes.get_position().width * axes.figure.get_figwidth() / (extent * 1.01)
    axes.set_xlim(0, extent * 1.01)
    axes.set_ylim(layout["rows"], 0)
    axes.set_facecolor(colours["panel"])
    for node in layout["nodes"]:
        if node["heading"]:
            _heading(axes, node, colours, extent, inch)
        else:
            _segment(axes, node, theme, inch)
            _marks(axes, node, layout["components"], theme, inch, row)
    token_axis(axes, layout["block"], extent, inch, colours)


def _heading(axes: Any, node: dict[str, Any], colours: dict[str, str], extent: int, inch: float) -> None:
    y, room = node["top"] + 0.55, extent * inch
    name = fit(node["label"], 0.6 * room, bold=True)
    axes.text(0, y, name, va="center", color=colours["text"], fontweight="bold", parse_math=False)
    used = width_of(name, bold=True) + 0.1
    note = fit(node["note"], room - used)
    axes.text(used / inch, y, note, va="center", color=colours["text_soft"], parse_math=False)
    axes.plot([0, extent], [node["top"] + 0.97] * 2, color=colours["line_strong"], lw=0.5)


def _segment(axes: Any, node: dict[str, Any], theme: str, inch: float) -> None:
    from matplotlib.patches import Rectangle

    colours, wide = THEMES[theme], node["end"] - node["start"]
    shade = min(0.55, 0.1 + 0.12 * node["sharing"])
    ground = SLOTS["other"][theme][0] if node["folded"] else mix(colours["occupied"], colours["panel"], 1 - shade)
    axes.add_patch(
        Rectangle(
            (node["start"], node["top"] + 0.06),
            wide,
            node["height"] - 0.12,
            fc=ground,
            ec=colours["panel"],
            lw=0.6,
            hatch=HATCHES["cross"] if node["folded"] else None,
            hatchcolor=SLOTS["other"][theme][1],
        )
    )
    text = fit(f"{node['folded']:,} more" if node["folded"] else node["label"], wide * inch - 0.14, bold=True)
    if len(text) > 2:
        axes.text(
            node["start"] + 0.05 / inch,
            node["top"] + 0.5,
            text,
            va="center",
            color=CELL_TEXT if luminance(ground) > 0.18 else "#ffffff",
            fontweight="bold",
            zorder=4,
            parse_math=False,
            bbox={"fc": ground, "ec": "none", "pad": 1.2},
        )


def _marks(axes: Any, node: dict[str, Any], components: list[dict], theme: str, inch: float, row: float) -> None:
    """Filled where the engine can resume, hollow where it matches."""
    for mark in node["marks"]:
        engine = components[mark["component"]]
        ink = _ink(engine, theme)
        y = node["top"] + 0.5 + (mark["lane"] - (node["lanes"] - 1) / 2) * LANE / row
        # Dense boundaries: as many as the page can tell apart, the last one among them.
        every = max(1, round(0.07 / max(1e-9, mark["step"] * inch)))
        places = range(mark["end"], mark["start"], -mark["step"])[::every]
        axes.plot(
            [at - 0.05 / inch for at in places],
            [y] * len(places),
            marker=MARKERS[engine["shape"]],
            ms=2.6,
            mfc=ink if mark["state"] == 1 else THEMES[theme]["panel"],
            mec=ink,
            mew=0.6,
            ls="none",
            zorder=3,
        )


def _ink(engine: dict[str, Any], theme: str) -> str:
    return mix(strong(engine["colour"][0]), "#ffffff", 0.12) if theme == "light" else fill(*engine["colour"])


def _handles(layout: dict[str, Any], theme: str) -> list[Any]:
    """Legend entries: the engines, and what filled and hollow mean."""
    from matplotlib.lines import Line2D

    def mark(label: str, marker: str, face: str, ink: str) -> Any:
        # matplotlib takes dollars for formulas, and leaves names that begin with an underscore out of legends.
        words = label.replace("$", r"\$")
        words = "\u200b" + words if words.startswith("_") else words
        return Line2D([], [], marker=marker, ls="none", ms=3.6, mfc=face, mec=ink, mew=0.7, label=words)

    ink = THEMES[theme]["text"]
    found = [
        mark(engine["name"], MARKERS[engine["shape"]], _ink(engine, theme), _ink(engine, theme))
        for engine in layout["components"][:12]
    ]
    return [*found, *states(ink, THEMES[theme]["panel"], *layout["states"][1:])]

"""The prefix tree on paper: the same layout as the screen's, drawn by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from radixflow.figures.icicle import EVICTED, PUBLISHED
from radixflow.figures.lettering import fit_id, legend, legend_lines, line_height, width_of
from radixflow.figures.palette import CELL_TEXT, SLOTS, THEMES, fill, luminance, mix, strong
from radixflow.figures.printed.timeline import HATCHES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = {"square": "s", "circle": "o", "diamond": "D"}


def draw(axes: Axes, layout: dict[str, Any], theme: str) -> None:
    """Draw a layout of `icicle.layout`."""
    from matplotlib.patches import Rectangle

    colours = THEMES[theme]
    extent, rows = max(1, layout["extent"]), max(1, layout["rows"])
    wide = axes.get_position().width * axes.figure.get_figwidth()
    # Room for the flags of those that stand before the first token.
    flags = max((width_of(request["id"]) + 0.2 for request in layout["requests"] if request["at"] == 0), default=0)
    flags = min(flags, 0.4 * wide)
    inch = (wide - flags) / (extent * 1.01)
    left = -flags / inch
    axes.set_xlim(left, extent * 1.01)
    axes.set_ylim(rows, 0)
    axes.set_facecolor(colours["panel"])
    for node in layout["nodes"]:
        colour = (
            SLOTS["other"][theme][0]
            if node["folded"]
            else mix(fill(*node["colour"]), colours["panel"], 0.3 if node["computed"] else 0.72)
        )
        wide = node["end"] - node["start"]
        hatch = HATCHES["cross"] if node["folded"] else None
        axes.add_patch(
            Rectangle(
                (node["start"], node["top"] + 0.06),
                wide,
                node["height"] - 0.12,
                fc=colour,
                ec=colours["panel"],
                lw=0.6,
                hatch=hatch,
                hatchcolor=SLOTS["other"][theme][1],
            )
        )
        axes.plot(
            [node["start"]] * 2,
            [node["top"] + 0.1, node["top"] + node["height"] - 0.1],
            color=strong(node["colour"][0]),
            lw=1.4,
            solid_capstyle="butt",
        )
        text = f"{node['folded']} more" if node["folded"] else node["label"]
        if wide * inch > width_of(text, bold=True) + 0.1:
            axes.text(
                node["start"] + 0.05 / inch,
                node["top"] + 0.5,
                text,
                va="center",
                color=CELL_TEXT if luminance(colour) > 0.18 else "#ffffff",
                fontweight="bold",
                zorder=4,
                bbox={"fc": colour, "ec": "none", "pad": 1.2},
            )
        _marks(axes, node, layout["components"], theme, inch)
    where = {request["id"]: request for request in layout["requests"]}
    flags = {request["id"]: _flag(axes, request, layout, theme, inch) for request in layout["requests"]}
    for request in layout["requests"]:
        if request["producer"] in where:
            axes.annotate(
                "",
                xy=(flags[request["producer"]], where[request["producer"]]["row"] + 0.5),
                xytext=(flags[request["id"]], request["row"] + 0.5),
                arrowprops={
                    "arrowstyle": "-|>",
                    "color": SLOTS["blocked"][theme][1],
                    "lw": 0.9,
                    "shrinkA": 5,
                    "shrinkB": 5,
                },
                zorder=5,
            )
    token_axis(axes, layout["block"], extent, inch, colours)


def _marks(axes: Axes, node: dict[str, Any], components: list[dict], theme: str, inch: float) -> None:
    """Filled when published, hollow in flight, crossed when evicted."""
    ink = strong(node["colour"][0]) if theme == "light" else "#ffffff"
    for mark in node["marks"]:
        lane = mark["component"] - (len(components) - 1) / 2
        places = list(range(mark["start"] + mark["step"], mark["end"] + 1, mark["step"]))
        # Dense boundaries: as many as the page can tell apart.
        every = max(1, round(0.06 / max(1e-9, mark["step"] * inch)))
        beside = mark["step"] * inch > 0.5
        for at in places[::-1][::every]:
            x = at - (0.05 + (len(components) - 1 - mark["component"]) * 0.075) / inch if beside else at - 0.05 / inch
            y = node["top"] + 0.5 + (0 if beside else lane * 0.24)
            marker = MARKERS[components[mark["component"]]["shape"]]
            face = ink if mark["state"] == PUBLISHED else THEMES[theme]["panel"]
            axes.plot(
                [x],
                [y],
                marker=marker,
                ms=3.2 if beside else 2.2,
                mfc=face,
                mec=ink,
                mew=0.6,
                ls="none",
                zorder=3,
            )
            if mark["state"] == EVICTED:
                axes.plot([x], [y], marker="x", ms=4.4 if beside else 3, mec=ink, mew=0.6, ls="none", zorder=3)


def _flag(axes: Axes, request: dict[str, Any], layout: dict[str, Any], theme: str, inch: float) -> float:
    """A request where it stands, and the gap between h and h^. Returns where the flag is."""
    from matplotlib.patches import Rectangle

    colours = THEMES[theme]
    y = request["row"] + 0.5
    back, ink = SLOTS["blocked"][theme]
    running = request["state"] == "running"
    at = request["at"] - (0.06 + 0.075 * len(layout["components"])) / inch if request["at"] else -0.06 / inch
    if not running and request["matched"] > request["ready"]:
        axes.add_patch(
            Rectangle(
                (request["ready"], y - 0.13),
                at - request["ready"],
                0.26,
                fc=back,
                ec=ink,
                lw=0.6,
                hatch=HATCHES["backslash"],
                hatchcolor=ink,
                zorder=2,
            )
        )
        axes.plot([request["ready"]] * 2, [y - 0.3, y + 0.3], color=ink, lw=1.2, zorder=2)
    name = fit_id(request["id"], (at - axes.get_xlim()[0]) * inch - 0.1, bold=running)
    axes.text(
        at,
        y,
        name,
        ha="right",
        va="center",
        zorder=6,
        color=CELL_TEXT if running else colours["text"],
        fontweight="bold" if running else "normal",
        bbox={
            "boxstyle": "round,pad=0.22",
            "fc": fill(*request["colour"]) if running else back if request["state"] == "blocked" else colours["panel"],
            "ec": strong(request["colour"][0])
            if running
            else ink
            if request["state"] == "blocked"
            else colours["line_strong"],
            "lw": 0.7,
            "ls": "-" if running else (0, (2.5, 1.6)),
        },
    )
    return at - width_of(name) / 2 / inch


class Page:
    """A tree with its heading and legend: how high it is, and drawing it."""

    ROW, BELOW = 0.19, 0.06

    def __init__(self, layout: dict[str, Any]):
        self.layout = layout
        self.title = f"round {layout['round']}"

    def _above(self, width: float) -> float:
        """Inches for heading, legend, axis name and ticks."""
        room = self._legend_room(width)
        lines = len(legend_lines([h.get_label() for h in handles(self.layout, "light")], room - 0.1))
        return 0.05 + lines * line_height() * 1.15 + 2.3 * line_height() + 0.06

    def _legend_room(self, width: float) -> float:
        return width - width_of(self.title, bold=True) - 0.2

    def height(self, width: float) -> float:
        """Inches high at a width in inches."""
        return self._above(width) + self.ROW * max(1, self.layout["rows"]) + self.BELOW

    def draw(self, figure: Any, theme: str) -> None:
        """Draw all of it on an empty figure of that height."""
        wide, high = figure.get_size_inches()
        above = self._above(wide)
        axes = figure.add_axes((0.01, self.BELOW / high, 0.98, 1 - (above + self.BELOW) / high))
        draw(axes, self.layout, theme)
        text = THEMES[theme]["text"]
        # At the right, with as much room as the heading leaves.
        room = self._legend_room(wide)
        entries = handles(self.layout, theme)
        lines = legend_lines([handle.get_label() for handle in entries], room - 0.1)
        for k, line in enumerate(lines):
            top = high - 0.03 - k * line_height() * 1.15
            legend(figure, [entries[at] for at in line], text, wide, top, high)
        figure.text(0.03 / wide, (high - 0.03) / high, self.title, color=text, va="top", fontweight="bold")


def handles(layout: dict[str, Any], theme: str) -> list[Any]:
    """Legend entries: the components' shapes, and what filled, hollow and crossed mean."""
    from matplotlib.lines import Line2D

    colours = THEMES[theme]
    ink = colours["text"]

    def mark(label: str, marker: str) -> Any:
        return Line2D([], [], marker=marker, ls="none", ms=3.6, mfc=ink, mec=ink, mew=0.7, label=label)

    found = [
        mark(f"{c['name']} ×{c['groups']}" if c["groups"] > 1 else c["name"], MARKERS[c["shape"]])
        for c in layout["components"]
    ]
    return found + states(ink, colours["panel"], "published", "in flight", "evicted")


def states(ink: str, ground: str, *words: str) -> list[Any]:
    """Legend entries of what filled, hollow and crossed mean: bars, which are no component's shape."""
    from matplotlib.patches import Patch

    looks = ({"fc": ink}, {"fc": ground}, {"fc": ground, "hatch": "xxxxx", "hatchcolor": ink})
    return [Patch(ec=ink, lw=0.6, label=label, **look) for label, look in zip(words, looks, strict=False)]


def token_axis(axes: Axes, block: int, extent: int, inch: float, colours: dict[str, str]) -> None:
    """Tokens along the top, up to `extent`; ticks where states can be: at multiples of the block, `inch` a token."""
    axes.set_yticks([])
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("tokens", color=colours["text"])
    axes.tick_params(colors=colours["text_soft"], labelcolor=colours["text"])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    step = block
    while step * inch < 0.5:
        step *= 2
    axes.set_xticks(range(0, extent + 1, step))
    for side, spine in axes.spines.items():
        spine.set_visible(side == "top")
        spine.set_color(colours["line_strong"])

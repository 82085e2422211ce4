"""The prefix tree on paper: the same layout as the screen's, drawn by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from radixflow.figures.icicle import EVICTED, IN_FLIGHT, PUBLISHED
from radixflow.figures.palette import CELL_TEXT, SLOTS, THEMES, fill, luminance, mix, strong
from radixflow.figures.printed_timeline import HATCHES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = {"square": "s", "circle": "o", "diamond": "D"}


def draw(axes: Axes, layout: dict[str, Any], theme: str) -> None:
    """Draw a layout of `icicle.layout`."""
    from matplotlib.patches import Rectangle

    colours = THEMES[theme]
    extent, rows = max(1, layout["extent"]), max(1, layout["rows"])
    left = -0.08 * extent if any(request["at"] == 0 for request in layout["requests"]) else 0
    axes.set_xlim(left, extent * 1.01)
    axes.set_ylim(rows, 0)
    axes.set_facecolor(colours["panel"])
    inch = axes.get_position().width * axes.figure.get_figwidth() / (extent * 1.01 - left)
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
        if wide * inch > 0.07 * len(text) + 0.1:
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
    axes.set_yticks([])
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("tokens", color=colours["text"])
    axes.tick_params(colors=colours["text_soft"], labelcolor=colours["text"])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    # Ticks where states can be: at multiples of the block.
    step = layout["block"]
    while step * inch < 0.5:
        step *= 2
    axes.set_xticks(range(0, extent + 1, step))
    for side, spine in axes.spines.items():
        spine.set_visible(side == "top")
        spine.set_color(colours["line_strong"])


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
            x = (
                at - (0.05 + (len(components) - 1 - mark["component"]) * 0.075) / inch
                if beside
                else at - 0.05 / inch
            )
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
                axes.plot(
                    [x], [y], marker="x", ms=4.4 if beside else 3, mec=ink, mew=0.6, ls="none", zorder=3
                )


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
    axes.text(
        at,
        y,
        request["id"],
        ha="right",
        va="center",
        zorder=6,
        color=CELL_TEXT if running else colours["text"],
        fontweight="bold" if running else "normal",
        bbox={
            "boxstyle": "round,pad=0.22",
            "fc": fill(*request["colour"])
            if running
            else back
            if request["state"] == "blocked"
            else colours["panel"],
            "ec": strong(request["colour"][0])
            if running
            else ink
            if request["state"] == "blocked"
            else colours["line_strong"],
            "lw": 0.7,
            "ls": "-" if running else (0, (2.5, 1.6)),
        },
    )
    return at - 0.03 * (1 + len(request["id"])) / inch


def legend(figure: Any, layout: dict[str, Any], theme: str) -> None:
    """The components' shapes and what filled, hollow and crossed mean."""
    from matplotlib.lines import Line2D

    colours = THEMES[theme]
    ink = colours["text"]
    handles = [
        Line2D(
            [],
            [],
            marker=MARKERS[c["shape"]],
            ls="none",
            ms=3.6,
            mfc=ink,
            mec=ink,
            label=f"{c['name']} ×{c['groups']}" if c["groups"] > 1 else c["name"],
        )
        for c in layout["components"]
    ]
    for state, word in ((PUBLISHED, "published"), (IN_FLIGHT, "in flight"), (EVICTED, "evicted")):
        face = ink if state == PUBLISHED else colours["panel"]
        handles.append(
            Line2D(
                [],
                [],
                marker="$⊗$" if state == EVICTED else "o",
                ls="none",
                ms=4.4 if state == EVICTED else 3.6,
                mfc=ink if state == EVICTED else face,
                mec=ink,
                mew=0.2 if state == EVICTED else 0.7,
                label=word,
            )
        )
    figure.legend(
        handles=handles,
        loc="upper right",
        bbox_to_anchor=(0.99, 0.995),
        ncols=len(handles),
        frameon=False,
        labelcolor=ink,
        handletextpad=0.1,
        columnspacing=0.9,
        borderaxespad=0,
        fontsize="small",
    )

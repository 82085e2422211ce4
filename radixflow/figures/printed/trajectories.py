"""Trajectories on paper: strips over a whole run, or bars at one round; several runs in the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from radixflow.analysis.prose import counted
from radixflow.figures.figure import Figure
from radixflow.figures.lettering import fit, legend, legend_lines, line_height, width_of
from radixflow.figures.palette import SLOTS, THEMES, fill, mix, strong
from radixflow.figures.printed.panels import BESIDE_FROM, RIGHT
from radixflow.figures.printed.timeline import HATCHES
from radixflow.figures.trajectory_bars import MAX_ROWS, Contexts, bars
from radixflow.figures.trajectory_strips import strips

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from radixflow.figures.palette import Colours

MAX_RUNS = 6
AXES = ("round", "time")
ROW = 0.135
"""Inches from one trajectory to the next."""
HIGH = 0.86
"""Of that, a strip."""


def trajectories(
    *traces: Any,
    at_round: int | None = None,
    axis: str = "round",
    colours: Colours | None = None,
    max_rows: int = MAX_ROWS,
    contexts: Sequence[Contexts] | None = None,
) -> Figure:
    """What is left of each trajectory's context: over the whole run, or where `at_round` is given, after that round.

    Over the run a strip is as high as the share of its own tokens that is left, dark while it runs; crosses and
    rings say where it came back and missed all or part of that. One trace or up to six, beside one another where
    the page is wide enough, in the same rows: the first `max_rows` trajectories that anybody continues.

    Arguments: `axis` of the whole run, `round` or `time` (seconds); `contexts`, those of the traces, where they
    are known already. Raises ValueError where in none of the traces anybody comes back, and for a wrong number of
    traces, axis or round.
    """
    if not 1 <= len(traces) <= MAX_RUNS:
        raise ValueError(f"trajectories: {len(traces)} traces given, expected 1 to {MAX_RUNS}")
    if axis not in AXES:
        raise ValueError(f"axis {axis!r}: unknown, expected one of {', '.join(AXES)}")
    last = max(trace.num_rounds for trace in traces)
    if at_round is not None and not 1 <= at_round <= last:
        raise ValueError(f"no round {at_round}: expected 1 to {last}")
    contexts = contexts if contexts is not None else [Contexts(trace) for trace in traces]
    if not any(one.returns for one in contexts):
        raise ValueError(f"{traces[0].path}: nobody comes back to a context, expected trajectories of several turns")
    page = (
        _Strips(strips(contexts, colours, max_rows), axis, contexts)
        if at_round is None
        else _Bars(bars(contexts, at_round, colours, max_rows))
    )
    names = ["trace"] if len(traces) == 1 else [f"t{k}" for k in range(1, len(traces) + 1)]
    given = [f"at_round={at_round}"] if at_round is not None else [f"axis={axis!r}"] if axis != "round" else []
    what = "trajectories" if at_round is None else f"trajectories at round {at_round}"
    made_from = f"{what} of trace{'s' if len(traces) > 1 else ''} {', '.join(trace.id for trace in traces)}"
    return Figure(page.draw, page.height, made_from, f"radixflow.figures.trajectories({', '.join([*names, *given])})")


class _Page:
    """Runs' panels with shared rows: how high they are, and drawing them. What is in a panel is a subclass's."""

    axis_name = "tokens"

    def __init__(self, drawn: dict[str, Any]):
        self.drawn = drawn

    def columns(self, width: float) -> int:
        return len(self.drawn["runs"]) if width >= BESIDE_FROM and len(self.drawn["runs"]) <= 3 else 1

    def names(self, width: float) -> float:
        """Inches left of the axes, for the rows' names."""
        return min(0.22 * width, max(map(width_of, self.drawn["labels"]), default=0)) + 0.1

    def head(self, k: int) -> str:
        run = self.drawn["runs"][k]
        return f"{run['policy']}, {run['eviction']}"

    def panel(self) -> float:
        return 2.7 * line_height() + ROW * len(self.drawn["rows"]) + 3 * line_height()

    def height(self, width: float) -> float:
        """Inches high at a width in inches."""
        below = 1.3 * line_height() if self.drawn["hidden"] else 0.0
        return self.above(width) + self.panel() * -(-len(self.drawn["runs"]) // self.columns(width)) + below

    def above(self, width: float) -> float:
        labels = [handle.get_label() for handle in self.handles("light")]
        return 0.05 + len(legend_lines(labels, width - 0.1)) * line_height() * 1.15

    def draw(self, figure: Any, theme: str) -> None:
        """Draw all of it on an empty figure of that height."""
        wide, high = figure.get_size_inches()
        colours, columns = THEMES[theme], self.columns(wide)
        each, left = wide / columns, self.names(wide / columns)
        rows = ROW * len(self.drawn["rows"])
        for k in range(len(self.drawn["runs"])):
            x = each * (k % columns)
            y = high - self.above(wide) - self.panel() * (k // columns)
            room = each - 0.1
            text = {"va": "top", "parse_math": False}
            figure.text((x + 0.03) / wide, y / high, self.head(k), color=colours["text"], fontweight="bold", **text)
            note = fit(self.note(k), room)
            y -= 1.25 * line_height()
            figure.text((x + 0.03) / wide, y / high, note, color=colours["text_soft"], **text)
            y -= 1.45 * line_height() + rows
            axes = figure.add_axes(((x + left) / wide, y / high, (each - left - RIGHT) / wide, rows / high))
            self.fill(axes, k, theme)
            self._frame(axes, left, theme)
        legend(figure, self.handles(theme), colours["text"], wide, high - 0.03, high)
        if self.drawn["hidden"]:
            words = f"and {self.drawn['hidden']:,} more trajectories"
            figure.text(0.03 / wide, 0.02 / high, words, color=colours["text_soft"], va="bottom")

    def _frame(self, axes: Axes, left: float, theme: str) -> None:
        from matplotlib.ticker import MaxNLocator

        colours, labels = THEMES[theme], self.drawn["labels"]
        axes.set_facecolor(colours["panel"])
        axes.set_ylim(len(labels), 0)
        axes.set_yticks(np.arange(len(labels)) + 0.5, [fit(name, left - 0.08) for name in labels], parse_math=False)
        axes.tick_params(colors=colours["text_soft"], labelcolor=colours["text"])
        axes.tick_params(axis="y", length=0, pad=2)
        # No number sticks out of the page.
        inches = axes.get_position().width * axes.figure.get_figwidth()
        widest = width_of(f"{axes.get_xlim()[1]:,.0f}")
        axes.xaxis.set_major_locator(MaxNLocator(max(1, int(inches / (widest + 0.25)))))
        low, high = axes.get_xlim()
        inch = inches / (high - low)
        shown = [x for x in axes.get_xticks() if low <= x <= high and (high - x) * inch + RIGHT >= widest / 2]
        axes.set_xticks(shown, [f"{x:,.10g}" for x in shown])
        axes.set_xlim(low, high)
        axes.set_xlabel(self.axis_name, color=colours["text"])
        for side, spine in axes.spines.items():
            spine.set_visible(side == "bottom")
            spine.set_color(colours["line_strong"])


class _Strips(_Page):
    """Rows down, rounds or time across."""

    def __init__(self, drawn: dict[str, Any], axis: str, contexts: Sequence[Contexts]):
        super().__init__(drawn)
        self.axis_name = "round" if axis == "round" else "time (s)"
        self._by_time = axis == "time"
        self._notes = [_misses(one) for one in contexts]

    def note(self, k: int) -> str:
        return self._notes[k]

    def fill(self, axes: Axes, k: int, theme: str) -> None:
        from matplotlib.collections import PolyCollection

        run, colours = self.drawn["runs"][k], THEMES[theme]
        times, rounds = run["times"], max(1, run["num_rounds"])

        def at(n: int) -> float:
            return times[min(n - 1, rounds)] if self._by_time else float(n)

        end = at(rounds + 1)
        axes.set_xlim(at(1), max(end, at(1) + 1e-9))
        shapes, inks = [], []
        marks: dict[str, tuple[list[float], list[float]]] = {"whole": ([], []), "partial": ([], [])}
        for row, strip in enumerate(run["strips"]):
            steps = [*strip["steps"], (rounds + 1, "", None)] if strip is not None else []
            begin = next((n for n, state, share in steps if state and share is not None), None)
            if strip is None or begin is None:
                continue
            base, plain = row + 0.94, fill(*strip["colour"])
            shapes.append(_box(at(begin), end, base))
            inks.append(colours["sunken"])
            for state, ink in (("idle", plain), ("gone", _done(plain, colours["panel"]))):
                shapes.append(_outline(steps, ("running", state), base, at))
                inks.append(ink)
            running = [(at(n), at(until)) for (n, state, _), (until, *_) in _pairs(steps) if state == "running"]
            shapes += [_box(low, high, base) for low, high in running]
            inks += [strong(strip["colour"][0])] * len(running)
            for n, miss in strip["marks"]:
                marks[miss][0].append(at(n))
                marks[miss][1].append(base - HIGH / 2)
        axes.add_collection(PolyCollection(shapes, facecolors=inks, edgecolors="none"), autolim=False)
        for miss, look in _marks(theme).items():
            axes.plot(*marks[miss], ls="none", zorder=4, clip_on=False, **look)

    def handles(self, theme: str) -> list[Any]:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        hue = next((s["colour"][0] for run in self.drawn["runs"] for s in run["strips"] if s), 0)
        named = {"whole": "came back, all of its own gone", "partial": "came back, a part gone"}
        return [
            Patch(label="share left while idle", fc=fill(hue, 0), ec="none"),
            Patch(label="done", fc=_done(fill(hue, 0), THEMES[theme]["panel"]), ec="none"),
            Patch(label="lost", fc=THEMES[theme]["sunken"], ec=THEMES[theme]["line_strong"], lw=0.5),
            Patch(label="running", fc=strong(hue), ec="none"),
            *(Line2D([], [], ls="none", label=named[miss], **look) for miss, look in _marks(theme).items()),
        ]


def _pairs(steps: list[tuple[int, str, float | None]]) -> Any:
    """Each step, and the one that ends it."""
    return zip(steps, steps[1:], strict=False)


def _box(low: float, high: float, base: float) -> list[tuple[float, float]]:
    return [(low, base), (low, base - HIGH), (high, base - HIGH), (high, base)]


def _outline(
    steps: list[tuple[int, str, float | None]], states: tuple[str, ...], base: float, at: Any
) -> list[tuple[float, float]]:
    """The corners of a strip, flat where it is in none of the states."""
    corners = []
    for (n, state, share), (until, *_) in _pairs(steps):
        y = base - HIGH * (share or 0.0) if state in states else base
        corners += [(at(n), y), (at(until), y)]
    return [(corners[0][0], base), *corners, (corners[-1][0], base)]


def _done(ink: str, ground: str) -> str:
    """The colour of who never comes back."""
    return mix(ink, ground, 0.55)


def _marks(theme: str) -> dict[str, dict[str, Any]]:
    """How a return that missed is marked."""
    ink, ground = THEMES[theme]["text"], THEMES[theme]["panel"]
    return {
        "whole": {"marker": "X", "ms": 4.2, "mfc": ink, "mec": ground, "mew": 0.4},
        "partial": {"marker": "o", "ms": 2.9, "mfc": ground, "mec": ink, "mew": 0.7},
    }


def _misses(one: Contexts) -> str:
    """What the returns of a run missed, in words."""
    back = one.all_returns
    if not back:
        return "nobody came back"
    whole = sum(each.miss == "whole" for each in back)
    partial = sum(each.miss == "partial" for each in back)
    mean = sum(each.missed for each in back) / len(back)
    return f"{counted(len(back), 'return')}: {whole:,} missed all, {partial:,} a part; {mean:,.0f} tokens a return"


class _Bars(_Page):
    """Rows down, tokens across."""

    def note(self, k: int) -> str:
        found = [bar for bar in self.drawn["runs"][k]["bars"] if bar is not None]
        lost = sum(bar["lost"] for bar in found if bar["state"] in ("idle", "waiting"))
        idle = sum(bar["state"] == "idle" for bar in found)
        return f"round {self.drawn['runs'][k]['round']:,}: {idle} idle, {counted(lost, 'token')} lost"

    def fill(self, axes: Axes, k: int, theme: str) -> None:
        run = self.drawn["runs"][k]
        axes.set_xlim(0, max(1, self.drawn["extent"]) * 1.01)
        for row, bar in enumerate(run["bars"]):
            if bar is None or bar["state"] == "absent":
                continue
            look = _looks(theme, bar["colour"])
            ends = [
                ("full", bar["full"]),
                ("lost", bar["expected"] if bar["lost"] and not bar["vanished"] else 0),
                ("dead", bar["matched"] if bar["matched"] > bar["ready"] else 0),
                ("own", bar["ready"]),
                ("shared", min(bar["ready"], bar["shared"])),
            ]
            for part, end in ends:
                if part == "full":
                    part = "gone" if bar["vanished"] else "running" if bar["state"] == "running" else "full"
                axes.barh(row + 0.5, end, 0.72, **look[part])

    def handles(self, theme: str) -> list[Any]:
        from matplotlib.patches import Patch

        bars_shown = [bar for run in self.drawn["runs"] for bar in run["bars"] if bar is not None]
        look = _looks(theme, bars_shown[0]["colour"] if bars_shown else [0, 0])
        named = {"own": "there to go on from", "shared": "shared with others", "dead": "no state goes with it"}
        named |= {"lost": "lost", "gone": "nothing of its own left", "running": "running"}
        if not any(run["states"] for run in self.drawn["runs"]):
            del named["dead"]
        return [Patch(label=words, **look[part]) for part, words in named.items()]


def _looks(theme: str, colour: Sequence[int]) -> dict[str, dict[str, Any]]:
    """How each part of a bar is drawn."""
    colours, (back, ink) = THEMES[theme], SLOTS["blocked"][theme]
    plain, dark = fill(*colour), strong(colour[0])
    return {
        "full": {"fc": "none", "ec": colours["line_strong"], "lw": 0.5},
        "running": {"fc": "none", "ec": colours["text"], "lw": 1.1},
        "gone": {"fc": "none", "ec": colours["text_soft"], "lw": 0.6, "ls": (0, (2.5, 1.6))},
        "lost": {"fc": colours["sunken"], "ec": colours["line_strong"], "lw": 0.4, "hatch": HATCHES["diagonal"],
                 "hatchcolor": colours["line_strong"]},
        "dead": {"fc": back, "ec": ink, "lw": 0.4, "hatch": HATCHES["backslash"], "hatchcolor": ink},
        "own": {"fc": plain, "ec": "none"},
        "shared": {"fc": plain, "ec": "none", "hatch": HATCHES["vertical"], "hatchcolor": dark},
    }  # fmt: skip

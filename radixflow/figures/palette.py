"""Colours and patterns: one set of tokens for canvas, page, charts and print.

A request's colour says what it shares. Its *hue* belongs to the prompt segment that makes up most of
it (its document), its *tone* tells it from others of the same hue. Hues were chosen so that any two,
and neighbours even more, stay apart for normal vision and under full protanopia, deuteranopia and
tritanopia (Machado et al. 2009), and so that dark text reads on each of them. Red is kept for the
avoidable bubble. Whatever isn't a request carries a pattern as well as a colour.
"""

from __future__ import annotations

import json
import math
import threading
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from radixflow.figures.wording import CAUSE_WORDS
from radixflow.trace import Trace
from radixflow.trace.growth import prompt_segments, request_group, stream_name

# OKLCH lightness, chroma and hue angle. Neighbours in this order are the furthest apart.
HUES: tuple[tuple[float, float, float], ...] = (
    (0.745, 0.115, 272),
    (0.745, 0.115, 120),
    (0.875, 0.063, 248),
    (0.875, 0.115, 112),
    (0.700, 0.115, 336),
    (0.700, 0.115, 160),
    (0.810, 0.105, 352),
    (0.810, 0.085, 256),
    (0.700, 0.115, 280),
    (0.700, 0.115, 96),
    (0.875, 0.115, 160),
    (0.745, 0.115, 176),
)
TONES: tuple[float, ...] = (0.0, 0.045, -0.04)
"""Added to a hue's lightness: the first request of a family has the plain hue."""

THEMES: dict[str, dict[str, str]] = {
    "light": {
        "page": "#fbfbfa",
        "panel": "#ffffff",
        "sunken": "#f3f3f0",
        "line": "#dcdcd6",
        "line_strong": "#a9a9a2",
        "text": "#1b1d21",
        "text_soft": "#565a61",
        "cursor": "#1b1d21",
        "focus": "#1f5fd0",
        "select": "#1b1d21",
        "occupied": "#7f93b8",
        "budget": "#3d6f66",
    },
    "dark": {
        "page": "#14161a",
        "panel": "#1a1d22",
        "sunken": "#121417",
        "line": "#30343b",
        "line_strong": "#666c76",
        "text": "#eef0f2",
        "text_soft": "#a8adb6",
        "cursor": "#f7f8f9",
        "focus": "#82b1ff",
        "select": "#ffffff",
        "occupied": "#6f86b4",
        "budget": "#6db5a7",
    },
}

CELL_TEXT = "#14161a"
"""Text on a request's fill, in both themes."""

SLOTS: dict[str, dict[str, Any]] = {
    "resident": {"pattern": "horizontal", "light": ("#e9e9e4", "#8b8f97"), "dark": ("#262a30", "#7d838d")},
    "avoidable": {"pattern": "diagonal", "light": ("#fde4da", "#d4410f"), "dark": ("#43201a", "#ff7a4d")},
    "blocked": {"pattern": "backslash", "light": ("#f4ead0", "#96690a"), "dark": ("#352b14", "#dbac45")},
    "other": {"pattern": "cross", "light": ("#ecebef", "#74717f"), "dark": ("#282730", "#918d9f")},
    "unexamined": {"pattern": "vertical", "light": ("#e8eef4", "#5d7b98"), "dark": ("#1e2832", "#7c9dbc")},
    "idle": {"pattern": "dots", "light": ("#f8f8f5", "#b4b4ac"), "dark": ("#181b1f", "#4e545d")},
    "unprobed": {"pattern": "dashes", "light": ("#fbfbfa", "#b4b4ac"), "dark": ("#14161a", "#4e545d")},
    "unrecorded": {"pattern": "void", "light": ("#e4e4df", "#a9a9a2"), "dark": ("#0c0d0f", "#4e545d")},
}
"""Class of a slot that is not a row visit: pattern, and per theme (background, ink)."""

SLOT_CLASS: dict[str, str] = {cause: cause for cause in SLOTS}
SLOT_NAMES: dict[str, str] = {
    "resident": "resident, no tokens",
    "avoidable": "avoidable: a ready request was waiting",
    "blocked": "blocked on a producer of this round",
    "other": "refused for another reason",
    "unexamined": "not examined by the scan",
    "idle": "idle: nobody else waiting",
    "unprobed": "empty, not probed",
    "unrecorded": "not recorded",
}


def slot_class(cause: str) -> str:
    """The class of `SLOTS` in which a slot's cause is drawn; any cause without one is `other`."""
    return SLOT_CLASS.get(cause, "other")


class Colours:
    """Which hue and tone each request has, by id, the same in every trace it was built from."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[int, int]] = {}
        self._next_hue = 0
        self._seen: weakref.WeakKeyDictionary[Any, _Seen] = weakref.WeakKeyDictionary()
        self._extending = threading.RLock()  # a page's pictures of several traces share it

    @classmethod
    def of(cls, *traces: Any) -> Colours:
        """Assign colours in the order in which requests arrived, the first trace's order leading.

        Appending requests (a live trace) changes no colour already given: call `extend` again.
        """
        colours = cls()
        for trace in traces:
            colours.extend(trace)
        return colours

    def extend(self, trace: Any) -> None:
        """Give a colour to each of the trace's requests that has none; costs what is new in it."""
        with self._extending:
            self._extend(trace, self._seen.setdefault(trace, _Seen()))

    def _extend(self, trace: Any, seen: _Seen) -> None:
        new: list[tuple[str, str]] = []
        for request, family in _families(trace, seen):
            if request in self._of:
                hue, members = seen.families.get(family, (self._of[request][0], 0))
                seen.families[family] = (hue, members + 1)
            else:
                new.append((request, family))
        for request, family in new:
            if family not in seen.families:
                seen.families[family] = (self._next_hue, 0)
                self._next_hue += 1
            hue, members = seen.families[family]
            self._of[request] = (hue, members % len(TONES))
            seen.families[family] = (hue, members + 1)

    def keep(self, requests: Iterable[str | None]) -> None:
        """Forget all others: of a run that is followed for days, those whose files are gone."""
        with self._extending:
            self._of = {id: self._of[id] for id in requests if id is not None and id in self._of}

    def __getitem__(self, request: str) -> tuple[int, int]:
        """(hue number, tone number) of a request's id; hue numbers go on past `len(HUES)`."""
        return self._of[request]

    def of_request(self, trace: Any, i: int) -> tuple[int, int]:
        """(hue, tone) of a trace's i-th request, also where its own record is missing."""
        request = trace.ids[i] if i < len(trace.ids) else None
        if request is not None and request not in self._of:
            self.extend(trace)
        return self._of[request] if request is not None else (i, 0)

    def __contains__(self, request: str) -> bool:
        return request in self._of

    def fill(self, request: str) -> str:
        """The request's colour, `#rrggbb`."""
        return fill(*self[request])


@dataclass(slots=True)
class _Seen:
    """What of a trace already has colours."""

    requests: int = 0
    families: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Hue and number of requests by family."""


def _families(trace: Any, seen: _Seen) -> Iterator[tuple[str, str]]:
    """(id, family) of the requests that came since; a family is what makes up most of a prompt, or else the
    request's group."""
    if not isinstance(trace, Trace):  # a workload that is only planned
        for i in range(seen.requests, len(trace.ids)):
            family = _family(trace.path_of(i))
            group = None if family is not None else trace.requests["group"][i]
            yield trace.ids[i], family or (group if isinstance(group, str) else trace.ids[i])
        seen.requests = len(trace.ids)
        return
    numbers, counts, streams, tokens = prompt_segments(trace, seen.requests)
    seen.requests += len(numbers)
    if not len(numbers):
        return
    main = _main_segments(counts, tokens)
    codes = np.where(counts > 0, streams[np.minimum(main, len(streams) - 1)], -1) if len(streams) else counts - 1
    for i, code in zip(*(column.tolist() for column in _by_number(numbers, codes)), strict=True):
        request = trace.ids[i]
        family = stream_name(trace, code) if code >= 0 else request_group(trace, i)
        yield request, family if isinstance(family, str) else request


def _by_number(numbers: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(numbers, kind="stable")
    return numbers[order], codes[order]


def _main_segments(counts: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Per prompt, which of all segments makes up most of it (see `_family`); of empty ones nothing useful."""
    ends = np.cumsum(counts)
    last = np.maximum(ends - 1, 0)
    several = counts > 1
    if not several.any():
        return last
    before = np.ones(len(tokens), bool)
    before[last[counts > 0]] = False
    starts = (ends - counts)[several]
    # Only segments before the last one of a prompt with several are compared.
    known = np.where(before, tokens, -1)
    longest = np.maximum.reduceat(known, starts)
    owner = np.repeat(np.arange(len(counts)), counts)
    place = np.full(len(counts), -1)
    place[several] = np.arange(len(starts))
    mine = place[owner]
    top = before & (mine >= 0) & (known == longest[np.maximum(mine, 0)])
    at = np.flatnonzero(top)
    first = at[np.unique(mine[at], return_index=True)[1]]
    main = last.copy()
    main[several] = np.where(tokens[last[several]] > 2 * longest, last[several], first)
    return main


def _family(path: Iterable[tuple[str, int]]) -> str | None:
    """The stream that makes up most of a prompt. Its last stream is usually its own question, so it
    counts only where it is more than twice as long as the longest before it."""
    path = list(path)
    if not path:
        return None
    last = path[-1]
    if len(path) == 1:
        return last[0]
    longest = max(path[:-1], key=lambda part: part[1])
    return last[0] if last[1] > 2 * longest[1] else longest[0]


def fill(hue: int, tone: int) -> str:
    """Colour of a request's cell, `#rrggbb`; text on it is `CELL_TEXT`."""
    return _hex(*_shade(hue, tone, 0.0))


def _shade(hue: int, tone: int, darker: float) -> tuple[float, float, float]:
    lightness, chroma, angle = HUES[hue % len(HUES)]
    # Families beyond the last hue come again a shade lighter or darker.
    lap = (hue // len(HUES)) % 3
    shift = TONES[tone % len(TONES)] + (0.0, -0.03, 0.03)[lap]
    shade = min(0.92, max(0.68, lightness + shift))
    return max(0.63, shade - darker) if darker else shade, chroma, angle


def gauge(hue: int, tone: int) -> str:
    """The request's fill, darker: the share of a cell that its tokens take of T. Text reads on it."""
    return _hex(*_shade(hue, tone, 0.10))


def mix(one: str, other: str, share: float) -> str:
    """`one` with `share` (0 to 1) of `other`, both `#rrggbb`."""
    parts = [(int(one[k : k + 2], 16), int(other[k : k + 2], 16)) for k in (1, 3, 5)]
    return "#" + "".join(f"{round(a * (1 - share) + b * share):02x}" for a, b in parts)


def visit(colour: tuple[int, int], tokens: int, budget: int, ground: str) -> str:
    """A row visit's cell: few tokens, a decode say, leave it pale; many make it strong."""
    paleness = 0.42 * (1 - min(1.0, 2.4 * math.sqrt(tokens / budget)))
    return mix(fill(*colour), ground, paleness)


def strong(hue: int) -> str:
    """The same hue, dark: the gauge's edge, and outlines."""
    _, chroma, angle = HUES[hue % len(HUES)]
    return _hex(0.43, min(chroma, 0.11), angle)


def _hex(lightness: float, chroma: float, angle: float) -> str:
    """OKLCH to `#rrggbb`, giving up chroma where sRGB has no such colour."""
    while chroma > 0:
        linear = _linear(lightness, chroma, angle)
        if all(-1e-4 <= c <= 1.0001 for c in linear):
            break
        chroma -= 0.004
    return "#" + "".join(f"{round(255 * _gamma(min(1.0, max(0.0, c)))):02x}" for c in linear)


def _linear(lightness: float, chroma: float, angle: float) -> tuple[float, float, float]:
    """OKLCH to linear sRGB (Ottosson 2020)."""
    a = chroma * math.cos(math.radians(angle))
    b = chroma * math.sin(math.radians(angle))
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )


def _gamma(c: float) -> float:
    return 12.92 * c if c <= 0.0031308 else 1.055 * c ** (1 / 2.4) - 0.055


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb` (WCAG 2)."""
    channels = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours (WCAG 2), 1 to 21."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def tokens() -> dict[str, Any]:
    """Every colour and pattern as JSON: what canvas, page and print draw with."""
    laps = 3 * len(HUES)
    return {
        "fills": [[fill(hue, tone) for tone in range(len(TONES))] for hue in range(laps)],
        "gauges": [[gauge(hue, tone) for tone in range(len(TONES))] for hue in range(laps)],
        "strong": [strong(hue) for hue in range(len(HUES))],
        "cell_text": CELL_TEXT,
        "themes": THEMES,
        "slots": {
            name: {
                "pattern": slot["pattern"],
                "light": list(slot["light"]),
                "dark": list(slot["dark"]),
                "name": SLOT_NAMES[name],
                "short": CAUSE_WORDS[name],
            }
            for name, slot in SLOTS.items()
        },
        "causes": CAUSE_WORDS,
    }


_LOOKS: dict[str, str] = {
    "horizontal": "repeating-linear-gradient(0deg,{ink} 0 1px,{back} 1px 4px)",
    "diagonal": "repeating-linear-gradient(-45deg,{ink} 0 2px,{back} 2px 6px)",
    "backslash": "repeating-linear-gradient(45deg,{ink} 0 1.5px,{back} 1.5px 6px)",
    "cross": "repeating-linear-gradient(45deg,{ink} 0 1px,transparent 1px 6px),"
    "repeating-linear-gradient(-45deg,{ink} 0 1px,{back} 1px 6px)",
    "vertical": "repeating-linear-gradient(90deg,{ink} 0 1px,{back} 1px 4px)",
    "dots": "radial-gradient({ink} 1px,{back} 1.5px) 0 0/6px 6px",
    "dashes": "linear-gradient(90deg,{ink} 50%,transparent 0) 0 50%/8px 1px,{back}",
    "void": "{back}",
}
"""Patterns as CSS backgrounds."""


def css() -> str:
    """The tokens as CSS variables (`--rf-text`, `--rf-avoidable-ink`, `--rf-avoidable-look`: a background with the
    pattern), light, and dark under `[data-theme=dark]` and `[data-mantine-color-scheme=dark]`."""

    def block(theme: str) -> str:
        lines = [f"--rf-{name.replace('_', '-')}:{value};" for name, value in THEMES[theme].items()]
        for name, slot in SLOTS.items():
            back, ink = slot[theme]
            look = _LOOKS[slot["pattern"]].format(back=back, ink=ink)
            lines += [f"--rf-{name}:{back};", f"--rf-{name}-ink:{ink};", f"--rf-{name}-look:{look};"]
        return "".join(lines)

    dark = "[data-theme=dark],[data-mantine-color-scheme=dark]"
    return f":root{{{block('light')}}}\n{dark}{{{block('dark')}}}\n"


CANVAS = Path(__file__).parents[1] / "widgets" / "canvas.mjs"


def embed(module: Path = CANVAS) -> bool:
    """Write the tokens into the canvas module between its two markers; True if that changed it.

    After a change here: `python -c "from radixflow.figures import palette; palette.embed()"`.
    """
    text = module.read_text(encoding="utf-8")
    head, rest = text.split("/* tokens: begin */", 1)
    _, tail = rest.split("/* tokens: end */", 1)
    body = json.dumps(tokens(), separators=(",", ":"))
    new = f"{head}/* tokens: begin */ {body} /* tokens: end */{tail}"
    if new != text:
        module.write_text(new, encoding="utf-8")
    return new != text

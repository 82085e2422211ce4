"""How runs and causes are told apart: hues, strokes and patterns, the same on screen and on paper.

A pattern is a shape (`/`, `x`, `.`, ...; nothing for a plain fill) and how far apart its strokes are. Plotly wants the
distance in pixels, matplotlib the shape repeated, CSS and canvas draw their own of the same name.
"""

from __future__ import annotations

from dataclasses import dataclass

from radixflow.figures.palette import SLOTS, slot_class


@dataclass(frozen=True, slots=True)
class Pattern:
    """Strokes over a fill."""

    shape: str = ""
    pixels: int = 7
    """Between two strokes, for Plotly."""
    strokes: int = 5
    """How often the shape is repeated, for matplotlib."""

    @property
    def hatch(self) -> str | None:
        """For matplotlib."""
        return self.shape * self.strokes or None


def _wide(shape: str) -> Pattern:
    return Pattern(shape, 12, 3)


def _wider(shape: str) -> Pattern:
    return Pattern(shape, 17, 2)


PATTERNS: dict[str, Pattern] = {
    "horizontal": Pattern("-"),
    "diagonal": Pattern("/", strokes=6),
    "backslash": Pattern("\\"),
    "cross": Pattern("x"),
    "vertical": Pattern("|"),
    "dots": Pattern(".", strokes=4),
    "dashes": Pattern("-", 14, 2),
    "void": Pattern(),
}
"""Of the classes of `palette.SLOTS`, by the name that they have there."""

CAUSES: dict[str, Pattern] = {
    "capacity": Pattern("x"),
    "tokens": Pattern("+"),
    "alignment": _wide("x"),
    "fragmented": _wide("+"),
    "never_fits": _wider("x"),
    "deferred": _wider("+"),
    "admission": _wide("|"),
    "rows": Pattern("."),
    "not_entered": Pattern("-"),
    "in_step": _wide("/"),
}
"""Causes that share the class `other` have a pattern each."""

RUN_HUES: tuple[int, ...] = (0, 9, 5, 4, 7, 11)
"""Hues of `palette.HUES` for up to six runs."""

RUNS: tuple[Pattern, ...] = (Pattern(), Pattern("/"), Pattern("."), Pattern("x"), Pattern("-"), Pattern("|"))

DASHES: tuple[tuple[float, ...], ...] = ((), (4, 1.5), (1, 1), (5, 1, 1, 1), (8, 2), (3, 1, 1, 1, 1, 1))
"""Of a run's line: strokes and gaps in turn, in widths of the line; none for a solid one."""

COSTS: tuple[tuple[str, str, int, int, Pattern], ...] = (
    ("fewer rounds", "fewer_rounds_seconds", 1, 5, Pattern()),
    ("dearer rounds", "dearer_rounds_seconds", -1, 4, Pattern("/")),
    ("saved in all", "saved_seconds", 1, 0, Pattern(".")),
)
"""Parts of the cost identity: words, key in `CostIdentity.to_dict()`, sign, hue and pattern."""


def of_cause(cause: str) -> Pattern:
    """The pattern of a slot's or a wait's cause."""
    name = slot_class(cause)
    found = CAUSES.get(cause) if name == "other" else None
    return found or PATTERNS[SLOTS[name]["pattern"]]

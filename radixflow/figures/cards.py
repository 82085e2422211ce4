"""What an inspector says, as plain parts: the page makes elements of them, print makes lines.

Nothing here knows how it will look: a part names a request, a class of `palette.SLOTS`, or words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from radixflow.figures.palette import Colours

NO_COLOUR = "#cccccc"
"""Of a request that isn't among those that have colours."""

_ENDLESS = re.compile(r"\S{161,}")

MAX_CHIPS = 60
"""Requests listed one by one; the rest are counted."""


@dataclass(frozen=True, slots=True)
class Words:
    """A paragraph: pieces of text, each strong or not."""

    pieces: tuple[tuple[str, bool], ...]
    kind: str = "plain"
    """`plain`, `lead` (the first sentence), `soft`, `alert` (something is wrong), `sum` (below a meter)."""

    def __str__(self) -> str:
        return "".join(text for text, _ in self.pieces)


def words(text: str, kind: str = "plain") -> Words:
    """A paragraph without anything strong in it."""
    return Words(((brief(text), False),), kind)


def brief(text: str) -> str:
    """The text with the middle of endless words left out: a client may call its request whatever it likes."""
    return _ENDLESS.sub(lambda word: f"{word[0][:40]}…{word[0][-40:]}", text)


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a meter."""

    look: str
    """A class of `palette.SLOTS`, `visit`, `rest` (what is left over), or a request's colour `#rrggbb`."""
    words: str
    amount: float


@dataclass(frozen=True, slots=True)
class Meter:
    """A bar of parts, and the sum that it shows."""

    parts: list[Part]
    label: str
    """The same in words, for who can't see it."""
    total: Words
    name: str = ""
    """What a test finds the sum by."""


@dataclass(frozen=True, slots=True)
class Chip:
    """A request, in its colour."""

    request: str
    colour: str
    note: str = ""
    edge: str = ""
    """A class of `palette.SLOTS` in whose pattern its edge is drawn."""
    taken: bool = False
    """Underlined: the scan took it."""
    stopped: bool = False
    """The scan stopped here."""


@dataclass(frozen=True, slots=True)
class Chips:
    """Requests in a row, and how many more there are."""

    chips: list[Chip]
    more: int = 0
    legend: tuple[tuple[str, str], ...] = ()
    """What the chips' edges mean: a class of `palette.SLOTS`, or `taken`, and words."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that was visited and not selected, and why."""

    chip: Chip
    why: Words


@dataclass(frozen=True, slots=True)
class Causes:
    """A list, each line with the pattern of a class of `palette.SLOTS`."""

    lines: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Facts:
    """Names with a value each."""

    rows: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with what stands under it."""

    title: str
    blocks: list[Block]
    count: int | None = None
    note: str = ""


Block = Words | Meter | Chips | Refusal | Causes | Facts | Section


@dataclass(frozen=True, slots=True)
class Card:
    """One inspector's content."""

    title: str
    policy: str
    note: str = ""
    colour: str | None = None
    """A request's card has a dot in its colour."""
    blocks: list[Block] = field(default_factory=list)


def colour_of(request: str, colours: Colours) -> str:
    """The request's colour, `#rrggbb`."""
    return colours.fill(request) if request in colours else NO_COLOUR


def chips(requests: Iterable[str], colours: Colours, notes: dict[str, str] | None = None) -> Chips:
    """Requests as chips, the first `MAX_CHIPS`."""
    requests = list(requests)
    shown = [
        Chip(request, colour_of(request, colours), (notes or {}).get(request, "")) for request in requests[:MAX_CHIPS]
    ]
    return Chips(shown, len(requests) - len(shown))

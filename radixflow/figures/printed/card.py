"""An inspector's card on paper: the same parts as the page's, set in lines and columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from radixflow.figures.cards import Block, Card, Causes, Chip, Chips, Facts, Meter, Part, Refusal, Section, Words
from radixflow.figures.lettering import fit, fit_id, line_height, width_of
from radixflow.figures.palette import CELL_TEXT, SLOTS, THEMES
from radixflow.figures.printed.timeline import HATCHES

TWO_COLUMNS_FROM = 5.0
"""Inches of width from which a card stands in two columns."""
MARGIN, GUTTER, GAP = 0.06, 0.3, 0.09
"""Inches around it, between columns, and between two parts."""
BAR, SWATCH, EDGE = 0.15, 0.14, 0.07
"""Inches: height of a meter, width of a pattern beside words, width of a chip's edge."""
MAX_ID = 160
"""Letters of an id that are looked at when it is cut to fit; of longer ones the last."""
MAX_NAMED = 8
"""Parts of a meter that are named below it."""

Mark = Callable[["Ink"], None]
"""Draws one thing."""


class Page:
    """Cards under one another: how high they are at a width, and drawing them."""

    def __init__(self, cards: Iterable[Card]):
        self.cards = list(cards)

    def height(self, width: float) -> float:
        """Inches high at a width in inches."""
        return self._set(width).y + MARGIN

    def draw(self, figure: Any, theme: str) -> None:
        """Draw all of it on an empty figure of that height."""
        wide, high = figure.get_size_inches()
        ink = Ink(figure, THEMES[theme], theme, wide, high)
        for mark in self._set(wide).marks:
            mark(ink)

    def _set(self, width: float) -> Column:
        page = Column(MARGIN, width - 2 * MARGIN, MARGIN)
        for card in self.cards:
            _title(page, card)
            if width < TWO_COLUMNS_FROM or len(card.blocks) < 3:
                _stack(page, card.blocks)
            else:
                _beside(page, card.blocks)
        return page


@dataclass(slots=True)
class Column:
    """Where the next part goes, and what was put so far."""

    x: float
    width: float
    y: float = 0.0
    marks: list[Mark] = field(default_factory=list)

    def inner(self, indent: float) -> Column:
        """The same place, further in; what is put there counts here."""
        return Column(self.x + indent, self.width - indent, self.y, self.marks)

    def text(self, x: float, text: str, colour: str = "text", bold: bool = False, right: bool = False) -> None:
        """A piece of the current line, at x inches from the column's left; `colour` a name in `THEMES` or a colour."""
        at, y = self.x + x, self.y + line_height() / 2
        self.marks.append(lambda ink: ink.text(at, y, text, colour, bold, right))

    def box(self, x: float, wide: float, high: float, look: str, edge: str = "", below: float = 0.0) -> None:
        at, y = self.x + x, self.y + below
        self.marks.append(lambda ink: ink.box(at, y, wide, high, look, edge))


@dataclass(frozen=True, slots=True)
class Ink:
    """Drawing in inches from the upper left corner."""

    figure: Any
    colours: dict[str, str]
    theme: str
    wide: float
    high: float

    def text(self, x: float, y: float, text: str, colour: str, bold: bool, right: bool) -> None:
        self.figure.text(
            x / self.wide,
            1 - y / self.high,
            text,
            color=self.colours.get(colour, colour),
            fontweight="bold" if bold else "normal",
            ha="right" if right else "left",
            va="center_baseline",
            parse_math=False,
        )

    def box(self, x: float, y: float, wide: float, high: float, look: str, edge: str) -> None:
        from matplotlib.patches import Rectangle

        place = ((x / self.wide, 1 - (y + high) / self.high), wide / self.wide, high / self.high)
        if look in SLOTS:
            back, ink = SLOTS[look][self.theme]
            style = {"fc": back, "hatch": HATCHES[SLOTS[look]["pattern"]], "hatchcolor": ink, "ec": ink, "lw": 0.4}
        else:
            edge = self.colours.get(edge, "none")
            style = {"fc": self.colours.get(look, look), "ec": edge, "lw": 0.4 if edge != "none" else 0}
        self.figure.add_artist(Rectangle(*place, transform=self.figure.transFigure, **style))


def _title(page: Column, card: Card) -> None:
    x = 0.0
    if card.colour:
        page.box(0, 0.1, 0.1, card.colour, below=line_height() / 2 - 0.05)
        x = 0.15
    note = width_of(card.note) + 0.12 if card.note else 0.0
    policy = width_of(card.policy)
    name = fit_id(one_line(card.title[-MAX_ID:]), max(0.5, page.width - x - policy - note - 0.12), bold=True)
    page.text(x, name, bold=True)
    after = x + width_of(name, bold=True) + 0.08
    page.text(after, fit(card.policy, max(0.3, page.width - after - note)), "text_soft")
    if card.note:
        page.text(page.width, card.note, "text_soft", right=True)
    page.y += line_height() + GAP


def _beside(page: Column, blocks: list[Block]) -> None:
    """Two columns in reading order, split where the higher of them is lowest."""
    wide = (page.width - GUTTER) / 2
    heights = []
    for block in blocks:
        trial = Column(0, wide)
        _put(trial, block)
        heights.append(trial.y + GAP)
    cut = min(range(1, len(blocks)), key=lambda k: max(sum(heights[:k]), sum(heights[k:])))
    left = Column(page.x, wide, page.y, page.marks)
    right = Column(page.x + wide + GUTTER, wide, page.y, page.marks)
    _stack(left, blocks[:cut])
    _stack(right, blocks[cut:])
    page.y = max(left.y, right.y)


def _stack(column: Column, blocks: list[Block], gap: float = GAP) -> None:
    for block in blocks:
        _put(column, block)
        column.y += gap


def _put(column: Column, block: Block) -> None:
    match block:
        case Words():
            _paragraph(column, block)
        case Meter():
            _meter(column, block)
        case Chips():
            _chips(column, block)
        case Refusal():
            wide = _chip(column, 0, block.chip, 0.4 * column.width)
            beside = column.inner(wide + 0.1)
            _paragraph(beside, block.why)
            column.y = max(beside.y, column.y + line_height() * 1.25) + 0.03
        case Causes():
            for look, line in block.lines:
                column.box(0, SWATCH, 0.1, look, below=line_height() / 2 - 0.05)
                beside = column.inner(SWATCH + 0.08)
                _paragraph(beside, Words(((line, False),)))
                column.y = beside.y + 0.03
        case Facts():
            _facts(column, block)
        case Section():
            _heading(column, block)
            _stack(column, block.blocks, GAP / 2)
            column.y -= GAP / 2


def _heading(column: Column, section: Section) -> None:
    column.text(0, section.title, bold=True)
    x = width_of(section.title, bold=True) + 0.06
    more = [f"{section.count:,}"] if section.count is not None else []
    more += [section.note] if section.note else []
    column.text(x, " · ".join(more), "text_soft")
    column.y += line_height() + 0.02


def _paragraph(column: Column, block: Words) -> None:
    colour = "text_soft" if block.kind in ("soft", "sum") else "text"
    for line in wrapped(block, column.width):
        x = 0.0
        for text, bold in line:
            column.text(x, text, "text" if bold else colour, bold)
            x += width_of(text, bold)
        column.y += line_height()


def wrapped(block: Words, width: float) -> list[list[tuple[str, bool]]]:
    """Lines of (text, bold) no wider than so many inches; a word that is longer than a line is cut at the front."""
    lines: list[list[tuple[str, bool]]] = [[]]
    used = 0.0
    for piece, bold in block.pieces:
        # A piece may go on in the middle of a word: only where it says so is there a space.
        for k, word in enumerate(one_line(piece, ends=True).split(" ")):
            if k:
                used += _append(lines[-1], " ", bold)
            word = fit_id(word[-MAX_ID:], width, bold)
            wide = width_of(word, bold)
            if used + wide > width and lines[-1]:
                lines.append([])
                used = 0.0
            if word:
                used += _append(lines[-1], word, bold)
    return [line for line in lines if line]


def _append(line: list[tuple[str, bool]], text: str, bold: bool) -> float:
    """Add to a line, joined to what is alike before it; returns the inches. A line doesn't begin with a space."""
    if text == " " and not line:
        return 0.0
    if line and line[-1][1] == bold:
        before = line[-1][0]
        line[-1] = (before + text, bold)
        return width_of(before + text, bold) - width_of(before, bold)
    line.append((text, bold))
    return width_of(text, bold)


def _meter(column: Column, block: Meter) -> None:
    total = sum(part.amount for part in block.parts) or 1
    x = 0.0
    column.box(0, column.width, BAR, "sunken", "line")
    for part in block.parts:
        wide = column.width * part.amount / total
        if part.look != "rest" and part.amount > 0:
            column.box(x, max(wide, 0.012), BAR, _look(part), "panel")
        x += wide
    column.y += BAR + 0.03
    named = [part for part in block.parts if part.look != "rest" and part.look[0] != "#" and part.amount > 0]
    if named and all(part.words in str(block.total) for part in named):
        _key(column, named, block.total.pieces[0][0])
        return
    _paragraph(column, block.total)
    if len(named) > 1:
        _key(column, named)


def _key(column: Column, parts: list[Part], whole: str = "") -> None:
    """What the parts of a meter stand for, and of which whole they are the sum."""
    x = 0.0
    if whole:
        column.text(0, whole, bold=True)
        column.text(width_of(whole, bold=True) + 0.05, "=", "text_soft")
        x = width_of(whole, bold=True) + width_of("=") + 0.13
    said = [part.words for part in parts[:MAX_NAMED]]
    if len(parts) > MAX_NAMED:
        said.append(f"and {len(parts) - MAX_NAMED:,} more")
    for k, text in enumerate(said):
        sign = SWATCH + 0.05 if k < MAX_NAMED else 0.0
        text = fit(text, column.width - sign)
        wide = sign + width_of(text)
        if x and x + wide > column.width:
            column.y += line_height()
            x = 0.0
        if sign:
            column.box(x, SWATCH, 0.09, _look(parts[k]), below=line_height() / 2 - 0.045)
        column.text(x + sign, text, "text_soft")
        x += wide + 0.06
        if whole and k < len(said) - 1:
            column.text(x, "+", "text_soft")
            x += width_of("+")
        x += 0.06
    column.y += line_height()


def _look(part: Part) -> str:
    return "occupied" if part.look == "visit" else part.look


def _chips(column: Column, block: Chips) -> None:
    x, step = 0.0, line_height() * 1.35
    for chip in block.chips:
        wide = _chip_width(chip, column.width)
        if x and x + wide > column.width:
            column.y += step
            x = 0.0
        x += _chip(column, x, chip, column.width) + 0.06
        if chip.stopped:
            mark = "scan stopped"
            if x + width_of(mark, bold=True) + 0.1 > column.width:
                column.y += step
                x = 0.0
            column.box(x, 0.02, line_height(), "text")
            column.text(x + 0.06, mark, bold=True)
            x += width_of(mark, bold=True) + 0.16
    if block.more:
        more = f"and {block.more:,} more"
        if x and x + width_of(more) > column.width:
            column.y += step
            x = 0.0
        column.text(x, more, "text_soft")
    column.y += line_height() * 1.25
    x = 0.0
    for edge, said in block.legend:
        wide = EDGE + 0.05 + width_of(said) + 0.14
        if x and x + wide > column.width:
            column.y += line_height()
            x = 0.0
        if edge == "taken":
            column.box(x, EDGE * 2, 0.025, "text", below=line_height() / 2 + 0.02)
            x += EDGE
        else:
            column.box(x, EDGE, 0.1, edge, below=line_height() / 2 - 0.05)
        column.text(x + EDGE + 0.05, said, "text_soft")
        x += wide
    column.y += line_height() if block.legend else 0.0


def _chip_width(chip: Chip, most: float) -> float:
    inside = width_of(one_line(chip.request[-MAX_ID:]), bold=True) + (width_of(chip.note) + 0.06 if chip.note else 0)
    return min(most, inside + 0.1 + (EDGE + 0.02 if chip.edge else 0))


def _chip(column: Column, x: float, chip: Chip, most: float) -> float:
    """A request in its colour, at x; returns the inches that it takes."""
    wide = _chip_width(chip, most)
    high = line_height() * 1.15
    column.box(x, wide, high, chip.colour)
    left = x + 0.05
    if chip.edge:
        column.box(x, EDGE, high, chip.edge)
        left += EDGE + 0.02
    if chip.taken:
        column.box(x, wide, 0.02, CELL_TEXT, below=high - 0.02)
    note = width_of(chip.note) + 0.06 if chip.note else 0.0
    name = fit_id(one_line(chip.request[-MAX_ID:]), wide - (left - x) - note - 0.03, bold=True)
    middle = column.inner(0)
    middle.y += (high - line_height()) / 2
    middle.text(left, name, CELL_TEXT, bold=True)
    if chip.note:
        middle.text(left + width_of(name, bold=True) + 0.06, chip.note, CELL_TEXT)
    return wide


def _facts(column: Column, block: Facts) -> None:
    for name, value in block.rows:
        column.text(0, fit(name, column.width - width_of(value, bold=True) - 0.1), "text_soft")
        column.text(column.width, value, bold=True, right=True)
        column.y += line_height() + 0.01
        column.box(0, column.width, 0.006, "line")
        column.y += 0.03


def one_line(text: str, ends: bool = False) -> str:
    """Text whose white space and control characters are single spaces; spaces at the ends only where asked for."""
    clean = "".join(letter if letter.isprintable() else " " for letter in text)
    inner = " ".join(clean.split())
    if not ends:
        return inner
    return (" " if clean[:1] == " " else "") + inner + (" " if inner and clean[-1:] == " " else "")

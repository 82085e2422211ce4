"""An inspector's card as HTML, for the page that replays offline. Whatever comes from a trace is escaped."""

from __future__ import annotations

from html import escape
from pathlib import Path

from radixflow.figures.cards import Block, Card, Causes, Chip, Chips, Facts, Meter, Part, Refusal, Section, Words

STYLE = Path(__file__).with_name("cards.css")
"""How the cards look, in the variables of `palette.css`."""


def card_html(card: Card) -> str:
    """All of a card."""
    dot = f'<span class="dot" style="background:{card.colour}"></span>' if card.colour else ""
    note = f'<span class="soft">{escape(card.note)}</span>' if card.note else ""
    name = f'<h2>{escape(card.title)}</h2><span class="soft">{escape(card.policy)}</span>'
    head = f'<div class="head">{dot}{name}{note}</div>'
    return (head if card.title else "") + "".join(map(block_html, card.blocks))


def block_html(part: Block) -> str:
    """One part of a card."""
    match part:
        case Words():
            return f'<p class="{part.kind}">{_pieces(part)}</p>'
        case Meter():
            shown = (_part(one) for one in part.parts if one.amount > 0)
            bar = f'<div class="meter" role="img" aria-label="{escape(part.label)}">{"".join(shown)}</div>'
            return f'{bar}<p class="sum">{_pieces(part.total)}</p>'
        case Chips():
            return chips_html(part)
        case Refusal():
            return f'<div class="refusal">{_chip(part.chip)}<p>{_pieces(part.why)}</p></div>'
        case Causes():
            lines = (
                f'<li><span class="swatch" style="{look(name)}"></span>{escape(line)}</li>' for name, line in part.lines
            )
            return f"<ul>{''.join(lines)}</ul>"
        case Facts():
            rows = (f"<tr><th scope=row>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in part.rows)
            return f"<table class=facts>{''.join(rows)}</table>"
        case Section():
            count = f' <span class="soft">{part.count:,}</span>' if part.count is not None else ""
            note = f' <span class="soft">· {escape(part.note)}</span>' if part.note else ""
            blocks = "".join(map(block_html, part.blocks))
            return f"<section><h3>{escape(part.title)}{count}{note}</h3>{blocks}</section>"


def chips_html(part: Chips) -> str:
    """Requests as buttons."""
    shown = [_chip(one) + ('<span class="stopped">scan stopped</span>' if one.stopped else "") for one in part.chips]
    if part.more:
        shown.append(f'<span class="soft">and {part.more:,} more</span>')
    for edge, said in part.legend:
        sign = 'class="swatch taken"' if edge == "taken" else f'class="swatch" style="{look(edge)}"'
        shown.append(f'<span class="key soft"><span {sign}></span>{escape(said)}</span>')
    return f'<div class="chips">{"".join(shown)}</div>'


def look(name: str) -> str:
    """The style of a class of `palette.SLOTS`, as `palette.css` has it."""
    return f"background:var(--rf-{name}-look)"


def _chip(one: Chip) -> str:
    edge = f'<i style="{look(one.edge)}"></i>' if one.edge else ""
    note = f" <small>{escape(one.note)}</small>" if one.note else ""
    name = escape(one.request)
    return (
        f'<button type=button class="chip{" taken" if one.taken else ""}" style="background:{one.colour}" '
        f'data-request="{name}">{edge}<b>{name}</b>{note}</button>'
    )


def _part(one: Part) -> str:
    ground = {"visit": "background:var(--rf-occupied)", "rest": ""}.get(one.look)
    if ground is None:
        ground = f"background:{one.look}" if one.look.startswith("#") else look(one.look)
    return f'<span style="flex-grow:{one.amount};{ground}" title="{escape(one.words)}"></span>'


def _pieces(text: Words) -> str:
    return "".join(f"<b>{escape(piece)}</b>" if strong else escape(piece) for piece, strong in text.pieces)

"""Inspectors' cards (`radixflow.figures.cards`) as the page's elements.

Everything that comes from a trace reaches the page as a component's text, which React escapes.
"""

from __future__ import annotations

from typing import Any

from dash import html

from radixflow.figures.cards import Block, Card, Causes, Chip, Chips, Facts, Meter, Part, Refusal, Section, Words


def card(shown: Card) -> list[Any]:
    """An inspector's elements."""
    head: list[Any] = [html.Span(className="dot", style={"background": shown.colour})] if shown.colour else []
    head += [html.H2(shown.title), html.Span(shown.policy, className="policy")]
    if shown.note:
        head.append(html.Span(shown.note, className="soft"))
    title = [html.Div(head, className="inspector-title")] if shown.title else []
    return [*title, *map(block, shown.blocks)]


def block(part: Block) -> Any:
    """One part of a card."""
    match part:
        case Words():
            return html.P(_pieces(part), className=part.kind if part.kind != "plain" else None)
        case Meter():
            total = html.P(_pieces(part.total), className="sum", **({"id": part.name} if part.name else {}))
            return html.Div([_bar(part), total], className="measure")
        case Chips():
            return chips(part)
        case Refusal():
            return html.Div([chip(part.chip), html.P(_pieces(part.why))], className="refusal")
        case Causes():
            lines = [html.Li([html.Span(className=f"swatch pat-{name}"), html.Span(line)]) for name, line in part.lines]
            return html.Ul(lines, className="causes")
        case Facts():
            rows = [html.Tr([html.Th(name, scope="row"), html.Td(value)]) for name, value in part.rows]
            return html.Table(html.Tbody(rows), className="facts")
        case Section():
            return _section(part)


def chips(part: Chips) -> html.Div:
    """Requests as buttons, in a row of their own."""
    return html.Div(chip_row(part), className="chips")


def chip_row(part: Chips) -> list[Any]:
    """Requests as buttons, and how many more there are."""
    shown: list[Any] = []
    for one in part.chips:
        shown.append(chip(one))
        if one.stopped:
            shown.append(html.Span("scan stopped", className="stop-mark"))
    if part.more:
        shown.append(html.Span(f"and {part.more:,} more", className="more"))
    if part.legend:
        shown.append(html.Span([_key(*entry) for entry in part.legend], className="chip-legend"))
    return shown


def _key(edge: str, said: str) -> html.Span:
    return html.Span([html.Span(className=f"swatch pat-{edge}"), said])


def chip(one: Chip) -> html.Button:
    """A request as a button in its colour; pressing it selects the request everywhere."""
    children: list[Any] = [html.Span(one.request, className="chip-name")]
    if one.note:
        children.append(html.Span(one.note, className="chip-note"))
    looks = ["chip", "taken" if one.taken else "", f"edge pat-{one.edge}-edge" if one.edge else ""]
    return html.Button(
        children,
        className=" ".join(filter(None, looks)),
        style={"--fill": one.colour},
        type="button",
        title=f"Inspect {one.request}",
        **{"data-request": one.request},
    )


def _section(part: Section) -> html.Section:
    head: list[Any] = [part.title]
    if part.count is not None:
        head.append(html.Span(f"{part.count:,}", className="count"))
    if part.note:
        head.append(html.Span(f"· {part.note}", className="soft"))
    return html.Section([html.H3(head), *map(block, part.blocks)])


def _bar(part: Meter) -> html.Div:
    return html.Div(
        [_part(one) for one in part.parts if one.amount > 0 or one.look == "rest"],
        className="meter",
        role="img",
        **{"aria-label": part.label},
    )


def _part(one: Part) -> html.Span:
    style: dict[str, Any] = {"flexGrow": one.amount}
    if one.look.startswith("#"):
        return html.Span(className="part", style=style | {"background": one.look}, title=one.words)
    name = one.look if one.look in ("visit", "rest") else f"pat-{one.look}"
    return html.Span(className=f"part {name}", style=style, title=one.words)


def _pieces(text: Words) -> list[Any]:
    return [html.B(piece) if strong else piece for piece, strong in text.pieces]

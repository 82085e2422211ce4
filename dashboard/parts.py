"""What the inspectors are made of: requests as buttons, titles, sections and bars.

Everything that comes from a trace reaches the page as a component's text, which React escapes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dash import html

from radixflow.figures.palette import Colours

MAX_CHIPS = 60
"""Requests listed one by one; the rest are counted."""

CAUSE_WORDS = {
    "blocked": "blocked",
    "capacity": "no free blocks",
    "never_fits": "never fits",
    "alignment": "alignment",
    "tokens": "token budget",
    "rows": "all rows taken",
    "unexamined": "not examined",
    "not_entered": "queue not entered",
    "admission": "held by admission",
    "fragmented": "put aside",
    "deferred": "deferred",
    "in_step": "arrived in a step",
    "unrecorded": "not recorded",
}


def chip(request: str, colours: Colours, note: str = "", pattern: str = "") -> html.Button:
    """A request as a button in its colour; pressing it selects the request everywhere."""
    fill = colours.fill(request) if request in colours else "#cccccc"
    children: list[Any] = [html.Span(request, className="chip-name")]
    if note:
        children.append(html.Span(note, className="chip-note"))
    return html.Button(
        children,
        className=f"chip {pattern}".strip(),
        style={"--fill": fill},
        type="button",
        title=f"Inspect {request}",
        **{"data-request": request},
    )


def chips(
    requests: Iterable[str], colours: Colours, notes: dict[str, str] | None = None, pattern: str = ""
) -> html.Div:
    """Requests as buttons, the first `MAX_CHIPS`."""
    requests = list(requests)
    shown = [chip(request, colours, (notes or {}).get(request, ""), pattern) for request in requests[:MAX_CHIPS]]
    if len(requests) > MAX_CHIPS:
        shown.append(html.Span(f"and {len(requests) - MAX_CHIPS:,} more", className="more"))
    return html.Div(shown, className="chips")


def section(title: str, *children: Any, count: int | None = None, note: str | None = None) -> html.Section:
    head: list[Any] = [title]
    if count is not None:
        head.append(html.Span(f"{count:,}", className="count"))
    if note:
        head.append(html.Span(note, className="soft"))
    return html.Section([html.H3(head), *children])


def meter(parts: list[tuple[str, str, float]], total: float, label: str) -> html.Div:
    """A bar of parts (class, words, amount) over a total."""
    return html.Div(
        [
            html.Span(className=f"part {name}", style={"flexGrow": amount}, title=words)
            for name, words, amount in parts
            if amount > 0
        ],
        className="meter",
        role="img",
        **{"aria-label": label},
    )


def title(words: str, trace: Any, note: str = "") -> html.Div:
    return html.Div(
        [
            html.H2(words),
            html.Span(trace.header.policy, className="policy"),
            html.Span(note, className="soft"),
        ],
        className="inspector-title",
    )

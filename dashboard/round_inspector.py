"""The round inspector and the queue, as elements of the page."""

from __future__ import annotations

from typing import Any

from dash import html

from radixflow.figures.round_card import round_card

from .library import Library
from .parts import card, chip_row


def round_view(library: Library, key: str, n: int, among: list[str]) -> tuple[list[Any], list[Any]]:
    """The round inspector and the waiting queue at round n. Raises UnknownTrace, TraceError."""
    colours = library.colours(among if key in among else [key])
    with library.reading(key) as opened:
        shown, queue = round_card(opened.trace, n, colours)
    if queue is None:
        return card(shown), []
    waiting = chip_row(queue) if queue.chips or queue.more else [html.Span("Nobody waits.", className="soft")]
    return card(shown), waiting

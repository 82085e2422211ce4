"""The request inspector, as elements of the page."""

from __future__ import annotations

from typing import Any

from dash import html

from radixflow.figures.palette import Colours
from radixflow.figures.request_card import Visits, request_card

from .library import Library, Open
from .parts import card


def request_view(library: Library, key: str, request: str | None, among: list[str]) -> list[Any]:
    """The request inspector. Raises UnknownTrace, TraceError."""
    if request is None:
        return [html.P("Select a request in the timeline, the tree or the queue.", className="soft placeholder")]
    colours = library.colours(among if key in among else [key])
    with library.reading(key, long=True) as opened:
        return card(shown_of(opened, request, colours))


def shown_of(opened: Open, request: str, colours: Colours) -> Any:
    """The request's card; what several of them need is made once."""
    return request_card(opened.trace, request, colours, opened.ledger, opened.derived("visits", Visits))

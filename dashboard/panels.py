"""What the inspectors show, as plain elements that the page's own module builds.

They change with every step of the cursor, and Dash's renderer takes some hundred milliseconds for what a
browser does in ten: so they go past it. What is sent is tags, attributes and text; the page makes elements and
text nodes of them, never markup.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from dash import html
from dash.development.base_component import Component
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from starlette.concurrency import run_in_threadpool

from radixflow.trace import TraceError

from .api import BadQuestion, key_of, keys_of, number
from .library import Library, UnknownTrace
from .node_inspector import node_view
from .request_inspector import request_view
from .round_inspector import round_view

_encoder = msgspec.json.Encoder()


def elements(what: Any) -> list[Any]:
    """Dash's html components as `[tag, attributes, children]`, text as it is; lists are flattened."""
    if what is None:
        return []
    if isinstance(what, list | tuple):
        return [element for part in what for element in elements(part)]
    if not isinstance(what, Component):
        return [str(what)]
    attributes = dict(what.to_plotly_json()["props"])
    children = elements(attributes.pop("children", None))
    return [[what._type.lower(), attributes, children]]


def router(library: Library) -> APIRouter:
    """One route an inspector: the elements of each place of the page that it fills."""
    routes = APIRouter(prefix="/api")

    async def answer(places: tuple[str, ...], build: Callable[[], tuple[Any, ...]]) -> Response:
        try:
            made = await run_in_threadpool(build)
        except BadQuestion as error:
            return JSONResponse({"error": str(error)}, 400)
        except UnknownTrace:
            made = _sorry("This run can't be shown any more: choose one again.")
        except TraceError as error:
            # The page learns what is wrong, not where the file lies.
            made = _sorry(str(error).split(": ", 1)[-1].capitalize() + ".")
        filled = {place: elements(part) for place, part in zip(places, made, strict=False)}
        return Response(_encoder.encode(filled), media_type="application/json")

    @routes.get("/round")
    async def at_round(request: Request) -> Response:
        return await answer(
            ("round-inspector", "queue"),
            lambda: round_view(library, key_of(request), number(request, "round"), keys_of(request, "among")),
        )

    @routes.get("/request")
    async def selected(request: Request) -> Response:
        chosen = request.query_params.get("request")
        return await answer(
            ("request-inspector",),
            lambda: (request_view(library, key_of(request), chosen, keys_of(request, "among")),),
        )

    @routes.get("/node")
    async def node(request: Request) -> Response:
        return await answer(
            ("node",),
            lambda: (
                node_view(
                    library,
                    key_of(request),
                    request.query_params.get("node", ""),
                    number(request, "round"),
                    keys_of(request, "among"),
                ),
            ),
        )

    return routes


def _sorry(words: str) -> tuple[Any, ...]:
    return ([html.P(words, className="alert")],)

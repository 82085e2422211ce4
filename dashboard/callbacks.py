"""Callbacks: what the server answers when the cursor, the selection or the comparison changes.

They are asynchronous and do their work on a thread, so that a long comparison holds up nobody else's page.
"""

from __future__ import annotations

from typing import Any

from dash import Dash, Input, Output, html, no_update
from starlette.concurrency import run_in_threadpool

from radixflow.trace import TraceError

from . import compare
from .api import MAX_TRACES
from .library import Library, UnknownTrace
from .node_inspector import node_view
from .request_inspector import request_view
from .round_inspector import round_view


def register(app: Dash, library: Library) -> None:
    """Attach the inspectors' and the comparison's callbacks."""

    @app.callback(
        Output("round-inspector", "children"),
        Output("queue", "children"),
        Input("cursor", "data"),
        prevent_initial_call=True,
    )
    async def at_round(cursor: dict[str, Any] | None):
        if not cursor:
            return no_update, no_update
        key, n, among = str(cursor.get("trace", "")), _whole(cursor.get("round")), _keys(cursor.get("among"))
        try:
            return await run_in_threadpool(round_view, library, key, n, among)
        except (UnknownTrace, TraceError) as error:
            return _sorry(error), []

    @app.callback(
        Output("request-inspector", "children"),
        Input("selection", "data"),
        prevent_initial_call=True,
    )
    async def selected(selection: dict[str, Any] | None):
        if not selection:
            return no_update
        key, request = str(selection.get("trace", "")), selection.get("request")
        request = str(request) if request is not None else None
        try:
            return await run_in_threadpool(request_view, library, key, request, _keys(selection.get("among")))
        except (UnknownTrace, TraceError) as error:
            return _sorry(error)

    @app.callback(
        Output("node", "children"),
        Input("node-choice", "data"),
        prevent_initial_call=True,
    )
    async def node(choice: dict[str, Any] | None):
        if not choice:
            return no_update
        key, chosen, n = (
            str(choice.get("trace", "")),
            str(choice.get("node", "")),
            _whole(choice.get("round")),
        )
        try:
            return await run_in_threadpool(node_view, library, key, chosen, n, _keys(choice.get("among")))
        except (UnknownTrace, TraceError) as error:
            return _sorry(error)

    @app.callback(
        Output("compare-body", "children"),
        Input("comparison", "data"),
        prevent_initial_call=True,
    )
    async def compared(comparison: dict[str, Any] | None):
        if not comparison:
            return no_update
        keys = _keys(comparison.get("traces"))
        whole = comparison.get("view") == "compare"
        theme = "dark" if comparison.get("theme") == "dark" else "light"
        try:
            return await run_in_threadpool(compare.body, library, keys, whole, theme)
        except (UnknownTrace, TraceError) as error:
            return _sorry(error)


def _keys(value: Any) -> list[str]:
    return [str(key)[:64] for key in value][:MAX_TRACES] if isinstance(value, list) else []


def _whole(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and abs(value) < 2**53 else 1


def _sorry(error: Exception) -> list[Any]:
    words = "This run can't be shown any more: choose one again."
    if isinstance(error, TraceError):
        words = str(error).split(": ", 1)[-1].capitalize() + "."
    return [html.P(words, className="alert")]

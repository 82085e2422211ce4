"""Callbacks: what the server answers when the cursor, the selection or the comparison changes.

They are asynchronous and do their work on a thread, so that a long comparison holds up nobody else's page.
"""

from __future__ import annotations

from typing import Any

from dash import Dash, Input, Output, html, no_update
from starlette.concurrency import run_in_threadpool

from radixflow.trace import TraceError

from . import compare, inspectors
from .api import MAX_TRACES
from .library import Library, UnknownTrace


def register(app: Dash, library: Library) -> None:
    """Attach the inspectors' and the comparison's callbacks."""

    @app.callback(
        Output("round-inspector", "children"),
        Output("queue", "children"),
        Output("request-inspector", "children"),
        Input("cursor", "data"),
        prevent_initial_call=True,
    )
    async def inspect(cursor: dict[str, Any] | None):
        if not cursor:
            return no_update, no_update, no_update
        key, n, request = str(cursor.get("trace", "")), _whole(cursor.get("round")), cursor.get("request")
        among = _keys(cursor.get("among"))
        request = str(request) if request is not None else None
        try:
            round_children, queue = await run_in_threadpool(inspectors.round_view, library, key, n, among)
            chosen = await run_in_threadpool(inspectors.request_view, library, key, request, n, among)
        except (UnknownTrace, TraceError) as error:
            return _sorry(error), [], no_update
        return round_children, queue, chosen

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

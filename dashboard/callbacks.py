"""The callback of the comparison: charts and tables are Dash's.

It is asynchronous and does its work on a thread, so that a long comparison holds up nobody else's page.
"""

from __future__ import annotations

import logging
from typing import Any

from dash import Dash, Input, Output, html, no_update
from starlette.concurrency import run_in_threadpool

from radixflow.trace import TraceError

from . import compare
from .api import MAX_TRACES
from .library import Library, UnknownTrace

log = logging.getLogger("radixflow.dashboard")


def register(app: Dash, library: Library) -> None:
    """Attach the comparison's callback."""

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
        except Exception:
            # Dash would answer 500 and keep the reason to itself.
            log.exception("comparison of %s failed", ", ".join(keys))
            return [html.P("This comparison failed. The server's log says why.", className="alert")]


def _keys(value: Any) -> list[str]:
    return [str(key)[:64] for key in value][:MAX_TRACES] if isinstance(value, list) else []


def _sorry(error: Exception) -> list[Any]:
    words = "This run can't be shown any more: choose one again."
    if isinstance(error, TraceError):
        words = str(error).split(": ", 1)[-1].capitalize() + "."
    return [html.P(words, className="alert")]

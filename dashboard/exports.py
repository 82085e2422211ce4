"""What is shown, to take away: SVG, PDF, PNG, or one HTML file that replays offline."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from starlette.concurrency import run_in_threadpool

from radixflow import figures
from radixflow.figures import printed_comparison, printed_table
from radixflow.trace import TraceError

from .api import BadQuestion, keys_of, number
from .library import Library, UnknownTrace

TYPES = {
    "svg": "image/svg+xml",
    "pdf": "application/pdf",
    "png": "image/png",
    "html": "text/html; charset=utf-8",
}
CHARTS: dict[str, Callable[..., Any]] = {
    "metrics": printed_table.metrics,
    "rows": printed_comparison.rows_a_round,
    "slots": printed_comparison.slots_by_cause,
    "waits": printed_comparison.waits_of_causes,
    "latency": printed_comparison.latency,
    "cost": printed_comparison.cost,
}
"""The comparison's table and charts, drawn for print from the same numbers."""

WHAT = ("timeline", "tree", *CHARTS, "replay")

MAX_DRAWN = 100_000
"""Rounds in one picture."""


def router(library: Library) -> APIRouter:
    """The route of downloads."""
    routes = APIRouter(prefix="/api")

    @routes.get("/export")
    async def export(request: Request):
        try:
            what, format = request.query_params.get("what", ""), request.query_params.get("format", "")
            keys, first = keys_of(request, "traces"), number(request, "first")
            last, at = number(request, "last"), number(request, "round")
            theme = "dark" if request.query_params.get("theme") == "dark" else "light"
            name, data = await run_in_threadpool(made, library, keys, what, format, first, last, at, theme)
        except BadQuestion as error:
            return JSONResponse({"error": str(error)}, 400)
        except ValueError as error:
            # Why a picture can't be drawn, without where the file lies.
            return JSONResponse({"error": str(error).split(": ", 1)[-1]}, 409)
        except (UnknownTrace, TraceError):
            return JSONResponse({"error": "no such trace"}, 404)
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(data, media_type=TYPES[format], headers=headers)

    return routes


def made(
    library: Library, keys: list[str], what: str, format: str, first: int, last: int, at: int, theme: str
) -> tuple[str, bytes]:
    """File name and bytes of a download.

    what: `timeline` (all traces, rounds first..last), `tree` (of the first trace at round `at`), one of CHARTS
        (all traces) or `replay` (html). Raises BadQuestion, UnknownTrace, TraceError, and ValueError where
        there is nothing to draw.
    """
    if (what == "replay") != (format == "html") or format not in TYPES or what not in WHAT:
        raise BadQuestion(f"expected {', '.join(WHAT[:-1])} as svg, pdf or png, or a replay as html")
    if not keys:
        raise BadQuestion("traces is missing; expected the key of one")
    if last - first > MAX_DRAWN:
        raise BadQuestion(f"{last - first + 1:,} rounds in one picture; expected at most {MAX_DRAWN:,}")
    colours = library.colours(keys)
    with library.reading_all(keys) as opened:
        traces = [one.trace for one in opened]
        stem = "-".join([traces[0].header.workload or "run", *(trace.header.policy for trace in traces), what])
        name = re.sub(r"[^A-Za-z0-9_.+-]", "_", stem)[:120] + "." + format
        if what == "replay":
            with tempfile.TemporaryDirectory() as folder:
                path = figures.export_html(traces, Path(folder) / "replay.html", first, last)
                return name, path.read_bytes()
        if what in CHARTS:
            picture = CHARTS[what](*traces)
        elif what == "tree":
            picture = figures.tree(traces[0], min(at, max(1, traces[0].num_rounds)), colours)
        elif len(traces) == 1:
            picture = figures.timeline(traces[0], first, last, colours)
        else:
            picture = figures.compare(*traces, first=first, last=last, colours=colours)
        return name, picture.render(format, width="slide", theme=theme)

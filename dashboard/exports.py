"""What is shown, to take away: SVG, PDF, PNG, CSV, or one HTML file that replays offline."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from starlette.concurrency import run_in_threadpool

from radixflow import figures
from radixflow.analysis.run_labels import file_labels
from radixflow.export import requests_csv
from radixflow.figures.palette import Colours
from radixflow.figures.printed import comparison as printed_comparison
from radixflow.figures.printed import inspectors as printed_inspectors
from radixflow.figures.printed import requests as printed_requests
from radixflow.figures.printed import table as printed_table
from radixflow.figures.request_card import Visits
from radixflow.figures.trajectory_bars import Contexts
from radixflow.trace import TraceError

from .api import BadQuestion, keys_of, number
from .library import Library, Open, UnknownTrace

TYPES = {
    "svg": "image/svg+xml",
    "pdf": "application/pdf",
    "png": "image/png",
    "csv": "text/csv; charset=utf-8",
    "html": "text/html; charset=utf-8",
}
PICTURES = ("svg", "pdf", "png")

CHARTS: dict[str, Callable[..., Any]] = {
    "metrics": printed_table.metrics,
    "rows": printed_comparison.rows_a_round,
    "slots": printed_comparison.slots_by_cause,
    "waits": printed_comparison.waits_of_causes,
    "latency": printed_comparison.latency,
    "cost": printed_comparison.cost,
}
"""The comparison's table and charts, drawn for print from the same numbers."""

OFFERS: dict[str, tuple[str, ...]] = {
    "timeline": PICTURES,
    "tree": PICTURES,
    "round": PICTURES,
    "request": PICTURES,
    "trajectories": PICTURES,
    "bars": PICTURES,
    "replay": ("html",),
    **dict.fromkeys(CHARTS, PICTURES),
    "requests": (*PICTURES, "csv"),
}
"""What may be saved, and as what."""

MAX_DRAWN = 100_000
"""Rounds in one picture."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants to take away."""

    what: str
    format: str
    keys: list[str]
    """All traces shown, policy A first."""
    shown: str
    """The one that tree and inspectors speak about."""
    first: int
    last: int
    round: int
    request: str | None
    rows: list[int] | None
    """Of the table of requests, the rows on the page's first lines, as it is sorted; None for the order of arrival."""
    of: int
    """How many rows the page's table has."""
    theme: str


def router(library: Library) -> APIRouter:
    """The route of downloads."""
    routes = APIRouter(prefix="/api")

    @routes.get("/export")
    async def export(request: Request):
        try:
            wish = wish_of(request)
            name, data = await run_in_threadpool(made, library, wish)
        except BadQuestion as error:
            return JSONResponse({"error": str(error)}, 400)
        except ValueError as error:
            # Why a picture can't be drawn, without where the file lies.
            return JSONResponse({"error": str(error).split(": ", 1)[-1]}, 409)
        except (UnknownTrace, TraceError):
            return JSONResponse({"error": "no such trace"}, 404)
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(data, media_type=TYPES[wish.format], headers=headers)

    return routes


def wish_of(request: Request) -> Wish:
    """The wish that a query says. Raises BadQuestion where it makes no sense."""
    query = request.query_params
    what, format = query.get("what", ""), query.get("format", "")
    if what not in OFFERS:
        raise BadQuestion(f"what is {what[:40]!r}; expected one of {', '.join(OFFERS)}")
    if format not in OFFERS[what]:
        raise BadQuestion(f"format is {format[:40]!r}; expected {' or '.join(OFFERS[what])} for {what}")
    keys = keys_of(request, "traces")
    if not keys:
        raise BadQuestion("traces is missing; expected the key of one")
    shown = query.get("shown", keys[0])
    if shown not in keys:
        raise BadQuestion("shown names another trace; expected one of traces")
    first, last = number(request, "first"), number(request, "last")
    if last - first > MAX_DRAWN:
        raise BadQuestion(f"{last - first + 1:,} rounds in one picture; expected at most {MAX_DRAWN:,}")
    return Wish(
        what,
        format,
        keys,
        shown,
        first,
        last,
        number(request, "round"),
        query.get("request"),
        _rows_of(query.get("rows")),
        number(request, "of") if "of" in query else 0,
        "dark" if query.get("theme") == "dark" else "light",
    )


def _rows_of(text: str | None) -> list[int] | None:
    if not text:
        return None
    rows = text.split(".")
    if len(rows) > printed_requests.MAX_REQUESTS or not all(re.fullmatch(r"\d{1,9}", row) for row in rows):
        raise BadQuestion(f"rows is {text[:40]!r}; expected up to {printed_requests.MAX_REQUESTS} numbers of rows")
    return [int(row) for row in rows]


def made(library: Library, wish: Wish) -> tuple[str, bytes]:
    """File name and bytes of a download. Raises UnknownTrace, TraceError, and ValueError where there is nothing to
    draw."""
    colours = library.colours(wish.keys)  # takes locks of its own: before ours
    with library.reading_all(wish.keys, long=True) as opened:
        traces = [one.trace for one in opened]
        shown = opened[wish.keys.index(wish.shown)]
        labels = file_labels(traces)
        of = [labels[opened.index(shown)]] if wish.what in ("tree", "round", "request") else labels
        stem = "-".join([traces[0].header.workload or "run", *of, wish.what])
        name = re.sub(r"[^A-Za-z0-9_.+-]", "_", stem)[:120] + "." + wish.format
        if wish.what == "replay":
            with tempfile.TemporaryDirectory() as folder:
                path = figures.export_html(traces, Path(folder) / "replay.html", wish.first, wish.last)
                return name, path.read_bytes()
        if wish.format == "csv":
            return name, requests_csv(*traces, ledgers=[one.ledger for one in opened])
        picture = _picture(wish, opened, shown, colours)
    # Drawn when the traces' locks are given back: pages go on meanwhile.
    width = "text" if wish.what in ("metrics", "requests") else "slide"
    return name, picture.render(wish.format, width=width, theme=wish.theme)


def _picture(wish: Wish, opened: list[Open], shown: Open, colours: Colours) -> Any:
    """The figure of a wish, in the page's colours."""
    traces = [one.trace for one in opened]
    at = min(wish.round, max(1, shown.trace.num_rounds))
    match wish.what:
        case "tree":
            return figures.tree(shown.trace, at, colours)
        case "round":
            return printed_inspectors.round(shown.trace, at, colours)
        case "request":
            if wish.request is None:
                raise ValueError("no request is selected; press one in the timeline, the tree or the queue")
            visits = shown.derived("visits", Visits)
            return printed_inspectors.request(shown.trace, wish.request, colours, shown.ledger, visits)
        case "requests":
            ledgers = [one.ledger for one in opened]
            return printed_requests.requests(
                *traces, colours=colours, ledgers=ledgers, chosen=wish.rows, of=wish.of or None
            )
        case "trajectories" | "bars":
            contexts = [one.derived("trajectories", Contexts) for one in opened]
            longest = max(1, *(trace.num_rounds for trace in traces))
            n = min(wish.round, longest) if wish.what == "bars" else None
            return figures.trajectories(*traces, at_round=n, colours=colours, contexts=contexts)
        case "timeline" if len(traces) == 1:
            return figures.timeline(traces[0], wish.first, wish.last, colours)
        case "timeline":
            return figures.compare(*traces, first=wish.first, last=wish.last, colours=colours)
        case chart:
            return CHARTS[chart](*traces)

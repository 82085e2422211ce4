"""What the page's own modules ask for: data of one trace, as JSON, a window at a time.

Every answer is what `radixflow.figures` computed. Traces go by their opaque keys; numbers are clamped to the
run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from starlette.concurrency import run_in_threadpool

from radixflow.analysis.diverge import diverge
from radixflow.figures import icicle, trajectory_bars, windows
from radixflow.trace import TraceError
from radixflow.trace.growth import round_columns

from .library import Library, Open, UnknownTrace

MAX_TRACES = 6
"""Traces shown together."""

MAX_NODES = 240
"""Nodes of a tree that are drawn; the others are folded, those first that nobody holds or has cached."""

LANDMARKS = ("bubble", "blocked", "stop")
"""What `jump` looks for: an avoidable slot, a blocked visit, a stop of the scan at a request."""

_encoder = msgspec.json.Encoder()


class BadQuestion(ValueError):
    """A query can't be understood; the message says what was expected."""


def router(library: Library) -> APIRouter:
    """The JSON routes below /api."""
    routes = APIRouter(prefix="/api")

    async def answer(build: Callable[[], Any]) -> Response:
        try:
            data = await run_in_threadpool(build)
        except BadQuestion as error:
            return JSONResponse({"error": str(error)}, 400)
        except UnknownTrace:
            return JSONResponse({"error": "no such trace: it isn't among those this dashboard may show"}, 404)
        except KeyError as error:
            return JSONResponse({"error": str(error.args[0])}, 404)
        except TraceError as error:
            # The page learns what is wrong, not where the file lies.
            return JSONResponse({"error": str(error).split(": ", 1)[-1]}, 409)
        return Response(_encoder.encode(data), media_type="application/json")

    @routes.get("/runs")
    async def runs() -> Response:
        return await answer(lambda: {"runs": library.list(), "folder": library.folder_name})

    @routes.get("/overview")
    async def overview(request: Request) -> Response:
        return await answer(lambda: overview_of(library, key_of(request)))

    @routes.get("/window")
    async def window(request: Request) -> Response:
        return await answer(
            lambda: window_of(
                library,
                key_of(request),
                number(request, "first"),
                number(request, "last"),
                keys_of(request, "among"),
            )
        )

    @routes.get("/growth")
    async def growth(request: Request) -> Response:
        return await answer(
            lambda: growth_of(library, key_of(request), number(request, "first"), keys_of(request, "among"))
        )

    @routes.get("/tree")
    async def tree(request: Request) -> Response:
        return await answer(
            lambda: tree_of(library, key_of(request), number(request, "round"), keys_of(request, "among"))
        )

    @routes.get("/trajectories")
    async def trajectories(request: Request) -> Response:
        return await answer(lambda: trajectories_of(library, keys_of(request, "traces"), number(request, "round")))

    @routes.get("/jump")
    async def jump(request: Request) -> Response:
        what = request.query_params.get("what", "")
        return await answer(
            lambda: {
                "round": jump_from(
                    library,
                    key_of(request),
                    what,
                    number(request, "from"),
                    number(request, "direction", -1, 1),
                )
            }
        )

    @routes.get("/partings")
    async def partings(request: Request) -> Response:
        return await answer(lambda: {"rounds": partings_of(library, keys_of(request, "traces"))})

    return routes


def key_of(request: Request) -> str:
    """The `trace` of a query."""
    key = request.query_params.get("trace", "")
    if not 0 < len(key) <= 64:
        raise BadQuestion("trace is missing; expected the key of one")
    return key


def keys_of(request: Request, name: str) -> list[str]:
    """A query's list of keys, joined by dots."""
    keys = [key for key in request.query_params.get(name, "").split(".") if key]
    if len(keys) > MAX_TRACES:
        raise BadQuestion(f"{name} names {len(keys)} traces; expected at most {MAX_TRACES}")
    return keys


def number(request: Request, name: str, least: int = 1, most: int = 2**53) -> int:
    """A whole number of a query, clamped."""
    text = request.query_params.get(name, "")
    try:
        return min(most, max(least, int(text)))
    except ValueError:
        raise BadQuestion(f"{name} is {text[:40]!r}; expected a whole number") from None


def prepare(library: Library, key: str) -> None:
    """Make what the first picture and the first step would else wait for: bins, rows, colours and the
    indices of tree and trajectories."""
    with library.reading(key) as opened:
        last = opened.trace.num_rounds
    overview_of(library, key)
    window_of(library, key, 1, 1, [key])
    if last:
        tree_of(library, key, last, [key])
        trajectories_of(library, [key], last)


def overview_of(library: Library, key: str) -> dict[str, Any]:
    """The whole run in bins, with what the page says about the trace."""
    with library.reading(key) as opened:
        trace = opened.trace
        found = opened.derived("overview", windows.overview)
        return {
            **found,
            **library.describe(key),
            "requests": len(trace.ids),
            "written_seconds": opened.untouched(),
            "end": trace.end.reason if trace.end else None,
            "gaps": sum(gap.rounds for gap in trace.gaps),
            "clock": trace.header.clock.arrivals,
            "overlapping": trace.config.async_scheduling,
        }


def window_of(library: Library, key: str, first: int, last: int, among: list[str]) -> dict[str, Any]:
    """Rounds first..last for the canvas, in the colours of all traces shown."""
    colours = library.colours(among if key in among else [key])
    with library.reading(key) as opened:
        # Requests may have come since the colours were made.
        colours.extend(opened.trace)
        return windows.window(opened.trace, first, last, colours)


def growth_of(library: Library, key: str, first: int, among: list[str]) -> dict[str, Any]:
    """Of a run that goes on: the overview, and the rounds from `first` on where a window holds them."""
    colours = library.colours(among if key in among else [key])  # takes other traces' locks: before ours
    with library.reading(key) as opened:
        total, late = opened.trace.num_rounds, None
        if total - first < windows.MAX_CELL_ROUNDS:
            colours.extend(opened.trace)
            late = windows.window(opened.trace, first, total, colours)
        return {"overview": overview_of(library, key), "window": late}


def tree_of(library: Library, key: str, n: int, among: list[str]) -> dict[str, Any]:
    """The prefix tree as round n left it."""
    colours = library.colours(among if key in among else [key])
    with library.reading(key) as opened:
        n = min(n, max(1, opened.trace.num_rounds))
        return icicle.layout(opened.trace, n, colours, MAX_NODES)


def trajectories_of(library: Library, keys: list[str], n: int) -> dict[str, Any]:
    """The trajectories of all traces shown as round n left them; no rows where they tell nothing."""
    if not keys:
        raise BadQuestion("traces is missing; expected the key of one")
    colours = library.colours(keys)
    with library.reading_all(keys) as opened:
        if any(trajectory_bars.anybody_continues(one.trace) for one in opened):
            contexts = [one.derived("trajectories", trajectory_bars.Contexts) for one in opened]
            if any(one.tell for one in contexts):
                return trajectory_bars.bars(contexts, n, colours)
    return {"kind": "trajectories", "round": n, "rows": [], "labels": [], "hidden": 0, "extent": 0, "runs": []}


def jump_from(library: Library, key: str, what: str, n: int, direction: int) -> int | None:
    """The next round after n (before it, where direction is negative) with a landmark; None where there is
    none."""
    if what not in LANDMARKS:
        raise BadQuestion(f"what is {what[:40]!r}; expected one of {', '.join(LANDMARKS)}")
    with library.reading(key) as opened:
        rounds = landmarks(opened)[what]
    if direction < 0:
        at = int(np.searchsorted(rounds, n)) - 1
        return int(rounds[at]) if at >= 0 else None
    at = int(np.searchsorted(rounds, n, side="right"))
    return int(rounds[at]) if at < len(rounds) else None


def landmarks(opened: Open) -> dict[str, np.ndarray]:
    """For each landmark, the rounds that have it, ascending."""

    def build(trace: Any) -> dict[str, np.ndarray]:
        columns = round_columns(trace)
        n = columns["n"]
        return {
            "bubble": n[columns["avoidable"] > 0],
            "blocked": n[columns["blocked"] > 0],
            "stop": n[columns["stopped"]],
        }

    return opened.derived("landmarks", build)


def partings_of(library: Library, keys: list[str]) -> list[int | None]:
    """For each trace after the first, the round in which it first decided otherwise; None where it never
    did."""
    with library.reading_all(keys) as opened:
        parts = [diverge(opened[0].trace, one.trace) for one in opened[1:]]
    return [part.round if part else None for part in parts]

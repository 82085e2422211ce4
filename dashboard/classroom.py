"""The classroom: build a run in the page, drag its requests about, and see what each policy makes of it."""

from __future__ import annotations

from typing import Any

from dash import html
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from radixflow.scheduling.eviction import EVICTIONS
from radixflow.scheduling.policies import POLICIES
from radixflow.workloads import WorkloadError

from .laboratory import Laboratory, Recipe, RunRefused

MAX_POLICIES = 6


def panel() -> list[Any]:
    """The builder. Workload and policies are chosen above it, in the same selectors as everywhere."""
    how = "Drag, or move the focused one with Alt and an arrow key"
    return [
        html.Div([html.H2("Build a run"), html.P(id="lab-note", className="soft")], className="lab-head"),
        html.Div(
            [
                _number("max_num_seqs", "Rows a round (S)"),
                _number("max_num_batched_tokens", "Tokens a round (T)"),
                _number("block_size", "Tokens a block"),
                _select("a", "Eviction A"),
                _select("b", "Eviction B"),
                html.Div(
                    [
                        html.Button("Run", type="button", id="lab-run", className="primary"),
                        html.Button("Reset", type="button", id="lab-reset", className="quiet"),
                        html.Span(id="lab-state", className="soft", role="status"),
                    ],
                    className="lab-actions",
                ),
            ],
            className="lab-fields",
        ),
        html.Div(
            [
                html.Div([html.H3("Order of arrival", title=how), html.Span(how, className="soft")]),
                html.Ol(id="order", className="order", **{"aria-label": "Order of arrival"}),
            ],
            className="lab-order",
        ),
    ]


def starting() -> html.Section:
    """Stands where the first run will, until it is there; the page says in it how far that is."""
    return html.Section(
        [html.H2(id="starting-title"), html.P(id="starting-words")],
        id="starting",
        className="card nothing",
        role="status",
        **{"aria-label": "Before the first run"},
    )


def _number(name: str, label: str) -> html.Label:
    """A number field; its input is made by the page, which owns the recipe."""
    return html.Label(
        [html.Span(label), html.Span(className="number-host", **{"data-number": name})], className="field"
    )


def _select(name: str, label: str) -> html.Label:
    """Whose prefixes go where memory is short, for one of the two policies."""
    options = [html.Option(eviction, value=eviction, title=words) for eviction, words in EVICTIONS.items()]
    return html.Label([html.Span(label), html.Select(options, id=f"lab-eviction-{name}")], className="field")


def router(lab: Laboratory) -> APIRouter:
    """Routes by which the page builds runs."""
    routes = APIRouter(prefix="/api")

    @routes.get("/lab")
    async def state(request: Request):
        """What can be run, and whether the simulator is warm; `?warm=1` starts it."""
        if request.query_params.get("warm"):
            lab.warm()
        workloads = await run_in_threadpool(lambda: lab.workloads)
        return {
            "state": lab.state,
            "workloads": [{"name": name, "note": note} for name, note in workloads.items()],
            "policies": [{"name": policy.name, "note": policy.note} for policy in POLICIES.values()],
        }

    @routes.get("/workload")
    async def workload(request: Request):
        """One built-in workload's requests and engine."""
        try:
            return await run_in_threadpool(lab.describe, request.query_params.get("name", ""))
        except WorkloadError as error:
            return JSONResponse({"error": str(error)}, 404)

    @routes.post("/run")
    async def run(request: Request):
        """Run a recipe under up to six policies; answers with the runs' keys."""
        if not request.headers.get("content-type", "").startswith("application/json"):
            return JSONResponse({"error": "expected application/json"}, 415)
        try:
            data = await request.json()
            policies = data.get("policies") if isinstance(data, dict) else None
            if not isinstance(policies, list) or not 0 < len(policies) <= MAX_POLICIES:
                raise RunRefused(f"expected one to {MAX_POLICIES} policies")
            evictions = data.get("evictions") or ["lru"] * len(policies)
            if not isinstance(evictions, list) or len(evictions) != len(policies):
                raise RunRefused("expected an eviction for each policy")
            recipes = [Recipe.read(data, *pair) for pair in zip(policies, evictions, strict=True)]
            return {"keys": [await run_in_threadpool(lab.run, recipe) for recipe in recipes]}
        except (RunRefused, WorkloadError) as error:
            return JSONResponse({"error": str(error)}, 400)
        except ValueError:
            return JSONResponse({"error": "expected a JSON object"}, 400)

    return routes

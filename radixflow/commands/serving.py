"""`dash`, `index`, `fleet`: beside running engines, and over several."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from radixflow.commands.shared import Json, app, key_values


@app.command()
def dash(
    traces: Annotated[list[Path] | None, typer.Argument(help="Traces; one still being written is followed.")] = None,
    trace_dir: Annotated[Path | None, typer.Option(help="Offer every trace in this folder.")] = None,
    host: Annotated[str, typer.Option(help="Another address than this machine's needs a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8050,
    token: Annotated[str | None, typer.Option(envvar="RADIXFLOW_TOKEN", help="Who knows it may look.")] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a page on this machine.")] = True,
    index: Annotated[
        str | None, typer.Option(help="Show the tree of a running `radixflow index`: http://127.0.0.1:9109.")
    ] = None,
) -> None:
    """The dashboard: rounds and prefix tree, replayed or live."""
    from radixflow.printing import ends_by_interrupt, working
    from radixflow_dashboard import serve

    with ends_by_interrupt():
        serve(
            traces or [],
            trace_dir=trace_dir,
            host=host,
            port=port,
            token=token,
            browser=browser,
            index=index,
            reading=working,
        )


@app.command()
def index(
    engines: Annotated[
        list[str],
        typer.Argument(help="One for each engine: NAME=tcp://HOST:PORT[,tcp://HOST:REPLAY_PORT], or NAME=TRACE."),
    ],
    model: Annotated[
        str | None, typer.Option(help="Live engines' model: engines of one index hold interchangeable caches.")
    ] = None,
    block_size: Annotated[
        int | None, typer.Option(min=1, help="Live engines' tokens a block, as they log it at their start.")
    ] = None,
    groups: Annotated[
        str | None, typer.Option(help="Components of their cache groups, in order: kv,rec+conv,rec+conv. Default: kv.")
    ] = None,
    block_bytes: Annotated[
        int | None, typer.Option(min=1, help="Bytes of a block in all groups, for what is said in bytes.")
    ] = None,
    host: Annotated[str, typer.Option(help="What is served names tenants: think before you open it.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 9109,
) -> None:
    """One index over the prefix caches of several engines."""
    from radixflow.index.service import FollowedEngine, parse_layout, serve
    from radixflow.printing import working

    followed = [FollowedEngine.parse(text) for text in engines]
    layout = parse_layout(block_size, groups or "kv") if block_size is not None else None
    if layout is None and groups is not None:
        raise ValueError("--groups needs --block-size beside it")
    serve(followed, model, layout, host=host, port=port, block_bytes=block_bytes, reading=working)


@app.command()
def fleet(
    workload: Annotated[str, typer.Argument(help="A built-in's name or a file, with arrivals by clock.")],
    replicas: Annotated[int, typer.Option(min=1, max=64, help="Engines, each with the whole pool.")] = 2,
    routing: Annotated[str, typer.Option(help="round-robin, random, matched, ready; several (a,b) or all.")] = "all",
    policy: Annotated[str, typer.Option(help="How each engine schedules.")] = "radixflow",
    model: Annotated[str | None, typer.Option(help="Profile of the engines.")] = None,
    given: Annotated[
        list[str] | None, typer.Option("--with", help="KEY=VALUE for the importer or builder: articles=3, seed=7.")
    ] = None,
    json: Json = False,
) -> None:
    """Several simulated engines over one stream: is routing worth it?"""
    from radixflow.fleet import ROUTINGS, compare_routings
    from radixflow.printing import emit, quiet_engine, show_fleet, working
    from radixflow.workloads import load_workload

    names = list(ROUTINGS) if routing == "all" else [name.strip() for name in routing.split(",")]
    loaded = load_workload(workload, **key_values(given or []))
    with quiet_engine():
        table = compare_routings(loaded, replicas, names, policy, model, working)
    if json:
        emit({"workload": loaded.name, "replicas": replicas, "routings": table.reset_index().to_dict("records")})
    else:
        show_fleet(loaded.name, replicas, table)

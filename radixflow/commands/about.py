"""`models`, `workloads`, `demo`: what there is."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from radixflow.commands.shared import Json, app


@app.command()
def models(json: Json = False) -> None:
    """Profiles for the simulated engine, tiny ones for the real one."""
    from radixflow.engines.profiles import list_profiles
    from radixflow.engines.tiny import list_tiny_models
    from radixflow.printing import emit, show_models

    profiles = [{"name": p.name, "note": p.note, **p.engine_options()} for p in list_profiles()]
    tiny = list_tiny_models()
    emit({"profiles": profiles, "tiny": tiny}) if json else show_models(profiles, tiny)


@app.command()
def workloads(json: Json = False) -> None:
    """Built-in workloads, and the formats that `run` takes."""
    from radixflow.printing import emit, show_workloads
    from radixflow.workloads import list_builtin

    listed = list_builtin()
    emit({"workloads": listed}) if json else show_workloads(listed)


@app.command()
def demo(
    engine: Annotated[str | None, typer.Option(help="vllm or sim; the real engine where vLLM is installed.")] = None,
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8050,
) -> None:
    """The five-minute tour: Figure 1 both ways, then the dashboard."""
    from radixflow.demo import tour

    tour(engine, port, stay=os.environ.get("DEMO_EXIT") != "1")

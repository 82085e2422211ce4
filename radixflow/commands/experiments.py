"""`paper`, `whatif`: runs that say what others would have been."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from radixflow.commands.shared import Interrupted, Json, TraceFile, app, retention, typed_command


@app.command()
def paper(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder; a run that was stopped goes on there.", show_default=False)
    ],
    models: Annotated[str, typer.Option(help="Profiles, comma-separated, or all.")] = "all",
    policies: Annotated[str, typer.Option(help="Policies, comma-separated, or all six.")] = "all",
    streams: Annotated[str, typer.Option(help="cold, reuse, mixed, comma-separated, or all.")] = "all",
    orders: Annotated[str, typer.Option(help="1, 2, or all.")] = "all",
    seeds: Annotated[int, typer.Option(min=1, help="How many; they give the intervals.")] = 1,
    jobs: Annotated[int, typer.Option(min=1, help="Processes on this machine.")] = 1,
    ray: Annotated[str | None, typer.Option(help="A Ray cluster's address; local starts one here.")] = None,
    scale: Annotated[float, typer.Option(help="Share of the articles: 0.1 is a quick look.")] = 1.0,
    rate: Annotated[float | None, typer.Option(help="Questions a second; the paper's by default.")] = None,
    branch_spacing: Annotated[float | None, typer.Option(help="Seconds between a question's branches.")] = None,
    quality: Annotated[Path | None, typer.Option(help="The real QuALITY file.")] = None,
    race: Annotated[Path | None, typer.Option(help="The real RACE-M file or folder.")] = None,
    tokenizer: Annotated[str | None, typer.Option(help="Tokenizer folder for real texts.")] = None,
    calibrate: Annotated[bool, typer.Option("--calibrate", help="Budgets on 64 held-out questions.")] = False,
    fit: Annotated[bool, typer.Option("--fit", help="Fit the round costs anew (Radix alone).")] = False,
    sensitivity: Annotated[
        str | None,
        typer.Option(help="rate, S, T, pool, shared, retention, branch_spacing, output_tokens, decode_pool or all."),
    ] = None,
    engine: Annotated[str, typer.Option(help="sim, or vllm: first tokens and rounds on the real engine.")] = "sim",
    model: Annotated[str | None, typer.Option(help="For --engine vllm: tiny model, folder or hub id.")] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace another experiment's report in the folder.")
    ] = False,
    json: Json = False,
) -> None:
    """The paper's experiment, its tables beside the published ones."""

    from radixflow.paper import command
    from radixflow.paper.cell import Texts
    from radixflow.paper.experiment import POLICIES, Plan
    from radixflow.paper.published import PUBLISHED
    from radixflow.printing import emit, quiet_engine
    from radixflow.workloads.arguments import part_of_one
    from radixflow.workloads.paper import ORDERS, STREAMS

    part_of_one("scale", scale)

    def listed(text: str, known: Any) -> list[str]:
        return [str(name) for name in known] if text == "all" else [name.strip() for name in text.split(",")]

    modes = {"--calibrate": calibrate, "--fit": fit, "--sensitivity": sensitivity, "--engine vllm": engine == "vllm"}
    if len([name for name, on in modes.items() if on]) > 1:
        raise ValueError(f"expected at most one of {', '.join(modes)}")
    if engine not in ("sim", "vllm"):
        raise ValueError(f"unknown engine {engine!r}: expected 'sim' or 'vllm'")
    if (model is not None) != (engine == "vllm"):
        raise ValueError("--model goes with --engine vllm, and that one needs it; for profiles say --models")
    texts = Texts(*(str(path) if path else None for path in (quality, race)), tokenizer)
    where = command.Where(output, jobs, ray, replace)
    told = {"command": typed_command(), "quiet": json}
    chosen = listed(models, PUBLISHED)
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")  # in the processes of --jobs, too
    with quiet_engine() if engine == "vllm" else nullcontext(), _saying_what_is_kept():
        if calibrate:
            found = command.calibration(chosen, where, **told)
        elif fit:
            found = command.fits(chosen, where, **told)
        elif sensitivity is not None:
            # The knobs are turned on the standard cells: what these would change, it would ignore.
            fixed = {"--policies": policies != "all", "--orders": orders != "all", "--rate": rate is not None}
            fixed |= {"--branch-spacing": branch_spacing is not None, "--quality": quality, "--race": race}
            if given := [name for name, on in (fixed | {"--tokenizer": tokenizer}).items() if on]:
                raise ValueError(f"{given[0]} doesn't go with --sensitivity, which varies the standard cells")
            if "," in models:
                raise ValueError(f"--models {models}: --sensitivity takes one model")
            choices = {"model": chosen[0] if models != "all" else "Qwen3.5-9B", "scale": min(scale, 0.25)}
            choices |= {"stream": "mixed" if streams == "all" else streams, "seeds": range(seeds)}
            knobs = listed(sensitivity, ["all"])
            found = command.sensitivities(knobs, where, **told, **choices)
        elif engine == "vllm":
            given = {"quality": texts.quality, "race": texts.race, "tokenizer": tokenizer, "rate": rate, "scale": scale}
            choices = {"policies": listed("radix,radixflow" if policies == "all" else policies, POLICIES)}
            choices["stream"] = "cold" if streams == "all" else streams
            found = command.agreement(str(model), where, **told, **choices, **given)
        else:
            changes = {"scale": scale, "rate": rate, "branch_spacing": branch_spacing, "texts": texts}
            plan = Plan(
                chosen,
                listed(policies, POLICIES),
                listed(streams, STREAMS),
                [_whole("--orders", order) for order in listed(orders, ORDERS)],
                range(seeds),
                {name: value for name, value in changes.items() if value is not None},
            )
            found = command.experiment(plan, where, **told)
    if json:
        emit(found)


@contextmanager
def _saying_what_is_kept() -> Iterator[None]:
    """An interrupt that knows what it left says so."""
    try:
        yield
    except KeyboardInterrupt as stop:
        if stop.args:
            raise Interrupted(str(stop.args[0])) from None
        raise


def _whole(option: str, text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"{option} {text}: expected whole numbers, 1 or more")
    return int(text)


@app.command()
def whatif(
    trace: TraceFile,
    policy: Annotated[str | None, typer.Option(help="Another policy than the recorded one.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Keep the predicted run's trace here.")] = None,
    max_num_seqs: Annotated[int | None, typer.Option(help="S, rows a round.")] = None,
    max_num_batched_tokens: Annotated[int | None, typer.Option(help="T, tokens a round.")] = None,
    block_size: Annotated[int | None, typer.Option()] = None,
    num_blocks: Annotated[int | None, typer.Option(help="Pool, the null block included.")] = None,
    retention_interval: Annotated[
        str | None, typer.Option(help="Tokens between kept states; 0 = sparse, 'dense' = every boundary.")
    ] = None,
    json: Json = False,
) -> None:
    """A recorded run replayed under other rules."""
    from radixflow.paper.console import show_whatif
    from radixflow.paper.whatif import what_if
    from radixflow.printing import emit, quiet_engine, working
    from radixflow.trace.parts import read_header

    options = {
        "max_num_seqs": max_num_seqs,
        "max_num_batched_tokens": max_num_batched_tokens,
        "block_size": block_size,
        "num_blocks": num_blocks,
    }
    changes: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if retention_interval is not None:
        changes["retention_interval"] = retention(retention_interval)
    read_header(trace)  # what is no trace is refused before an engine is loaded
    with quiet_engine(), working(f"replaying {trace.name}", "vllm") as progress:
        found = what_if(trace, policy, output=output, progress=progress, **changes)
    emit(found.to_dict()) if json else show_whatif(found)
    if found.end == "stalled":
        raise typer.Exit(3)
    if found.end == "interrupted":
        raise Interrupted(f"{output} holds what ran" if output else "this is what ran until then")

"""`export`: a trace for other tools and for papers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from radixflow.commands.shared import Json, TraceFiles, app, typed_command


@app.command()
def export(
    traces: TraceFiles,
    to: Annotated[
        str, typer.Option(help="figures, latex, chrome (also for Perfetto), parquet or csv.", show_default=False)
    ],
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", help="File or folder to write; docs/exporting.md says which.", show_default=False
        ),
    ],
    first: Annotated[int | None, typer.Option(min=1, help="First round of timelines (figures).")] = None,
    last: Annotated[int | None, typer.Option(min=1, help="Last round of timelines (figures).")] = None,
    round: Annotated[
        int | None, typer.Option(min=1, help="Round of trees and in words (figures); the one with most blocked visits.")
    ] = None,
    request: Annotated[str | None, typer.Option(help="A request to explain in a figure of its own (figures).")] = None,
    width: Annotated[
        str | None,
        typer.Option(help="column (3.33 in), text (7), slide (10) or inches (figures); the first two by default."),
    ] = None,
    style: Annotated[Path | None, typer.Option(help="matplotlib style file on top of ours (figures).")] = None,
    source: Annotated[
        bool | None, typer.Option("--source/--no-source", help="A line below each figure that says what made it.")
    ] = None,
    json: Json = False,
) -> None:
    """For papers and other tools: figures, LaTeX, Perfetto, Parquet."""

    from radixflow import export as exports
    from radixflow.analysis.prose import counted
    from radixflow.figures.glyphs import lacking, letters_without_glyph
    from radixflow.printing import emit, note, opening, show_text, working

    kinds = {
        "chrome": exports.to_chrome,
        "parquet": exports.to_parquet,
        "csv": exports.to_csv,
        "latex": exports.to_latex,
        "figures": exports.to_figures,
    }
    to = {"perfetto": "chrome"}.get(to, to)
    if to not in kinds:
        raise ValueError(f"--to {to}: unknown, expected one of {', '.join(kinds)}, perfetto")
    wishes = {"first": first, "last": last, "round": round, "request": request, "width": width, "style": style}
    wishes["source"] = source
    given = {name: value for name, value in wishes.items() if value is not None}
    if given and to != "figures":
        raise ValueError(f"--{next(iter(given))} goes with --to figures, not with --to {to}")
    if first is not None and last is not None and last < first:
        raise ValueError(f"no rounds {first} to {last}: expected --last to be --first or later")
    more = {{"round": "at_round", "source": "source_line"}.get(name, name): value for name, value in given.items()}
    if to in ("latex", "figures"):
        more["command"] = typed_command()
    opened = [opening(path) for path in traces]
    with working(f"writing {output.name}") as progress, letters_without_glyph() as lacked:
        path = kinds[to](opened, output, progress=progress, **more)
    if lacked:
        note(lacking(lacked))
    if json:
        emit({"to": to, "path": str(path), "traces": [trace.id for trace in opened]})
    else:
        files = sum(one.is_file() for one in path.rglob("*")) if path.is_dir() else 1
        where = f"{counted(files, 'file')} in {path}" if path.is_dir() else str(path)
        show_text(where + (": open it in ui.perfetto.dev or chrome://tracing" if to == "chrome" else ""))

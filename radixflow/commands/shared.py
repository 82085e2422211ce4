"""The application, and what several commands take."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    name="radixflow",
    help="See what an LLM serving scheduler does, round by round, and why.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich cuts option names in a narrow terminal
    context_settings={"help_option_names": ["-h", "--help"]},
)



@app.callback(invoke_without_command=True)
def radixflow(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Say which versions are installed.")] = False,
) -> None:
    """See what an LLM serving scheduler does, round by round, and why."""
    if version:
        from importlib.metadata import PackageNotFoundError
        from importlib.metadata import version as installed

        from radixflow.scheduling.versions import installed_vllm

        try:
            vllm = f"vLLM {installed_vllm()}"
        except (ImportError, PackageNotFoundError):
            vllm = "no vLLM"
        typer.echo(f"radixflow {installed('radixflow')}, {vllm}, Python {sys.version.split()[0]}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else there.")]
TraceFile = Annotated[Path, typer.Argument(help="A trace: *.rft.jsonl or *.rft.jsonl.zst.", show_default=False)]
TraceFiles = Annotated[list[Path], typer.Argument(help="Traces, the baseline first.", show_default=False)]
DENSE = "dense"


class Interrupted(Exception):
    """A command was interrupted and has kept something; the message says what."""


def key_values(given: list[str]) -> dict[str, Any]:
    """`--with KEY=VALUE ...`; a value is JSON where it reads as such, and text otherwise."""
    import json

    values = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.isidentifier():
            raise ValueError(f"--with {text}: expected KEY=VALUE, such as articles=3")
        try:
            values[key] = json.loads(value)
        except json.JSONDecodeError:
            values[key] = value
    return values


def retention(text: str) -> int | None:
    """`--retention-interval`: None for dense."""
    if text == DENSE:
        return None
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"--retention-interval is {text!r}: expected tokens (0 = sparse) or {DENSE!r}") from None


def typed_command() -> str:
    """What was typed, for figures to carry: files by their names, not by the folders of this machine."""
    import shlex

    words = (Path(word).name if word.startswith(("/", ".", "~")) else word for word in sys.argv[1:])
    return shlex.join(["radixflow", *words])

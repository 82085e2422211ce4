"""What the reports in a folder were made of, so that another experiment doesn't replace them unasked.

Cells have names of their own, and experiments share a folder's cells; a report has one name for all of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

FILE = "made.json"


class Made(msgspec.Struct):
    """One report: what was typed, and the parts (cells, mostly) that went into it."""

    command: str
    parts: list[str]


def about_to_replace(folder: Path, report: str, files: str, parts: Iterable[str], replace: bool = False) -> str:
    """A sentence about what an experiment will replace in this folder, or nothing where that loses nothing: the same
    experiment, one that it goes on from (`parts` holds all of its), or none.

    report: the name of its main file. files: all that it writes, in words.
    Raises ValueError, one line, where the report of another experiment would go; not with `replace`.
    """
    if not (folder / report).exists():
        return ""
    before = _read(folder).get(report)
    if before is not None and set(before.parts) <= set(parts):
        return ""
    whose = "of another experiment" if before is not None else "of an experiment that isn't noted there"
    whose += f" (`{before.command}`)" if before is not None and before.command else ""
    if not replace:
        raise ValueError(f"{folder} holds {files} {whose}: give another folder with -o, or --replace what is there")
    return f"{folder}: {files} {whose} will be replaced"


def remember(folder: Path, report: str, parts: Iterable[str], command: str) -> None:
    """Note what a report was made of."""
    told = _read(folder) | {report: Made(command, sorted(parts))}
    half = folder / f".{FILE}.{os.getpid()}"
    half.write_bytes(msgspec.json.format(msgspec.json.encode(told)))
    os.replace(half, folder / FILE)


def _read(folder: Path) -> dict[str, Made]:
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=dict[str, Made])
    except (FileNotFoundError, msgspec.DecodeError):
        return {}

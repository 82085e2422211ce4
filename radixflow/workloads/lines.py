"""JSON Lines, read strictly: every complaint names its file and line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from radixflow.workloads.errors import WorkloadError, near, shown

_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"PK\x03\x04": "zip",
}


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield `(line number, object)` for each line that isn't blank, one line in memory at a time."""
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                if number == 1:
                    _refuse_compressed(path, raw)
                    raw = raw.removeprefix(b"\xef\xbb\xbf")  # Windows editors begin UTF-8 so.
                if raw.strip():
                    yield number, _object(f"{path}:{number}", raw)
    except OSError as error:
        raise WorkloadError(f"{path}: {error.strerror or error}; expected a readable file") from None


def _refuse_compressed(path: Path, raw: bytes) -> None:
    for magic, name in _COMPRESSED.items():
        if raw.startswith(magic):
            raise WorkloadError(f"{path}:1: compressed with {name}; expected JSON Lines: decompress it first")


def _object(where: str, raw: bytes) -> dict[str, Any]:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise WorkloadError(
            f"{where}: not UTF-8 at byte {error.start + 1} (0x{raw[error.start]:02x}); "
            "expected JSON Lines in UTF-8"
        ) from None
    try:
        value = json.loads(text, object_pairs_hook=_no_duplicates)
    except WorkloadError as error:
        raise error.at(where) from None
    except json.JSONDecodeError as error:
        raise WorkloadError(
            f"{where}: not JSON at column {error.colno} ({error.msg}); expected one JSON object a line"
        ) from None
    except RecursionError:
        raise WorkloadError(f"{where}: nested too deeply; expected one flat JSON object a line") from None
    except ValueError as error:  # Python refuses integers of thousands of digits.
        reason = str(error)[:60]
        raise WorkloadError(f"{where}: not JSON ({reason}); expected one JSON object a line") from None
    if not isinstance(value, dict):
        raise WorkloadError(f"{where}: {shown(value)} is not an object; expected one JSON object a line")
    return value


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise WorkloadError(f'key "{twice}" stands twice in one object; expected it once')
    return values


def existing_file(source: str | Path, known: list[str]) -> Path:
    """The path of a file, or WorkloadError naming what is there instead and the near built-in names."""
    path = Path(source)
    try:
        is_directory, exists = path.is_dir(), path.exists()
    except (OSError, ValueError) as error:  # A name too long for the system, or with a NUL in it.
        raise WorkloadError(
            f"{shown(str(source))}: not a file name ({error}); expected a workload file or a built-in name"
        ) from None
    if is_directory:
        raise WorkloadError(f"{path}: a directory; expected a workload file or a built-in name")
    if exists:
        return path
    if path.suffix or path.parent != Path():  # meant as a file
        raise WorkloadError(f"{path}: no such file; docs/workloads.md says how to write a workload")
    raise WorkloadError(
        f"{path}: no such file, and no built-in workload of that name; {near(str(source), known, 'built in')}"
    )

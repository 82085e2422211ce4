"""Files and folders that appear whole or not at all: written under another name, then renamed."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

Progress = Callable[[int, int], None]
"""Called with (done, in all) as the work goes on."""


def traces_of(traces: Any) -> list[Any]:
    """One trace or several as a list. ValueError for none, or for one given twice."""
    given = list(traces) if isinstance(traces, Iterable) else [traces]
    if not given:
        raise ValueError("no trace given, expected at least one")
    names = [trace_name(trace) for trace in given]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{given[names.index(twice)].path}: run {twice} is given twice, expected each run once")
    return given


def trace_name(trace: Any) -> str:
    """The run's id; with the engine core's rank where that isn't 0."""
    rank = trace.header.engine_index
    return f"{trace.id}.{rank}" if rank else trace.id


def _refuse_source(path: Path, traces: Iterable[Any]) -> None:
    for trace in traces:
        if path.resolve() == Path(trace.path).resolve():
            raise ValueError(f"{path}: is the trace itself, expected another file to write")


@contextmanager
def new_file(path: str | os.PathLike[str], traces: Iterable[Any] = ()) -> Iterator[Path]:
    """A path beside `path` to write to; renamed to it at the end, removed where anything went wrong.

    Raises OSError that names `path` where it is a folder or can't be written, ValueError where it is one of
    the traces.
    """
    path = Path(path)
    _refuse_source(path, traces)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder, expected a file to write", str(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder to write into", str(path.parent))
    try:
        name = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666))
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from None
    try:
        yield name
        os.replace(name, path)
    except BaseException:
        name.unlink(missing_ok=True)
        raise


@contextmanager
def new_folder(path: str | os.PathLike[str], suffixes: Iterable[str] = ()) -> Iterator[Path]:
    """A folder beside `path` to fill; its files are moved into `path` at the end, each replacing its
    namesake. Other files there stay. Where anything went wrong, `path` is as it was.

    Arguments: `suffixes` that a single file would have, and which a folder's name is refused for.
    Raises OSError that names `path` where it is a file or can't be made, ValueError for such a suffix.
    """
    path = Path(path)
    if path.suffix.lower() in suffixes:
        raise ValueError(f"{path}: a single {path.suffix.lower()} file, expected a folder: this writes several files")
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "is a file, expected a folder to write into", str(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        filled = Path(mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
    except FileExistsError:
        raise NotADirectoryError(
            errno.ENOTDIR, "is a file, expected a folder to write into", str(path.parent)
        ) from None
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from None
    try:
        yield filled
        path.mkdir(exist_ok=True)
        for file in sorted(part for part in filled.rglob("*") if part.is_file()):
            target = path / file.relative_to(filled)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, target)
    finally:
        shutil.rmtree(filled, ignore_errors=True)

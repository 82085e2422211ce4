"""Workload files (CONTRACT 2): read with errors that say what to do, and written back."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from radixflow.workloads.engine_options import options_from
from radixflow.workloads.errors import WorkloadError, near, shown
from radixflow.workloads.lines import read_objects
from radixflow.workloads.tokenizers import BYTES, Tokenizer
from radixflow.workloads.workload import Workload, WorkloadRequest, check_links, request_from, token_ids

SCHEMA = "1.0"
"""MAJOR.MINOR of workload files. A newer MINOR may add keys, a newer MAJOR may change meanings."""

HEADER_KEYS = ("kind", "schema", "name", "note", "source", "engine")


def read_workload(path: Path, tokenizer: Tokenizer = BYTES) -> Workload:
    """Read a workload file. Raises WorkloadError, one line: `FILE:LINE: what; what was expected`."""
    lines = read_objects(path)
    try:
        number, header = next(lines)
    except StopIteration:
        raise WorkloadError(f"{path}: empty; expected a workload's header in its first line") from None
    try:
        workload = _header(header)
    except WorkloadError as error:
        raise error.at(f"{path}:{number}") from None
    numbers: list[int] = []
    for number, values in lines:
        try:
            workload.requests.append(_request(values))
        except WorkloadError as error:
            raise error.at(f"{path}:{number}") from None
        numbers.append(number)
    if not workload.requests:
        raise WorkloadError(
            f'{path}: no requests; expected a line {{"kind": "request", ...}} after the header'
        )
    check_links(workload.requests, lambda i: f"{path}:{numbers[i]}")
    workload.tokenizer = tokenizer
    return workload


def _header(values: dict[str, Any]) -> Workload:
    if values.get("kind") != "workload":
        raise WorkloadError(
            f"kind is {shown(values.get('kind'))}; expected the first line to be a header, "
            '{"kind": "workload", "schema": "1.0", "name": ...}'
        )
    schema = values.get("schema")
    major, _, minor = schema.partition(".") if isinstance(schema, str) else ("", "", "")
    if not (major.isascii() and major.isdigit() and minor.isascii() and minor.isdigit()):
        raise WorkloadError(f'schema is {shown(schema)}; expected "MAJOR.MINOR" such as "{SCHEMA}"')
    if int(major) != int(SCHEMA.partition(".")[0]):
        raise WorkloadError(
            f"schema {schema} has another MAJOR than this radixflow reads; expected {SCHEMA}"
            + (": upgrade radixflow" if int(major) > int(SCHEMA.partition(".")[0]) else "")
        )
    for key in values:
        if key not in HEADER_KEYS:
            raise WorkloadError(f'unknown header key "{key}"; {near(key, HEADER_KEYS, "known ones")}')
    for key in ("name", "note", "source"):
        if not isinstance(values.get(key, ""), str):
            raise WorkloadError(f"{key} is {shown(values[key])}; expected a string")
    if not values.get("name"):
        raise WorkloadError("a header without name; expected a non-empty string")
    return Workload(
        name=values["name"],
        note=values.get("note", ""),
        source=values.get("source", ""),
        engine=options_from(values.get("engine", {})),
    )


def _request(values: dict[str, Any]) -> WorkloadRequest:
    kind = values.pop("kind", None)
    if kind != "request":
        extra = ": one header a file" if kind == "workload" else ""
        raise WorkloadError(f'kind is {shown(kind)}; expected "request"{extra}')
    if isinstance(values.get("text"), list):
        raise WorkloadError(f"text is {shown(values['text'])}; expected a non-empty string")
    return request_from(values)


def save_workload(workload: Workload, path: str | Path) -> None:
    """Write the workload as a file that `load_workload` reads back equal.

    A text made of pieces is written whole where it is tokenised by bytes, and as token ids
    otherwise, so that shared prefixes stay exact. The file appears at once or not at all. Raises
    WorkloadError where the workload is not a valid one.
    """
    workload.check()
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(_written(workload))
        temporary.replace(path)
    except OSError as error:
        raise WorkloadError(f"{path}: {error.strerror or error}; expected a place to write to") from None
    finally:
        temporary.unlink(missing_ok=True)


def _written(workload: Workload) -> Iterator[str]:
    header: dict[str, Any] = {"kind": "workload", "schema": SCHEMA, "name": workload.name}
    header |= {key: value for key in ("note", "source") if (value := getattr(workload, key))}
    if engine := workload.simulated_engine.given():
        header["engine"] = engine
    yield _line(header)
    for request in _whole_texts(workload):
        yield _line({"kind": "request"} | msgspec.to_builtins(request))


def _whole_texts(workload: Workload) -> Iterable[WorkloadRequest]:
    for request in workload.requests:
        if not isinstance(request.text, tuple):
            yield request
        elif workload.tokenizer.is_bytes:
            yield msgspec.structs.replace(request, text="".join(request.text))
        else:
            ids = token_ids(request, tokenizer=workload.tokenizer)
            yield msgspec.structs.replace(request, text=None, token_ids=ids)


def _line(values: dict[str, Any]) -> str:
    # ASCII escapes keep lone surrogates, which UTF-8 can't carry.
    return json.dumps(values, ensure_ascii=True, allow_nan=False) + "\n"

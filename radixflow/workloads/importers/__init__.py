"""Other people's files: which kind one is, and a workload out of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from radixflow.workloads.arguments import call_with
from radixflow.workloads.errors import WorkloadError
from radixflow.workloads.format import read_workload
from radixflow.workloads.importers.agent_sessions import import_agent_sessions
from radixflow.workloads.importers.mooncake import import_mooncake
from radixflow.workloads.importers.plain import import_plain
from radixflow.workloads.importers.quality import import_quality
from radixflow.workloads.lines import read_objects
from radixflow.workloads.tokenizers import BYTES, Tokenizer
from radixflow.workloads.workload import Workload

IMPORTERS: dict[str, Callable[..., Workload]] = {
    "workload": read_workload,
    "quality": import_quality,
    "mooncake": import_mooncake,
    "agent-sessions": import_agent_sessions,
    "plain": import_plain,
}
"""Kind of file -> function of (path, tokenizer) and the kind's options by keyword."""

LOOKED_FOR = (
    'a workload\'s header ("kind": "workload"), QuALITY ("article" and "questions"), '
    'Mooncake ("timestamp", "input_length" and "hash_ids"), agent sessions ("id", "block_size" and "requests"), '
    'or plain ("text", "prompt" or "token_ids")'
)


def detect(path: str | Path) -> str:
    """The kind of a file, `workload`, `quality`, `mooncake`, `agent-sessions` or `plain`, by its first object.

    Raises WorkloadError where nothing or more than one kind fits.
    """
    path = Path(path)
    number, first = next(read_objects(path), (0, None))
    if first is None:
        raise WorkloadError(f"{path}: empty; expected in its first line {LOOKED_FOR}")
    where = f"{path}:{number}"
    if "kind" in first:
        if first["kind"] == "workload":
            return "workload"
        raise WorkloadError(f"{where}: {_other_kind(first['kind'])}")
    fitting = [
        kind
        for kind, fits in (
            ("quality", {"article", "questions"} <= first.keys()),
            ("mooncake", {"timestamp", "input_length", "hash_ids"} <= first.keys()),
            ("agent-sessions", {"id", "block_size", "requests"} <= first.keys()),
            ("plain", bool({"text", "prompt", "token_ids"} & first.keys())),
        )
        if fits
    ]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise WorkloadError(f"{where}: could be {' or '.join(fitting)}; expected only one of {LOOKED_FOR}")
    keys = ", ".join(list(first)[:8]) or "no keys"
    raise WorkloadError(f"{where}: no kind of workload has the keys {keys[:120]}; looked for {LOOKED_FOR}")


def _other_kind(kind: Any) -> str:
    if kind == "request":
        return 'a request before any header; expected {"kind": "workload", "schema": "1.0", ...} before it'
    if kind == "trace":
        return "a trace, not a workload; expected a workload (traces go to rounds, compare, explain, check)"
    return f'kind is "{str(kind)[:40]}"; expected {LOOKED_FOR}'


def import_file(path: str | Path, tokenizer: Tokenizer = BYTES, **options: Any) -> Workload:
    """A workload out of a file of any known kind; `options` are those of its kind."""
    path = Path(path)
    kind = detect(path)
    return call_with(IMPORTERS[kind], f"{path} (read as {kind})", options, path, tokenizer)

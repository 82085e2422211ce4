"""From a file of any kind, or a built-in name, to a workload."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from radixflow.workloads.builtin import builtin_names, load_builtin
from radixflow.workloads.importers import import_file
from radixflow.workloads.lines import existing_file
from radixflow.workloads.tokenizers import BYTES, Tokenizer, load_tokenizer
from radixflow.workloads.workload import Workload


def load_workload(
    source: str | Path, tokenizer: Tokenizer | str | Path | None = None, **options: Any
) -> Workload:
    """The workload of a built-in name, or of a file; the kind of the file is told by its first line.

    `tokenizer` turns text into tokens: None or "bytes", a Hugging Face tokenizer's folder, or a
    loaded one. `options` go to the importer or the builder, `articles=3` say. A built-in name wins
    over a file of the same name; `./figure1` is the file. Raises WorkloadError, one line.
    """
    names = builtin_names()
    if isinstance(source, str) and source in names:
        return load_builtin(source, **options)
    path = existing_file(source, names)
    if tokenizer is None:
        tokenizer = BYTES
    elif not isinstance(tokenizer, Tokenizer):
        tokenizer = load_tokenizer(tokenizer)
    return import_file(path, tokenizer, **options)

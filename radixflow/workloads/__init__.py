"""What arrives: workload files, built-in workloads, importers, token streams."""

from __future__ import annotations

from radixflow.workloads.builtin import list_builtin
from radixflow.workloads.engine_options import EngineOptions
from radixflow.workloads.errors import WorkloadError
from radixflow.workloads.format import save_workload
from radixflow.workloads.four_branch import four_branch
from radixflow.workloads.source import load_workload
from radixflow.workloads.tokenizers import load_tokenizer
from radixflow.workloads.workload import Workload, WorkloadRequest, token_ids

__all__ = [
    "EngineOptions",
    "Workload",
    "WorkloadError",
    "WorkloadRequest",
    "four_branch",
    "list_builtin",
    "load_tokenizer",
    "load_workload",
    "save_workload",
    "token_ids",
]

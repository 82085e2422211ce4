"""Workloads that go by name wherever a file may stand."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

from radixflow.workloads.agents import agents
from radixflow.workloads.arguments import call_with
from radixflow.workloads.errors import WorkloadError
from radixflow.workloads.format import read_workload
from radixflow.workloads.four_branch import four_branch
from radixflow.workloads.generated import bursty, chat, decode_heavy, priority_mix
from radixflow.workloads.paper import paper
from radixflow.workloads.workload import Workload

SUFFIX = ".workload.jsonl"

BUILDERS: dict[str, Callable[..., Workload]] = {
    "four-branch": four_branch,
    "chat": chat,
    "bursty": bursty,
    "decode-heavy": decode_heavy,
    "priority-mix": priority_mix,
    "agents": agents,
    "paper": paper,
}
"""Made by rule, with options; the other built-in workloads are files of this package."""

FIGURE1_NOTE = "the paper's Figure 1: 15 requests in 6 rounds native, 4 with state-ready traversal"


def _files() -> Path:
    return Path(str(resources.files("radixflow.workloads") / "files"))


def builtin_names() -> list[str]:
    """All names: `figure1` first, then those made by rule, then the cases from bug reports."""
    files = sorted(path.name.removesuffix(SUFFIX) for path in _files().glob("*" + SUFFIX))
    return ["figure1", *BUILDERS, *(name for name in files if name != "figure1")]


def list_builtin() -> dict[str, str]:
    """Name -> one-line note of every built-in workload, in the order to show them in."""
    return {name: load_builtin(name).note for name in builtin_names()}


def load_builtin(name: str, **options: Any) -> Workload:
    """The built-in workload of this name; `options` go to its builder, where it has one."""
    if name in BUILDERS:
        return call_with(BUILDERS[name], f'workload "{name}"', options)
    if options:
        raise WorkloadError(f'workload "{name}" is fixed, got {", ".join(options)}; expected no options')
    workload = read_workload(_files() / (name + SUFFIX))
    if name == "figure1":
        workload.note = FIGURE1_NOTE
    return workload

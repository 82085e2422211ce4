"""Qwen3.5's text models where torchvision is not installed.

vLLM's file for Qwen3.5 holds the text and the vision models, and imports transformers' Qwen2-VL image
processor, which imports torchvision. The text models use none of it. transformers keeps the same
processor for Pillow in a module of its own and falls back to that one by itself; only vLLM's import of
the torchvision module by name stands in the way. So here that name is answered with the Pillow module,
and vLLM's classes are handed on unchanged.

`radixflow.engines.plugin` registers this module with vLLM, by name: vLLM inspects a model in a
subprocess, which imports this module first as well.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys

_IMAGE_PROCESSOR = "transformers.models.qwen2_vl.image_processing_qwen2_vl"
_PILLOW_PROCESSOR = "transformers.models.qwen2_vl.image_processing_pil_qwen2_vl"

if importlib.util.find_spec("torchvision") is None:
    sys.modules.setdefault(_IMAGE_PROCESSOR, importlib.import_module(_PILLOW_PROCESSOR))

from vllm.model_executor.models.qwen3_5 import Qwen3_5ForCausalLM, Qwen3_5MoeForCausalLM  # noqa: E402

__all__ = ["Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM"]

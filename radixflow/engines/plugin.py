"""What vLLM runs in each of its processes (entry point `vllm.general_plugins`).

Registers Qwen3.5's text models where torchvision is missing; otherwise does nothing. Cheap: nothing is
imported until such a model is asked for.
"""

from __future__ import annotations

import importlib.util

_MODULE = "radixflow.engines.qwen3_5"
TEXT_MODELS = ("Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM")


def register() -> None:
    """Idempotent. Registered by name, so that vLLM imports `radixflow.engines.qwen3_5` where needed."""
    if importlib.util.find_spec("torchvision") is not None:
        return
    from vllm.model_executor.models import ModelRegistry

    for architecture in TEXT_MODELS:
        known = ModelRegistry.models.get(architecture)
        if getattr(known, "module_name", None) != _MODULE:
            ModelRegistry.register_model(architecture, f"{_MODULE}:{architecture}")

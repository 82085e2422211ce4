"""vLLM load format `radixflow_random`: random weights under which every token of the prompt matters.

vLLM's own `dummy` format draws all weights from [-0.001, 0.001]. The layers then add next to nothing
to the embedding, greedy decoding gives the same tokens whatever the prompt is, and a comparison of
outputs could not notice a lost state or a wrong cache block. Here matrices keep the scale of their
input, attention is sharp, and states decay slowly enough to carry a document.

Importing this module registers the format (vLLM's `register_model_loader`). It imports vLLM.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from vllm.config import ModelConfig
from vllm.model_executor.layers.layernorm import GemmaRMSNorm
from vllm.model_executor.model_loader import register_model_loader
from vllm.model_executor.model_loader.dummy_loader import DummyModelLoader

LOAD_FORMAT = "radixflow_random"
SEED = 20260729

_STEP_SIZES = (1e-3, 1e-1)
_DECAYS = (1.0, 4.0)


@register_model_loader(LOAD_FORMAT)
class RandomModelLoader(DummyModelLoader):
    """Fills every floating-point parameter; the same numbers on every start."""

    @torch.no_grad()
    def load_weights(self, model: nn.Module, model_config: ModelConfig) -> None:
        super().load_weights(model, model_config)
        generator = torch.Generator().manual_seed(SEED)
        for module in model.modules():
            for name, parameter in module.named_parameters(recurse=False):
                if parameter.is_floating_point():
                    parameter.copy_(_draw(module, name, parameter.shape, generator))


def _draw(module: nn.Module, name: str, shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    uniform = torch.rand(shape, generator=generator)
    if name == "A":  # Mamba2's decay; vLLM stores -exp(A_log)
        return -_log_between(_DECAYS, uniform)
    if name == "A_log":
        return _log_between(_DECAYS, uniform).log()
    if name == "dt_bias":  # softplus(dt_bias) is the step size
        return torch.expm1(_log_between(_STEP_SIZES, uniform)).log()
    if name == "D" or name.endswith("bias"):  # without Mamba2's skip path D, only the state speaks
        return torch.zeros(shape)
    if len(shape) == 1:  # norms; Gemma's are stored as 1 + weight
        return torch.full(shape, 0.0 if isinstance(module, GemmaRMSNorm) else 1.0)
    normal = torch.randn(shape, generator=generator)
    if "Embedding" in type(module).__name__:
        return normal
    return normal / math.sqrt(shape[-1])


def _log_between(bounds: tuple[float, float], uniform: torch.Tensor) -> torch.Tensor:
    low, high = math.log(bounds[0]), math.log(bounds[1])
    return torch.exp(low + (high - low) * uniform)

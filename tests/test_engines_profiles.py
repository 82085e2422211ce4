"""The profiles' numbers, held against vLLM's own code."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from radixflow.engines.cost import RoundWork
from radixflow.engines.profiles import ModelProfile, get_profile, list_profiles

NAMES = [profile.name for profile in list_profiles()]

_QWEN3_5: dict[str, Any] = {
    "architectures": ["Qwen3_5ForCausalLM"],
    "model_type": "qwen3_5_text",
    "vocab_size": 248_320,
    "max_position_embeddings": 262_144,
    "head_dim": 256,
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "mamba_ssm_dtype": "float32",
    "full_attention_interval": 4,
    "dtype": "bfloat16",
}

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "Qwen3.5-0.8B": _QWEN3_5
    | {
        "hidden_size": 1024,
        "intermediate_size": 3584,
        "num_hidden_layers": 24,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "linear_num_value_heads": 16,
    },
    "Qwen3.5-4B": _QWEN3_5
    | {
        "hidden_size": 2560,
        "intermediate_size": 9216,
        "num_hidden_layers": 32,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "linear_num_value_heads": 32,
    },
    "Qwen3.5-9B": _QWEN3_5
    | {
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_hidden_layers": 32,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "linear_num_value_heads": 32,
    },
    "Qwen3.5-27B": _QWEN3_5
    | {
        "hidden_size": 5120,
        "intermediate_size": 17408,
        "num_hidden_layers": 64,
        "num_attention_heads": 24,
        "num_key_value_heads": 4,
        "linear_num_value_heads": 48,
    },
    "Nemotron-Nano-9B-v2": {
        "architectures": ["NemotronHForCausalLM"],
        "model_type": "nemotron_h",
        "vocab_size": 131_072,
        "max_position_embeddings": 131_072,
        "hidden_size": 4480,
        "intermediate_size": 15680,
        "num_hidden_layers": 56,
        "hybrid_override_pattern": "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-",
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "mamba_num_heads": 128,
        "mamba_head_dim": 80,
        "ssm_state_size": 128,
        "n_groups": 8,
        "conv_kernel": 4,
        "chunk_size": 128,
        "dtype": "bfloat16",
    },
    "Qwen3-8B": {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": 151_936,
        "max_position_embeddings": 40_960,
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "dtype": "bfloat16",
    },
}
"""The models' published architecture; `docs/models.md` names where each comes from."""


def _cuda_config(name: str, folder: Path) -> Any:
    """vLLM's configuration of the model, with block and page sizes aligned as on CUDA."""
    from vllm.engine.arg_utils import EngineArgs
    from vllm.platforms.interface import Platform
    from vllm.v1.attention.backends.flash_attn import FlashAttentionBackend

    from radixflow.engines.plugin import register

    register()
    (folder / "config.json").write_text(json.dumps(ARCHITECTURES[name]))
    arguments = EngineArgs(
        model=str(folder), skip_tokenizer_init=True, load_format="dummy", max_model_len=8192, block_size=16
    )
    config = arguments.create_engine_config()
    if config.model_config.is_hybrid:
        # The base class's method is what CUDA runs; on this machine the CPU's would run instead.
        Platform._align_hybrid_block_size(config, FlashAttentionBackend)
    return config


def _layer_specs(config: Any) -> dict[str, Any]:
    """Each layer's KV cache spec, as its attention layer would state it."""
    import torch
    from vllm.model_executor.models import ModelRegistry
    from vllm.v1.kv_cache_interface import FullAttentionSpec, MambaSpec

    model, cache, parallel = config.model_config, config.cache_config, config.parallel_config
    attention = FullAttentionSpec(
        block_size=cache.block_size,
        num_kv_heads=model.get_num_kv_heads(parallel),
        head_size=model.get_head_size(),
        dtype=torch.bfloat16,
    )
    kinds = Counter(model.hf_text_config.layer_types)
    specs: dict[str, Any] = {f"attention.{layer}": attention for layer in range(kinds["full_attention"])}
    if model.is_hybrid:
        architecture, _ = ModelRegistry.resolve_model_cls(model.architecture, model_config=model)
        state = MambaSpec(
            block_size=cache.mamba_block_size,
            shapes=architecture.get_mamba_state_shape_from_config(config),
            dtypes=architecture.get_mamba_state_dtype_from_config(config),
            page_size_padded=cache.mamba_page_size_padded,
            mamba_cache_mode=cache.mamba_cache_mode,
        )
        specs |= {f"state.{layer}": state for layer in range(kinds["linear_attention"])}
    return specs


@pytest.mark.xdist_group("profiles")
@pytest.mark.parametrize("name", NAMES)
def test_block_sizes_groups_and_bytes_are_what_vllm_computes_on_cuda(name: str, tmp_path: Path) -> None:
    from vllm.v1.attention.backends.flash_attn import FlashAttentionBackend
    from vllm.v1.attention.backends.utils import get_supported_kv_cache_layouts, resolve_kv_cache_layout
    from vllm.v1.core.kv_cache_utils import get_kv_cache_config_from_groups, get_kv_cache_groups
    from vllm.v1.kv_cache_interface import FullAttentionSpec

    profile = get_profile(name)
    config = _cuda_config(name, tmp_path)
    specs = _layer_specs(config)
    layouts = [layout.name for layout in get_supported_kv_cache_layouts([FlashAttentionBackend])]
    resolve_kv_cache_layout(config, [layouts], specs.values())
    groups = get_kv_cache_groups(config, specs)

    assert config.cache_config.block_size == profile.block_size
    assert [
        (
            (("kv",) if isinstance(group.kv_cache_spec, FullAttentionSpec) else ("rec", "conv")),
            len(group.layer_names),
        )
        for group in groups
    ] == [(group.components, group.layers) for group in profile.groups]
    assert {group.kv_cache_spec.page_size_bytes for group in groups} == {profile.page_bytes}
    assert specs["attention.0"].page_size_bytes == profile.kv_bytes_per_token * profile.block_size
    state = specs.get("state.0")
    bare = dataclasses.replace(state, page_size_padded=None).page_size_bytes if state else 0
    assert bare == profile.state_bytes
    pool = get_kv_cache_config_from_groups(config, groups, available_memory=100 * profile.block_bytes)
    assert pool.num_blocks == 100
    assert config.model_config.get_vocab_size() == profile.vocab_size


@pytest.mark.parametrize(
    ("name", "blocks"),
    [
        ("Qwen3.5-0.8B", 9500),
        ("Qwen3.5-4B", 3250),
        ("Qwen3.5-9B", 2670),
        ("Qwen3.5-27B", 190),
        ("Nemotron-Nano-9B-v2", 2200),
        ("Qwen3-8B", 20_800),
    ],
)
def test_the_estimated_pool_is_that_of_an_80_gb_gpu(name: str, blocks: int) -> None:
    assert get_profile(name).num_blocks == pytest.approx(blocks, rel=0.01)


@pytest.mark.parametrize("profile", list_profiles(), ids=NAMES)
def test_a_profile_can_stand_as_a_workloads_engine_options(profile: ModelProfile) -> None:
    from radixflow.workloads import EngineOptions

    options = EngineOptions(**profile.engine_options()).resolved()
    assert options.block_size == options.hash_block_size == profile.block_size
    assert options.state_groups == len(profile.groups) - 1


def test_a_bigger_model_and_a_fuller_round_cost_more() -> None:
    small, large = get_profile("Qwen3.5-0.8B").cost, get_profile("Qwen3.5-27B").cost
    half, full = RoundWork(rows=8, tokens=4096), RoundWork(rows=8, tokens=8192)
    assert small(full) < large(full)
    assert small.a < small(half) < small(full) < 2 * small(half)


@pytest.mark.parametrize("spelling", ["Qwen3.5-9B", "qwen3.5-9b", "Qwen/Qwen3.5-9B"])
def test_a_profile_is_found_however_it_is_spelled(spelling: str) -> None:
    assert get_profile(spelling).name == "Qwen3.5-9B"


def test_a_hub_id_of_nemotron_names_its_profile() -> None:
    assert get_profile("nvidia/NVIDIA-Nemotron-Nano-9B-v2").name == "Nemotron-Nano-9B-v2"


def test_an_unknown_profile_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ValueError, match=r"'Qwen3.5-8B'.*expected one of .*; did you mean 'Qwen3.*'\?"):
        get_profile("Qwen3.5-8B")

"""vLLM's real `Scheduler` without a model: the configuration it reads, and nothing more.

The scheduler and its `KVCacheManager` are vLLM's own; only what would describe a loaded model is
stated here. docs/simulator.md lists every assumption.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from vllm.config import CacheConfig, KVEventsConfig, ObservabilityConfig, ParallelConfig, SchedulerConfig
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    KVCacheSpec,
    MambaSpec,
    SlidingWindowSpec,
)

from radixflow.engines.groups import CacheGroup
from radixflow.scheduling import RadixFlowScheduler
from radixflow.scheduling.recorder import Recorder
from radixflow.scheduling.settings import Settings
from radixflow.workloads import EngineOptions


def build_scheduler(
    options: EngineOptions,
    groups: list[CacheGroup],
    settings: Settings,
    *,
    max_model_len: int,
    clock: Callable[[], int],
    open_recorder: Callable[[Any, Settings], Recorder],
) -> Any:
    """A scheduler over an empty pool. `options` are resolved; `groups` are the model's cache groups."""
    cache = kv_cache_config(options, groups)
    return RadixFlowScheduler(
        engine_config(options, max_model_len),
        kv_cache_config=cache,
        structured_output_manager=SimpleNamespace(should_advance=_never),
        block_size=options.block_size,
        hash_block_size=options.hash_block_size,
        mm_registry=SimpleNamespace(supports_multimodal_inputs=_never),
        settings=settings,
        clock=clock,
        open_recorder=open_recorder,
    )


def kv_cache_config(options: EngineOptions, groups: list[CacheGroup]) -> KVCacheConfig:
    """The cache layout: one spec a group, all with the block size that vLLM would align them to."""
    shape = {"block_size": options.block_size, "num_kv_heads": 1, "head_size": 1, "dtype": torch.bfloat16}
    attention = FullAttentionSpec(**shape)
    state = MambaSpec(
        block_size=options.block_size,
        shapes=((1,), (1,)),
        dtypes=(torch.float32, torch.bfloat16),
        mamba_cache_mode="align",
        num_speculative_blocks=options.spec_tokens,
    )
    specs = []
    for index, group in enumerate(groups):
        spec: KVCacheSpec = attention if group.components == ("kv",) else state
        if group.window is not None:
            spec = SlidingWindowSpec(**shape, sliding_window=group.window)
        layers = [f"group{index}.layer{layer}" for layer in range(group.layers or 1)]
        specs.append(KVCacheGroupSpec(layers, spec))
    return KVCacheConfig(
        num_blocks=options.num_blocks,
        kv_cache_tensors=[],
        kv_cache_groups=specs,
        prefix_cache_retention_interval=retention(options, groups),
    )


def retention(options: EngineOptions, groups: list[CacheGroup]) -> int | None:
    """As vLLM resolves it: full attention alone has nothing to retain sparsely."""
    has_state = any(group.components != ("kv",) for group in groups)
    interval = options.retention_interval
    return interval if has_state and isinstance(interval, int) else None


def engine_config(options: EngineOptions, max_model_len: int) -> Any:
    """What `Scheduler` reads of a `VllmConfig`."""
    cache = CacheConfig(
        block_size=options.block_size,
        enable_prefix_caching=True,
        mamba_cache_mode="align",
        mamba_block_size=options.block_size,
    )
    cache.num_gpu_blocks = options.num_blocks
    batches = 2 if options.async_scheduling else 1
    return SimpleNamespace(
        scheduler_config=SchedulerConfig(
            max_model_len=max_model_len,
            is_encoder_decoder=False,
            max_num_seqs=options.max_num_seqs,
            max_num_batched_tokens=options.max_num_batched_tokens,
            policy=options.scheduling_policy,
            async_scheduling=options.async_scheduling,
        ),
        cache_config=cache,
        parallel_config=ParallelConfig(),
        observability_config=ObservabilityConfig(),
        model_config=SimpleNamespace(
            model="simulated",
            max_model_len=max_model_len,
            uses_mrope=False,
            uses_xdrope=False,
            is_encoder_decoder=False,
            is_diffusion=False,
            enable_return_routed_experts=False,
            return_sampling_mask=False,
        ),
        kv_events_config=KVEventsConfig(enable_kv_cache_events=options.kv_cache_events, publisher="null"),
        speculative_config=_drafts(options.spec_tokens) if options.spec_tokens else None,
        num_speculative_tokens=options.spec_tokens,
        num_lookahead_tokens=options.spec_tokens,
        max_concurrent_batches=batches,
        max_in_flight_tokens=batches * options.max_num_batched_tokens,
        ec_manager_config=SimpleNamespace(get_encoder_cache_manager_obj=_none),
        lora_config=None,
        kv_transfer_config=None,
        ec_transfer_config=None,
        is_mm_encoder_only=False,
        use_v2_model_runner=False,
        additional_config={},
    )


def _drafts(tokens: int) -> Any:
    """EAGLE-style drafts: the drafter reads one position ahead and reserves no slots of its own."""
    return SimpleNamespace(
        num_speculative_tokens=tokens,
        num_speculative_tokens_per_batch_size=None,
        max_num_new_slots_for_drafting=0,
        use_eagle=_always,
        use_multi_module_mtp=_never,
    )


def _never(*args: Any, **kwargs: Any) -> bool:
    return False


def _always(*args: Any, **kwargs: Any) -> bool:
    return True


def _none(*args: Any, **kwargs: Any) -> None:
    return None

"""What a scheduler's trace header says of vLLM's configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vllm.v1.kv_cache_interface import MambaSpec, get_kv_cache_spec_kind

from radixflow.scheduling.recorder import Recorder, RunInfo, wall_clock
from radixflow.scheduling.settings import Settings
from radixflow.scheduling.versions import installed_vllm
from radixflow.trace.schema import Config, Group

if TYPE_CHECKING:
    from radixflow.scheduling.v0_29.seams import _Seams


def describe_config(scheduler: _Seams, settings: Settings) -> Config:
    """Engine and cache configuration as the scheduler sees it."""
    groups = [
        Group(
            index=index,
            kind=get_kv_cache_spec_kind(group.kv_cache_spec).value,
            components=["rec", "conv"] if isinstance(group.kv_cache_spec, MambaSpec) else ["kv"],
            block_size=manager.block_size,
            layers=len(group.layer_names),
        )
        for index, (group, manager) in enumerate(
            zip(
                scheduler.kv_cache_config.kv_cache_groups,
                scheduler.kv_cache_manager.coordinator.single_type_managers,
                strict=True,
            )
        )
    ]
    admission = settings.policy.admission
    return Config(
        max_num_seqs=scheduler.max_num_running_reqs,
        max_num_batched_tokens=scheduler.max_num_scheduled_tokens,
        block_size=scheduler.block_size,
        hash_block_size=scheduler.hash_block_size,
        num_blocks=scheduler.kv_cache_manager.block_pool.num_gpu_blocks,
        groups=groups,
        retention_interval=scheduler.kv_cache_config.prefix_cache_retention_interval,
        scheduling_policy=scheduler.policy.value,
        async_scheduling=bool(scheduler.scheduler_config.async_scheduling),
        max_model_len=scheduler.max_model_len,
        long_prefill_token_threshold=scheduler.scheduler_config.long_prefill_token_threshold,
        watermark_blocks=scheduler.kv_cache_manager.watermark_blocks,
        prefix_caching=scheduler.kv_cache_manager.enable_caching,
        spec_tokens=scheduler.num_spec_tokens,
        kv_cache_events=scheduler.enable_kv_cache_events,
        admission_deadline_ns=admission.deadline_ns if admission else None,
        probe=settings.probe,
        eviction="rr" if scheduler.eviction is not None else "lru",
    )


def open_recorder(scheduler: _Seams, settings: Settings) -> Recorder:
    """The recorder of a scheduler in a real engine. One file for each data-parallel engine core."""
    rank = scheduler.parallel_config.data_parallel_index
    path = settings.trace or ""
    if scheduler.parallel_config.data_parallel_size > 1:
        name, suffix = Path(path).name.split(".rft", 1)
        path = str(Path(path).with_name(f"{name}.dp{rank}.rft{suffix}"))
    return Recorder(
        path,
        RunInfo(
            policy=settings.policy.name,
            engine="vllm",
            model=settings.model or str(scheduler.vllm_config.model_config.model),
            workload=settings.workload,
            vllm=installed_vllm(),
            engine_index=rank,
            include_tokens=settings.include_tokens,
        ),
        describe_config(scheduler, settings),
        wall_clock(),
        scheduler.clock,
        max_bytes=settings.max_bytes,
        max_parts=settings.max_parts,
    )

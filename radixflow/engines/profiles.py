"""Model profiles: what the scheduler would see of six models on one 80 GB GPU, without the models.

Block sizes, cache groups and bytes are what vLLM 0.29 computes on CUDA in bfloat16 on one GPU; a test
recomputes them with vLLM's own code. Pool sizes and costs are estimates, and say so. docs/models.md has
the table and where the numbers come from. Nothing here imports vLLM.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

from radixflow.engines.cost import LinearCost
from radixflow.engines.groups import CacheGroup

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """One model's cache layout, budgets and estimated speed."""

    name: str
    note: str
    """Its layers in words."""
    parameters: float
    """Number of weights, as assumed for the estimates."""
    block_size: int
    """Tokens a block, the same in every group: vLLM aligns them."""
    groups: tuple[CacheGroup, ...]
    """The full-attention group first, then the recurrent ones."""
    page_bytes: int
    """Bytes that one layer takes in a block, states padded to the attention layers' page."""
    kv_bytes_per_token: int
    """Bytes of keys and values a token in one full-attention layer."""
    state_bytes: int
    """Bytes of one recurrent layer's state before padding; 0 where there is none."""
    vocab_size: int
    max_model_len: int
    """Tokens."""
    max_num_seqs: int
    """The row budget S of the paper's runs."""
    max_num_batched_tokens: int
    """The token budget T of the paper's runs."""

    @property
    def block_bytes(self) -> int:
        """Bytes of one pool block: a page for each layer of the largest group."""
        return self.page_bytes * max(group.layers for group in self.groups)

    @property
    def num_blocks(self) -> int:
        """Estimated pool of an 80 GB A800 at utilisation 0.8, not measured: see `estimated_blocks`."""
        return estimated_blocks(self.parameters, self.block_bytes)

    @property
    def state_groups(self) -> int:
        return sum(group.components != ("kv",) for group in self.groups)

    @property
    def cost(self) -> LinearCost:
        """Assumed cost of a round, not measured: see `assumed_cost`."""
        return assumed_cost(self.parameters)

    def engine_options(self) -> dict[str, Any]:
        """What the profile says of a workload's engine options, by their names."""
        return {
            "model": self.name,
            "block_size": self.block_size,
            "num_blocks": self.num_blocks,
            "state_groups": self.state_groups,
            "max_num_seqs": self.max_num_seqs,
            "max_num_batched_tokens": self.max_num_batched_tokens,
        }


DEVICE_BYTES = 79.3 * GIB
"""What vLLM sees of an 80 GB A800."""
UTILISATION = 0.8
OVERHEAD_BYTES = 2.5 * GIB
"""Assumed: activations, graphs and buffers."""


def estimated_blocks(parameters: float, block_bytes: int) -> int:
    """Pool blocks in what weights (2 bytes each) and overhead leave of the GPU."""
    return int((DEVICE_BYTES * UTILISATION - 2 * parameters - OVERHEAD_BYTES) // block_bytes)


HOST_SECONDS = 0.003
"""Assumed: scheduling, input preparation, launches and sampling of a round."""
MEMORY_BYTES_PER_SECOND = 1.4e12
"""Assumed: 70% of an A800's 2.0 TB/s."""
FLOPS_PER_SECOND = 140e12
"""Assumed: 45% of an A800's 312 TFLOP/s in bfloat16."""


def assumed_cost(parameters: float) -> LinearCost:
    """A round's cost on an A800, from first principles and so only roughly right.

    a = host work + reading the weights once (2 bytes each); b = 2 operations a weight and token.
    Attention over a long context, and work that hides behind other work, are left out.
    """
    return LinearCost(
        a=HOST_SECONDS + 2 * parameters / MEMORY_BYTES_PER_SECOND,
        b=2 * parameters / FLOPS_PER_SECOND,
    )


def _full(layers: int) -> CacheGroup:
    return CacheGroup(("kv",), layers)


def _state(layers: int) -> CacheGroup:
    return CacheGroup(("rec", "conv"), layers)


_PROFILES = {
    profile.name: profile
    for profile in (
        ModelProfile(
            name="Qwen3.5-0.8B",
            note="18 gated delta net + 6 full attention",
            parameters=0.9e9,
            block_size=544,
            groups=(_full(6), _state(6), _state(6), _state(6)),
            page_bytes=1_114_112,
            kv_bytes_per_token=2048,
            state_bytes=1_085_440,
            vocab_size=248_320,
            max_model_len=262_144,
            max_num_seqs=16,
            max_num_batched_tokens=8192,
        ),
        ModelProfile(
            name="Qwen3.5-4B",
            note="24 gated delta net + 8 full attention",
            parameters=4.6e9,
            block_size=528,
            groups=(_full(8), _state(8), _state(8), _state(8)),
            page_bytes=2_162_688,
            kv_bytes_per_token=4096,
            state_bytes=2_146_304,
            vocab_size=248_320,
            max_model_len=262_144,
            max_num_seqs=64,
            max_num_batched_tokens=8192,
        ),
        ModelProfile(
            name="Qwen3.5-9B",
            note="24 gated delta net + 8 full attention",
            parameters=9.6e9,
            block_size=528,
            groups=(_full(8), _state(8), _state(8), _state(8)),
            page_bytes=2_162_688,
            kv_bytes_per_token=4096,
            state_bytes=2_146_304,
            vocab_size=248_320,
            max_model_len=262_144,
            max_num_seqs=64,
            max_num_batched_tokens=8192,
        ),
        ModelProfile(
            name="Qwen3.5-27B",
            note="48 gated delta net + 16 full attention",
            parameters=27.8e9,
            block_size=784,
            groups=(_full(16), _state(16), _state(16), _state(16)),
            page_bytes=3_211_264,
            kv_bytes_per_token=4096,
            state_bytes=3_207_168,
            vocab_size=248_320,
            max_model_len=262_144,
            max_num_seqs=64,
            max_num_batched_tokens=8192,
        ),
        ModelProfile(
            name="Nemotron-Nano-9B-v2",
            note="27 Mamba2 + 4 full attention + 25 MLP",
            parameters=8.9e9,
            block_size=1312,
            groups=(_full(4), *(_state(4) for _ in range(6)), _state(3)),
            page_bytes=5_373_952,
            kv_bytes_per_token=4096,
            state_bytes=5_316_608,
            vocab_size=131_072,
            max_model_len=131_072,
            max_num_seqs=16,
            max_num_batched_tokens=8192,
        ),
        ModelProfile(
            name="Qwen3-8B",
            note="36 full attention: nothing to wait for, the control",
            parameters=8.2e9,
            block_size=16,
            groups=(_full(36),),
            page_bytes=65_536,
            kv_bytes_per_token=4096,
            state_bytes=0,
            vocab_size=151_936,
            max_model_len=40_960,
            max_num_seqs=16,
            max_num_batched_tokens=8192,
        ),
    )
}


def list_profiles() -> list[ModelProfile]:
    """All profiles, in the order of the paper's tables."""
    return list(_PROFILES.values())


def get_profile(name: str) -> ModelProfile:
    """The profile called `name`; capitals don't matter, and neither does an owner (`Qwen/Qwen3.5-9B`).

    Raises ValueError, one line that names the known ones and the nearest.
    """
    wanted = name.rpartition("/")[2].lower().removeprefix("nvidia-")
    by_name = {known.lower(): profile for known, profile in _PROFILES.items()}
    if wanted in by_name:
        return by_name[wanted]
    near = difflib.get_close_matches(wanted, by_name, n=1)
    hint = f"; did you mean {by_name[near[0]].name!r}?" if near else ""
    raise ValueError(f"unknown model profile {name!r}: expected one of {', '.join(_PROFILES)}{hint}")

"""The cache groups that the simulated engine gives vLLM's KVCacheManager."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CacheGroup:
    """One KV cache group of a model."""

    components: tuple[str, ...]
    """`("kv",)` for full attention, `("rec", "conv")` for recurrent layers."""
    layers: int = 1
    window: int | None = None
    """Tokens that its attention looks back; None for all of them."""


def plain_groups(state_groups: int) -> list[CacheGroup]:
    """One full-attention group and so many recurrent ones (CONTRACT 2, `state_groups`)."""
    return [CacheGroup(("kv",)), *(CacheGroup(("rec", "conv")) for _ in range(state_groups))]

"""What the prefix cache gains and loses, as vLLM's block pool does it.

vLLM keeps no word of who published or evicted a block, so the pool is watched at its own methods, and each cached
hash is remembered with the request that published it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from vllm.v1.core.block_pool import BlockPool
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import BlockHashWithGroupId, KVCacheBlock, get_group_id
from vllm.v1.core.single_type_kv_cache_manager import MambaManager
from vllm.v1.request import Request

from radixflow.trace.schema import Cache


class CacheWatch:
    """One block pool's publications and evictions, collected round by round."""

    def __init__(self, manager: KVCacheManager, index: Callable[[str], int], told: Callable[..., None]) -> None:
        """`index` numbers a request; `told` runs one of our methods and keeps its faults from vLLM."""
        pool = manager.block_pool
        pool.__class__ = _watched(type(pool))
        pool.watch = self  # type: ignore[attr-defined]
        self._pool = pool
        self._index = index
        self.told = told
        groups = manager.coordinator.single_type_managers
        self._state_groups = {group.kv_cache_group_id for group in groups if isinstance(group, MambaManager)}
        self._block_sizes = [group.block_size for group in groups]
        self.allocating: Request | None = None
        """The request that blocks are being taken for: whoever loses some, loses them to it."""
        self._owners: dict[BlockHashWithGroupId, tuple[int, int]] = {}
        """Cached hash -> (request that published it, its boundary in tokens)."""
        self._producers: dict[BlockHashWithGroupId | None, int] = {}
        """States that this round's batch is writing -> who writes."""
        self._published: list[tuple[int, int, int, int]] = []
        self._evicted: list[tuple[int, int, int, int, int]] = []
        self._events: list[tuple[int, int, int]] = []
        self._cleared = False

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        """A copied scheduler's pool (a test's oracle, a what-if) is not watched."""
        return None

    def begin_round(self) -> None:
        """What earlier batches wrote is there by now."""
        self._producers = {}

    def producer(self, key: BlockHashWithGroupId | None) -> int:
        """The request that writes this state in this round; -1 where it isn't known."""
        return self._producers.get(key, -1)

    def close(self) -> None:
        """Look away from the pool."""
        self._pool.watch = None  # type: ignore[attr-defined]

    def published(
        self, request: Request, blocks: Sequence[KVCacheBlock], first: int, last: int, size: int, group: int
    ) -> None:
        """Blocks first..last-1 of the request's table may carry new hashes."""
        i = self._index(request.request_id)
        owners = self._owners
        is_state = group in self._state_groups
        span_start = -1
        for index in range(first, last):
            key = blocks[index].block_hash
            if key is None:
                if span_start >= 0:
                    self._published.append((i, group, span_start * size, index * size))
                    span_start = -1
                continue
            owners[key] = (i, (index + 1) * size)
            if is_state:
                self._producers[key] = i
            if span_start < 0:
                span_start = index
        if span_start >= 0:
            self._published.append((i, group, span_start * size, last * size))

    def published_tail(self, request: Request, key: BlockHashWithGroupId, tokens: int, size: int) -> None:
        """A prompt's tail inside a block (`BlockPool.cache_partial_block`)."""
        i = self._index(request.request_id)
        self._owners[key] = (i, tokens)
        group = get_group_id(key)
        if group in self._state_groups:
            self._producers[key] = i
        self._published.append((i, group, tokens - size, tokens))

    def evicted(self, keys: Sequence[BlockHashWithGroupId]) -> None:
        by = self._index(self.allocating.request_id) if self.allocating is not None else -1
        for key in keys:
            if self._pool.cached_block_hash_to_block.get_one_block(key) is not None:
                continue  # another block holds the same prefix
            i, boundary = self._owners.pop(key, (-1, 0))
            if i < 0:
                continue
            group = get_group_id(key)
            size = self._block_sizes[group]
            if self._unpublished(i, group, boundary, size):
                continue
            if self._evicted:
                last = self._evicted[-1]
                # Tails go first, so a prefix is evicted from its end: grow the span downwards.
                if last[0] == i and last[1] == group and last[2] == boundary and last[4] == by:
                    self._evicted[-1] = (i, group, boundary - size, last[3], by)
                    continue
            self._evicted.append((i, group, boundary - size, boundary, by))

    def _unpublished(self, i: int, group: int, boundary: int, size: int) -> bool:
        """A record is read as evictions, then publications; what came and went in one round is neither.

        It happens where a request is preempted in the round that selected it and its blocks are taken.
        """
        for k, (owner, span_group, start, end) in enumerate(self._published):
            if owner == i and span_group == group and start < boundary <= end:
                halves = [(i, group, start, boundary - size), (i, group, boundary, end)]
                self._published[k : k + 1] = [half for half in halves if half[2] < half[3]]
                return True
        return False

    def announced(self, event: Any) -> None:
        """vLLM queued a `BlockStored` event; note where its tokens and hashes disagree."""
        hashes, tokens = len(event.block_hashes or ()), len(event.token_ids)
        if hashes * event.block_size != tokens:
            self._events.append((event.group_idx, tokens, hashes))

    def cleared(self) -> None:
        self._owners.clear()
        self._cleared = True

    def take(self, n: int) -> Cache | None:
        """Round n's record of what came and went since the last one; None where nothing did."""
        if not (self._published or self._evicted or self._events or self._cleared):
            return None
        record = Cache(
            n=n, published=self._published, evicted=self._evicted, cleared=self._cleared, events=self._events
        )
        self._published, self._evicted, self._events, self._cleared = [], [], [], False
        return record


@cache
def _watched(pool: type[BlockPool]) -> type[BlockPool]:
    """The pool's class, vLLM's own or the one that rotates tails, with the watch over it."""
    return type(f"Watched{pool.__name__}", (_WatchedBlockPool, pool), {})


class _WatchedBlockPool(BlockPool):
    """Tells its watch what the pool publishes and evicts."""

    watch: CacheWatch | None

    def cache_full_blocks(
        self,
        request: Request,
        blocks: list[KVCacheBlock],
        num_cached_blocks: int,
        num_full_blocks: int,
        block_size: int,
        kv_cache_group_id: int,
        block_mask: list[bool] | None = None,
    ) -> None:
        super().cache_full_blocks(
            request, blocks, num_cached_blocks, num_full_blocks, block_size, kv_cache_group_id, block_mask
        )
        if self.watch is not None and num_cached_blocks < num_full_blocks:
            span = (num_cached_blocks, num_full_blocks, block_size, kv_cache_group_id)
            self.watch.told(self.watch.published, request, blocks, *span)
            if self.enable_kv_cache_events and self.watch is not None:
                self.watch.told(self.watch.announced, self.kv_event_queue[-1])

    def cache_partial_block(self, request: Request, *args: Any, **kwargs: Any) -> BlockHashWithGroupId | None:
        key = super().cache_partial_block(request, *args, **kwargs)
        if key is not None and self.watch is not None:
            size = kwargs["block_size"]
            self.watch.told(self.watch.published_tail, request, key, kwargs["num_tokens"], size)
        return key

    def _emit_block_removed_events(self, block_hashes: list[BlockHashWithGroupId]) -> None:
        super()._emit_block_removed_events(block_hashes)
        if self.watch is not None:
            self.watch.told(self.watch.evicted, block_hashes)

    def reset_prefix_cache(self) -> bool:
        done = super().reset_prefix_cache()
        if done and self.watch is not None:
            self.watch.told(self.watch.cleared)
        return done

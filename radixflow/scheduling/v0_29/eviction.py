"""Rotating tails over vLLM 0.29's own block pool.

`BlockPool.get_new_blocks` takes the first blocks of the free queue and evicts what they cache. Its
subclass moves the blocks that rotation chooses to the front of that queue and leaves the rest to it.
Hashes enter and leave blocks at two private methods, which tell the rotation's tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from vllm.v1.core.block_pool import BlockPool
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import BlockHashWithGroupId, KVCacheBlock, get_block_hash, get_group_id
from vllm.v1.kv_cache_interface import SlidingWindowSpec
from vllm.v1.request import Request

from radixflow.scheduling.eviction import Rotation


def rotate_tails(manager: KVCacheManager, fault: Callable[[str, Exception], None]) -> RotatingBlockPool:
    """Make a new manager's pool evict rotating tails. A fault goes back to vLLM's order and is told."""
    pool = manager.block_pool
    groups = {
        index: single.kv_cache_spec
        for index, single in enumerate(manager.coordinator.single_type_managers)
        if single.kv_cache_spec.prefix_cacheable
    }
    pool.__class__ = RotatingBlockPool
    assert isinstance(pool, RotatingBlockPool)
    pool.step = min(spec.block_size for spec in groups.values())
    # As SlidingWindowManager counts the blocks that a hit needs.
    windows = {
        index: (-(-(spec.sliding_window - 1) // spec.block_size), spec.block_size // pool.step)
        for index, spec in groups.items()
        if isinstance(spec, SlidingWindowSpec)
    }
    pool.rotation = Rotation(frozenset(groups), windows)
    pool.caching = None
    pool.fault = fault
    return pool


class RotatingBlockPool(BlockPool):
    """A block pool that cuts one chunk from the tail of one idle trajectory after another."""

    rotation: Rotation | None
    """None after a fault: the pool is vLLM's again."""
    step: int
    """Tokens between the prefixes of a path: the smallest block of any group."""
    caching: Request | None
    """The request whose blocks get their hashes right now."""
    fault: Callable[[str, Exception], None]

    # -- the choice ----------------------------------------------------------------------------------

    def get_new_blocks(self, num_blocks: int) -> list[KVCacheBlock]:
        if self.rotation is not None and num_blocks <= self.get_num_free_blocks():
            self._told(self._line_up, num_blocks)
        return super().get_new_blocks(num_blocks)

    def eviction_order(self, in_use: Callable[[KVCacheBlock], bool] | None = None) -> Iterator[KVCacheBlock]:
        """Free blocks in the order in which `get_new_blocks` would take them; changes nothing.

        in_use: blocks to take for used ones beside those that are.
        """
        queue = self._free_queue()
        first = next(queue, None)
        while first is not None and first.block_hash is None:
            yield first
            first = next(queue, None)
        chosen: set[int] = set()
        if self.rotation is not None and first is not None:
            held = _is_held if in_use is None else lambda block: _is_held(block) or in_use(block)
            for block in self.rotation.victims(held):
                if block.block_id not in chosen:
                    chosen.add(block.block_id)
                    yield block
        # What hangs above blocks in use goes as vLLM would have it.
        while first is not None:
            if first.block_id not in chosen:
                yield first
            first = next(queue, None)

    def _free_queue(self) -> Iterator[KVCacheBlock]:
        block = self.free_block_queue.fake_free_list_head.next_free_block
        while block is not None and block is not self.free_block_queue.fake_free_list_tail:
            yield block
            block = block.next_free_block

    def _line_up(self, num_blocks: int) -> None:
        chosen = list(islice(self.eviction_order(), num_blocks))
        if not chosen or chosen[-1].block_hash is None:
            return  # the queue's front is what it should be
        moved: list[KVCacheBlock] = []
        try:
            for block in chosen:
                self.free_block_queue.remove(block)
                moved.append(block)
        finally:
            self.free_block_queue.prepend_n(moved)

    # -- what the rotation must know -----------------------------------------------------------------

    def _told(self, what: Callable[..., None], *args: Any) -> None:
        """Our own work; its fault never reaches vLLM."""
        if self.rotation is not None:
            try:
                what(*args)
            except Exception as error:
                self.rotation = None
                self.fault("eviction", error)

    def cache_full_blocks(self, request: Request, *args: Any, **kwargs: Any) -> None:
        self.caching = request
        try:
            super().cache_full_blocks(request, *args, **kwargs)
        finally:
            self.caching = None

    def cache_partial_block(self, request: Request, *args: Any, **kwargs: Any) -> BlockHashWithGroupId | None:
        self.caching = request
        try:
            return super().cache_partial_block(request, *args, **kwargs)
        finally:
            self.caching = None

    def _insert_block_hash(
        self, block_hash_with_group_id: BlockHashWithGroupId, block: KVCacheBlock, num_tokens: int | None
    ) -> None:
        known = self.cached_block_hash_to_block.contain(block_hash_with_group_id, block.block_id)
        super()._insert_block_hash(block_hash_with_group_id, block, num_tokens)
        if not known:
            self._told(self._inserted, block_hash_with_group_id, block, num_tokens)

    def _inserted(self, key: BlockHashWithGroupId, block: KVCacheBlock, num_tokens: int | None) -> None:
        assert self.rotation is not None
        prefix, group = get_block_hash(key), get_group_id(key)
        if block.block_hash != key and block.block_hash is not None:
            self.rotation.lend(prefix, get_block_hash(block.block_hash), group, block)
            return
        parent = None
        if self.caching is not None and num_tokens is not None:
            tokens = (num_tokens - 1) // self.step * self.step
            if tokens:
                parent = self.caching.block_hashes[tokens // self.hash_block_size - 1]
        self.rotation.add(prefix, parent, group, block)

    def _remove_cached_block_hashes(self, block: KVCacheBlock) -> list[BlockHashWithGroupId]:
        keys = self._keys(block)
        removed = super()._remove_cached_block_hashes(block)
        for key in keys:
            self._told(self._removed, key, block)
        return removed

    def _removed(self, key: BlockHashWithGroupId, block: KVCacheBlock) -> None:
        assert self.rotation is not None
        self.rotation.remove(get_block_hash(key), get_group_id(key), block)

    def _keys(self, block: KVCacheBlock) -> list[BlockHashWithGroupId]:
        """All the prefixes that the block caches."""
        own = [] if block.block_hash is None else [block.block_hash]
        return own + list(self.cached_block_hashes_by_block.get(block.block_id, ()))

    def touch(self, blocks: Sequence[KVCacheBlock]) -> None:
        super().touch(blocks)
        self._told(self._hold, blocks)

    def _hold(self, blocks: Sequence[KVCacheBlock]) -> None:
        assert self.rotation is not None
        for block in blocks:
            if block.ref_cnt == 1 and block.block_hash is not None:
                self.rotation.hold(get_block_hash(block.block_hash))

    def free_blocks(self, ordered_blocks: Iterable[KVCacheBlock]) -> None:
        blocks = list(ordered_blocks)
        super().free_blocks(blocks)
        self._told(self._settle, blocks)

    def _settle(self, blocks: Iterable[KVCacheBlock]) -> None:
        assert self.rotation is not None
        for block in blocks:
            if block.ref_cnt == 0 and block.block_hash is not None:
                self.rotation.settle(get_block_hash(block.block_hash))

    def evict_blocks(self, block_ids: set[int]) -> None:
        super().evict_blocks(block_ids)
        self._told(self._bring_forward, block_ids)

    def _bring_forward(self, block_ids: set[int]) -> None:
        """Free blocks that a connector emptied: blocks without a hash stand at the queue's front."""
        for block_id in block_ids:
            block = self.blocks[block_id]
            if block.ref_cnt == 0 and not block.is_null and block.block_hash is None:
                self.free_block_queue.remove(block)
                self.free_block_queue.prepend_n([block])

    def reset_prefix_cache(self) -> bool:
        done = super().reset_prefix_cache()
        if done and self.rotation is not None:
            self.rotation.clear()
        return done


def _is_held(block: KVCacheBlock) -> bool:
    return block.ref_cnt > 0

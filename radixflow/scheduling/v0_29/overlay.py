"""A round's batch grown by requests that were not really admitted, laid over the untouched block pool.

The probe asks how many more waiting requests the native check would have accepted, one after
another. Allocating and undoing would evict hashes, reorder the LRU list and emit events, so what an
admission would change is kept here: blocks taken from the free list, hashes evicted with them,
hit blocks pinned, hashes published, states in flight. Look-ups see the pool through it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vllm.utils.math_utils import cdiv
from vllm.v1.core.kv_cache_coordinator import HybridKVCacheCoordinator
from vllm.v1.core.kv_cache_utils import (
    BlockHash,
    BlockHashWithGroupId,
    KVCacheBlock,
    make_block_hash_with_group_id,
    resolve_block_hashes,
)
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.core.single_type_kv_cache_manager import FullAttentionManager, MambaManager
from vllm.v1.request import Request

from radixflow.scheduling.v0_29.check import Budget, Hit, NativeCheck, Verdict
from radixflow.scheduling.v0_29.eviction import RotatingBlockPool
from radixflow.scheduling.v0_29.refusals import Refusals


class Overlay:
    """Asks `NativeCheck` about one request after another; `admit` makes the next ones see it."""

    def __init__(self, scheduler: Scheduler, check: NativeCheck, budget: Budget) -> None:
        self._scheduler = scheduler
        self._check = check
        self._manager = scheduler.kv_cache_manager
        self._coordinator = self._manager.coordinator
        self.budget = budget
        self._pool = _OverlaidPool(self._manager.block_pool)
        self._in_flight: set[BlockHashWithGroupId] = set()
        self._free_list = self._walk_free_list()
        self._has_scheduled = bool(scheduler.running)
        self._refusals = Refusals(scheduler, self._pool) if Refusals.apply_to(scheduler) else None

    def refusal(self, request: Request) -> str | None:
        """Why `request` is not Ready, where that is known without judging it; None: judge it."""
        return self._refusals.cause(request, self.budget) if self._refusals is not None else None

    def judge(self, request: Request) -> Verdict:
        """The native check's answer to `request`, given everything admitted so far."""
        verdict = self._judge(request)
        if self._refusals is not None and verdict.outcome != "ready":
            self._refusals.note(request, verdict, self.budget)
        return verdict

    def _judge(self, request: Request) -> Verdict:
        real = self._coordinator.block_pool
        self._coordinator.block_pool = self._pool  # type: ignore[assignment]
        try:
            hit = self._check.lookup(request)
        finally:
            self._coordinator.block_pool = real
        return self._check.judge(
            request,
            hit,
            self.budget,
            free_blocks=self._pool.num_free,
            in_flight=self._groups_in_flight(hit),
            has_scheduled=self._has_scheduled,
        )

    def _groups_in_flight(self, hit: Hit) -> list[int]:
        groups = self._check.groups_in_flight(hit)
        if self._in_flight:
            for manager in self._check.state_managers:
                group = manager.kv_cache_group_id
                blocks = hit.blocks.blocks[group]
                if blocks and blocks[-1].block_hash in self._in_flight and group not in groups:
                    groups.append(group)
        return sorted(groups)

    def admit(self, request: Request, verdict: Verdict) -> None:
        """Grow the batch by a Ready request, as `allocate_slots` would."""
        assert verdict.need is not None
        hit, total = verdict.hit, verdict.hit.tokens + verdict.tokens
        pinned = self._pin(hit)
        for _ in range(verdict.need.chunk - pinned - self._not_taken(hit, total)):
            self._pool.take(next(self._free_list))
        self._publish(request, hit, total)
        if self._refusals is not None:
            self._refusals.forget()
        self.budget.take(verdict.tokens)
        self._has_scheduled = True

    def _not_taken(self, hit: Hit, total: int) -> int:
        """Blocks that admission asks for and doesn't take: a state that goes on inside the block of its hit asks for a
        copy of that block and for one more (`MambaManager.get_num_blocks_to_allocate` and `allocate_new_blocks`)."""
        return sum(
            manager.mamba_cache_mode == "align"
            and hit.tokens % manager.block_size > 0
            and cdiv(total, manager.block_size) == len(hit.blocks.blocks[manager.kv_cache_group_id])
            for manager in self._check.state_managers
        )

    def _pin(self, hit: Hit) -> int:
        """Hit blocks that only the free list held; they leave it, and admission counted them."""
        pinned = 0
        for manager, blocks in zip(self._coordinator.single_type_managers, hit.blocks.blocks, strict=True):
            skipped = max(0, manager.get_num_skipped_tokens(hit.tokens) // manager.block_size)
            for block in blocks[skipped:]:
                if block.ref_cnt == 0 and not block.is_null and self._pool.pin(block):
                    pinned += 1
        return pinned

    def _walk_free_list(self) -> Iterator[KVCacheBlock]:
        """Free blocks in the order in which `BlockPool.get_new_blocks` would take them."""
        pool = self._manager.block_pool
        if isinstance(pool, RotatingBlockPool):
            for block in pool.eviction_order(self._pool.is_pinned):
                if not self._pool.is_pinned(block):
                    yield block
            return
        queue = pool.free_block_queue
        block = queue.fake_free_list_head.next_free_block
        while block is not None and block is not queue.fake_free_list_tail:
            if not self._pool.is_pinned(block):
                yield block
            block = block.next_free_block

    def _publish(self, request: Request, hit: Hit, total: int) -> None:
        """Hashes that `cache_blocks` would insert for the chunk that ends at `total`."""
        if not self._manager.enable_caching:
            return
        tokens = min(total, request.num_tokens)
        boundaries = [request.num_prompt_tokens - 1]
        if hit.junction:
            boundaries.append(hit.junction)
        for manager in self._coordinator.single_type_managers:
            group = manager.kv_cache_group_id
            first = len(hit.blocks.blocks[group])
            if hit.tokens % manager.block_size:
                first = hit.tokens // manager.block_size
            cacheable = self._cacheable(manager, tokens)
            self._publish_tail(manager, request, cacheable)
            last = cacheable // manager.block_size
            if first >= last:
                continue
            mask = manager.reachable_block_mask(
                start_block=first,
                end_block=last,
                alignment_tokens=manager.cache_hit_alignment_tokens,
                kv_cache_spec=manager.kv_cache_spec,
                use_eagle=manager.use_eagle,
                retention_interval=self._coordinator.retention_interval,
                reachable_boundaries=boundaries,
            )
            hashes = resolve_block_hashes(
                request.block_hashes, self._manager.block_pool.hash_block_size, manager.block_size
            )
            state_index = cdiv(total, manager.block_size) - 1
            for index in range(first, last):
                if mask is not None and not mask[index - first]:
                    continue
                is_state = isinstance(manager, MambaManager)
                if is_state and manager.mamba_cache_mode == "align" and index != state_index:
                    continue  # a null block: align mode keeps the chunk's last state only
                key = make_block_hash_with_group_id(hashes[index], group)
                self._pool.publish(key)
                if is_state:
                    self._in_flight.add(key)

    def _publish_tail(self, manager: Any, request: Request, tokens: int) -> None:
        """The prompt's last hash boundary, where it lies inside a block (`_cache_partial_tail_block` of both managers).

        Attention has it as soon as the chunk reaches it, a state only where the chunk ends there.
        """
        unit = self._manager.block_pool.hash_block_size
        boundary = request.num_prompt_tokens // unit * unit
        if manager.block_size == unit or not 0 < boundary <= tokens or boundary % manager.block_size == 0:
            return
        is_state = isinstance(manager, MambaManager)
        if is_state and (manager.mamba_cache_mode != "align" or boundary != tokens):
            return
        if not is_state and not isinstance(manager, FullAttentionManager):
            return
        key = make_block_hash_with_group_id(request.block_hashes[boundary // unit - 1], manager.kv_cache_group_id)
        self._pool.publish(key)
        if is_state:
            self._in_flight.add(key)

    def _cacheable(self, manager: Any, tokens: int) -> int:
        """Tokens that the coordinator would let `manager` cache (`HybridKVCacheCoordinator.cache_blocks`)."""
        coordinator = self._coordinator
        final = max(0, tokens - coordinator.num_reprefillable_tokens)
        if not isinstance(coordinator, HybridKVCacheCoordinator):
            return final
        aligned = coordinator._align_cacheable(tokens)
        if manager.use_eagle and aligned > 0:
            return min(final, coordinator._align_cacheable(final) + manager.block_size)
        return aligned


class _OverlaidPool:
    """The block pool as look-ups see it: `BlockPool.get_cached_block` over the pool and the overlay."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self.hash_block_size = pool.hash_block_size
        self.null_block = pool.null_block
        self.num_gpu_blocks = pool.num_gpu_blocks
        self.num_free = pool.get_num_free_blocks()
        self._taken: set[int] = set()
        self._pinned: dict[int, KVCacheBlock] = {}
        self._published: dict[BlockHashWithGroupId, KVCacheBlock] = {}

    def pin(self, block: KVCacheBlock) -> bool:
        """Hold a hit block of the free list; False if it is held already (several groups may share)."""
        if block.block_id in self._pinned:
            return False
        self._pinned[block.block_id] = self._held_copy(block)
        self.num_free -= 1
        return True

    def is_pinned(self, block: KVCacheBlock) -> bool:
        return block.block_id in self._pinned

    def take(self, block: KVCacheBlock) -> None:
        """Allocate a free block; what it cached is evicted."""
        self._taken.add(block.block_id)
        self.num_free -= 1

    def publish(self, key: BlockHashWithGroupId) -> None:
        self._published.setdefault(key, KVCacheBlock(block_id=-1, ref_cnt=1, _block_hash=key))

    @staticmethod
    def _held_copy(block: KVCacheBlock) -> KVCacheBlock:
        return KVCacheBlock(block_id=block.block_id, ref_cnt=1, _block_hash=block.block_hash)

    def holds(self, block_hash: BlockHash, group: int) -> bool:
        """Whether a look-up in this group would find the block."""
        return self._find(make_block_hash_with_group_id(block_hash, group)) is not None

    def get_cached_block(self, block_hash: BlockHash, kv_cache_group_ids: list[int]) -> list[KVCacheBlock] | None:
        found = []
        for group in kv_cache_group_ids:
            block = self._find(make_block_hash_with_group_id(block_hash, group))
            if block is None:
                return None
            found.append(block)
        return found

    def _find(self, key: BlockHashWithGroupId) -> KVCacheBlock | None:
        cached = self._pool.cached_block_hash_to_block._cache.get(key)
        blocks = () if cached is None else (cached,) if isinstance(cached, KVCacheBlock) else cached.values()
        for block in blocks:
            if block.block_id not in self._taken:
                return self._pinned.get(block.block_id, block)
        return self._published.get(key)

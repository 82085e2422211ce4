"""What vLLM 0.29 would answer if it visited a waiting request now, asked without changing anything.

`Scheduler.schedule()` visits a waiting request, looks up its prefix, cuts a chunk and asks
`KVCacheManager.allocate_slots` for blocks. Each gate on that way can refuse, and vLLM keeps no
record of which one did. `NativeCheck` walks the same gates over the same functions and names it.
The traversal's strict *Blocked*, the reason of a refusal, the fragmentation look-ahead, admission's
demand and the probe of a round's free slots are all this one question.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from vllm.v1.core.kv_cache_manager import KVCacheBlocks
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.core.single_type_kv_cache_manager import MambaManager
from vllm.v1.request import Request, RequestStatus


class Hit(NamedTuple):
    """A prefix look-up: what `KVCacheManager.get_computed_blocks` answers."""

    blocks: KVCacheBlocks
    tokens: int
    """h: every cache group is ready up to here."""
    junction: int
    """`shared_prefix_boundary`: the longest single-group match where it is longer than h, else 0."""

    @property
    def matched(self) -> int:
        return max(self.tokens, self.junction)


@dataclass(slots=True)
class Budget:
    """What is left of a round's budgets (locals of `schedule()`, kept by watching `allocate_slots`)."""

    tokens: int
    input: int
    draft_slots: int
    running: bool = False
    """A running request was scheduled."""
    prefilling: bool = False
    """One of them is still prefilling."""

    @property
    def decodes_only(self) -> bool:
        """vLLM then pads a one-token request to the size of a draft."""
        return self.running and not self.prefilling

    @property
    def for_request(self) -> int:
        return min(self.tokens, self.input - self.draft_slots)

    @property
    def spent(self) -> bool:
        return self.tokens <= 0 or self.input <= self.draft_slots

    def reset(self, tokens: int, input: int, draft_slots: int) -> None:
        """A round begins."""
        self.tokens, self.input, self.draft_slots = tokens, input, draft_slots
        self.running = self.prefilling = False

    def take(self, tokens: int) -> None:
        self.tokens -= tokens
        self.input -= tokens + self.draft_slots


class Need(NamedTuple):
    """Blocks that admission would ask for, the in-step refusal of pending states left out."""

    full: int
    """For the whole sequence (`full_sequence_must_fit`); 0 where that gate is off."""
    chunk: int
    """For this round's chunk."""


@dataclass(slots=True)
class Verdict:
    """One visit: Ready, Blocked or Other (CONTRACT 1), with the raw facts of a refusal."""

    outcome: str
    hit: Hit
    tokens: int = 0
    """The chunk that would run, where Ready or Blocked."""
    need: Need | None = None
    cause: str | None = None
    gate: str | None = None
    facts: dict[str, int] = field(default_factory=dict)
    groups: list[int] = field(default_factory=list)
    """Cache groups whose state at the matched boundary is being written in this round."""
    also: list[str] = field(default_factory=list)


class NativeCheck:
    """The gates of one scheduler's waiting loop. `view` tells the pool that they are asked about."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._manager = scheduler.kv_cache_manager
        self._coordinator = self._manager.coordinator
        self.state_managers: list[MambaManager] = [
            manager for manager in self._coordinator.single_type_managers if isinstance(manager, MambaManager)
        ]

    # -- prefix ------------------------------------------------------------------------------------

    def lookup(self, request: Request) -> Hit:
        """As `KVCacheManager.get_computed_blocks`, but never emitting cache events."""
        if request.num_computed_tokens > 0 or not self._manager.prefix_cache_lookup_enabled(request):
            return Hit(self._manager.empty_kv_cache_blocks, 0, 0)
        blocks, tokens, uncached = self._coordinator.find_longest_cache_hit(
            request.block_hashes, request.num_tokens - 1
        )
        return Hit(self._manager.create_kv_cache_blocks(blocks), tokens, tokens + uncached if uncached else 0)

    def any_state_in_flight(self) -> bool:
        return any(manager.cached_blocks_this_step for manager in self.state_managers)

    def groups_in_flight(self, hit: Hit) -> list[int]:
        """Groups whose matched state is written in this round (`MambaManager.get_num_blocks_to_allocate`)."""
        in_flight = []
        for manager in self.state_managers:
            blocks = hit.blocks.blocks[manager.kv_cache_group_id]
            if blocks and blocks[-1].block_hash in manager.cached_blocks_this_step:
                in_flight.append(manager.kv_cache_group_id)
        return in_flight

    # -- gates -------------------------------------------------------------------------------------

    def chunk(self, request: Request, hit: Hit, budget: Budget) -> tuple[int, str | None]:
        """Tokens that would be scheduled, and the gate that made them 0, as `schedule()` computes them."""
        scheduler = self._scheduler
        start = request.num_computed_tokens + hit.tokens
        left = budget.for_request
        tokens = request.num_tokens - start
        padded = 0
        if (
            tokens == 1
            and budget.decodes_only
            and scheduler.num_spec_tokens > 0
            and scheduler.dynamic_sd_lookup is None
            and scheduler.num_sampled_tokens_per_step > 0
        ):
            rows = 1 + scheduler.num_spec_tokens
            if start + rows + scheduler.num_sampled_tokens_per_step <= scheduler.max_model_len:
                if rows > left:
                    return 0, "draft_padding"
                tokens = padded = rows
        threshold = scheduler.scheduler_config.long_prefill_token_threshold
        if 0 < threshold < tokens:
            tokens = threshold
        if not scheduler.scheduler_config.enable_chunked_prefill and tokens > left:
            return 0, "chunking"
        tokens = min(tokens, left)
        if scheduler.need_mamba_block_aligned_split:
            tokens = self._aligned(request, hit, tokens)
            if tokens == 0:
                return 0, "alignment"
            if padded and tokens != padded:
                tokens = 1
        tokens = scheduler._reserve_prefill_lookahead(request, start, tokens)
        return tokens, None if tokens else "draft_padding"

    def _aligned(self, request: Request, hit: Hit, tokens: int) -> int:
        # schedule() stores the junction on the request before it splits; we only lend it.
        before = request.shared_prefix_boundary
        if request.num_computed_tokens == 0:
            request.shared_prefix_boundary = hit.junction
        try:
            return self._scheduler._mamba_block_aligned_split(request, tokens, hit.tokens)
        finally:
            request.shared_prefix_boundary = before

    def need(self, request: Request, hit: Hit, tokens: int) -> Need:
        """Blocks for the whole sequence and for the chunk, as `allocate_slots` counts them."""
        scheduler = self._scheduler
        computed = request.num_computed_tokens + hit.tokens
        full = min(request.num_tokens, scheduler.max_model_len)
        main = computed + tokens
        slots = min(main + scheduler.num_lookahead_tokens, scheduler.max_model_len)
        with self._unnoticed(request.request_id):
            ask = self._coordinator.get_num_blocks_to_allocate
            blocks = hit.blocks.blocks
            rid = request.request_id
            need_full = (
                ask(rid, full, blocks, 0, computed, computed, full, apply_admission_cap=True)
                if scheduler.scheduler_reserve_full_isl
                else 0
            )
            need_chunk = ask(rid, slots, blocks, 0, computed, computed, main)
        return Need(need_full, need_chunk)

    def need_from_cold(self, request: Request) -> int:
        """Blocks for the whole sequence if the pool were empty: more than there are means never."""
        empty = Hit(self._manager.empty_kv_cache_blocks, 0, 0)
        full = min(request.num_tokens, self._scheduler.max_model_len)
        with self._unnoticed(request.request_id):
            return self._coordinator.get_num_blocks_to_allocate(
                request.request_id, full, empty.blocks.blocks, 0, 0, 0, full, apply_admission_cap=True
            )

    @contextmanager
    def _unnoticed(self, request_id: str) -> Iterator[None]:
        """`get_num_blocks_to_allocate` without its in-step refusal and without the notes it leaves."""
        noted = []
        for manager in self.state_managers:
            checkpoints = getattr(manager, "_num_checkpoint_blocks", None)
            noted.append(
                (
                    manager,
                    manager.cached_blocks_this_step,
                    checkpoints,
                    checkpoints.get(request_id) if checkpoints is not None else None,
                    request_id in manager.req_to_blocks,
                )
            )
            manager.cached_blocks_this_step = _NOTHING
        try:
            yield
        finally:
            for manager, cached, checkpoints, checkpoint, known in noted:
                manager.cached_blocks_this_step = cached
                if checkpoints is not None:
                    if checkpoint is None:
                        checkpoints.pop(request_id, None)
                    else:
                        checkpoints[request_id] = checkpoint
                if not known:
                    manager.req_to_blocks.pop(request_id, None)

    # -- verdict -----------------------------------------------------------------------------------

    def watermark(self, request: Request, has_scheduled: bool) -> int:
        waiting = request.status in (RequestStatus.WAITING, RequestStatus.PREEMPTED)
        return self._manager.watermark_blocks if has_scheduled and waiting else 0

    def judge(
        self,
        request: Request,
        hit: Hit,
        budget: Budget,
        *,
        free_blocks: int,
        in_flight: list[int],
        has_scheduled: bool,
    ) -> Verdict:
        """All gates in native order. `Blocked` is strict: nothing but pending states refuses."""
        tokens, cut = self.chunk(request, hit, budget)
        if cut is not None:
            return self.cut_short(hit, cut, budget, in_flight)
        return self.judge_chunk(
            request,
            hit,
            tokens,
            free_blocks=free_blocks,
            in_flight=in_flight,
            has_scheduled=has_scheduled,
        )

    def cut_short(self, hit: Hit, cause: str, budget: Budget, in_flight: list[int]) -> Verdict:
        """The verdict on a visit that a gate before the block pool refused."""
        facts = {"tokens_left": budget.for_request, "block": self._scheduler.block_size}
        also = ["blocked"] if in_flight else []
        return Verdict("other", hit, cause=cause, facts=facts, groups=in_flight, also=also)

    def judge_chunk(
        self,
        request: Request,
        hit: Hit,
        tokens: int,
        *,
        free_blocks: int,
        in_flight: list[int],
        has_scheduled: bool,
        reserved: int = 0,
    ) -> Verdict:
        """The gates of `allocate_slots` for a chunk of `tokens`."""
        verdict = self._capacity(request, hit, tokens, free_blocks, has_scheduled, reserved)
        verdict.groups = in_flight
        if in_flight and verdict.outcome == "ready":
            verdict.outcome = verdict.cause = "blocked"
        elif in_flight:
            verdict.also.append("blocked")
        return verdict

    def _capacity(
        self,
        request: Request,
        hit: Hit,
        tokens: int,
        free_blocks: int,
        has_scheduled: bool,
        reserved: int,
    ) -> Verdict:
        need = self.need(request, hit, tokens)
        watermark = self.watermark(request, has_scheduled)
        gate = None
        if need.full + watermark > free_blocks:
            gate, needed = "full_sequence", need.full
        elif need.chunk + watermark > free_blocks - reserved:
            gate, needed = "chunk", need.chunk
        if gate is None:
            return Verdict("ready", hit, tokens=tokens, need=need)
        total = self._manager.block_pool.num_gpu_blocks - 1
        cause = "capacity"
        if gate == "full_sequence" and (cold := self.need_from_cold(request)) > total:
            cause, needed = "never_fits", cold
        facts = {
            "needed": needed,
            "free": free_blocks,
            "reserved": reserved,
            "watermark": watermark,
            "total": total,
        }
        return Verdict("other", hit, need=need, cause=cause, gate=gate, facts=facts)


class _Nothing:
    """An empty set that can't be added to by mistake."""

    def __contains__(self, item: Any) -> bool:
        return False


_NOTHING: Any = _Nothing()

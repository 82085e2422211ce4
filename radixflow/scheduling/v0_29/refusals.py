"""Refusals that a probe need not work out again.

Siblings on one document, all behind the same missing state, get the same answer for the same
reason; a long queue of them is told by two or three hash look-ups each instead of a full check.

    hashes of a waiting request    h0 h1 h2 h3 h4 ...
    cached full-attention blocks   h0 h1 h2             its match ends behind h2

Two requests with the same last matched hash have the same prefix, so the same hit in every group,
and with as many blocks they need as much. Valid until the batch grows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vllm.utils.math_utils import cdiv
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.core.single_type_kv_cache_manager import FullAttentionManager, MambaManager
from vllm.v1.request import Request

if TYPE_CHECKING:
    from radixflow.scheduling.v0_29.check import Budget, Verdict
    from radixflow.scheduling.v0_29.overlay import _OverlaidPool

_Shape = tuple[int, int, bool, bool]
"""Blocks begun, blocks full, whether the rest fits the budget whole, and whether its prefill does."""


class Refusals:
    """What the overlay has refused since the batch last grew."""

    def __init__(self, scheduler: Scheduler, pool: _OverlaidPool) -> None:
        self._scheduler = scheduler
        self._pool = pool
        self._size = scheduler.block_size
        self._known: dict[tuple[Any, _Shape], str] = {}
        self._ready: dict[Any, int] = {}
        """Last matched hash (None: no match) -> tokens ready."""
        self._ends: set[int] = set()
        """Indices at which a known match ended."""

    @staticmethod
    def apply_to(scheduler: Scheduler) -> bool:
        """One block size, full attention first, states in align mode, no drafts: what hybrids have."""
        managers = scheduler.kv_cache_manager.coordinator.single_type_managers
        return (
            scheduler.kv_cache_manager.enable_caching
            and type(managers[0]) is FullAttentionManager
            and all(
                isinstance(m, FullAttentionManager | MambaManager) and m.block_size == scheduler.hash_block_size
                for m in managers
            )
            and scheduler.hash_block_size == scheduler.block_size
            and not scheduler.use_eagle
            and scheduler.num_spec_tokens == 0
            and not scheduler.mamba_has_prefill_checkpoint_blocks
            and scheduler.scheduler_config.long_prefill_token_threshold == 0
            and scheduler.scheduler_config.enable_chunked_prefill
        )

    def cause(self, request: Request, budget: Budget) -> str | None:
        """The refusal of `request`, if it follows from what is known."""
        if request.num_computed_tokens > 0 or request.skip_reading_prefix_cache:
            return None
        if self._too_little_for_a_block(request, budget):
            return "alignment"
        if not self._known:
            return None
        end = self._end_of_match(request)
        if end not in self._ready:
            return None
        return self._known.get((end, self._shape(request, self._ready[end], budget)))

    def _too_little_for_a_block(self, request: Request, budget: Budget) -> bool:
        """Less than a block is left, and its hit can't be long enough for the rest to fit whole."""
        size, left, end = self._size, budget.for_request, _prefill_end(request)
        scheduler = self._scheduler
        if not scheduler.need_mamba_block_aligned_split or left >= size or end <= left:
            return False
        if size > scheduler.max_num_scheduled_tokens:
            return False
        blocks = cdiv(end - left, size)
        return blocks * size > request.num_tokens - 1 or not self._pool.holds(request.block_hashes[blocks - 1], 0)

    def _end_of_match(self, request: Request) -> Any:
        """The last matched hash, where it is one that is known; an unknown object otherwise."""
        hashes, longest = request.block_hashes, (request.num_tokens - 1) // self._size
        if longest == 0 or not self._pool.holds(hashes[0], 0):
            return None
        for index in self._ends:
            if index < longest and hashes[index] in self._ready:
                if index + 1 == longest or not self._pool.holds(hashes[index + 1], 0):
                    return hashes[index]
        return self

    def _shape(self, request: Request, ready: int, budget: Budget) -> _Shape:
        tokens, left = request.num_tokens, budget.for_request
        whole, prefilled = tokens - ready <= left, _prefill_end(request) - ready <= left
        return cdiv(tokens, self._size), tokens // self._size, whole, prefilled

    def note(self, request: Request, verdict: Verdict, budget: Budget) -> None:
        """Remember a refusal for requests like this one."""
        if request.num_computed_tokens > 0:
            return
        end = None
        if verdict.hit.matched:
            index = verdict.hit.matched // self._size - 1
            end = request.block_hashes[index]
            self._ends.add(index)
        self._ready[end] = verdict.hit.tokens
        shape = self._shape(request, verdict.hit.tokens, budget)
        self._known[end, shape] = verdict.cause or "capacity"

    def forget(self) -> None:
        """The batch has grown."""
        self._known.clear()
        self._ready.clear()
        self._ends.clear()


def _prefill_end(request: Request) -> int:
    """A chunk that reaches it may end anywhere (`Scheduler._mamba_block_aligned_split`): the prompt's end, or with
    output to compute again, the last token but one."""
    return max(request.num_prompt_tokens, request.num_tokens - 1)

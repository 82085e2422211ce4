"""State-ready traversal (RadixFlow, Algorithm 1) and its fragmentation extension.

    for request in waiting, in native order:
        Ready    select it through the native allocator
        Blocked  park it, keep it registered, go on scanning
        Other    the native action, which may end the scan

The loop is vLLM's own; `decide` is asked before each visit and says which of the three it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm.v1.request import Request, RequestStatus

from radixflow.scheduling.v0_29.check import Budget, Hit, Verdict

if TYPE_CHECKING:
    from radixflow.scheduling.v0_29.seams import _Seams

_VISITABLE = (RequestStatus.WAITING, RequestStatus.PREEMPTED)


class Traversal:
    """The policy's decision at each visit of the waiting loop."""

    def __init__(self, scheduler: _Seams, fragmentation: bool) -> None:
        self._scheduler = scheduler
        self._check = scheduler.check
        self._pool = scheduler.kv_cache_manager.block_pool
        self._fragmentation = fragmentation
        self._fitting: tuple[Request, tuple[int, int, int]] | None = None
        """The request that fits in place of one put aside, and the moment at which it was found to."""

    def may_pass_over(self, request: Request) -> bool:
        """Cheap and usually false: only then is a look-up needed before the native one."""
        if request.status not in _VISITABLE or request.num_computed_tokens > 0 or request.has_encoder_inputs:
            return False
        if request.num_stale_output_tokens > 0 and not request.drop_stale_output:
            return False  # vLLM passes over it by itself
        return self._fragmentation or self._check.any_state_in_flight()

    def decide(self, request: Request) -> Verdict:
        """`ready`: leave it to the native loop (it may still refuse). Otherwise pass over it."""
        check = self._check
        hit = check.lookup(request)
        in_flight = check.groups_in_flight(hit)
        if in_flight:
            verdict = self._judge(request, hit, in_flight)
            if verdict.outcome == "blocked":
                return verdict
        elif self._fragmentation:
            verdict = self._avoid_cut(request, hit)
            if verdict is not None:
                return verdict
        return Verdict("ready", hit)

    def _judge(self, request: Request, hit: Hit, in_flight: list[int]) -> Verdict:
        scheduler = self._scheduler
        return self._check.judge(
            request,
            hit,
            scheduler.budget,
            free_blocks=scheduler.kv_cache_manager.block_pool.get_num_free_blocks(),
            in_flight=in_flight,
            has_scheduled=bool(scheduler.running),
        )

    # -- fragmentation -------------------------------------------------------------------------------

    def _avoid_cut(self, request: Request, hit: Hit) -> Verdict | None:
        """Put `request` aside where the tokens left would cut its next aligned segment and another fits.

        Looking ahead before passing over it is the same as coming back to it when none fits.
        """
        if self._fitting is not None and self._fitting[0] is request:
            self._fitting = None
        if not self._would_be_cut(request, hit) or not self._another_fits(request):
            return None
        return self._check.cut_short(hit, "fragmented", self._scheduler.budget, [])

    def _another_fits(self, request: Request) -> bool:
        scheduler = self._scheduler
        # Putting a request aside changes nothing, so the one that fitted a visit ago still does.
        now = (scheduler.sched_step_seq, scheduler.budget.tokens, scheduler.budget.input)
        if self._fitting is not None and self._fitting[1] == now:
            return True
        other = next((other for other in self._later_than(request) if self._fits_uncut(other)), None)
        self._fitting = (other, now) if other is not None else None
        return other is not None

    def _would_be_cut(self, request: Request, hit: Hit) -> bool:
        scheduler = self._scheduler
        whole, _ = self._check.chunk(request, hit, self._fresh_budget())
        now, _ = self._check.chunk(request, hit, scheduler.budget)
        return now < whole

    def _fresh_budget(self) -> Budget:
        scheduler = self._scheduler
        return Budget(
            scheduler.max_num_scheduled_tokens,
            scheduler.scheduler_config.max_num_batched_tokens,
            scheduler.budget.draft_slots,
        )

    def _fits_uncut(self, request: Request) -> bool:
        if request.status not in _VISITABLE or request.num_computed_tokens > 0 or request.has_encoder_inputs:
            return False
        if self._surely_cut(request):
            return False
        hit = self._check.lookup(request)
        if self._would_be_cut(request, hit):
            return False
        return self._judge(request, hit, self._check.groups_in_flight(hit)).outcome == "ready"

    def _surely_cut(self, request: Request) -> bool:
        """Whether it would be cut, told without a look-up; False where only a look-up can tell.

        A queue is thousands long, and nearly all of it is too large: its first segment, without a hit, ends at
        the last block boundary or before, and there is no hit where the first block isn't cached.
        """
        scheduler = self._scheduler
        if scheduler.num_spec_tokens or scheduler.hash_block_size != scheduler.block_size:
            return False
        longest = scheduler.scheduler_config.long_prefill_token_threshold or scheduler.max_num_scheduled_tokens
        segment = min(request.num_tokens, longest, scheduler.max_num_scheduled_tokens)
        if segment >= scheduler.block_size:
            segment -= segment % scheduler.block_size
        if segment <= scheduler.budget.for_request:
            return False
        hashes = request.block_hashes
        return not hashes or self._pool.get_cached_block(hashes[0], [0]) is None

    def _later_than(self, request: Request) -> list[Request]:
        """Requests that the scan will still reach; those it passed over are no longer in the queues."""
        scheduler = self._scheduler
        queues = (scheduler.skipped_waiting, scheduler.waiting)
        return [other for queue in queues for other in queue if other is not request]

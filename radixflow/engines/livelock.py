"""A run that goes in circles: requests are admitted, computed, preempted, and all is as it was.

vLLM admits a request whose next chunk fits, even where a later one won't; short of blocks, the request then preempts
itself and begins anew. No round stalls, and nothing is gained. Scheduling is deterministic, so a state that comes back
with nothing still to arrive comes back for ever.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any


class Livelock:
    """Watches one scheduler. Only a preemption takes progress back, so only rounds that preempted are looked at."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._outlines: set[int] = set()
        self._states: set[int] = set()

    def progressed(self) -> None:
        """A token was made, somebody came or left: no earlier state can come back."""
        self._outlines.clear()
        self._states.clear()

    def caught(self, in_flight: Iterable[Hashable] = ()) -> bool:
        """Whether the state after a round that preempted was there before; `in_flight` are the steps not yet done."""
        outline = hash((tuple(in_flight), self._requests()))
        if outline not in self._outlines:  # the cheap half differs, so the pool needn't be read
            self._outlines.add(outline)
            return False
        state = hash((outline, self._pool()))
        if state in self._states:
            return True
        self._states.add(state)
        return False

    def _requests(self) -> Hashable:
        scheduler = self._scheduler
        queues = (scheduler.running, scheduler.skipped_waiting, scheduler.waiting)
        return tuple(
            tuple((r.request_id, r.num_computed_tokens, r.num_tokens_with_spec) for r in queue) for queue in queues
        )

    def _pool(self) -> Hashable:
        """What every block holds, in the order in which the pool would hand them out; block numbers don't matter."""
        manager = self._scheduler.kv_cache_manager
        free = tuple(block.block_hash for block in manager.block_pool.free_block_queue.get_all_free_blocks())
        held = tuple(
            tuple((request_id, tuple(block.block_hash for block in blocks)) for request_id, blocks in sorted(table))
            for table in (group.req_to_blocks.items() for group in manager.coordinator.single_type_managers)
        )
        return free, held

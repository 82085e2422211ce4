"""When a workload's requests come: by clock, by round, or when another has ended."""

from __future__ import annotations

import heapq

from radixflow.workloads import Workload, WorkloadRequest

SECOND = 1_000_000_000
"""Nanoseconds."""


class Arrivals:
    """What has not been handed to the scheduler yet, by what it waits for."""

    def __init__(self, workload: Workload) -> None:
        requests = workload.requests
        # Two clocks can't run at once: beside `after_round`, a time only orders, as vLLM's queue does.
        by_round = any(request.after_round is not None for request in requests)
        self._timed: list[tuple[int, int]] = []
        self._by_round: list[tuple[int, int]] = []
        self._after: dict[str, list[int]] = {}
        self._aborts: dict[int, list[str]] = {}
        self._abort_rounds = {r.id: r.abort_after_round for r in requests if r.abort_after_round is not None}
        self._requests = requests
        self._left = len(requests)
        self._cancelled: set[str] = set()
        for request_id, abort_round in self._abort_rounds.items():
            self._aborts.setdefault(abort_round, []).append(request_id)
        for k, request in enumerate(requests):
            if request.after is not None:
                self._after.setdefault(request.after, []).append(k)
            elif request.after_round is not None:
                heapq.heappush(self._by_round, (request.after_round, k))
            else:
                time = 0 if by_round else round((request.arrival or 0.0) * SECOND)
                heapq.heappush(self._timed, (time, k))
        self.aborts(0)

    def __len__(self) -> int:
        return self._left

    def due(self, now: int, rounds: int) -> bool:
        return bool(
            (self._timed and self._timed[0][0] <= now) or (self._by_round and self._by_round[0][0] <= rounds)
        )

    def take(self, now: int, rounds: int) -> list[WorkloadRequest]:
        """Those that arrive by now, in the workload's order among equals."""
        taken = []
        while self._timed and self._timed[0][0] <= now:
            taken.append(heapq.heappop(self._timed)[1])
        by_round = []
        while self._by_round and self._by_round[0][0] <= rounds:
            by_round.append(heapq.heappop(self._by_round)[1])
        taken += sorted(by_round)
        self._left -= len(taken)
        return [self._requests[k] for k in taken if self._requests[k].id not in self._cancelled]

    def finished(self, request_id: str) -> None:
        """It left, however it ended: those that wait for it come, and nobody can give it up any more."""
        abort_round = self._abort_rounds.pop(request_id, None)
        if abort_round in self._aborts:
            self._aborts[abort_round].remove(request_id)
            if not self._aborts[abort_round]:
                del self._aborts[abort_round]
        for k in self._after.pop(request_id, ()):
            heapq.heappush(self._by_round, (0, k))

    def aborts(self, rounds: int) -> list[str]:
        """Requests that the client gives up after this round; one that never arrived won't."""
        doomed = self._aborts.pop(rounds, [])
        self._cancelled.update(doomed)
        for request_id in doomed:
            self.finished(request_id)
        return doomed

    def to_come(self) -> bool:
        """Whether anything is still to come from outside: somebody by clock or round, or a client giving up."""
        return bool(self._timed or self._by_round or self._aborts)

    def next_time(self) -> int | None:
        return self._timed[0][0] if self._timed else None

    def waits_for_rounds(self) -> bool:
        return bool(self._by_round)

    def skip_to_next_round(self, rounds: int) -> bool:
        """Nobody is there to make rounds pass, so the next that waits for one comes now."""
        if not self._by_round:
            return False
        first = self._by_round[0][0]
        self._by_round = [(min(k, rounds) if k == first else k, index) for k, index in self._by_round]
        heapq.heapify(self._by_round)
        return True

"""Admission: hold arrivals for a few milliseconds so that a round starts full (CONTRACT 1).

Held requests live outside vLLM's queues, so they can't delay parked, preempted or running ones.
Nobody is held twice, and a release frees all that are held.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from radixflow.scheduling.policies import AdmissionRule


@dataclass(frozen=True, slots=True)
class Release:
    """All held requests enter the queue, in the order in which they arrived."""

    begin_ns: int
    end_ns: int
    reason: str
    """`deadline`, `work`, `rows`, `tokens`, `abort` or `fault`."""
    requests: list[Any]


@dataclass(frozen=True, slots=True)
class WorkerState:
    """What early release looks at; all of it is cheap to know but the demand, so that is asked last."""

    has_work: bool
    """A request is running, or a released one still waits (our reading of "running work")."""
    free_rows: int
    token_budget: int
    token_demand: Callable[[list[Any]], int]
    """Tokens that the given requests would still need, with today's cache hits."""


class Admission:
    """The held requests of one scheduler, and the rule that releases them."""

    def __init__(self, rule: AdmissionRule) -> None:
        self.rule = rule
        self._held: dict[str, tuple[Any, int]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._held

    @property
    def held_ids(self) -> list[str]:
        return list(self._held)

    @property
    def deadline_ns(self) -> int | None:
        """When the held requests are released at the latest; None where nobody is held."""
        if not self._held:
            return None
        _, since = next(iter(self._held.values()))
        return since + self.rule.deadline_ns

    def hold(self, request: Any, now: int) -> None:
        self._held[request.request_id] = (request, now)

    def due(self, now: int, worker: WorkerState) -> str | None:
        """Why the held requests should be released now, or None to go on holding."""
        if not self._held:
            return None
        if now >= (self.deadline_ns or 0):
            return "deadline"
        if not self.rule.early_release:
            return None
        if worker.has_work:
            return "work"
        if len(self._held) >= worker.free_rows:
            return "rows"
        if worker.token_demand([request for request, _ in self._held.values()]) >= worker.token_budget:
            return "tokens"
        return None

    def release(self, now: int, reason: str) -> Release:
        """Free all that are held."""
        requests = [request for request, _ in self._held.values()]
        begin = next(iter(self._held.values()))[1]
        self._held.clear()
        return Release(begin, now, reason, requests)

    def withdraw(self, request_id: str, now: int) -> Release:
        """One of them leaves alone (it was aborted); the others stay held."""
        request, since = self._held.pop(request_id)
        return Release(since, now, "abort", [request])

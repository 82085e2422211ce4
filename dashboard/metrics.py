"""Prometheus counters of waits and slots by cause, for the runs that are being followed or shown.

    radixflow_slots_total{trace, policy, cause}                 row slots of rounds with a token
    radixflow_wait_rounds_total{trace, policy, cause}           rounds that requests waited
    radixflow_wait_seconds_total{trace, policy, cause}          seconds that requests waited
    radixflow_rounds_total{trace, policy}                       rounds, stalled ones included
    radixflow_scheduled_tokens_total{trace, policy}             tokens scheduled
    radixflow_requests{trace, policy, state}                    requests by state: arrived, finished
    radixflow_trace_complete{trace, policy}                     1 where the run's end was read

`cause` is one of CONTRACT's closed lists; `trace` is the key that links carry. docs/dashboard.md explains
each.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from radixflow.analysis.slots import slots
from radixflow.analysis.waits import Ledger, waits_by_cause
from radixflow.trace import Trace, TraceError

from .library import Library, Open, UnknownTrace

MAX_EXPORTED = 8
"""Traces in one answer: those listed first that aren't complete, then the others."""


PATIENCE = 8.0
"""Seconds that an answer waits for counts: Prometheus gives up after ten."""

REST = 10
QUICK_SECONDS = 0.5
"""A count that takes no longer is made whenever it is asked for."""


@dataclass(frozen=True, slots=True)
class _Count:
    version: int
    again: float
    """Not before this moment (of the monotonic clock)."""
    numbers: dict[str, Any]


class Causes(Collector):
    """Reads what the traces say at the moment they are asked."""

    def __init__(self, library: Library):
        self._library = library
        self._known: weakref.WeakKeyDictionary[Trace, _Count] = weakref.WeakKeyDictionary()
        self._counting: dict[str, threading.Thread] = {}
        self._lock = threading.Lock()

    def describe(self) -> list[Metric]:
        return []

    def _counted(self, opened: Open, until: float) -> dict[str, Any] | None:
        """What a trace says, or said when it was last counted; None where its first count isn't done `until` then.

        It is counted again only after a rest of ten times what the last count took: a run of days must not be
        summed up all the time."""
        known = self._known.get(opened.trace)
        now = monotonic()
        if known is None or (known.version != opened.version and now >= known.again):
            self._count(opened).join(max(0.0, until - now))
            known = self._known.get(opened.trace)
        return known.numbers if known is not None else None

    def _count(self, opened: Open) -> threading.Thread:
        """The thread that counts a trace, started where there is none."""
        with self._lock:
            thread = self._counting.get(opened.key)
            if thread is None or not thread.is_alive():
                thread = threading.Thread(target=self._make, args=(opened,), daemon=True)
                self._counting[opened.key] = thread
                thread.start()
        return thread

    def _make(self, opened: Open) -> None:
        worked = opened.for_long()
        with worked.lock:
            began = monotonic()
            version, trace = opened.version, opened.trace
            numbers = _numbers(worked.trace, worked.ledger if worked.holds("ledger") else Ledger(worked.trace))
        now = monotonic()
        again = now + REST * (now - began) if now - began > QUICK_SECONDS else now
        self._known[trace] = _Count(version, again, numbers)

    def _busy(self, opened: Open) -> bool:
        with self._lock:
            thread = self._counting.get(opened.key)
        return thread is not None and thread.is_alive()

    def collect(self) -> Iterator[Metric]:
        labels = ["trace", "policy"]
        by_cause = [*labels, "cause"]
        slot = CounterMetricFamily("radixflow_slots", "Row slots of rounds with a token, by cause", labels=by_cause)
        rounds = CounterMetricFamily("radixflow_wait_rounds", "Rounds that requests waited, by cause", labels=by_cause)
        time = CounterMetricFamily("radixflow_wait_seconds", "Seconds that requests waited, by cause", labels=by_cause)
        total = CounterMetricFamily("radixflow_rounds", "Rounds, stalled ones included", labels=labels)
        tokens = CounterMetricFamily("radixflow_scheduled_tokens", "Tokens scheduled", labels=labels)
        requests = GaugeMetricFamily("radixflow_requests", "Requests by state", labels=[*labels, "state"])
        complete = GaugeMetricFamily("radixflow_trace_complete", "1 where the run's end was read", labels=labels)
        until = monotonic() + PATIENCE
        for described in self._library.list()[:MAX_EXPORTED]:
            who = [described["key"], described["policy"]]
            try:
                opened = self._library.open(described["key"])
                if not self._busy(opened):
                    opened.update()
                numbers = self._counted(opened, until)
            except (TraceError, UnknownTrace, OSError):
                continue
            if numbers is None:
                continue  # a long trace: in one of the next answers
            for cause, count in numbers["slots"].items():
                slot.add_metric([*who, cause], count)
            for cause, (count, seconds) in numbers["waits"].items():
                rounds.add_metric([*who, cause], count)
                time.add_metric([*who, cause], seconds)
            total.add_metric(who, numbers["rounds"])
            tokens.add_metric(who, numbers["tokens"])
            for state, count in numbers["requests"].items():
                requests.add_metric([*who, state], count)
            complete.add_metric(who, numbers["complete"])
        yield from (slot, rounds, time, total, tokens, requests, complete)


def _numbers(trace: Any, ledger: Ledger) -> dict[str, Any]:
    waited = waits_by_cause(trace, ledger)
    requests = trace.requests
    return {
        "slots": {cause: int(count) for cause, count in slots(trace).totals.items()},
        "waits": {cause: (int(row["rounds"]), float(row["seconds"])) for cause, row in waited.iterrows()},
        "rounds": int(trace.rounds["repeat"].sum()),
        "tokens": int(trace.rounds["tokens"].sum()),
        "requests": {"arrived": len(requests), "finished": int(requests["finish_reason"].notna().sum())},
        "complete": int(trace.complete),
    }


def registry(library: Library) -> CollectorRegistry:
    """A registry of its own, so that two apps in one process don't mix."""
    own = CollectorRegistry()
    own.register(Causes(library))
    return own

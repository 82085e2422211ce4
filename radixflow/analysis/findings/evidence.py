"""What the finders look at: a trace, and what is derived from it once for all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd

from radixflow.analysis.findings.lookups import Lookup, lookups
from radixflow.analysis.findings.ways import Ways
from radixflow.analysis.waits import Ledger


@dataclass(slots=True)
class Overlooked:
    """Requests that the native check would have accepted in a round whose scan stopped before them."""

    culprit: int
    """The request at which it stopped."""
    cause: str
    """Why, as recorded."""
    round: int
    requests: list[int]


@dataclass(slots=True)
class Seen:
    """What one pass over the rounds collects for the finders."""

    overlooked: list[Overlooked] = field(default_factory=list)
    stalls: list[tuple[int, int, str | None, int | None]] = field(default_factory=list)
    """`(first round, last round, stop's or closure's cause, stopper)` of each recorded stall."""

    def see(self, view) -> None:
        """Take one round (`RoundView`)."""
        stop, probe = view.stop, view.probe
        if stop is not None and stop.i is not None and probe is not None and probe.avoidable:
            unreached = set(view.unexamined)
            passed = [i for i in probe.avoidable if i in unreached]
            if passed:
                self.overlooked.append(Overlooked(stop.i, stop.cause, view.n, passed))
        if view.stalled:
            cause = stop.cause if stop is not None else view.closed
            self.stalls.append((view.n, view.n + view.repeat - 1, cause, stop.i if stop else None))


class Evidence:
    """One trace as the finders see it. `seen` is filled by `check`'s single pass over the rounds."""

    def __init__(self, trace):
        self.trace = trace
        self.config = trace.config
        self.ways = Ways(trace)
        self.seen = Seen()

    @cached_property
    def ledger(self) -> Ledger:
        """Every wait of the trace."""
        return Ledger(self.trace)

    @cached_property
    def refusals(self) -> pd.DataFrame:
        """One row a refused visit."""
        return self.trace.refusals

    @cached_property
    def lookups(self) -> list[Lookup]:
        """One for each first admission, in order: what the cache had, and what it could have had."""
        return lookups(self.trace, self.ways, self.queued_from)

    def queued_from(self, i: int) -> int | None:
        """The first round whose scan could have reached request i; None where none did."""
        period = self.ledger.first_wait(i)
        line = self.ledger.timeline
        return int(line.first[period.enter]) if period.enter < len(line.first) else None

    def names(self, requests: Iterable[int]) -> list[str]:
        """Ids in order of arrival, each once."""
        return [self.trace.ids[i] for i in sorted(set(requests))]

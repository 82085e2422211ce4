"""What the probe of a round's free slots must not find."""

from __future__ import annotations

from radixflow.analysis.properties.property import Tally
from radixflow.analysis.prose import counted

_FULL = ("rows", "tokens")


class NoAvoidableBubble(Tally):
    """A case is a probed round whose scan no Other ended: it reached the queue's end, filled the rows, spent
    the budget, or (native scheduling) stopped at a Blocked request. Then no slot of it is avoidable.
    State-ready traversal promises this; a native scan breaks it wherever it stops at a pending state in front
    of others."""

    name = "no_avoidable_bubble_without_other"
    promise = (
        "no row stays free that a waiting request could have used, unless an Other ended the scan; "
        "native scheduling makes no such promise"
    )

    def __init__(self, evidence):
        super().__init__(evidence)
        self._ids = evidence.trace.ids

    def see(self, view) -> None:
        stop, probe = view.stop, view.probe
        if probe is None or view.closed in ("preemption", "paused"):
            return
        if stop is not None and stop.cause != "blocked" and (stop.i is not None or stop.cause not in _FULL):
            return
        self._checked += 1
        if probe.avoidable:
            names = [self._ids[i] for i in probe.avoidable]
            where = (
                f", whose scan stopped at {self._ids[stop.i]} ({stop.cause}),"
                if stop and stop.i is not None
                else ""
            )
            self._breaks(
                f"round {view.n}{where} could have taken {counted(len(names), 'more request')}",
                round=view.n,
                avoidable=names,
                stopped_by=self._ids[stop.i] if stop and stop.i is not None else None,
            )


class Monotonicity(Tally):
    """The paper's assumption that a larger batch never makes another request Ready. A case is a request that
    a round refused against the batch built so far, and that the probe asked again against the final, larger
    one. Deferred requests and those put aside to avoid fragmentation are no cases: they weren't refused for
    the batch."""

    name = "monotonicity"
    promise = "a larger batch makes no other request ready: an assumption of the paper"

    def __init__(self, evidence):
        super().__init__(evidence)
        self._ids = evidence.trace.ids

    def see(self, view) -> None:
        probe = view.probe
        if probe is None or not (view.blocked or view.other):
            return
        refused = {blocked.i: "blocked" for blocked in view.blocked}
        refused.update((o.i, o.cause) for o in view.other if o.cause not in ("deferred", "fragmented"))
        ready = set(probe.avoidable)
        self._checked += sum(i in refused for i in probe.avoidable) + sum(
            i in refused for i, _ in probe.others
        )
        for i, cause in refused.items():
            if i in ready:
                self._breaks(
                    f"round {view.n} refused {self._ids[i]} ({cause}), but it was Ready against the final "
                    "batch",
                    round=view.n,
                    request=self._ids[i],
                    cause=cause,
                )

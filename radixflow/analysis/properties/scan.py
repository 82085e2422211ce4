"""What the scan of the waiting queue must have done: its order, and no less than the native scan."""

from __future__ import annotations

from radixflow.analysis.properties.property import Tally


class NativeOrder(Tally):
    """A case is a round that visited the waiting queue. Those visited (selected, passed over, or the one that
    stopped the scan) are exactly the front of the queue, in the queue's order; those selected from it stand
    last in the batch, in that order."""

    name = "native_order"
    promise = "nobody is visited out of the queue's order"

    def __init__(self, evidence):
        super().__init__(evidence)
        self._ids = evidence.trace.ids

    def see(self, view) -> None:
        admitted, passed = view.admitted, view.order
        if view.closed is not None or not view.certain or not (admitted or passed):
            return
        self._checked += 1
        if [i for i, _ in view.selected[len(view.selected) - len(admitted) :]] != admitted:
            self._breaks(
                f"in round {view.n} those selected from the queue do not stand last in the batch, in that "
                "order",
                round=view.n,
                selected=[self._ids[i] for i, _ in view.selected],
                admitted=[self._ids[i] for i in admitted],
            )
        took = skipped = 0
        for i in view.queue[: len(admitted) + len(passed)]:
            if took < len(admitted) and admitted[took] == i:
                took += 1
            elif skipped < len(passed) and passed[skipped] == i:
                skipped += 1
            else:
                self._breaks(
                    f"round {view.n} visited others before {self._ids[i]}, which stands ahead of them in the "
                    "queue",
                    round=view.n,
                    request=self._ids[i],
                    admitted=[self._ids[j] for j in admitted],
                )
                return


class ContainsNative(Tally):
    """A case is a round that entered a queue with somebody in it, rounds that put a request aside to avoid
    fragmentation left out (that extension deliberately departs from the native batch).

    The native scan selects from the front of the queue until its first refusal. So the batch contains the
    native one exactly if everybody ahead of the first refusal was selected, or passed over as the native scan
    does (deferred), and nothing ended the scan earlier than a refusal, a full batch or a spent budget.
    Requests ahead of it saw the same budget and memory as natively, so their tokens are the native ones too.
    """

    name = "contains_native"
    promise = "each round takes all that native scheduling would have taken from the same queue"

    def __init__(self, evidence):
        super().__init__(evidence)
        self._ids = evidence.trace.ids

    def see(self, view) -> None:
        if view.closed is not None or not view.queue or not view.certain:
            return
        natively_passed = {other.i for other in view.other if other.cause == "deferred"}
        refused = {blocked.i for blocked in view.blocked}
        refused.update(other.i for other in view.other if other.cause != "deferred")
        if any(other.cause == "fragmented" for other in view.other):
            return
        self._checked += 1
        admitted = set(view.admitted)
        for i in view.queue:
            if i in admitted or i in natively_passed:
                continue
            full = view.stop is not None and view.stop.i is None
            if i in refused or full or view.stop is not None and view.stop.i == i:
                return
            self._breaks(
                f"round {view.n} left out {self._ids[i]}, which the native scan would have visited before "
                "any refusal",
                round=view.n,
                request=self._ids[i],
                selected=[self._ids[j] for j, _ in view.selected],
            )
            return

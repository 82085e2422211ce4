"""Published state is committed before it is read."""

from __future__ import annotations

from radixflow.analysis.findings.publication import reads, uncommitted
from radixflow.analysis.places import CacheHistory
from radixflow.analysis.properties.property import Property, Tally


class CommittedBeforeRead(Tally):
    """A case is an admission that resumed from the prefix cache and whose entries at that boundary the trace saw
    published. Each recurrent (or sliding-window) group's state there was published in an earlier round, full
    attention's block in this round at the latest; none had been evicted since; and its publisher computed it."""

    name = "committed_before_read"

    def __init__(self, evidence):
        super().__init__(evidence)
        self._trace = evidence.trace

    def result(self) -> Property:
        trace = self._trace
        admissions = trace.admissions
        resumed = admissions[(admissions["ready"] > 0) & (admissions["external"] == 0)]
        cases = list(zip(*(resumed[name].tolist() for name in ("round", "i", "ready")), strict=True))
        history = CacheHistory(trace, {(i, ready) for _, i, ready in cases})
        full = {group.index for group in trace.config.groups if group.kind == "full_attention"}
        for n, i, ready in cases:
            events = history.of(i, ready)
            if not events:
                continue
            self._checked += 1
            for group, own in events.items():
                self._entry(n, i, ready, group, own, n if group in full else n - 1)
        for read in reads(trace, uncommitted(trace)):
            name, publisher = trace.ids[read.reader], trace.ids[read.source.i]
            self._breaks(
                f"{name} resumed in round {read.round} from {read.depth} tokens that {publisher} published in round "
                f"{read.source.round} and never computed",
                round=read.round,
                request=name,
                publisher=publisher,
                boundary=read.depth,
                group=read.source.group,
            )
        return super().result()

    def _entry(self, n: int, i: int, ready: int, group: int, events, latest: int) -> None:
        before = [e for e in events if e.round <= (latest if e.event == "published" else n - 1)]
        if before and before[-1].event == "published":
            return
        when = next((e.round for e in events if e.event == "published" and e.round >= n), None)
        was = f"published only in round {when}" if when is not None else "evicted by then"
        self._breaks(
            f"{self._trace.ids[i]} resumed in round {n} from {ready} tokens, but group {group}'s entry there was {was}",
            round=n,
            request=self._trace.ids[i],
            boundary=ready,
            group=group,
        )

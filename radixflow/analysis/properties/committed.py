"""Published state is committed before it is read."""

from __future__ import annotations

from radixflow.analysis.findings.fates import Fates
from radixflow.analysis.findings.publication import reads, uncommitted
from radixflow.analysis.properties.property import Property, Tally


class CommittedBeforeRead(Tally):
    """A case is an admission that resumed from the prefix cache and whose entries at that boundary the trace
    saw published. Each recurrent (or sliding-window) group's state there was published in an earlier round,
    full attention's block in this round at the latest; none had been evicted since; and its publisher
    computed it."""

    name = "committed_before_read"
    promise = "no state is read before it was written"

    def __init__(self, evidence):
        super().__init__(evidence)
        self._evidence = evidence

    def result(self) -> Property:
        trace, ways = self._evidence.trace, self._evidence.ways
        admissions = trace.admissions
        resumed = admissions[(admissions["ready"] > 0) & (admissions["external"] == 0)]
        cases = list(zip(*(resumed[name].tolist() for name in ("round", "i", "ready")), strict=True))
        fates = Fates(trace, ways, [ways.of(i).at(ready) for _, i, ready in cases])
        for n, i, ready in cases:
            self._checked += self._case(fates, n, i, ready)
        for read in reads(trace, ways, uncommitted(trace)):
            name, publisher = trace.ids[read.reader], trace.ids[read.source.i]
            self._breaks(
                f"{name} resumed in round {read.round} from {read.depth:,} tokens that {publisher} published "
                f"in round {read.source.round} and never computed",
                round=read.round,
                request=name,
                publisher=publisher,
                boundary=read.depth,
                group=read.source.group,
            )
        return super().result()

    def _case(self, fates: Fates, n: int, i: int, ready: int) -> bool:
        """Whether the trace knows the entries that round n's admission of request i resumed from."""
        known = False
        for group in fates.groups.values():
            last, later = fates.last(i, ready, group.index, n), fates.published_in(i, ready, group.index, n)
            if last is None and later is None:
                continue  # published before the trace began, or in a gap
            known = True
            if last is not None and last.event == "published":
                continue
            if later is not None and later.round == n and group.kind == "full_attention":
                continue
            was = f"{last.event} in round {last.round}" if last else f"published only in round {later.round}"
            name = self._evidence.trace.ids[i]
            self._breaks(
                f"{name} resumed in round {n} from {ready:,} tokens, but group {group.index}'s entry there was "
                f"{was}",
                round=n,
                request=name,
                boundary=ready,
                group=group.index,
            )
        return known

"""The accounts come out."""

from __future__ import annotations

from radixflow.analysis.properties.property import Property, Tally
from radixflow.analysis.reuse import served_tokens
from radixflow.analysis.slots import slots
from radixflow.analysis.waits import AccountingError


class Sums(Tally):
    """A case is a round, a wait, or a request's first admission. A round's slots add up to S; a wait's
    stretches cover it without hole or overlap; prompt tokens = reused + forgone + fresh, none of them
    negative."""

    name = "sums"
    promise = "slots, waits and reuse add up exactly"

    def __init__(self, evidence):
        super().__init__(evidence)
        self._evidence = evidence

    def result(self) -> Property:
        trace = self._evidence.trace
        books = slots(trace)
        self._checked = len(books.rounds)
        if len(books.faults):
            fault = books.faults.iloc[0]
            n = int(fault["round"])
            self._breaks(f"round {n}: {fault['what']}", round=n, sum=int(fault["sum"]), slots=int(fault["S"]))
        try:
            ledger = self._evidence.ledger
            ledger.totals()
            self._checked += len(ledger.periods)
        except AccountingError as error:
            self._breaks(str(error))
        served, prompt = served_tokens(trace)
        first = trace.admissions[~trace.admissions["again"].astype(bool)]
        self._checked += len(first)
        short = first[(first["ready"] < 0) | (first["matched"] < first["ready"])]
        if len(short) or not 0 <= served <= prompt:
            row = (short if len(short) else first).iloc[0]
            name = trace.ids[int(row["i"])]
            self._breaks(
                f"{name} resumed from {row['ready']:,} tokens and matched {row['matched']:,}",
                request=name,
                round=int(row["round"]),
            )
        return super().result()

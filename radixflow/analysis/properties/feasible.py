"""Every batch keeps the budgets."""

from __future__ import annotations

import numpy as np

from radixflow.analysis.properties.property import Property, Tally


class Feasible(Tally):
    """A case is a round: rows (resident ones included) <= S, tokens <= T, every share of them positive, no
    request twice, and 0 <= free blocks <= usable blocks of the pool."""

    name = "feasible"
    promise = "no round exceeds its rows, its tokens or the pool"

    def __init__(self, evidence):
        super().__init__(evidence)
        self._trace = evidence.trace

    def result(self) -> Property:
        trace, config = self._trace, self._trace.config
        rounds, visits = trace.rounds, trace.visits
        self._checked = len(rounds)
        taken = (rounds["rows"] + rounds["resident"]).to_numpy(np.int64)
        tokens, free = rounds["tokens"].to_numpy(np.int64), rounds["free_blocks"].to_numpy(np.int64)
        usable = config.num_blocks - 1
        self._first(taken > config.max_num_seqs, "{:,} rows, the row budget is {:,}", taken, config.max_num_seqs)
        self._first(
            tokens > config.max_num_batched_tokens,
            "{:,} tokens, the token budget is {:,}",
            tokens,
            config.max_num_batched_tokens,
        )
        self._first((free < 0) | (free > usable), "{:,} free blocks of {:,} usable ones", free, usable)
        self._visits(visits)
        return super().result()

    def _first(self, broken: np.ndarray, what: str, values: np.ndarray, limit: int) -> None:
        at = np.flatnonzero(broken)
        if len(at):
            k = int(at[0])
            n = int(self._trace.rounds.index[k])
            self._breaks(
                f"round {n} has {what.format(values[k], limit)}", round=n, value=int(values[k]), limit=limit
            )

    def _visits(self, visits) -> None:
        empty = np.flatnonzero(visits["tokens"].to_numpy() <= 0)
        if len(empty):
            row = visits.iloc[int(empty[0])]
            n, name, tokens = int(row["round"]), str(row["request"]), int(row["tokens"])
            self._breaks(f"round {n} gives {name} {tokens:,} tokens", round=n, request=name, value=tokens)
        n, i = visits["round"].to_numpy(np.int64), visits["i"].to_numpy(np.int64)
        order = np.lexsort((i, n))
        twice = np.flatnonzero((np.diff(n[order]) == 0) & (np.diff(i[order]) == 0))
        if len(twice):
            k = int(order[twice[0]])
            name = self._trace.ids[int(i[k])]
            self._breaks(f"round {n[k]} selects {name} twice", round=int(n[k]), request=name)

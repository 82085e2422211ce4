"""How many tokens of each request had been computed after so many row visits."""

from __future__ import annotations

import numpy as np

from radixflow.trace.store import Store

SNAPSHOT_EVERY = 1 << 18


class ComputedTokens:
    """The furthest token that each request ever reached, found cached or computed, by row of
    `Store.requests`.

    visits: `frames.visit_columns`.
    """

    def __init__(self, store: Store, visits: dict[str, np.ndarray]):
        rows = np.full(len(store.ids) + 1, len(store.requests))
        rows[list(store.row_of)] = list(store.row_of.values())
        self._row = rows[visits["i"]]
        self._reached = visits["start"] + visits["tokens"]
        self._snapshots = [np.zeros(len(store.requests) + 1, np.int32)]

    def at(self, visits: int) -> np.ndarray:
        """After the first so many row visits."""
        place = min(visits // SNAPSHOT_EVERY, len(self._snapshots) - 1)
        computed = self._snapshots[place].copy()
        done = place * SNAPSHOT_EVERY
        while done < visits:
            until = min(done + SNAPSHOT_EVERY, visits)
            np.maximum.at(computed, self._row[done:until], self._reached[done:until])
            done = until
            if done == len(self._snapshots) * SNAPSHOT_EVERY:
                self._snapshots.append(computed.copy())
        return computed[:-1]

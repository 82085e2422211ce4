"""A trace's rounds as stretches of time without holes, each with the cause it has for those not reached.

    schedule() of round 7      8            9    (10, 11 dropped)      12            end of the trace
               |---------------|------------|---------~~~~~~~~~~~~~~~~~|-------------|
                   round 7         round 8    round 9      unrecorded      round 12

A round's stretch runs from its `schedule()` to the next one's. Where rounds were dropped, the last
recorded round covers what is known of it (to the moment its answer arrived) and the hole the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from radixflow.analysis.causes import WAIT_CODE, wait_cause


@dataclass(frozen=True, slots=True)
class Timeline:
    """Stretches in order; L of them. A stalled round that came again unchanged is one stretch."""

    first: np.ndarray
    """int64[L]: number of the stretch's first round."""
    last: np.ndarray
    """int64[L]: number of its last round."""
    t: np.ndarray
    """int64[L + 1]: begin of each, nanoseconds; the last entry is the end of the trace."""
    scanned: np.ndarray
    """int64[L]: `schedule()`'s return of each; of a hole, its end."""
    cause: np.ndarray
    """int8[L]: why a waiting request was not selected that this round's record doesn't name; a code of
    `WAIT_CAUSES`. `unrecorded` for a hole, and for a round whose scan reached the queue's end, since
    such a round names everybody."""
    culprit: np.ndarray
    """int32[L]: the request that stopped the scan; -1 where none did, or where its record is missing."""
    culprit_cause: np.ndarray
    """int8[L]: the culprit's own cause; -1 where there is no culprit."""
    why: np.ndarray
    """object[L]: `Round.closed` where the queue was not entered, else None."""
    recorded: np.ndarray
    """bool[L]: False for a hole."""

    @property
    def counts(self) -> np.ndarray:
        """int64[L]: rounds that each stretch stands for."""
        return self.last - self.first + 1

    def at_round(self, n: int) -> int:
        """Index of the stretch that holds round n (the next one where n was never reached)."""
        return int(np.searchsorted(self.last, n))

    def released(self, t: int) -> int:
        """Index of the stretch whose scan is the first to see what admission released at time t. A release
        happens inside the `schedule()` call of the round that follows it, so t may lie within that call."""
        k = int(np.searchsorted(self.scanned, t))
        return k + 1 if k < len(self.first) and not self.recorded[k] and t >= self.t[k + 1] else k

    @classmethod
    def of(cls, trace) -> Timeline:
        """The trace's timeline, in O(rounds)."""
        rounds = trace.rounds
        first = rounds.index.to_numpy(np.int64)
        repeat = rounds["repeat"].to_numpy(np.int64)
        t = rounds["t"].to_numpy(np.int64)
        scanned = t + rounds["schedule_ns"].to_numpy(np.int64)
        answered = scanned + rounds["host_ns"].fillna(0).to_numpy(np.int64)
        last = first + repeat - 1
        end = last_moment(trace)
        cause, culprit, culprit_cause = _defaults(trace, rounds)
        columns = [first, last, t, scanned, cause, culprit, culprit_cause]
        columns += [rounds["closed"].astype(object).where(rounds["closed"].notna(), None).to_numpy()]
        columns += [np.ones(len(first), dtype=bool)]
        begin = int(trace.requests["t"].min()) if len(trace.requests) else end
        holes = _holes(first, last, t, answered, trace.num_rounds, begin, end)
        if holes:
            columns = [np.append(column, extra) for column, extra in zip(columns, holes, strict=True)]
            order = np.argsort(columns[0], kind="stable")
            columns = [column[order] for column in columns]
        columns[2] = np.append(columns[2], end)
        return cls(*columns)


def last_moment(trace) -> int:
    """The last moment that the trace knows of, in nanoseconds: `end`, or the last thing recorded."""
    if trace.end is not None:
        return trace.end.t
    rounds, requests = trace.rounds, trace.requests
    known = [0]
    if len(rounds):
        parts = rounds[["t", "schedule_ns", "host_ns"]].iloc[-1]
        known.append(int(parts.fillna(0).sum()))
    known += [int(requests[name].max()) for name in ("t", "finish_t") if requests[name].notna().any()]
    if len(trace.holds):
        known.append(int(trace.holds["end"].max()))
    return max(known)


def _defaults(trace, rounds) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each round's cause for the requests that it doesn't name, and the culprit where one stopped it."""
    number = {name: i for i, name in enumerate(trace.ids)}
    stop, by, closed = (
        rounds[name].to_numpy(dtype=object) for name in ("stop_cause", "stopped_by", "closed")
    )
    causes = np.full(len(rounds), WAIT_CODE["unrecorded"], dtype=np.int8)
    culprits = np.full(len(rounds), -1, dtype=np.int32)
    culprit_causes = np.full(len(rounds), -1, dtype=np.int8)
    for k in range(len(rounds)):
        if isinstance(closed[k], str):
            causes[k] = WAIT_CODE["rows" if closed[k] == "rows" else "not_entered"]
        elif isinstance(stop[k], str):
            recorded = wait_cause(stop[k])
            if recorded in ("rows", "tokens") and not isinstance(by[k], str):
                causes[k] = WAIT_CODE[recorded]
                continue
            causes[k] = WAIT_CODE["unexamined"]
            culprits[k] = number.get(by[k], -1)
            culprit_causes[k] = WAIT_CODE[recorded]
    return causes, culprits, culprit_causes


def _holes(first, last, t, answered, num_rounds: int, begin: int, end: int) -> list[np.ndarray] | None:
    """The dropped rounds as columns of a Timeline, one row a hole; None where there is none."""
    expected = np.append(1, last + 1)  # where the next recorded round should begin
    begins = np.append(first, max(num_rounds, int(last[-1]) if len(last) else 0) + 1)
    k = np.flatnonzero(begins > expected)
    if not len(k):
        return None
    next_t = np.append(t, end)
    known = np.minimum(np.append(begin, answered)[k], next_t[k])
    size = len(k)
    unrecorded = np.full(size, WAIT_CODE["unrecorded"], dtype=np.int8)
    return [
        expected[k],
        begins[k] - 1,
        known,
        next_t[k],
        unrecorded,
        np.full(size, -1, dtype=np.int32),
        np.full(size, -1, dtype=np.int8),
        np.full(size, None, dtype=object),
        np.zeros(size, dtype=bool),
    ]

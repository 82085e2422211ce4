"""What a live view needs of a trace that grows: numbers from some row on, without building the tables again.

Rows are those of `Trace.rounds`, `.admissions` and of the requests in the order of their records; a row that
is there doesn't change, but for the last round's `repeat`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from radixflow.trace.frames import queues_certain

if TYPE_CHECKING:
    from radixflow.trace.reader import Trace

_SHIFT = 36
_PLAIN = ("n", "t", "rows", "tokens", "new", "resident", "blocked", "preempted")


def round_columns(trace: Trace, first: int = 0) -> dict[str, np.ndarray]:
    """Numbers of the recorded rounds from row `first` on, named as in `Trace.rounds` (`n` is the round).

    `avoidable` and `idle` are -1 where they aren't known.
    """
    store, queues = trace._store, trace._queues
    rounds = store.rounds.rows()[first:]
    waiting = queues.waiting()[first:]
    free_rows = store.header.config.max_num_seqs - rounds["rows"] - rounds["resident"]
    certain = queues_certain(store, first)
    known = (rounds["avoidable"] >= 0) | (free_rows <= 0) | ((waiting - rounds["new"] <= 0) & certain)
    avoidable = np.maximum(rounds["avoidable"], 0)
    idle = np.maximum(free_rows - avoidable - np.maximum(rounds["probed"], 0), 0)
    columns = {name: rounds[name] for name in _PLAIN}
    columns["waiting"] = waiting
    columns["avoidable"] = np.where(known, avoidable, -1)
    columns["idle"] = np.where(known, idle, -1)
    columns["stalled"] = rounds["rows"] == 0
    columns["stopped"] = rounds["stopped_by"] >= 0
    columns["repeat"] = np.ones(len(rounds), np.int64)
    repeats = store.repeats.rows()
    repeats = repeats[np.searchsorted(repeats["row"], first) :]
    np.add.at(columns["repeat"], repeats["row"] - first, repeats["count"])
    return columns


def stays(trace: Trace, which: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Request, first and last round of a stay among the running ones, for these admissions.

    A stay ends with the request's finish, or in the round before the one that preempts it; one that goes on
    ends with the last round read.
    """
    store = trace._store
    admissions, rounds = store.admissions.rows()[which], store.rounds.rows()
    who = admissions["i"].astype(np.int64)
    begins = rounds["n"][admissions["row"]].astype(np.int64)
    last = np.full(len(who), trace.num_rounds, np.int64)
    row = np.array([store.finish_row.get(i, -1) for i in who.tolist()], np.int64)
    finished = np.flatnonzero(row >= 0)
    ends = store.finishes.rows()["n"][row[finished]]
    last[finished[ends > 0]] = ends[ends > 0]
    if len(store.preempted) and len(who):
        gone = store.preempted.values().astype(np.int64)
        when = np.repeat(rounds["n"], rounds["preempted"])
        # Request and round in one number: the next preemption after the stay began.
        keys = np.sort(gone << _SHIFT | when)
        at = np.searchsorted(keys, (who << _SHIFT | begins) + 1)
        hit = np.flatnonzero(at < len(keys))
        found = keys[at[hit]]
        same = found >> _SHIFT == who[hit]
        last[hit[same]] = np.minimum(last[hit[same]], (found[same] & (1 << _SHIFT) - 1) - 1)
    return who, begins, np.maximum(last, begins)


def prompt_segments(trace: Trace, first: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The prompts of the requests from row `first` on: request numbers, how many segments each has, and all
    segments' streams (`stream_name` says which) and tokens, end to end."""
    store = trace._store
    requests = store.requests.rows()
    ends = requests["path_end"].astype(np.int64)
    begin = int(ends[first - 1]) if first else 0
    flat = store.paths.values().reshape(-1, 2)[begin:].astype(np.int64)
    counts = np.diff(ends[first:], prepend=begin)
    return requests["i"][first:].astype(np.int64), counts, flat[: counts.sum(), 0], flat[: counts.sum(), 1]


def stream_name(trace: Trace, code: int) -> str:
    """The stream of a number that `prompt_segments` gave."""
    return trace._store.streams.name(code)


def request_group(trace: Trace, i: int) -> str | None:
    """The `group` of a request."""
    store = trace._store
    return store.texts.name(int(store.requests.rows()["group"][store.row_of[i]]))

"""The columns as pandas DataFrames (`docs/structures.md` lists them)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from radixflow.trace.columns import NONE, Names
from radixflow.trace.queues import Queues
from radixflow.trace.rounds import RoundReader
from radixflow.trace.store import Store

if TYPE_CHECKING:
    import pandas as pd

CACHE_EVENTS = ("published", "evicted", "cleared")


def rounds_frame(store: Store, queues: Queues, reader: RoundReader) -> pd.DataFrame:
    import pandas as pd

    rounds = store.rounds.rows()
    waiting = queues.waiting()
    free_rows = store.header.config.max_num_seqs - rounds["rows"] - rounds["resident"]
    nobody = (waiting - rounds["new"] <= 0) & queues_certain(store)
    known = (rounds["avoidable"] >= 0) | (free_rows <= 0) | nobody
    avoidable = np.maximum(rounds["avoidable"], 0)
    idle = np.maximum(free_rows - avoidable - np.maximum(rounds["probed"], 0), 0)
    hosts = reader.host_ns()
    return pd.DataFrame(
        {
            "t": rounds["t"],
            "schedule_ns": rounds["d"],
            "host_ns": nullable(hosts, hosts < 0),
            "rows": rounds["rows"],
            "tokens": rounds["tokens"],
            "new": rounds["new"],
            "resident": rounds["resident"],
            "blocked": rounds["blocked"],
            "other": rounds["other"],
            "unexamined": queues.unexamined(),
            "waiting": waiting,
            "avoidable": nullable(avoidable, ~known),
            "idle": nullable(idle, ~known),
            "free_blocks": rounds["free"],
            "preempted": rounds["preempted"],
            "stop_cause": texts(store.texts, rounds["stop_cause"]),
            "stopped_by": ids(store, rounds["stopped_by"]),
            "closed": texts(store.texts, rounds["closed"]),
            "stalled": rounds["rows"] == 0,
            "repeat": reader.repeats(),
            "released_by": texts(store.texts, rounds["released_by"]),
        }
    ).set_axis(pd.Index(rounds["n"], name="round"))


def queues_certain(store: Store, first: int = 0) -> np.ndarray | bool:
    """Per row from `first` on, whether the queue is known (`Queues.certain`); one True where no gap leaves a
    doubt."""
    if not store.gaps and not store.header.part:
        return True
    rows = np.arange(first, len(store.rounds.rows()))
    lost = np.array(store.gap_rows if store.header.part == 0 else [0, *store.gap_rows], np.int64)
    stated = np.array([-1, *sorted(store.queues)], np.int64)
    # Known again from the first queue on that was stated after the last gap.
    before = np.searchsorted(lost, rows, side="right")
    gap = np.append(lost, -1)[before - 1]
    return (before == 0) | (stated[np.searchsorted(stated, rows, side="right") - 1] >= gap)


def visit_columns(store: Store) -> dict[str, np.ndarray]:
    """`row`, `i`, `tokens`, `start`, `waiting` (came from the queue) of each row visit."""
    rounds = store.rounds.rows()
    visits = store.visits.values()
    i, tokens = visits[::2], visits[1::2]
    row = np.repeat(np.arange(len(rounds), dtype=np.int32), rounds["rows"])
    within = np.arange(len(i), dtype=np.int32) - (rounds["visit_end"] - rounds["rows"])[row]
    waiting = within >= (rounds["rows"] - rounds["new"])[row]
    return {
        "row": row,
        "i": i,
        "tokens": tokens,
        "start": _starts(store, i, tokens, waiting),
        "waiting": waiting,
    }


def _starts(store: Store, i: np.ndarray, tokens: np.ndarray, waiting: np.ndarray) -> np.ndarray:
    """Tokens computed before each visit: what admission found cached, and the visits since then.

    With speculative drafts an upper bound while decoding: a trace doesn't say which drafts were rejected.
    """
    if not len(i):
        return np.empty(0, np.int32)
    admissions = store.admissions.rows()
    found = np.zeros(len(i), np.int32)
    at = np.flatnonzero(waiting)[: len(admissions)]
    found[at] = (admissions["ready"] + admissions["external"])[: len(at)]
    order = np.argsort(i, kind="stable")
    i, tokens, begins = i[order], tokens[order], waiting[order]
    begins[0] = True
    begins[1:] |= i[1:] != i[:-1]
    before = np.cumsum(tokens, dtype=np.int64)
    before -= tokens
    origin = np.maximum.accumulate(np.where(begins, np.arange(len(i), dtype=np.int32), 0))
    starts = np.empty(len(i), np.int32)
    before -= before[origin]
    before += found[order][origin]
    starts[order] = before
    return starts


def visits_frame(store: Store, columns: dict[str, np.ndarray]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(
        {
            "round": store.rounds.rows()["n"].astype(np.int32)[columns["row"]],
            "request": categorical_ids(store, columns["i"]),
            "i": columns["i"],
            "tokens": columns["tokens"],
            "start": columns["start"],
            "phase": pd.Categorical.from_codes(columns["waiting"].astype(np.int8), ["running", "waiting"]),
        },
        copy=False,
    )


def refusals_frame(store: Store) -> pd.DataFrame:
    import pandas as pd

    rounds, blocked, other = store.rounds.rows(), store.blocked.rows(), store.other.rows()
    rows = [np.repeat(np.arange(len(rounds)), rounds[name]) for name in ("blocked", "other")]
    order = np.argsort(np.concatenate(rows), kind="stable")

    def numbers(name: str) -> np.ndarray:
        halves = [
            t[name] if name in t.dtype.names else np.full(len(t), NONE, np.int32) for t in (blocked, other)
        ]
        return np.concatenate(halves)[order]

    def labels(name: str, of_blocked: str | None = None) -> pd.Series:
        first = np.full(len(blocked), -1 if of_blocked is None else store.texts.code(of_blocked))
        return texts(store.texts, np.concatenate((first, other[name]))[order])

    i = numbers("i")
    frame = {
        "round": rounds["n"][np.concatenate(rows)[order]],
        "request": categorical_ids(store, i),
        "i": i,
        "cause": labels("cause", "blocked"),
    }
    for name in ("producer", "boundary"):
        frame[name] = nullable(numbers(name), numbers(name) == NONE)
    groups = np.concatenate((blocked["groups"], np.full(len(other), -1)))[order]
    frame["groups"] = texts(store.lists, groups, list)
    frame["parked"] = nullable(numbers("parked"), numbers("parked") == NONE).astype("boolean")
    frame["gate"] = labels("gate")
    for name in ("needed", "free", "reserved", "watermark", "total", "tokens_left", "block"):
        frame[name] = nullable(numbers(name), numbers(name) == NONE)
    frame["status"] = labels("status")
    for name in ("ready", "matched"):
        frame[name] = nullable(numbers(name), numbers(name) == NONE)
    also = np.concatenate((np.full(len(blocked), -1), other["also"]))[order]
    frame["also"] = texts(store.lists, also, list)
    return pd.DataFrame(frame)


def requests_frame(store: Store, columns: dict[str, np.ndarray]) -> pd.DataFrame:
    import pandas as pd

    rounds = store.rounds.rows()
    requests = np.sort(store.requests.rows(), order="i")
    i = requests["i"]
    size = len(store.ids)

    first_row = np.full(size, -1)
    first_row[columns["i"][::-1]] = columns["row"][::-1]
    first_row = first_row[i]
    selected = first_row >= 0
    at = np.maximum(first_row, 0)

    admissions = store.admissions.rows()
    first_admission = np.full(size, -1)
    first_admission[admissions["i"][::-1]] = np.arange(len(admissions))[::-1]
    admission = first_admission[i]
    admitted = admission >= 0

    finishes = store.finishes.rows()
    last = np.full(size, -1)
    last[finishes["i"]] = np.arange(len(finishes))
    finish = last[i]
    finished = finish >= 0

    def of_round(name):
        return nullable(rounds[name][at] if len(rounds) else np.zeros(len(i), np.int64), ~selected)

    def of_admission(name):
        return nullable(
            admissions[name][admission] if len(admissions) else np.zeros(len(i), np.int64), ~admitted
        )

    def of_finish(name):
        return nullable(finishes[name][finish] if len(finishes) else np.zeros(len(i), np.int64), ~finished)

    reasons = np.where(finished, finishes["reason"][finish], -1) if len(finishes) else np.full(len(i), -1)
    return pd.DataFrame(
        {
            "id": ids(store, i),
            "t": requests["t"],
            "arrival": requests["arrival"],
            "prompt": requests["prompt"],
            "max_tokens": requests["max_tokens"],
            "priority": requests["priority"],
            "group": texts(store.texts, requests["group"]),
            "label": texts(store.texts, requests["label"]),
            "held": requests["held"].astype(bool),
            "deferred": requests["deferred"].astype(bool),
            "salted": requests["salted"].astype(bool),
            "first_selected_round": of_round("n"),
            "first_selected_t": of_round("t"),
            "finish_round": of_finish("n"),
            "finish_t": of_finish("t"),
            "finish_reason": texts(store.texts, reasons),
            "output": of_finish("output"),
            "ready": of_admission("ready"),
            "matched": of_admission("matched"),
            "preemptions": np.bincount(store.preempted.values(), minlength=size)[i],
        }
    ).set_axis(pd.Index(i, name="i"))


def admissions_frame(store: Store) -> pd.DataFrame:
    import pandas as pd

    admissions = store.admissions.rows()
    first = np.zeros(len(admissions), bool)
    first[np.unique(admissions["i"], return_index=True)[1]] = True
    return pd.DataFrame(
        {
            "round": store.rounds.rows()["n"][admissions["row"]],
            "i": admissions["i"],
            "ready": admissions["ready"],
            "matched": admissions["matched"],
            "external": admissions["external"],
            "again": ~first,
        }
    )


def holds_frame(store: Store) -> pd.DataFrame:
    import pandas as pd

    holds = store.holds.rows()
    requests = np.split(store.hold_requests.values(), holds["request_end"][:-1]) if len(holds) else []
    return pd.DataFrame(
        {
            "begin": holds["begin"],
            "end": holds["end"],
            "reason": texts(store.texts, holds["reason"]),
            "requests": pd.Series([part.tolist() for part in requests], dtype=object),
        }
    )


def cache_frame(store: Store) -> pd.DataFrame:
    import pandas as pd

    cache = store.cache.rows()
    return pd.DataFrame(
        {
            "round": cache["n"],
            "event": pd.Categorical.from_codes(cache["event"], list(CACHE_EVENTS)),
            **{name: cache[name] for name in ("i", "group", "start", "end", "by")},
        }
    )


def mismatches_frame(store: Store) -> pd.DataFrame:
    import pandas as pd

    rows = store.mismatches.rows()
    return pd.DataFrame({"round": rows["n"], **{name: rows[name] for name in ("group", "tokens", "hashes")}})


def nullable(values: np.ndarray, missing: np.ndarray) -> pd.api.extensions.ExtensionArray:
    """An Int64 column with nulls."""
    import pandas as pd

    return pd.arrays.IntegerArray(values.astype(np.int64), np.ascontiguousarray(missing))


def texts(names: Names, codes: np.ndarray, convert=None) -> pd.Series:
    """An object column of the named values, None where there is none."""
    import pandas as pd

    values = np.empty(len(names.values) + 1, object)
    for index, value in enumerate(names.values):
        values[index] = convert(value) if convert else value
    return pd.Series(values[codes], dtype=object)


def ids(store: Store, numbers: np.ndarray) -> pd.Series:
    """An object column of request ids, None for -1."""
    import pandas as pd

    values = np.empty(len(store.ids) + 1, object)
    values[:-1] = store.ids
    return pd.Series(values[numbers], dtype=object)


def categorical_ids(store: Store, numbers: np.ndarray) -> pd.Categorical:
    import pandas as pd

    return pd.Categorical.from_codes(
        numbers, [f"?{i}" if id is None else id for i, id in enumerate(store.ids)]
    )

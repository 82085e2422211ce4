"""What the round timeline shows: the whole run in bins, and any window of it cell by cell.

Pure: a trace in, dicts out that `json.dumps` takes and `widgets/canvas.mjs` draws. A window has, for
every round, exactly S cells: the row visits, and each empty slot with its cause (CONTRACT: S = row
visits + resident + avoidable + each other cause + idle).
"""

from __future__ import annotations

import base64
import heapq
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from radixflow.analysis.causes import SLOT_CAUSES, wait_cause
from radixflow.figures.palette import Colours

KINDS: tuple[str, ...] = ("waiting", "running", *SLOT_CAUSES[1:], "unrecorded")
"""What a cell is: a visit of a waiting or running request, or an empty slot's cause. Cells name it by
number; a cause that isn't here is appended to the window's own list."""

FIELDS: tuple[str, ...] = (
    "rows",
    "resident",
    "avoidable",
    "refused",
    "idle",
    "unprobed",
    "tokens",
    "blocked",
    "avoidable_max",
    "stalled",
)
"""Columns of a bin, means over its rounds but for `avoidable_max`. The first six add up to S."""

MAX_CELL_ROUNDS = 2048
"""Longest range that a window gives cell by cell; a longer one comes as bins."""

MAX_BINS = 4096


def pack(array: Any, dtype: str) -> str:
    """A typed array as base64, little endian."""
    return base64.b64encode(np.ascontiguousarray(array, dtype=dtype).tobytes()).decode("ascii")


def unpack(text: str, dtype: str) -> np.ndarray:
    """The array that `pack` wrote."""
    return np.frombuffer(base64.b64decode(text), dtype=dtype)


@dataclass(frozen=True, slots=True)
class Rows:
    """Which row slot a request has: it takes the lowest free one when admitted and keeps it until it
    finishes or is preempted. Arrays run over stays, sorted by first round."""

    request: np.ndarray
    first: np.ndarray
    last: np.ndarray
    row: np.ndarray


_rows: weakref.WeakKeyDictionary[Any, tuple[int, Rows]] = weakref.WeakKeyDictionary()
_columns: weakref.WeakKeyDictionary[Any, tuple[int, dict[str, np.ndarray]]] = weakref.WeakKeyDictionary()


def rows_of(trace: Any) -> Rows:
    """Row slots of the whole run, in O(admissions)."""
    known = _rows.get(trace)
    version = (trace.num_rounds << 1) | trace.complete
    if known is not None and known[0] == version:
        return known[1]
    finish = trace.requests["finish_round"]
    ends = {int(i): int(n) for i, n in finish.dropna().items() if n > 0}
    preempted: dict[int, list[int]] = {}
    counts = trace.rounds["preempted"]
    for n in counts.index[counts.to_numpy() > 0]:
        for i in trace.round(int(n)).preempted:
            preempted.setdefault(i, []).append(int(n))
    admissions = trace.admissions
    starts = admissions["round"].to_numpy(dtype=np.int64)
    who = admissions["i"].to_numpy(dtype=np.int64)
    lasts = np.empty(len(starts), dtype=np.int64)
    for k, (n, i) in enumerate(zip(starts.tolist(), who.tolist(), strict=True)):
        last = ends.get(i, trace.num_rounds)
        for m in preempted.get(i, ()):
            if m > n:
                last = min(last, m - 1)
                break
        lasts[k] = max(last, n)
    result = Rows(who, starts, lasts, _first_free(starts, lasts, trace.config.max_num_seqs))
    _rows[trace] = (version, result)
    return result


def _first_free(first: np.ndarray, last: np.ndarray, rows: int) -> np.ndarray:
    free = list(range(rows))
    taken: list[tuple[int, int]] = []
    result = np.empty(len(first), dtype=np.int64)
    for k, (begin, end) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        while taken and taken[0][0] < begin:
            heapq.heappush(free, heapq.heappop(taken)[1])
        # A gap in the trace can hide a finish; then the stay that ends next makes room.
        row = heapq.heappop(free) if free else heapq.heappop(taken)[1]
        heapq.heappush(taken, (end, row))
        result[k] = row
    return result


def slots(view: Any, rows: int) -> list[tuple[str, int]]:
    """The empty slots of a round as (cause, request or -1): resident, avoidable, each cause, idle.

    Arguments: a `RoundView`, and S. `len(result) + len(view.selected) == rows`.
    """
    result = [("resident", i) for i in view.resident]
    empty = rows - len(view.selected) - len(result)
    if view.probe is None:
        # Where nobody waits, nothing needs a probe (as analysis.slots counts it).
        waiting = min(empty, max(0, len(view.queue) - len(view.admitted)))
        return result + [("unprobed", -1)] * waiting + [("idle", -1)] * (empty - waiting)
    probed = [("avoidable", i) for i in view.probe.avoidable]
    probed += [(wait_cause(cause), i) for i, cause in view.probe.others]
    probed = probed[:empty]
    return result + probed + [("idle", -1)] * (empty - len(probed))


def name_of(trace: Any, i: int) -> str:
    """A request's id, or its number where its own record is missing."""
    return trace.ids[i] if 0 <= i < len(trace.ids) and trace.ids[i] is not None else f"#{i}"


def _views(trace: Any, first: int, last: int) -> Iterator[tuple[int, Any]]:
    """(round, its view or None where it wasn't recorded), for every round of a range."""
    expected = first
    for view in trace.iter_rounds(first, last):
        while expected < view.n:
            yield expected, None
            expected += 1
        # One view stands for all repetitions of a stalled round.
        while expected < min(view.n + view.repeat, last + 1):
            yield expected, view
            expected += 1
    while expected <= last:
        yield expected, None
        expected += 1


def window(trace: Any, first: int, last: int, colours: Colours | None = None) -> dict[str, Any]:
    """Rounds first..last (clamped to the run) for the canvas.

    Up to `MAX_CELL_ROUNDS` rounds come as cells: `cells` is a flat Int32 array of runs
    `(row, first round, rounds, kind, request, tokens)`, where `request` indexes `requests` (-1: none)
    and equal cells of successive rounds are one run. Longer ranges come as bins (`mode: "bins"`).
    """
    first = max(1, int(first))
    last = min(trace.num_rounds, int(last))
    if last < first:
        return {"kind": "window", "mode": "empty", "first": first, "last": last, **_frame(trace)}
    if last - first >= MAX_CELL_ROUNDS:
        size = -(-(last - first + 1) // MAX_BINS)
        return {
            "kind": "window",
            "mode": "bins",
            "first": first,
            "last": last,
            **_frame(trace),
            "fields": list(FIELDS),
            "level": _level(trace, first, last, size),
        }
    if colours is None:
        colours = Colours.of(trace)
    return _cells(trace, first, last, colours)


def _frame(trace: Any) -> dict[str, Any]:
    return {
        "trace": trace.id,
        "policy": trace.header.policy,
        "num_rounds": trace.num_rounds,
        "S": trace.config.max_num_seqs,
        "T": trace.config.max_num_batched_tokens,
        "complete": bool(trace.complete),
    }


def _cells(trace: Any, first: int, last: int, colours: Colours) -> dict[str, Any]:
    size = trace.config.max_num_seqs
    stays = rows_of(trace)
    entered = np.searchsorted(stays.first, last, side="right")
    open_stays = np.flatnonzero(stays.last[:entered] >= first).tolist()
    row_of: dict[int, int] = {}
    pending = 0
    kinds = list(KINDS)
    code = {kind: k for k, kind in enumerate(kinds)}
    local: dict[int, int] = {}
    open_runs: list[list[int] | None] = [None] * size
    runs: list[list[int]] = []
    stops: list[tuple[int, int, int]] = []
    parked: list[tuple[int, int, int, int, int]] = []

    def request(i: int) -> int:
        return -1 if i is None or i < 0 else local.setdefault(i, len(local))

    def kind(name: str) -> int:
        if name not in code:
            code[name] = len(kinds)
            kinds.append(name)
        return code[name]

    for n, view in _views(trace, first, last):
        while pending < len(open_stays) and stays.first[open_stays[pending]] <= n:
            k = open_stays[pending]
            row_of[int(stays.request[k])] = int(stays.row[k])
            pending += 1
        now: list[tuple[int, int, int] | None] = [None] * size
        if view is None:
            now = [(kind("unrecorded"), -1, 0)] * size
        else:
            admitted = set(view.admitted)
            homeless = []
            held = [
                (kind("waiting" if i in admitted else "running"), i, tokens) for i, tokens in view.selected
            ]
            empty = slots(view, size)
            held += [(kind(cause), i, 0) for cause, i in empty if cause == "resident"]
            for what, i, tokens in held:
                row = row_of.get(i)
                if row is None or now[row] is not None:
                    homeless.append((what, request(i), tokens))
                else:
                    now[row] = (what, request(i), tokens)
            left = homeless + [(kind(cause), request(i), 0) for cause, i in empty if cause != "resident"]
            filler = iter(left)
            now = [cell if cell is not None else next(filler) for cell in now]
            if view.stop is not None:
                stops.append((n, request(view.stop.i), kind(view.stop.cause)))
            for b in view.blocked:
                parked.append((n, request(b.i), request(b.producer), b.boundary, int(b.parked)))
        for row, cell in enumerate(now):
            run = open_runs[row]
            if run is not None and run[3] == cell[0] and run[4] == cell[1] and run[5] == cell[2]:
                run[2] += 1
            else:
                open_runs[row] = [row, n, 1, *cell]
                runs.append(open_runs[row])
    return {
        "kind": "window",
        "mode": "cells",
        "first": first,
        "last": last,
        **_frame(trace),
        "kinds": kinds,
        "requests": [
            {"i": i, "id": name_of(trace, i), "colour": list(colours.of_request(trace, i))} for i in local
        ],
        "cells": pack(runs, "<i4"),
        "stops": pack(stops, "<i4"),
        "parked": pack(parked, "<i4"),
        "fields": list(FIELDS),
        "level": _level(trace, first, last, 1),
    }


def _per_round(trace: Any) -> dict[str, np.ndarray]:
    """Float64 columns with one entry a round, NaN where it wasn't recorded (or not probed)."""
    known = _columns.get(trace)
    version = (trace.num_rounds << 1) | trace.complete
    if known is not None and known[0] == version:
        return known[1]
    table = trace.rounds
    repeat = table["repeat"].to_numpy(dtype=np.int64)
    # A row that stands for several stalled rounds is numbered by its first.
    first = np.repeat(table.index.to_numpy(dtype=np.int64), repeat)
    within = np.arange(len(first)) - np.repeat(np.cumsum(repeat) - repeat, repeat)
    where = first + within - 1
    result = {}
    for name in (
        "rows",
        "resident",
        "avoidable",
        "idle",
        "tokens",
        "blocked",
        "waiting",
        "new",
        "stalled",
        "t",
    ):
        column = np.full(trace.num_rounds, np.nan)
        column[where] = np.repeat(table[name].to_numpy(dtype=np.float64, na_value=np.nan), repeat)
        result[name] = column
    _columns[trace] = (version, result)
    return result


def _level(trace: Any, first: int, last: int, size: int) -> dict[str, Any]:
    """Bins of `size` rounds over first..last: `values` is Float32, field by field."""
    columns = {name: column[first - 1 : last] for name, column in _per_round(trace).items()}
    edges = np.arange(0, last - first + 1, size)
    rows_budget = trace.config.max_num_seqs
    recorded = ~np.isnan(columns["rows"])
    weight = np.maximum(np.add.reduceat(recorded.astype(float), edges), 1e-9)

    def mean(values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(np.where(recorded, np.nan_to_num(values), 0.0), edges) / weight

    probed = ~np.isnan(columns["avoidable"])
    empty = rows_budget - np.nan_to_num(columns["rows"]) - np.nan_to_num(columns["resident"])
    avoidable = np.nan_to_num(columns["avoidable"])
    left = np.maximum(np.nan_to_num(columns["waiting"] - columns["new"]), 0)
    # An unprobed round is idle where nobody waited (as analysis.slots counts it).
    idle = np.where(probed, np.nan_to_num(columns["idle"]), np.maximum(empty - left, 0))
    bins = {
        "rows": mean(columns["rows"]),
        "resident": mean(columns["resident"]),
        "avoidable": mean(avoidable),
        "refused": mean(np.where(probed, empty - avoidable - idle, 0.0)),
        "idle": mean(idle),
        "unprobed": mean(np.where(probed, 0.0, empty - idle)),
        "tokens": mean(columns["tokens"]),
        "blocked": mean(columns["blocked"]),
        "avoidable_max": np.maximum.reduceat(avoidable, edges),
        "stalled": mean(columns["stalled"]),
    }
    return {
        "bin": int(size),
        "first": int(first),
        "count": len(edges),
        "values": pack(np.stack([bins[name] for name in FIELDS]), "<f4"),
        "t": pack(np.nan_to_num(columns["t"][edges]) / 1e9, "<f8"),
    }


def overview(trace: Any) -> dict[str, Any]:
    """The whole run in bins, at levels of detail four times apart, the finest first (at most
    `MAX_BINS` bins). Means a round of each of `FIELDS`; rows against S and tokens against T."""
    total = trace.num_rounds
    levels = []
    size = 1
    while total / size > MAX_BINS:
        size *= 2
    while total:
        levels.append(_level(trace, 1, total, size))
        if total / size <= 256:
            break
        size *= 4
    return {"kind": "overview", **_frame(trace), "fields": list(FIELDS), "levels": levels}

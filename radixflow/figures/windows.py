"""What the round timeline shows: the whole run in bins, and any window of it cell by cell.

Pure: a trace in, dicts out that `json.dumps` takes and `widgets/canvas.mjs` draws. A window has, for
every round, exactly S cells: the row visits, and each empty slot with its cause (CONTRACT: S = row
visits + resident + avoidable + each other cause + idle).
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import numpy as np

from radixflow.analysis.causes import SLOT_CAUSES, wait_cause
from radixflow.figures.levels import FIELDS, MAX_BINS, level, levels, pack
from radixflow.figures.palette import Colours
from radixflow.figures.rows import rows_of

KINDS: tuple[str, ...] = ("waiting", "running", *SLOT_CAUSES[1:], "unrecorded")
"""What a cell is: a visit of a waiting or running request, or an empty slot's cause. Cells name it by
number; a cause that isn't here is appended to the window's own list."""

MAX_CELL_ROUNDS = 2048
"""Longest range that a window gives cell by cell; a longer one comes as bins."""


def unpack(text: str, dtype: str) -> np.ndarray:
    """The array that `pack` wrote."""
    return np.frombuffer(base64.b64decode(text), dtype=dtype)


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
            "level": level(trace, first, last, size),
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
            held = [(kind("waiting" if i in admitted else "running"), i, tokens) for i, tokens in view.selected]
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
        "requests": [{"i": i, "id": name_of(trace, i), "colour": list(colours.of_request(trace, i))} for i in local],
        "cells": pack(runs, "<i4"),
        "stops": pack(stops, "<i4"),
        "parked": pack(parked, "<i4"),
        "fields": list(FIELDS),
        "level": level(trace, first, last, 1),
    }


def overview(trace: Any) -> dict[str, Any]:
    """The whole run in bins, at levels of detail four times apart, the finest first (at most
    `MAX_BINS` bins). Means a round of each of `FIELDS`; rows against S and tokens against T."""
    return {"kind": "overview", **_frame(trace), "fields": list(FIELDS), "levels": levels(trace)}

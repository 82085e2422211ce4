"""A run's rounds in bins: what timelines show where single rounds are too narrow."""

from __future__ import annotations

import base64
import weakref
from typing import Any

import numpy as np

from radixflow.trace.growth import round_columns

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

MAX_BINS = 4096

_COLUMNS = ("rows", "resident", "avoidable", "idle", "tokens", "blocked", "waiting", "new", "stalled", "t")
_MEANS = tuple(name for name in FIELDS if name != "avoidable_max")
_MAX = FIELDS.index("avoidable_max")


def pack(array: Any, dtype: str) -> str:
    """A typed array as base64, little endian."""
    return base64.b64encode(np.ascontiguousarray(array, dtype=dtype).tobytes()).decode("ascii")


class _Bins:
    """Sums over the rounds of each bin: means and coarser bins follow from them."""

    def __init__(self, count: int):
        self.weight = np.zeros(count)
        """Recorded rounds."""
        self.sums = np.zeros((len(FIELDS), count))
        """In the order of FIELDS; of `avoidable_max` the maximum."""
        self.t = np.zeros(count)
        """When the bin's first round began, ns."""

    def joined(self, by: int) -> _Bins:
        """Bins of `by` of these each."""
        edges = np.arange(0, len(self.weight), by)
        wide = _Bins(len(edges))
        wide.weight = np.add.reduceat(self.weight, edges)
        wide.sums = np.add.reduceat(self.sums, edges, axis=1)
        wide.sums[_MAX] = np.maximum.reduceat(self.sums[_MAX], edges)
        wide.t = self.t[edges]
        return wide

    def level(self, first: int, size: int) -> dict[str, Any]:
        """For the canvas: `values` is Float32, field by field."""
        values = self.sums / np.maximum(self.weight, 1e-9)
        values[_MAX] = self.sums[_MAX]
        return {
            "bin": int(size),
            "first": int(first),
            "count": len(self.weight),
            "values": pack(values, "<f4"),
            "t": pack(self.t / 1e9, "<f8"),
        }


class _Rounds:
    """Columns with one entry a round, NaN where it wasn't recorded (or not probed); and the finest bins of
    the whole run. Both go on where the run has grown."""

    def __init__(self, row_budget: int):
        self._budget = row_budget
        self._table = np.empty((len(_COLUMNS), 256))
        self._rows = 0
        self.total = 0
        self.bin = 1
        self._bins = _Bins(0)

    def grow(self, trace: Any) -> None:
        total = trace.num_rounds
        if total == self.total:
            return
        # The last round may have been repeated since.
        columns = round_columns(trace, max(0, self._rows - 1))
        if total > self._table.shape[1]:
            room = np.empty((len(_COLUMNS), max(total, 2 * self._table.shape[1])))
            room[:, : self.total] = self._table[:, : self.total]
            self._table = room
        self._table[:, self.total : total] = np.nan
        repeat = columns["repeat"]
        within = np.arange(repeat.sum()) - np.repeat(np.cumsum(repeat) - repeat, repeat)
        where = np.repeat(columns["n"], repeat) + within - 1
        for k, name in enumerate(_COLUMNS):
            values = columns[name].astype(np.float64)
            if name in ("avoidable", "idle"):
                values[values < 0] = np.nan
            self._table[k, where] = np.repeat(values, repeat)
        self._rows += len(repeat) - (1 if self._rows else 0)
        changed = min(self.total, int(where[0])) if len(where) else self.total
        self.total = total
        self._gather(changed)

    def _gather(self, changed: int) -> None:
        """Bring the bins up to date from round index `changed` on."""
        wanted = self.bin
        while self.total / wanted > MAX_BINS:
            wanted *= 2
        if wanted != self.bin:
            self.bin, changed, self._bins = wanted, 0, _Bins(0)
        kept = changed // self.bin
        late = self.bins(kept * self.bin + 1, self.total, self.bin)
        old, self._bins = self._bins, _Bins(0)
        self._bins.weight = np.concatenate((old.weight[:kept], late.weight))
        self._bins.sums = np.concatenate((old.sums[:, :kept], late.sums), axis=1)
        self._bins.t = np.concatenate((old.t[:kept], late.t))

    def bins(self, first: int, last: int, size: int) -> _Bins:
        """Bins of `size` rounds over first..last."""
        columns = dict(zip(_COLUMNS, self._table[:, first - 1 : last], strict=True))
        recorded = ~np.isnan(columns["rows"])
        probed = ~np.isnan(columns["avoidable"])
        filled = {name: np.nan_to_num(column) for name, column in columns.items()}
        empty = self._budget - filled["rows"] - filled["resident"]
        left = np.maximum(filled["waiting"] - filled["new"], 0)
        # An unprobed round is idle where nobody waited (as analysis.slots counts it).
        filled["idle"] = np.where(probed, filled["idle"], np.maximum(empty - left, 0))
        filled["refused"] = np.where(probed, empty - filled["avoidable"] - filled["idle"], 0.0)
        filled["unprobed"] = np.where(probed, 0.0, empty - filled["idle"])
        edges = np.arange(0, last - first + 1, size)
        found = _Bins(len(edges))
        found.weight = np.add.reduceat(recorded.astype(float), edges)
        for name in _MEANS:
            found.sums[FIELDS.index(name)] = np.add.reduceat(np.where(recorded, filled[name], 0.0), edges)
        found.sums[_MAX] = np.maximum.reduceat(filled["avoidable"], edges)
        found.t = filled["t"][edges]
        return found

    def levels(self) -> list[dict[str, Any]]:
        """The whole run at levels four times apart, the finest first."""
        found, bins, size = [], self._bins, self.bin
        while self.total:
            found.append(bins.level(1, size))
            if self.total / size <= 256:
                break
            bins, size = bins.joined(4), 4 * size
        return found


_known: weakref.WeakKeyDictionary[Any, _Rounds] = weakref.WeakKeyDictionary()


def _of(trace: Any) -> _Rounds:
    known = _known.get(trace)
    if known is None:
        known = _known[trace] = _Rounds(trace.config.max_num_seqs)
    known.grow(trace)
    return known


def level(trace: Any, first: int, last: int, size: int) -> dict[str, Any]:
    """Bins of `size` rounds over first..last (within the run), for the canvas."""
    return _of(trace).bins(first, last, size).level(first, size)


def levels(trace: Any) -> list[dict[str, Any]]:
    """The whole run in at most `MAX_BINS` bins, then in ever fewer. A run that has grown costs what is new
    in it."""
    return _of(trace).levels()

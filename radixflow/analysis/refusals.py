"""The refused visits of a trace, by request, as arrays."""

from __future__ import annotations

import numpy as np
import pandas as pd

from radixflow.analysis.causes import WAIT_CODE, finer_facts, wait_cause
from radixflow.analysis.timeline import Timeline
from radixflow.trace.schema import Blocked, Other

_IDENTITY = ("cause", "producer", "boundary", "groups", "gate", "status")
"""Facts that tell two refusals apart: a stretch ends where one of them changes. Numbers that drift from
round to round (free blocks, tokens left) don't."""

_FACTS = {
    "blocked": ("producer", "boundary", "groups"),
    "capacity": ("needed", "free", "reserved", "watermark", "gate", "also", "producer", "boundary"),
    "never_fits": ("needed", "total", "gate", "also", "producer", "boundary"),
    "alignment": ("tokens_left", "block"),
    "tokens": ("tokens_left",),
    "fragmented": ("tokens_left", "block"),
    "deferred": ("status",),
}


def recorded_facts(ids: list[str], refusal: Blocked | Other) -> dict:
    """The facts of a refusal's record, requests by id, absent ones left out."""
    recorded = getattr(refusal, "cause", "blocked")
    facts = {name: getattr(refusal, name, None) for name in _FACTS.get(wait_cause(recorded), ())}
    facts = {name: value for name, value in facts.items() if value is not None and value != []}
    if "producer" in facts:
        producer = facts.pop("producer")
        facts = ({"producer": ids[producer]} if producer >= 0 else {}) | facts
    return facts | finer_facts(recorded)


class Refusals:
    """Refused visits sorted by request, then round; of two in one round the last stands."""

    def __init__(self, trace, timeline: Timeline):
        frame = trace.refusals
        i = frame["i"].to_numpy(np.int64)
        line = np.searchsorted(timeline.last, frame["round"].to_numpy(np.int64))
        order = np.lexsort((np.arange(len(i)), line, i))
        i, line = i[order], line[order]
        final = np.ones(len(order), dtype=bool)
        final[:-1] = (i[1:] != i[:-1]) | (line[1:] != line[:-1])
        order = order[final]
        self._ids = trace.ids
        self._frame = frame
        self._row = order
        self._columns: dict[str, list] = {}
        self.i = i[final]
        """int64[R]: the refused request."""
        self.line = line[final]
        """int64[R]: the timeline stretch that refused it."""
        recorded = frame["cause"].to_numpy(dtype=object)[order]
        codes = {cause: WAIT_CODE[wait_cause(cause)] for cause in set(recorded.tolist())}
        self.cause = np.array([codes[cause] for cause in recorded], dtype=np.int8)
        """int8[R]: code of `WAIT_CAUSES`."""
        self.producer = _numbers(frame, "producer")[order]
        """int64[R]: the request that writes the missing state; -1 where none is named."""
        self.kind = _identity(frame)[order]
        """int64[R]: equal for refusals with the same identity."""
        self._starts = np.searchsorted(self.i, np.arange(len(trace.ids) + 1))

    def range_of(self, i: int) -> tuple[int, int]:
        """Where request i's refusals stand: `[low, high)`."""
        return int(self._starts[i]), int(self._starts[i + 1])

    def rows(self, i: int, a: int, b: int) -> np.ndarray:
        """Indices of request i's refusals in stretches [a, b) of the timeline."""
        low, high = self.range_of(i)
        return low + np.arange(*np.searchsorted(self.line[low:high], (a, b)))

    def facts(self, i: int, at: int) -> dict:
        """The facts of request i's refusal in stretch `at`, requests by id, absent ones left out."""
        k = int(self.rows(i, at, at + 1)[0])
        at = int(self._row[k])
        recorded = self._column("cause")[at]
        facts = {}
        for name in _FACTS.get(wait_cause(recorded), ()):
            value = self._column(name)[at]
            if value is None or isinstance(value, list) and not value:
                continue
            if name != "producer":
                facts[name] = value
            elif value >= 0:  # -1: written by nobody that the recorder could name
                facts[name] = self._ids[value]
        return facts | finer_facts(recorded)

    def _column(self, name: str) -> list:
        if name not in self._columns:
            column = self._frame[name].astype(object)
            self._columns[name] = column.where(column.notna(), None).tolist()
        return self._columns[name]


def _numbers(frame, name: str) -> np.ndarray:
    return pd.to_numeric(frame[name]).fillna(-1).to_numpy(np.int64)


def _identity(frame) -> np.ndarray:
    code = np.zeros(len(frame), dtype=np.int64)
    for name in _IDENTITY:
        column = frame[name].astype(object)
        values = column.map(str) if name == "groups" else column
        codes, uniques = pd.factorize(values)
        code, _ = pd.factorize(code * (len(uniques) + 1) + codes)  # renumbered, so that it can't overflow
    return code

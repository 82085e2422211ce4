"""Prompt tokens at first admission: prompt = reused + forgone + fresh, with what was missing named."""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice, takewhile
from typing import NamedTuple

import numpy as np
import pandas as pd

from radixflow.analysis.places import CacheEvent, CacheHistory, Places
from radixflow.analysis.recompute import recomputed_by_request


class Missing(NamedTuple):
    """A group whose state kept a matched prefix from being resumed."""

    group: int
    kind: str
    """The group's kind, such as `mamba`."""
    boundary: int
    """Where its state was needed, tokens."""
    why: str
    """`never_computed`: no chunk of a request with this prefix ended there, so the state never existed
    by itself. `not_retained`: one did, and the state was not kept. `evicted`: it was cached and lost.
    `in_flight`: it was being written in the very round of the look-up. `between_boundaries`: the match
    ends inside a block of this group."""
    by: str | None
    """Who: the evictor, the producer in flight, or the request that computed through it."""
    round: int | None
    """When that happened."""


def served_tokens(trace) -> tuple[int, int]:
    """Prompt tokens served from the cache at first admission, and prompt tokens of the admitted requests."""
    _, _, prompt, _, reused = _first_admissions(trace)
    return int(reused.sum()), int(prompt.sum())


def reuse(trace) -> pd.DataFrame:
    """One row an admitted request, in order of admission.

    Columns: `request`, `i`, `round` (of its first admission), `prompt`, `reused` (served from the cache,
    h, those of a KV connector among them), `external` (of a connector), `forgone` (matched by tokens, h^,
    but not ready: computed anyway), `fresh` (no group had them), `recomputed` (after preemptions, apart
    from the sum), `missing` (list of `Missing`, for the forgone ones). prompt = reused + forgone + fresh.
    """
    admitted, i, prompt, external, reused = _first_admissions(trace)
    matched = np.minimum(admitted["matched"].to_numpy(np.int64), prompt)
    forgone = np.maximum(matched - reused, 0)
    first = pd.DataFrame(
        {
            "request": np.array(trace.ids, dtype=object)[i],
            "i": i,
            "round": admitted["round"].to_numpy(np.int64),
            "prompt": prompt,
            "reused": reused,
            "external": external,
            "forgone": forgone,
            "fresh": prompt - reused - forgone,
            "matched": matched,
        }
    )
    again = recomputed_by_request(trace)
    first["recomputed"] = np.array([again.get(i, 0) for i in first["i"].tolist()], dtype=np.int64)
    short = first[first["forgone"] > 0]
    found = dict(zip(short.index.tolist(), missing_states(trace, short), strict=True))
    first["missing"] = pd.Series([found.get(k, []) for k in first.index], index=first.index, dtype=object)
    return first.drop(columns="matched").reset_index(drop=True)


def _first_admissions(trace) -> tuple[pd.DataFrame, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The rows of `admissions` that were a request's first, and of each: who, its prompt's tokens, those that a
    connector brought, and those served from the cache altogether."""
    admissions = trace.admissions
    first = admissions[~admissions["again"].to_numpy()]
    i = first["i"].to_numpy(np.int64)
    prompt = trace.requests["prompt"].to_numpy(np.int64)[i]
    external = first["external"].to_numpy(np.int64)
    reused = np.minimum(first["ready"].to_numpy(np.int64) + external, prompt)
    return first, i, prompt, external, reused


def missing_states(trace, looked_up: pd.DataFrame) -> list[list[Missing]]:
    """For each row (`i`, `round` of the look-up, `matched`): the groups without a state at the match."""
    rows = list(zip(*(looked_up[name].tolist() for name in ("i", "round", "matched")), strict=True))
    groups = trace.config.groups
    needed = {(i, matched // g.block_size * g.block_size) for i, _, matched in rows for g in groups}
    history = CacheHistory(trace, needed)
    chunk_ends = _ChunkEnds(trace, {boundary for _, boundary in needed})
    found = []
    for i, n, matched in rows:
        own = []
        for group in groups:
            boundary = matched // group.block_size * group.block_size
            if boundary != matched:
                own.append(Missing(group.index, group.kind, matched, "between_boundaries", None, None))
                continue
            events = history.of(i, boundary).get(group.index, [])
            why, by, when = _fate(events, i, n, "kv" in group.components) or _uncached(
                chunk_ends.at(i, boundary, n)
            )
            if why != "present":
                own.append(Missing(group.index, group.kind, boundary, why, _name(trace, by), when))
        found.append(own)
    return found


def _name(trace, i: int | None) -> str | None:
    return None if i is None or i < 0 else trace.ids[i]


def _fate(
    events: list[CacheEvent], i: int, n: int, attention: bool
) -> tuple[str, int | None, int | None] | None:
    """What the cache held when round n looked request i up: `(why, by, round)`; None where it never held it.

    A key-value block can be matched in the round that computes it, a recurrent state from the next round on.
    """
    now = bisect_left(events, n, key=lambda event: event.round)
    during = list(takewhile(lambda event: event.round == n, islice(events, now, None)))
    gone = next((event for event in reversed(during) if event.event != "published"), None)
    last = gone or (events[now - 1] if now else None)
    if last is not None and last.event == "published":
        return "present", last.i, last.round
    written = next((event for event in during if event.event == "published" and event.i != i), None)
    if written is not None:
        return "present" if attention else "in_flight", written.i, n
    if last is not None and any(event.event == "published" for event in islice(events, now)):
        return "evicted", last.by, last.round
    return None


def _uncached(computed: tuple[int, int] | None) -> tuple[str, int | None, int | None]:
    return ("never_computed", None, None) if computed is None else ("not_retained", *computed)


class _ChunkEnds:
    """Which visits ended exactly at a boundary: there the running state was a state at the boundary."""

    def __init__(self, trace, boundaries: set[int]):
        visits = trace.visits
        ends = visits["start"].to_numpy(np.int64) + visits["tokens"].to_numpy(np.int64)
        chosen = np.isin(ends, list(boundaries))
        self._places = Places(trace)
        self._at: dict[tuple, list[tuple[int, int]]] = {}
        kept = visits[chosen]
        for i, n, end in zip(kept["i"].tolist(), kept["round"].tolist(), ends[chosen].tolist(), strict=True):
            place = self._places.at(i, end)
            if place is not None:
                self._at.setdefault(place, []).append((i, n))

    def at(self, i: int, boundary: int, until: int) -> tuple[int, int] | None:
        """The last `(request, round)` but i's own, up to round `until`, whose chunk ended at this place."""
        ends = self._at.get(self._places.at(i, boundary), [])
        return next(((j, n) for j, n in reversed(ends) if n <= until and j != i), None)

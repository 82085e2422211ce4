"""Who evicted whom, and what a trajectory still had when it came back: theory beside measurement.

A trajectory is a context that grows: a request continues the one whose prompt's whole blocks are a prefix
of its own, and returns once that one is done. With n trajectories, n_a active on average, room for m whole
prefixes and the idle share s = (n - n_a) / n, RR-Evict (arXiv 2609.32278) expects of those that come back

    kept share        h = (m - n_a) / (n s)
    recomputed share  q = 1 - h = (n - m) / (n s)

whichever of them loses it: vLLM's LRU takes all from few, rotating tails take a little from each.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from dataclasses import asdict, dataclass
from itertools import accumulate

import numpy as np
import pandas as pd

from radixflow.analysis.cost import NS

PERCENTILES = (50, 95, 99)


def evictions(trace) -> pd.DataFrame:
    """One row a span of blocks that lost its prefix, in order of rounds.

    Columns: `round`, `victim` and `evictor` (ids: whose tokens the blocks held, and whose allocation took
    them; None where nobody's did), `victim_trajectory` and `evictor_trajectory` (the id of each one's first
    request), `group`, `start`, `end` (tokens of the victim's prompt and output), `blocks`.
    """
    rows = trace.cache[trace.cache["event"] == "evicted"]
    sizes = {group.index: group.block_size for group in trace.config.groups}
    names, first = [*trace.ids, None], [*(trace.ids[k] for k in _Trajectories(trace).of), None]
    victims, by = rows["i"].to_numpy(np.int64), rows["by"].to_numpy(np.int64)
    step = rows["group"].map(sizes).to_numpy(np.int64)
    return pd.DataFrame(
        {
            "round": rows["round"].to_numpy(np.int64),
            "victim": [names[i] for i in victims],
            "evictor": [names[i] for i in by],  # -1, nobody's, is the last name
            "victim_trajectory": [first[i] for i in victims],
            "evictor_trajectory": [first[i] for i in by],
            "group": rows["group"].to_numpy(np.int64),
            "start": rows["start"].to_numpy(np.int64),
            "end": rows["end"].to_numpy(np.int64),
            "blocks": (rows["end"].to_numpy(np.int64) - rows["start"].to_numpy(np.int64)) // step,
        }
    )


def evictors(trace) -> pd.DataFrame:
    """Who evicted whom: blocks by (`evictor_trajectory`, `victim_trajectory`), most first.

    Columns: those two (None where no allocation took them), `blocks`, `times` (requests that took some).
    """
    table = evictions(trace).groupby(["evictor_trajectory", "victim_trajectory"], dropna=False, as_index=False)
    found = table.agg(blocks=("blocks", "sum"), times=("evictor", "nunique"))
    return found.sort_values(["blocks", "victim_trajectory"], ascending=[False, True], ignore_index=True)


def returns(trace) -> pd.DataFrame:
    """One row a request that came back to a trajectory whose last request was done, in order of arrival.

    Columns: `request`, `i`, `trajectory` (the id of its first request), `round` (of the look-up),
    `expected` (tokens in whole blocks that the last request's prompt left), `shared` (those of them that
    other trajectories have as well), `reused` (served from the cache, at most `expected`), `missed`
    (expected - reused), `miss` (`none`, `partial`, or `whole`: nothing of its own was left), `evictor` (id
    of the request that took the last of what is missed; None where nothing was evicted), `ttft` (seconds
    from arrival to the end of the round that completed its prompt; NaN where that isn't recorded).
    """
    block = trace.config.block_size
    trajectories = _Trajectories(trace)
    ttft = _time_to_first_token(trace)
    requests = trace.requests
    prompts = requests["prompt"].tolist()
    done = dict(zip(requests.index.tolist(), requests["finish_round"].tolist(), strict=True))
    took = _Takers(trace, trajectories)
    first = trace.admissions[~trace.admissions["again"].astype(bool)].drop_duplicates("i")
    rows = []
    for n, i, ready in sorted(zip(*(first[c].tolist() for c in ("round", "i", "ready")), strict=True), key=_second):
        parent = trajectories.parent[i]
        if parent is None or pd.isna(done[parent]) or done[parent] >= n:
            continue
        expected = min(prompts[parent], prompts[i] - 1) // block * block
        shared = min(trajectories.shared(i), expected) // block * block
        if shared == expected:
            continue  # it has nothing of its own that could be lost
        reused = min(ready, expected)
        miss = "none" if reused == expected else "partial" if reused > shared else "whole"
        own = trajectories.of[i]
        rows.append(
            {
                "request": trace.ids[i],
                "i": i,
                "trajectory": trace.ids[own],
                "round": n,
                "expected": expected,
                "shared": shared,
                "reused": reused,
                "missed": expected - reused,
                "miss": miss,
                "evictor": took.last(own, reused, expected, n) if miss != "none" else None,
                "ttft": ttft.get(i, float("nan")),
            }
        )
    return pd.DataFrame(rows, columns=_COLUMNS)


_COLUMNS = ["request", "i", "trajectory", "round", "expected", "shared", "reused", "missed", "miss", "evictor", "ttft"]


@dataclass(frozen=True, slots=True)
class EvictionSummary:
    """What eviction cost those that came back. Shares are of their own tokens, a common beginning left out."""

    eviction: str
    """`lru` or `rr`."""
    trajectories: int
    """n."""
    active: float | None
    """n_a: trajectories with an unfinished request, at most the row budget S of them, on average over the
    time in which others came back."""
    capacity: float | None
    """m: whole prefixes (as long as those that came back, with one state a state group) that the pool
    holds beside what all share."""
    idle_share: float | None
    """s = (n - n_a) / n."""
    in_range: bool | None
    """n_a < m < n: below, nothing idle can be kept; above, all of it can. Outside the choice of victims
    changes nothing. None without a return."""
    theory: dict[str, float] | None
    """`kept` and `recomputed`, held between 0 and 1."""
    measured: dict[str, float] | None
    returns: int
    whole_misses: int
    partial_misses: int
    missed: dict[str, float] | None
    """Tokens a return, `{mean, p50, p95, p99}`."""
    ttft: dict[str, float] | None
    """Seconds a return, the same; None where the workload has no clock."""
    evicted_blocks: int

    def to_dict(self) -> dict:
        """JSON's types only."""
        return asdict(self)

    @property
    def verdict(self) -> str:
        """One sentence: whether the choice of victims can matter here."""
        if self.in_range is None:
            return "Nobody came back to a context that was cached before, so eviction cost nobody anything."
        sizes = f"n_a = {self.active:.1f}, m = {self.capacity:.1f}, n = {self.trajectories}"
        if self.in_range:
            return f"n_a < m < n ({sizes}): what idle trajectories keep depends on whom eviction takes it from."
        if self.capacity is not None and self.capacity >= self.trajectories:
            return f"m >= n ({sizes}): all trajectories fit, so lru and rr are the same."
        return f"m <= n_a ({sizes}): not even the active trajectories fit, so lru and rr are the same."


def summarize_evictions(trace) -> EvictionSummary:
    """The summary of one trace. Numbers that need a return are None where nobody came back."""
    back = returns(trace)
    n = len(set(_Trajectories(trace).of))
    taken = int(evictions(trace)["blocks"].sum())
    active = capacity = idle = in_range = theory = measured = missed = ttft = None
    if len(back):
        active, capacity = _active(trace, back), _capacity(trace, back)
        idle = (n - active) / n
        in_range = bool(active < capacity < n)
        kept = min(max((capacity - active) / (n - active), 0.0), 1.0) if n > active else 1.0
        theory = {"kept": kept, "recomputed": 1.0 - kept}
        own = int((back["expected"] - back["shared"]).sum())
        left = int((back["reused"] - back["shared"]).clip(lower=0).sum())
        measured = {"kept": left / own, "recomputed": 1.0 - left / own}
        missed = _spread(back["missed"])
        ttft = _spread(back["ttft"].dropna()) if trace.header.clock.arrivals else None
    return EvictionSummary(
        eviction=trace.config.eviction,
        trajectories=n,
        active=active,
        capacity=capacity,
        idle_share=idle,
        in_range=in_range,
        theory=theory,
        measured=measured,
        returns=len(back),
        whole_misses=int((back["miss"] == "whole").sum()),
        partial_misses=int((back["miss"] == "partial").sum()),
        missed=missed,
        ttft=ttft,
        evicted_blocks=taken,
    )


def _second(row: tuple) -> int:
    return row[1]


def _spread(values: pd.Series) -> dict[str, float] | None:
    if not len(values):
        return None
    spread = {f"p{p}": float(np.percentile(values, p)) for p in PERCENTILES}
    return {"mean": float(values.mean())} | spread


def _capacity(trace, back: pd.DataFrame) -> float:
    """Whole prefixes that fit, in their mean length."""
    blocks = {True: 0.0, False: 0.0}
    own, shared = float((back["expected"] - back["shared"]).mean()), float(back["shared"].max())
    for group in trace.config.groups:
        if "kv" in group.components:
            blocks[True] += own / group.block_size
            blocks[False] += shared / group.block_size
        else:
            blocks[True] += 1
    return (trace.config.num_blocks - 1 - blocks[False]) / blocks[True]


def _active(trace, back: pd.DataFrame) -> float:
    """Unfinished requests, as many as there are rows for, on average from the first return's look-up to the
    last one's."""
    starts = trace.rounds["t"]
    first, last = int(starts.loc[back["round"].min()]), int(starts.loc[back["round"].max()])
    requests = trace.requests
    begin = np.clip(requests["t"].to_numpy(np.int64), first, last)
    end = np.clip(requests["finish_t"].fillna(last).to_numpy(np.int64), first, last)
    times = np.concatenate([begin, end])
    order = np.argsort(times, kind="stable")
    present = np.cumsum(np.repeat([1, -1], len(requests))[order])[:-1]
    return float(np.minimum(present, trace.config.max_num_seqs) @ np.diff(times[order])) / max(last - first, 1)


def _time_to_first_token(trace) -> dict[int, float]:
    """Request -> seconds from its arrival to the end of the round that computed its prompt's last token."""
    visits = trace.visits
    prompts = trace.requests["prompt"].to_numpy(np.int64)
    start = visits["start"].to_numpy(np.int64)
    i = visits["i"].to_numpy(np.int64)
    done = start + visits["tokens"].to_numpy(np.int64) >= prompts[i]
    completing = visits[done].drop_duplicates("i")
    rounds = trace.rounds
    ends = rounds["t"] + rounds["schedule_ns"] + rounds["host_ns"]
    at = ends.reindex(completing["round"]).to_numpy(dtype=float, na_value=np.nan)
    arrival = trace.requests["arrival"].to_numpy(np.int64)[completing["i"].to_numpy(np.int64)]
    return dict(zip(completing["i"].tolist(), ((at - arrival) / NS).tolist(), strict=True))


class _Trajectories:
    """Which request continues which: told by their prompts' paths alone."""

    def __init__(self, trace) -> None:
        block = trace.config.block_size
        self._paths = [trace.path_of(i) for i in range(len(trace.ids))]
        self.parent: list[int | None] = []
        self.of: list[int] = []
        """Request -> the first request of its trajectory."""
        ends: dict[str, list[tuple[int, int]]] = defaultdict(list)
        continued: set[int] = set()
        for i, prompt in enumerate(trace.requests["prompt"].tolist()):
            parent = self._continues(i, prompt, ends)
            self.parent.append(parent)
            # The first to go on is the trajectory's next turn, any other one a branch of it.
            goes_on = parent is not None and parent not in continued
            self.of.append(self.of[parent] if goes_on else i)  # type: ignore[index]
            if parent is not None:
                continued.add(parent)
            if whole := prompt // block * block:
                stream = self._stream(i, whole)
                if stream is not None:
                    insort(ends[stream], (whole, i))
        self._deepest = self._two_deepest()

    def _spans(self, i: int, tokens: int | None = None) -> list[tuple[str, int, int]]:
        """(stream, from, to) down the path, in tokens of the prompt."""
        path = self._paths[i]
        stops = list(accumulate(n for _, n in path))
        spans = [(stream, stop - n, stop) for (stream, n), stop in zip(path, stops, strict=True)]
        return spans if tokens is None else [(s, a, min(b, tokens)) for s, a, b in spans if a < tokens]

    def _stream(self, i: int, boundary: int) -> str | None:
        return next((stream for stream, start, stop in self._spans(i) if start < boundary <= stop), None)

    def _continues(self, i: int, prompt: int, ends: dict[str, list[tuple[int, int]]]) -> int | None:
        """The latest of those whose whole blocks end deepest on request i's way."""
        for stream, start, stop in reversed(self._spans(i, prompt)):
            own = ends.get(stream, [])
            at = bisect_right(own, (stop, len(self._paths)))
            if at and own[at - 1][0] > start:
                return own[at - 1][1]
        return None

    def _two_deepest(self) -> dict[str, list[tuple[int, int]]]:
        """Stream -> the two trajectories that go furthest along it, as (tokens, trajectory)."""
        furthest: dict[str, dict[int, int]] = defaultdict(dict)
        for i, own in enumerate(self.of):
            for stream, _, stop in self._spans(i):
                furthest[stream][own] = max(stop, furthest[stream].get(own, 0))
        return {s: sorted(((d, t) for t, d in of.items()), reverse=True)[:2] for s, of in furthest.items()}

    def shared(self, i: int) -> int:
        """Tokens of request i's prompt that another trajectory has as well."""
        depth = 0
        for stream, _, stop in self._spans(i):
            others = [tokens for tokens, own in self._deepest[stream] if own != self.of[i]]
            if not others:
                break
            depth = min(stop, others[0])
            if depth < stop:
                break
        return depth


class _Takers:
    """Who took blocks of a trajectory last."""

    def __init__(self, trace, trajectories: _Trajectories) -> None:
        self._ids = trace.ids
        self._taken: dict[int, list[tuple[int, int, int, int]]] = defaultdict(list)
        rows = trace.cache[trace.cache["event"] == "evicted"]
        for n, i, start, end, by in zip(*(rows[c].tolist() for c in ("round", "i", "start", "end", "by")), strict=True):
            self._taken[trajectories.of[i]].append((n, start, end, by))

    def last(self, trajectory: int, start: int, end: int, until: int) -> str | None:
        """The id of the last evictor, up to round `until`, of a block between the two depths."""
        taken = self._taken.get(trajectory, [])
        before = bisect_right(taken, until, key=lambda row: row[0])
        for _, first, last, by in reversed(taken[:before]):
            if first < end and last > start:
                return self._ids[by] if by >= 0 else None
        return None

"""Who evicted whom, and what a trajectory still had when it came back: theory beside measurement.

A trajectory is a context that grows: a request continues the one whose prompt's whole blocks are a prefix
of its own, and returns once that one is done. With n trajectories, n_a active on average, room for m whole
prefixes and the idle share s = (n - n_a) / n, RR-Evict (arXiv 2609.32278) expects of those that come back

    kept share        h = (m - n_a) / (n s)
    recomputed share  q = 1 - h = (n - m) / (n s)

whichever of them loses it: vLLM's LRU takes all from few, rotating tails take a little from each.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from radixflow.analysis.cost import NS
from radixflow.analysis.trajectories import Takers, Trajectories

PERCENTILES = (50, 95, 99)
_UNKNOWN = 2**62
"""Prompt tokens of a request whose record is missing: never computed."""


def evictions(trace) -> pd.DataFrame:
    """One row a span of blocks that lost its prefix, in order of rounds.

    Columns: `round`, `victim` and `evictor` (ids: whose tokens the blocks held, and whose allocation took
    them; None where nobody's did), `victim_trajectory` and `evictor_trajectory` (the id of each one's first
    request), `group`, `start`, `end` (tokens of the victim's prompt and output), `blocks`.
    """
    rows = trace.cache[trace.cache["event"] == "evicted"]
    sizes = {group.index: group.block_size for group in trace.config.groups}
    of = Trajectories.of_trace(trace).of
    names = [*trace.ids, None]
    first = [*(names[of.get(i, -1)] for i in range(len(trace.ids))), None]
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


@dataclass(frozen=True, slots=True)
class Return:
    """A request that came back to a trajectory whose last request was done; requests by number, lengths in tokens."""

    i: int
    trajectory: int
    """Its first request."""
    round: int
    """Of the look-up."""
    expected: int
    """In whole blocks, what the last request's prompt left."""
    shared: int
    """What of it other trajectories have as well."""
    reused: int
    """Served from the cache, at most `expected`."""
    evictor: int | None
    """Who took the last of what is missed; None where nothing was evicted."""

    @property
    def missed(self) -> int:
        """expected - reused."""
        return self.expected - self.reused

    @property
    def miss(self) -> str:
        """`none`, `partial`, or `whole`: nothing of its own was left."""
        return "none" if not self.missed else "partial" if self.reused > self.shared else "whole"


def came_back(trace) -> list[Return]:
    """All returns of a trace, in order of arrival."""
    block = trace.config.block_size
    trajectories = Trajectories.of_trace(trace)
    requests = trace.requests
    prompts = dict(zip(requests.index.tolist(), requests["prompt"].tolist(), strict=True))
    done = dict(zip(requests.index.tolist(), requests["finish_round"].tolist(), strict=True))
    took = Takers(trace, trajectories)
    first = trace.admissions[~trace.admissions["again"].astype(bool)].drop_duplicates("i")
    found = []
    for n, i, ready in sorted(zip(*(first[c].tolist() for c in ("round", "i", "ready")), strict=True), key=_second):
        parent = trajectories.parent.get(i)
        if parent is None or pd.isna(done[parent]) or done[parent] >= n:
            continue
        expected = min(prompts[parent], prompts[i] - 1) // block * block
        shared = min(trajectories.shared(i), expected) // block * block
        if shared == expected:
            continue  # it has nothing of its own that could be lost
        reused = min(ready, expected)
        own = trajectories.of[i]
        evictor = took.last(own, reused, expected, n) if reused < expected else None
        found.append(Return(i, own, n, expected, shared, reused, evictor))
    return found


def returns(trace) -> pd.DataFrame:
    """One row a request that came back to a trajectory whose last request was done, in order of arrival.

    Columns: `request`, `i`, `trajectory` (the id of its first request), `round` (of the look-up),
    `expected` (tokens in whole blocks that the last request's prompt left), `shared` (those of them that
    other trajectories have as well), `reused` (served from the cache, at most `expected`), `missed`
    (expected - reused), `miss` (`none`, `partial`, or `whole`: nothing of its own was left), `evictor` (id
    of the request that took the last of what is missed; None where nothing was evicted), `ttft` (seconds
    from arrival to the end of the round that completed its prompt; NaN where that isn't recorded).
    """
    ttft = _time_to_first_token(trace)
    rows = [
        {
            "request": trace.ids[one.i],
            "i": one.i,
            "trajectory": trace.ids[one.trajectory],
            "round": one.round,
            "expected": one.expected,
            "shared": one.shared,
            "reused": one.reused,
            "missed": one.missed,
            "miss": one.miss,
            "evictor": trace.ids[one.evictor] if one.evictor is not None else None,
            "ttft": ttft.get(one.i, float("nan")),
        }
        for one in came_back(trace)
    ]
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
    n = len(Trajectories.of_trace(trace).members)
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
    known = trace.requests["prompt"].astype(np.int64)
    prompts = known.reindex(range(len(trace.ids)), fill_value=_UNKNOWN).to_numpy(np.int64)
    start = visits["start"].to_numpy(np.int64)
    i = visits["i"].to_numpy(np.int64)
    done = start + visits["tokens"].to_numpy(np.int64) >= prompts[i]
    completing = visits[done].drop_duplicates("i")
    rounds = trace.rounds
    ends = rounds["t"] + rounds["schedule_ns"] + rounds["host_ns"]
    at = ends.reindex(completing["round"]).to_numpy(dtype=float, na_value=np.nan)
    arrival = trace.requests["arrival"].reindex(completing["i"]).to_numpy(np.int64)
    return dict(zip(completing["i"].tolist(), ((at - arrival) / NS).tolist(), strict=True))

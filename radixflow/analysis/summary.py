"""The summary of a run: one number or distribution a definition, nothing estimated."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from radixflow.analysis.bound import lower_bound
from radixflow.analysis.cost import NS, CostRefused, host_cost
from radixflow.analysis.metric_rows import metric_table
from radixflow.analysis.prose import Tabled
from radixflow.analysis.recompute import recomputed_tokens
from radixflow.analysis.reuse import served_tokens
from radixflow.analysis.timeline import last_moment

_DESCRIBING = ("trace", "policy", "engine", "model", "workload")
_SPREADS = ("latency", "first_selected_wait")


@dataclass(frozen=True, slots=True, repr=False)
class Summary(Tabled):
    """What `run --json` prints. Times are seconds."""

    trace: str
    """Path of the trace (the first file, where there are several)."""
    policy: str
    engine: str
    """`sim` or `vllm`."""
    model: str | None
    workload: str | None
    requests: int
    """Requests that reached the scheduler."""
    completed: int
    """Left it with a reason other than `abort` and `error`."""
    aborted: int
    """Left it with the reason `abort`."""
    rounds: int
    """Calls of `schedule()` that scheduled at least one token."""
    stalled_rounds: int
    """Calls that scheduled none although an admitted request was unfinished and no step in flight."""
    scheduled_tokens: int
    row_visits: int
    """A row visit is one request scheduled in one round."""
    rows_per_round: float | None
    """`row_visits / rounds`; None without a round."""
    empty_slots: int
    """The row budget S minus the rows, summed over `rounds`."""
    avoidable_slots: int | None
    """Over `rounds`: how many more requests the native check would have accepted. None where a round
    with an empty slot was not probed (probe off or sampled): a part of the sum would mislead."""
    blocked_visits: int
    """Visits refused only because a state at the matched boundary was being written in that round."""
    reuse_rate: float | None
    """Prompt tokens served from the cache at first admission, over the prompt tokens of the requests
    that were admitted. A request never admitted was never looked up, so it is in neither. None where
    none was admitted."""
    recomputed_tokens: int
    """Tokens scheduled again after a preemption threw their state away."""
    lower_bound_rounds: int
    """max(W/T, V/S, D), rounded up (see `radixflow.analysis.bound`)."""
    latency: dict[str, float] | None
    """Arrival to finish of the completed requests, `{mean, p50, p95, p99}`; None where the workload has
    no clock or none completed. Percentiles interpolate linearly."""
    first_selected_wait: dict[str, float] | None
    """Arrival to `schedule()` of the first round that selected it, over the requests ever selected."""
    host_seconds: float | None
    """Sum over `rounds` of `schedule()`'s return to `update_from_output()`'s entry; None under
    asynchronous scheduling. A round still in flight when the trace was cut counts nothing."""
    wall_seconds: float
    """First arrival (or first round) to the last recorded moment, on the run's own clock: virtual in
    the simulator."""

    def to_dict(self) -> dict:
        """The object of CONTRACT's Summary, key by key in its order."""
        return asdict(self)

    def flat(self) -> dict[str, float | None]:
        """Its numbers, distributions as `latency_mean`, `latency_p50`, ..."""
        flat: dict[str, float | None] = {}
        for key, value in self.to_dict().items():
            if key in _SPREADS:
                flat |= {f"{key}_{part}": value[part] if value else None for part in ("mean", "p50", "p95", "p99")}
            elif key not in _DESCRIBING:
                flat[key] = value
        return flat

    def _told(self) -> tuple[str, pd.DataFrame, list[str]]:
        return f"{self.workload or self.trace} under {self.policy}", metric_table([self.flat()], [self.policy]), []


class Headline(NamedTuple):
    """Those of a summary's numbers that one look at rounds and requests gives: what a turn of a knob shows."""

    rounds: int
    row_visits: int
    rows_per_round: float | None
    empty_slots: int
    avoidable_slots: int | None
    reuse_rate: float | None
    latency: dict[str, float] | None


def headline(trace) -> Headline:
    """What `Summary` says of these, defined there, without the rest of it, which takes longer."""
    rounds, size = trace.rounds, trace.config.max_num_seqs
    counted = rounds["tokens"].to_numpy() > 0
    visits, number = rounds["rows"].to_numpy()[counted], int(counted.sum())
    rows = int(visits.sum())
    served, prompt = served_tokens(trace)
    return Headline(
        rounds=number,
        row_visits=rows,
        rows_per_round=rows / number if number else None,
        empty_slots=size * number - rows,
        avoidable_slots=_avoidable(rounds["avoidable"].array[counted], visits, size),
        reuse_rate=served / prompt if prompt else None,
        latency=_spread(trace.requests, "finish_t", _completed(trace)) if trace.header.clock.arrivals else None,
    )


def summarize(trace) -> Summary:
    """The summary of `trace`. A trace that was cut is summarised as far as it goes."""
    rounds, requests, header = trace.rounds, trace.requests, trace.header
    head = headline(trace)
    try:
        host = host_cost(trace).total_ns / NS
    except CostRefused:
        host = None
    return Summary(
        trace=str(trace.path),
        policy=header.policy,
        engine=header.engine,
        model=header.model,
        workload=header.workload,
        requests=len(requests),
        completed=int(_completed(trace).sum()),
        aborted=int((requests["finish_reason"] == "abort").sum()),
        rounds=head.rounds,
        stalled_rounds=int(rounds.loc[rounds["stalled"], "repeat"].sum()),
        scheduled_tokens=int(rounds["tokens"].sum()),
        row_visits=head.row_visits,
        rows_per_round=head.rows_per_round,
        empty_slots=head.empty_slots,
        avoidable_slots=head.avoidable_slots,
        blocked_visits=int(rounds["blocked"].sum()),
        reuse_rate=head.reuse_rate,
        recomputed_tokens=recomputed_tokens(trace),
        lower_bound_rounds=lower_bound(trace).rounds,
        latency=head.latency,
        first_selected_wait=_spread(requests, "first_selected_t") if header.clock.arrivals else None,
        host_seconds=host,
        wall_seconds=_wall_ns(trace) / NS,
    )


def _completed(trace) -> np.ndarray:
    """bool[requests]: left the scheduler with a reason other than `abort` and `error`."""
    return ~trace.requests["finish_reason"].isin([None, "abort", "error"]).to_numpy()


def _avoidable(probed, visits: np.ndarray, size: int) -> int | None:
    """The sum over the rounds; None where a round with an empty slot has no number."""
    unknown = np.asarray(probed.isna())
    return None if bool((unknown & (visits < size)).any()) else int(probed[~unknown].sum())


def _spread(requests, until: str, among: np.ndarray | None = None) -> dict[str, float] | None:
    """Mean and percentiles of `until` minus arrival, in seconds."""
    moments = requests[until].array
    chosen = ~np.asarray(moments.isna())
    if among is not None:
        chosen &= among
    if not chosen.any():
        return None
    spans = (moments[chosen].to_numpy(np.int64) - requests["arrival"].to_numpy(np.int64)[chosen]) / NS
    p50, p95, p99 = np.percentile(spans, (50, 95, 99)).tolist()
    return {"mean": float(spans.mean()), "p50": p50, "p95": p95, "p99": p99}


def _wall_ns(trace) -> int:
    begins = [int(trace.requests["arrival"].min())] if len(trace.requests) else []
    if len(trace.rounds):
        begins.append(int(trace.rounds["t"].min()))
    return max(0, last_moment(trace) - min(begins)) if begins else 0

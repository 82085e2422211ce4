"""What the experiment's metrics are called where people read them, and to how many decimals they are said."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    words: str
    unit: str
    decimals: int
    """The same in a whole column, whatever its numbers are."""

    @property
    def head(self) -> str:
        """As a column's heading."""
        return f"{self.words} ({self.unit})" if self.unit else self.words


METRIC = {
    "latency": Metric("latency", "s", 3),
    "latency_p50": Metric("latency, p50", "s", 3),
    "latency_p95": Metric("latency, p95", "s", 3),
    "latency_p99": Metric("latency, p99", "s", 3),
    "first_selected": Metric("first selected", "s after arrival", 3),
    "longest_wait": Metric("longest wait", "s", 3),
    "rounds": Metric("rounds", "", 0),
    "reuse": Metric("reuse", "%", 2),
    "rows_per_round": Metric("rows a round", "", 2),
    "tokens_per_round": Metric("tokens a round", "", 1),
    "host_seconds": Metric("host time", "s", 3),
    "host_per_1000_tokens": Metric("host time of 1,000 tokens", "s", 5),
    "throughput": Metric("throughput", "questions a second", 3),
    "preemptions": Metric("preemptions", "", 0),
    "agreement": Metric("same first token", "%", 2),
    "wall_seconds": Metric("wall time", "s", 3),
}
"""By the name that a metric has in CSV and JSON."""

WHATIF = {
    "rounds": Metric("rounds", "", 0),
    "stalled_rounds": Metric("stalled rounds", "", 0),
    "scheduled_tokens": Metric("scheduled tokens", "", 0),
    "row_visits": Metric("row visits", "", 0),
    "rows_per_round": Metric("rows a round", "", 2),
    "empty_slots": Metric("empty slots", "", 0),
    "avoidable_slots": Metric("avoidable slots", "", 0),
    "blocked_visits": Metric("blocked visits", "", 0),
    "reuse_rate": Metric("reuse", "%", 2),
    "recomputed_tokens": Metric("recomputed tokens", "", 0),
    "completed": Metric("completed requests", "", 0),
    "latency_mean": Metric("latency, mean", "s", 3),
    "latency_p95": Metric("latency, p95", "s", 3),
    "latency_p99": Metric("latency, p99", "s", 3),
    "first_selected_mean": Metric("first selected", "s after arrival", 3),
    "host_seconds": Metric("host time", "s", 3),
}
"""Those of a recorded run and its replays, by their names in JSON."""

_BY_HEAD = {metric.head: metric for metric in METRIC.values()}


def metric_of(name: object) -> Metric | None:
    """The metric of this name or heading."""
    return METRIC.get(str(name)) or _BY_HEAD.get(str(name))


def words(name: str) -> str:
    """A metric, without its unit."""
    found = METRIC.get(name)
    return found.words if found else name.replace("_", " ")


def number(value: float, decimals: int, *, signed: bool = False) -> str:
    """With this many decimals and commas; what rounds to nothing has no minus."""
    rounded = round(value, decimals)
    return f"{rounded if rounded else 0.0:{'+' if signed else ''},.{decimals}f}"

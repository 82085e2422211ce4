"""Runs side by side: metrics, cost identity, slots and waits by cause, and where two runs part."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from radixflow.analysis.causes import SLOT_CAUSES, WAIT_CAUSES
from radixflow.analysis.cost import NS, CostIdentity, CostRefused, cost_identity
from radixflow.analysis.diverge import Divergence, diverge
from radixflow.analysis.metric_rows import METRICS, metric_table
from radixflow.analysis.prose import Tabled, counted
from radixflow.analysis.run_labels import run_labels
from radixflow.analysis.slots import slots
from radixflow.analysis.summary import Summary, summarize
from radixflow.analysis.waits import Ledger, waits_by_cause

_CONFIG = (
    "max_num_seqs",
    "max_num_batched_tokens",
    "block_size",
    "num_blocks",
    "retention_interval",
    "scheduling_policy",
    "async_scheduling",
    "spec_tokens",
)


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Tabled):
    """Traces compared with the first of them. Columns are named by `labels`."""

    labels: list[str]
    """A name for each trace: its policy, numbered where two have the same."""
    summaries: list[Summary]
    metrics: pd.DataFrame
    """Index `metric`; a column a trace, then `<label> vs <first>` (difference) and
    `<label> / <first>` (ratio; NaN where the first is 0 or missing) for each further trace."""
    slots: pd.DataFrame
    """Index: `SLOT_CAUSES`; slots of the rounds with a token, a column a trace."""
    waits: pd.DataFrame
    """Index: `WAIT_CAUSES`; seconds waited by all requests together, a column a trace."""
    wait_rounds: pd.DataFrame
    """The same in rounds."""
    costs: list[CostIdentity | None]
    """For each further trace, the cost identity with the first; None where it is refused."""
    refusals: list[str | None]
    """Why it is refused."""
    divergences: list[Divergence | None]
    """For each further trace, the first round where it parts from the first; None where it never does."""
    requests: pd.DataFrame
    """Index `request`; for each trace `first_selected_round`, `wait_rounds`, `wait_seconds`, `latency`,
    `cause` (of the longest part of the wait), under a column index `(label, field)`."""
    warnings: list[str] = field(default_factory=list)
    """What makes the comparison unfair: other requests, another configuration, a trace that was cut."""

    def table(self, *names: str) -> pd.DataFrame:
        """Metrics as people read them: text, with how each stands to the first run's in brackets.

        names: rows by their names in `metrics`; by default all that any run has.
        """
        for name in names:
            if name not in METRICS:
                raise ValueError(f"metric {name!r}: unknown, expected one of {', '.join(METRICS)}")
        return metric_table([one.flat() for one in self.summaries], self.labels, names or tuple(METRICS))

    def _told(self) -> tuple[str, pd.DataFrame, list[str]]:
        first = self.labels[0]
        said = [f"Note: {warning}." for warning in self.warnings]
        for label, part, cost, why in zip(
            self.labels[1:], self.divergences, self.costs, self.refusals, strict=True
        ):
            if part is None:
                said.append(f"{label} decided as {first} did in every round.")
            else:
                said.append(f"{label} and {first} part in round {part.round:,}: {part.said(label, first)}")
            said.append(f"{label}: {cost.text}" if cost else f"{label}: no cost identity: {why}.")
        return f"{', '.join(self.labels[1:])} against {first}", self.table(), said

    def to_dict(self) -> dict:
        """What `compare --json` prints."""
        return {
            "labels": self.labels,
            "summaries": [summary.to_dict() for summary in self.summaries],
            "metrics": _records(self.metrics),
            "slots": _records(self.slots),
            "waits": _records(self.waits),
            "wait_rounds": _records(self.wait_rounds),
            "cost": [
                cost.to_dict() if cost else {"refused": why}
                for cost, why in zip(self.costs, self.refusals, strict=True)
            ],
            "diverges": [part.to_dict() if part else None for part in self.divergences],
            "warnings": self.warnings,
        }


def compare(*traces) -> Comparison:
    """Compare two or more traces with the first. Raises `ValueError` for fewer than two.

    Traces of different workloads are compared all the same, with a line in `warnings` that says how they
    differ: the numbers are right, the conclusion would not be.
    """
    if len(traces) < 2:
        raise ValueError(f"compare needs at least two traces, got {len(traces)}")
    labels = run_labels(traces)
    summaries = [summarize(trace) for trace in traces]
    costs, refusals = [], []
    for trace in traces[1:]:
        try:
            costs.append(cost_identity(traces[0], trace))
            refusals.append(None)
        except CostRefused as refused:
            costs.append(None)
            refusals.append(str(refused))
    ledgers = [Ledger(trace) for trace in traces]
    by_cause = [waits_by_cause(ledger.trace, ledger) for ledger in ledgers]
    return Comparison(
        labels=labels,
        summaries=summaries,
        metrics=_metrics(summaries, labels),
        slots=pd.DataFrame({k: slots(trace).totals for k, trace in zip(labels, traces, strict=True)}).loc[
            list(SLOT_CAUSES)
        ],
        waits=_columns(labels, by_cause, "seconds"),
        wait_rounds=_columns(labels, by_cause, "rounds"),
        costs=costs,
        refusals=refusals,
        divergences=[diverge(traces[0], trace) for trace in traces[1:]],
        requests=pd.concat([request_rows(ledger) for ledger in ledgers], axis=1, keys=labels),
        warnings=differences(traces, labels),
    )


def differences(traces, labels: list[str]) -> list[str]:
    """What keeps these traces from being runs of one workload on one configuration, one line each."""
    found = []
    base, name = traces[0], labels[0]
    for trace, label in zip(traces[1:], labels[1:], strict=True):
        mine, theirs = _workload(base), _workload(trace)
        missing = [k for k in mine if k not in theirs]
        extra = [k for k in theirs if k not in mine]
        changed = [k for k in mine if k in theirs and mine[k] != theirs[k]]
        for what, ids in (
            (f"{label} lacks {{n}} of {name}", missing),
            (f"{label} has {{n}} that {name} lacks", extra),
            (f"{label} and {name} differ in prompt, output limit or priority of {{n}}", changed),
        ):
            if ids:
                found.append(f"{what.format(n=counted(len(ids), 'request'))}, such as {ids[0]}: not the same workload")
        for key in _CONFIG:
            ours, other = getattr(base.config, key), getattr(trace.config, key)
            if ours != other:
                found.append(f"{key} is {_said(key, ours)} in {name} and {_said(key, other)} in {label}")
        if base.header.engine != trace.header.engine:
            found.append(f"{name} ran on engine {base.header.engine}, {label} on {trace.header.engine}")
        if base.header.model != trace.header.model:
            ours, other = (one.header.model or "no particular model" for one in (base, trace))
            found.append(f"{name} ran {ours}, {label} {other}")
    for trace, label in zip(traces, labels, strict=True):
        if not trace.complete:
            found.append(f"{label} has no end: it was cut, or still runs")
        if trace.gaps:
            dropped = sum(gap.rounds for gap in trace.gaps)
            found.append(f"{label} has {counted(len(trace.gaps), 'gap')} ({counted(dropped, 'round')} dropped)")
    return found


def _said(key: str, value: object) -> str:
    if value is None:
        return "dense" if key == "retention_interval" else "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _workload(trace) -> dict[str, tuple]:
    requests = trace.requests
    fields = zip(requests["prompt"], requests["max_tokens"], requests["priority"], strict=True)
    return dict(zip(requests["id"].tolist(), fields, strict=True))


def _metrics(summaries: list[Summary], labels: list[str]) -> pd.DataFrame:
    flat = [summary.flat() for summary in summaries]
    table = pd.DataFrame(dict(zip(labels, flat, strict=True)), dtype=object)
    for label, own in zip(labels[1:], flat[1:], strict=True):
        pairs = {k: (flat[0].get(k), own.get(k)) for k in table.index}
        table[f"{label} vs {labels[0]}"] = pd.Series(
            {k: b - a for k, (a, b) in pairs.items() if a is not None and b is not None}, dtype=float
        )
        table[f"{label} / {labels[0]}"] = pd.Series(
            {k: b / a for k, (a, b) in pairs.items() if a and b is not None}, dtype=float
        )
    return table.rename_axis("metric")


def _columns(labels: list[str], tables: list[pd.DataFrame], name: str) -> pd.DataFrame:
    return pd.DataFrame({k: table[name] for k, table in zip(labels, tables, strict=True)}).loc[
        list(WAIT_CAUSES)
    ]


def request_rows(ledger: Ledger) -> pd.DataFrame:
    """One row a request of a run, as `Comparison.requests` has them for each."""
    requests = ledger.trace.requests
    rounds, ns = ledger.totals()
    first = [k for k, period in enumerate(ledger.periods) if not period.again]  # one a request, in its order
    rounds, ns = rounds[first], ns[first]
    longest = np.where((rounds > 0) | (ns > 0), ns * 2 + (rounds > 0), -1).argmax(axis=1)
    waited = (rounds.sum(axis=1) > 0) | (ns.sum(axis=1) > 0)
    table = pd.DataFrame(
        {
            "first_selected_round": requests["first_selected_round"],
            "wait_rounds": rounds.sum(axis=1),
            "wait_seconds": ns.sum(axis=1) / NS,
            "latency": (requests["finish_t"] - requests["arrival"]).astype("Float64") / NS,
            "cause": np.where(waited, np.array(WAIT_CAUSES, dtype=object)[longest], None),
        }
    )
    return table.set_index(requests["id"].rename("request"))


def _records(table: pd.DataFrame) -> dict:
    """`{index: {column: value}}` with None for what is missing."""
    return {
        str(key): {column: _plain(row[column]) for column in table.columns} for key, row in table.iterrows()
    }


def _plain(value):
    if value is None or value is pd.NA or isinstance(value, float) and value != value:
        return None
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if isinstance(value, numbers.Real) else value

"""A round, and a whole trace, in figures and in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from radixflow.analysis.bound import lower_bound
from radixflow.analysis.causes import SLOT_CAUSES, slot_cause, wait_cause
from radixflow.analysis.compare import request_rows
from radixflow.analysis.cost import NS
from radixflow.analysis.prose import Told, counted, in_the_way, listed, seconds, stopped_by
from radixflow.analysis.refusals import recorded_facts
from radixflow.analysis.slots import slots
from radixflow.analysis.summary import Summary, summarize
from radixflow.analysis.timeline import Timeline
from radixflow.analysis.waits import Ledger, waits_by_cause

_SLOT_WORDS = {
    "resident": "held by a running request that got no tokens",
    "avoidable": "avoidable: a waiting request would have fitted",
    "blocked": "blocked: the next one waiting could reuse a prefix that was still being computed",
    "capacity": "capacity: the next one waiting did not find enough free KV blocks",
    "never_fits": "never_fits: the next one waiting needs more KV blocks than the pool has",
    "alignment": "alignment: the tokens left were less than a block for the next one waiting",
    "tokens": "tokens: the budget was used up",
    "fragmented": "fragmented: the next one waiting was put aside",
    "deferred": "deferred: the next one waiting was not ready to run",
    "admission": "admission: the next one was held back by admission",
    "idle": "idle: nobody else was waiting",
    "unprobed": "unprobed: the probe was off",
}


@dataclass(frozen=True, slots=True, repr=False)
class RoundExplanation(Told):
    """One round: who was selected, who wasn't and why, and what became of each slot."""

    round: int
    selected: list[list]
    """`[request, tokens]` in native order."""
    slots: dict[str, int]
    """Of each of `SLOT_CAUSES`."""
    refused: list[dict]
    """`{request, cause, ...facts}` of each refused visit."""
    stopped_by: dict | None
    """`{request, cause}`; request None where no request stopped the scan."""
    unexamined: int
    """Waiting requests that the scan didn't reach."""
    avoidable: list[str]
    """Requests that would have been accepted, one after another, had the scan gone on."""
    text: str

    def to_dict(self) -> dict:
        """As plain data."""
        return asdict(self)


@dataclass(frozen=True, slots=True, repr=False)
class TraceExplanation(Told):
    """A whole run: what it lost, to which cause, and to whom."""

    summary: Summary
    slots: dict[str, int]
    """Of each of `SLOT_CAUSES`, over the rounds with a token."""
    waits: dict[str, dict]
    """By cause, those that occur: `{requests, rounds, seconds}`."""
    culprits: list[dict]
    """`{request, cause, stopped, rounds, seconds}`: who ended the scan with others behind, at most ten, those
    that cost most first. `stopped` is the number of rounds it did so in; `rounds` and `seconds` are what all
    the others together waited for it, the `unexamined` share of their waits."""
    text: str

    def to_dict(self) -> dict:
        """As plain data."""
        return asdict(self)


def explain_round(trace, n: int) -> RoundExplanation:
    """Explain round n. Raises KeyError where the trace doesn't hold it."""
    view = trace.round(n)
    ids = trace.ids
    table = _slots_of(trace, view)
    refused = [
        {"request": ids[refusal.i], "cause": wait_cause(getattr(refusal, "cause", "blocked"))}
        | recorded_facts(ids, refusal)
        for refusal in (*view.blocked, *view.other)
    ]
    stop = view.stop
    stopped = None
    if stop is not None:
        stopped = {"request": None if stop.i is None else ids[stop.i], "cause": wait_cause(stop.cause)}
    avoidable = [ids[i] for i in view.probe.avoidable] if view.probe else []
    selected = [[ids[i], tokens] for i, tokens in view.selected]
    unexamined = [ids[i] for i in view.unexamined]
    text = _round_text(trace, view, selected, refused, stopped, unexamined, avoidable, table)
    return RoundExplanation(n, selected, table, refused, stopped, len(unexamined), avoidable, text)


def _slots_of(trace, view) -> dict[str, int]:
    """One round's slots, as `slots` accounts for them."""
    table: dict[str, int] = dict.fromkeys(SLOT_CAUSES, 0)
    table["row_visits"], table["resident"] = len(view.selected), len(view.resident)
    free = max(0, trace.config.max_num_seqs - len(view.selected) - len(view.resident))
    if view.probe is None:
        table["unprobed"] = min(free, len(view.queue) - len(view.admissions))
    else:
        table["avoidable"] = len(view.probe.avoidable)
        for _, recorded in view.probe.others:
            table[slot_cause(recorded)] += 1
    table["idle"] = max(0, trace.config.max_num_seqs - sum(table.values()))
    return table


def _round_text(trace, view, selected, refused, stopped, unexamined, avoidable, table) -> str:
    config = trace.config
    used = sum(tokens for _, tokens in selected)
    lines = [
        f"Round {view.n} filled {len(selected):,} of {config.max_num_seqs:,} rows and spent {used:,} of "
        f"{config.max_num_batched_tokens:,} tokens."
        + (" It scheduled nothing although a request waited: it stalled." if view.stalled else "")
    ]
    if selected:
        shown = selected if len(selected) <= 13 else selected[:12]  # never "1 others"
        lines.append("Selected: " + ", ".join(f"{name} ({tokens:,})" for name, tokens in shown))
        if len(selected) > len(shown):
            lines[-1] += f" and {len(selected) - len(shown):,} others"
    for entry in refused:
        lines.append(f"- {entry['request']} ({entry['cause']}): {in_the_way(entry['cause'], entry)}")
    if view.preempted:
        gone = listed(trace.ids[i] for i in view.preempted)
        lines.append(f"It preempted {gone}: running requests ran out of KV blocks.")
    if stopped and stopped["request"] and unexamined:
        lines.append(
            f"{stopped_by([stopped['request']], stopped['cause'])} {counted(len(unexamined), 'request')} "
            f"stood there ({listed(unexamined)})."
        )
    if avoidable:
        lines.append(f"Had the scan gone on, {listed(avoidable)} would have been accepted as well.")
    empty = [f"{n} {_SLOT_WORDS[cause]}" for cause, n in table.items() if n and cause != "row_visits"]
    if empty:
        lines.append(f"Other slots: {'; '.join(empty)}.")
    return "\n".join(lines)


def explain_trace(trace) -> TraceExplanation:
    """Explain the run as a whole."""
    summary, own = summarize(trace), slots(trace)
    ledger = Ledger(trace)
    table = waits_by_cause(trace, ledger)
    table = table[(table["rounds"] > 0) | (table["ns"] > 0)]
    by_cause = {
        cause: {
            "requests": int(row["requests"]),
            "rounds": int(row["rounds"]),
            "seconds": float(row["seconds"]),
        }
        for cause, row in table.iterrows()
    }
    culprits = _culprits(trace)
    totals = {cause: int(n) for cause, n in own.totals.items()}
    text = _trace_text(trace, summary, totals, by_cause, _longest(ledger), culprits)
    return TraceExplanation(summary, totals, by_cause, culprits[:10], text)


def _longest(ledger: Ledger, most: int = 3) -> list[str]:
    """Who waited longest before its first round, in words, the longest first."""
    clocked = ledger.trace.header.clock.arrivals
    by = "wait_seconds" if clocked else "wait_rounds"
    table = request_rows(ledger).sort_values(by, ascending=False, kind="stable")
    found = []
    for row in table[table["wait_rounds"] > 0].head(most).itertuples():
        time = f", {seconds(row.wait_seconds)}" if clocked else ""
        found.append(f"{row.Index} ({counted(int(row.wait_rounds), 'round')}{time}, mostly {row.cause})")
    return found


def _culprits(trace) -> list[dict]:
    """Who stopped scans, by request and cause, the costliest first."""
    line, rounds = Timeline.of(trace), trace.rounds
    behind = rounds["unexamined"].to_numpy(np.int64)
    table = pd.DataFrame(
        {
            "by": rounds["stopped_by"].to_numpy(),
            "cause": rounds["stop_cause"].to_numpy(),
            "stopped": rounds["repeat"].to_numpy(np.int64),
            "rounds": behind * rounds["repeat"].to_numpy(np.int64),
            "ns": behind * np.diff(line.t)[line.recorded],
        }
    )
    table = table[table["by"].notna().to_numpy() & (behind > 0)].groupby(["by", "cause"], sort=False).sum()
    table = table.reset_index()
    found = [
        {"request": who, "cause": wait_cause(cause), "stopped": stopped, "rounds": waited, "seconds": ns / NS}
        for who, cause, stopped, waited, ns in zip(*(table[name].tolist() for name in table), strict=True)
    ]
    clocked = trace.header.clock.arrivals
    return sorted(found, key=lambda entry: (-entry["seconds"] if clocked else 0, -entry["rounds"]))


def _trace_text(trace, summary: Summary, totals, by_cause, longest, culprits) -> str:
    bound = lower_bound(trace)
    s, rows = trace.config.max_num_seqs, summary.rows_per_round
    lines = [
        f"{summary.policy} ran {counted(summary.requests, 'request')} in {counted(summary.rounds, 'round')}."
    ]
    if summary.rounds:
        lines.append(
            f"No order of the same work could take fewer than {bound.rounds:,}: {bound.by_tokens:,} for the "
            f"tokens, {bound.by_rows:,} for the rows, {bound.depth:,} for the longest chain of what had to come one "
            f"after another ({listed(bound.chain)})."
        )
    if summary.stalled_rounds:
        lines.append(
            f"{counted(summary.stalled_rounds, 'call')} of the scheduler scheduled nothing: the run stalled."
        )
    if rows is not None:
        lines.append(
            f"A round filled {rows:,.2f} of {s:,} rows on average; {counted(summary.empty_slots, 'slot')} "
            "stayed empty."
        )
        lost = {cause: n for cause, n in totals.items() if n and cause != "row_visits"}
        lines += [f"- {n:,} {_SLOT_WORDS[cause]}" for cause, n in lost.items()]
    if by_cause:
        lines.append("Requests waited, all together:")
        for cause, own in sorted(
            by_cause.items(), key=lambda item: (-item[1]["seconds"], -item[1]["rounds"])
        ):
            time = f", {seconds(own['seconds'])}" if trace.header.clock.arrivals else ""
            lines.append(
                f"- {cause}: {counted(own['rounds'], 'round')}{time} ({counted(own['requests'], 'request')})"
            )
    if longest:
        lines.append(f"Longest: {', '.join(longest)}.")
    for entry in culprits[:3]:
        lines.append(
            f"{entry['request']} ({entry['cause']}) stopped the scan in {counted(entry['stopped'], 'round')}"
            f"; those behind it waited {counted(entry['rounds'], 'round')} for that, all together."
        )
    if len(culprits) > 3:
        rest = sum(entry["rounds"] for entry in culprits[3:])
        lines.append(f"{len(culprits) - 3} more stopped scans, and cost {counted(rest, 'round')} of waiting.")
    if summary.reuse_rate is not None:
        lines.append(f"{summary.reuse_rate:.1%} of the admitted prompt tokens came from the prefix cache.")
    return "\n".join(lines)

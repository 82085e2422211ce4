"""Why a request waited, in figures and in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from radixflow.analysis.advice import advice
from radixflow.analysis.cost import NS
from radixflow.analysis.prefix import Prefix, prefix_of
from radixflow.analysis.prose import Told, counted, in_the_way, seconds, spans, stopped_by
from radixflow.analysis.waits import Ledger, WaitStretch

_TELLING = ("producer", "boundary", "groups", "culprit", "culprit_cause", "why", "status", "gate")
"""Facts that keep two stretches of one cause apart; of the others the last value stands."""


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(Told):
    """What `explain --json` prints (CONTRACT, Explanation). Times: seconds from the trace's clock anchor."""

    request: str
    arrival: float
    first_selected_round: int | None
    """None where it was never selected: the wait then ends with the request or the trace."""
    wait_rounds: int
    wait_seconds: float
    causes: list[dict]
    """`{cause, rounds: [[first, last], ...], seconds, ...facts}`, in order of first appearance. Their
    rounds and times add up to `wait_rounds` and `wait_seconds`."""
    prefix: dict
    """`{matched: {group: tokens}, ready, junction, lookup_cap}` at the look-up that admitted it (see
    `radixflow.analysis.prefix`)."""
    text: str

    def to_dict(self) -> dict:
        """CONTRACT's keys in its order."""
        return asdict(self)


def explain(trace, request: str, ledger: Ledger | None = None) -> Explanation:
    """Explain the wait of the request with this id from arrival to first selection.

    Raises KeyError with near names for an id that the trace doesn't hold. Pass a `Ledger` where several
    requests of one trace are explained.
    """
    i = trace.index_of(request)
    ledger = ledger or Ledger(trace)
    period = ledger.first_wait(i)
    stretches = ledger.stretches(period)
    causes = grouped(stretches)
    prefix = prefix_of(trace, i)
    row = trace.requests.loc[i]
    selected = row["first_selected_round"]
    why = Explanation(
        request=request,
        arrival=(period.begin - trace.header.clock.monotonic_ns) / NS,
        first_selected_round=int(selected) if period.outcome == "selected" else None,
        wait_rounds=sum(stretch.rounds for stretch in stretches),
        wait_seconds=(period.end - period.begin) / NS,
        causes=causes,
        prefix=prefix.to_dict(),
        text="",
    )
    return replace(why, text=_text(trace, i, period.outcome, why, prefix, ledger))


def grouped(stretches: list[WaitStretch]) -> list[dict]:
    """The stretches by cause and telling facts, in order of first appearance, rounds joined."""
    found: dict[tuple, dict] = {}
    for stretch in stretches:
        key = (stretch.cause, *(str(stretch.facts.get(name)) for name in _TELLING))
        entry = found.setdefault(key, {"cause": stretch.cause, "rounds": [], "seconds": 0})
        entry["seconds"] += stretch.ns
        entry.update(stretch.facts)
        if stretch.first_round is not None:
            ranges = entry["rounds"]
            if ranges and ranges[-1][1] + 1 == stretch.first_round:
                ranges[-1][1] = stretch.last_round
            else:
                ranges.append([stretch.first_round, stretch.last_round])
    for entry in found.values():
        entry["seconds"] /= NS
    return list(found.values())


def _text(trace, i: int, outcome: str, why: Explanation, prefix: Prefix, ledger: Ledger) -> str:
    clocked = trace.header.clock.arrivals
    parts = [_opening(trace, i, outcome, why, clocked)]
    parts += [f"- {line}" for line in _lines(why.causes, clocked)]
    parts += prefix.sentences()
    helped = advice(trace, i, why.causes)
    if helped:
        parts.append("What would have helped: " + " ".join(helped))
    again = ledger.of(i)[1:]
    if again:
        rounds = sum(stretch.rounds for wait in again for stretch in wait)
        parts.append(
            f"Later it was preempted {counted(len(again), 'time')} (running requests ran out of KV blocks) "
            f"and waited {counted(rounds, 'round')} more to get back in."
        )
    return "\n".join(parts)


def _opening(trace, i: int, outcome: str, why: Explanation, clocked: bool) -> str:
    row = trace.requests.loc[i]
    who = f"{why.request} ({counted(int(row['prompt']), 'prompt token')})"
    time = f" ({seconds(why.wait_seconds)})" if clocked else ""
    if outcome == "selected" and not why.wait_rounds:
        first = f"round {why.first_selected_round}, the first after it arrived"
        return f"{who} did not wait: {first}, selected it{time}."
    waited = f"waited {counted(why.wait_rounds, 'round')}{time}"
    if outcome == "selected":
        return f"{who} {waited}, until round {why.first_selected_round} selected it."
    if outcome == "finished":
        return f"{who} {waited} and was never selected: it left ({row['finish_reason']}) while it waited."
    return f"{who} {waited} and is still waiting where the trace ends."


def _lines(causes: list[dict], clocked: bool) -> list[str]:
    """One line a cause, in order of first appearance; culprits with the same cause share a line."""
    alike: dict[tuple, list[dict]] = {}
    for k, entry in enumerate(causes):
        shared = entry["cause"] == "unexamined"
        alike.setdefault((entry["cause"], entry["culprit_cause"] if shared else k), []).append(entry)
    return [
        _line(entries, clocked) for entries in alike.values() if clocked or any(e["rounds"] for e in entries)
    ]


def _line(entries: list[dict], clocked: bool) -> str:
    cause = entries[0]["cause"]
    ranges = _joined([span for entry in entries for span in entry["rounds"]])
    where = spans(ranges).capitalize() if ranges else "Outside any round"
    time = f", {seconds(sum(entry['seconds'] for entry in entries))}" if clocked else ""
    if len(entries) == 1:
        what = in_the_way(cause, entries[0])
    else:
        worst = sorted(entries, key=lambda entry: -sum(b - a + 1 for a, b in entry["rounds"]))
        what = stopped_by([entry["culprit"] for entry in worst], entries[0]["culprit_cause"])
    return f"{where} ({cause}{time}): {what}"


def _joined(ranges: list[list[int]]) -> list[list[int]]:
    joined: list[list[int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1][1] = max(joined[-1][1], last)
        else:
            joined.append([first, last])
    return joined

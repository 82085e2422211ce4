"""One round: who was selected, who wasn't and why, each slot, and the queue as the scan saw it."""

from __future__ import annotations

from typing import Any

from radixflow.analysis.causes import wait_cause
from radixflow.analysis.prose import in_the_way, seconds, stopped_by
from radixflow.analysis.run_labels import run_name
from radixflow.figures import windows
from radixflow.figures.cards import (
    MAX_CHIPS,
    Block,
    Card,
    Chip,
    Chips,
    Meter,
    Part,
    Refusal,
    Section,
    Words,
    brief,
    chips,
    colour_of,
    words,
)
from radixflow.figures.palette import Colours, slot_class
from radixflow.figures.wording import cause_words, slot_words

MAX_PARTS = 128
"""Requests told apart in the bar of tokens."""

EDGES = (
    ("taken", "selected"),
    ("blocked", cause_words("blocked")),
    ("other", "refused for another reason"),
    ("unexamined", cause_words("unexamined")),
)
"""What became of a request of the queue, by the pattern of its edge."""

CLOSED = {
    "budget": "Running requests had spent the token budget, so the waiting queue was not entered.",
    "preemption": "A round that preempts admits nobody: the waiting queue was not entered.",
    "paused": "The scheduler was paused: the waiting queue was not entered.",
    "rows": "Every row was taken by running requests: the waiting queue was not entered.",
}


def round_card(trace: Any, n: int, colours: Colours) -> tuple[Card, Chips | None]:
    """What round n decided, and the waiting queue as its scan found it (None where no such round is known).

    n is brought inside the run. A round that wasn't recorded is said so.
    """
    policy = run_name(trace)
    if not trace.num_rounds:
        return Card("", policy, blocks=[words("No round has been recorded yet.", "soft")]), None
    n = max(1, min(n, trace.num_rounds))
    try:
        view = trace.round(n)
    except KeyError as error:
        why = words(str(error.args[0]).capitalize() + ".", "soft")
        return Card(f"Round {n:,}", policy, blocks=[why]), None
    return _round(trace, view, colours, n), _queue(trace, view, colours)


def _round(trace: Any, view: Any, colours: Colours, n: int) -> Card:
    ids, config = trace.ids, trace.config
    empty = windows.slots(view, config.max_num_seqs)
    when = (view.t - trace.header.clock.monotonic_ns) / 1e9
    host = f", {seconds(view.host_ns / 1e9)} on the worker" if view.host_ns is not None else ""
    out: list[Block] = []
    if view.stalled:
        again = f", {view.repeat:,} times in a row" if view.repeat > 1 else ""
        out.append(words(f"Stalled: it scheduled nothing although a request waited{again}.", "alert"))
    out.append(_slots(len(view.selected), empty, config.max_num_seqs))
    out.append(_tokens(view, ids, colours, config.max_num_batched_tokens))
    out += _selected(view, ids, colours)
    if view.resident:
        own = chips([ids[i] for i in view.resident], colours)
        out.append(Section("Resident, no tokens", [own], len(view.resident)))
    out += _refused(view, ids, colours)
    out += _scan_end(view, ids, colours)
    avoidable = [ids[i] for cause, i in empty if cause == "avoidable"]
    if avoidable:
        lead = words("Had the scan gone on, it would also have accepted these, one after another:")
        out.append(Section("Avoidable bubble", [lead, chips(avoidable, colours)], len(avoidable)))
    if view.preempted:
        lead = words("Running requests ran out of KV blocks, so these lost theirs and wait again:")
        out.append(Section("Preempted", [lead, chips([ids[i] for i in view.preempted], colours)]))
    out.append(words(_closing(view, config), "soft"))
    return Card(f"Round {n:,}", run_name(trace), f"at {when:.3f} s{host}", blocks=out)


def _slots(selected: int, empty: list[tuple[str, int]], rows: int) -> Meter:
    counts: dict[str, int] = {"row_visits": selected}
    for cause, _ in empty:
        counts[cause] = counts.get(cause, 0) + 1
    said = [f"{count:,} {slot_words(cause)}" for cause, count in counts.items() if count]
    parts = [
        Part(
            "visit" if cause == "row_visits" else slot_class(cause),
            f"{count:,} {slot_words(cause)}",
            count,
        )
        for cause, count in counts.items()
    ]
    total = Words(((f"{rows:,} rows", True), (" = ", False), (" + ".join(said), False)), "sum")
    return Meter(parts, f"{rows:,} rows: {', '.join(said)}", total, "round-sum")


def _tokens(view: Any, ids: list, colours: Colours, budget: int) -> Meter:
    used = sum(tokens for _, tokens in view.selected)
    parts = [
        Part(colour_of(ids[i], colours), f"{ids[i]}: {tokens:,} tokens", tokens)
        for i, tokens in view.selected[:MAX_PARTS]
    ]
    parts.append(Part("rest", "", max(0, budget - used)))
    total = Words(((f"{used:,}", True), (f" of {budget:,} tokens", False)), "sum")
    return Meter(parts, f"{used:,} of {budget:,} tokens", total)


def _selected(view: Any, ids: list, colours: Colours) -> list[Block]:
    admitted = {admission.i: admission for admission in view.admissions}
    notes = {
        ids[i]: f"{tokens:,}" + (f" after {admitted[i].ready:,} cached" if i in admitted and admitted[i].ready else "")
        for i, tokens in view.selected
    }
    new = [ids[i] for i, _ in view.selected if i in admitted]
    old = [ids[i] for i, _ in view.selected if i not in admitted]
    return [
        Section(name, [chips(own, colours, notes)], len(own), "tokens each")
        for name, own in (("Running", old), ("Selected from the queue", new))
        if own
    ]


def _refused(view: Any, ids: list, colours: Colours) -> list[Block]:
    out: list[Block] = []
    if view.blocked:
        lines: list[Block] = [
            _refusal(
                ids[blocked.i],
                colours,
                "blocked",
                {
                    "producer": ids[blocked.producer] if blocked.producer >= 0 else "another request",
                    "boundary": blocked.boundary,
                },
                parked=blocked.parked,
            )
            for blocked in view.blocked[:MAX_CHIPS]
        ]
        out.append(Section("Blocked", lines, len(view.blocked)))
    if view.other:
        lines = [_refusal(ids[other.i], colours, other.cause, _facts(other, ids)) for other in view.other[:MAX_CHIPS]]
        out.append(Section("Refused for another reason", lines, len(view.other)))
    return out


def _refusal(request: str, colours: Colours, cause: str, facts: dict, parked: bool | None = None) -> Refusal:
    closed = wait_cause(cause)
    said = in_the_way(closed, facts) + (" It was parked and the scan went on." if parked else "")
    why = Words(((cause_words(closed).capitalize(), True), (". ", False), (brief(said), False)))
    return Refusal(Chip(request, colour_of(request, colours), edge=slot_class(closed)), why)


def _facts(other: Any, ids: list) -> dict:
    names = (
        "gate",
        "needed",
        "free",
        "reserved",
        "watermark",
        "total",
        "tokens_left",
        "block",
        "status",
        "boundary",
    )
    facts = {name: getattr(other, name) for name in names if getattr(other, name) is not None}
    if other.also:
        facts["also"] = other.also
    if other.producer is not None and other.producer >= 0:
        facts["producer"] = ids[other.producer]
    if other.cause in ("encoder", "throttled"):
        facts["status"] = other.cause
    if other.cause in ("chunking", "draft_padding"):
        facts["gate"] = other.cause
    return facts


def _scan_end(view: Any, ids: list, colours: Colours) -> list[Block]:
    unexamined = [ids[i] for i in view.unexamined]
    said = ""
    if view.stop is not None:
        if view.stop.i is not None:
            said = stopped_by([ids[view.stop.i]], wait_cause(view.stop.cause))
        elif view.stop.cause == "rows":
            said = "The scan ended because every row was taken."
        else:
            said = "The scan ended because the token budget was used up."
    elif view.closed is not None and view.queue:
        said = CLOSED.get(view.closed, view.closed)
    out: list[Block] = [Section("Where the scan stopped", [words(said)])] if said else []
    if unexamined:
        out.append(Section("Not examined", [chips(unexamined, colours)], len(unexamined)))
    return out


def _closing(view: Any, config: Any) -> str:
    took = f", in {seconds(view.d / 1e9)}" if view.d else ""
    said = f"{view.free:,} of {max(0, config.num_blocks - 1):,} KV blocks were free when it was decided{took}."
    if view.released_by:
        said += f" Admission had just released what it held ({view.released_by})."
    return said


def _queue(trace: Any, view: Any, colours: Colours) -> Chips:
    """The waiting queue as the scan saw it, each request with what became of it."""
    ids = trace.ids
    fate = dict.fromkeys(view.admitted, "taken")
    fate |= {blocked.i: "blocked" for blocked in view.blocked}
    fate |= {other.i: "other" for other in view.other}
    stopper = view.stop.i if view.stop is not None else None
    shown = []
    for i in view.queue[:MAX_CHIPS]:
        became = fate.get(i, "unexamined")
        taken = became == "taken"
        colour = colour_of(ids[i], colours)
        shown.append(Chip(ids[i], colour, edge="" if taken else became, taken=taken, stopped=i == stopper))
    seen = {chip.edge or "taken" for chip in shown}
    legend = tuple((edge, said) for edge, said in EDGES if edge in seen)
    return Chips(shown, len(view.queue) - len(shown), legend)

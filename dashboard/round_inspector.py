"""One round: who was selected, who wasn't and why, each slot, and the queue as the scan saw it."""

from __future__ import annotations

from typing import Any

from dash import html

from radixflow.analysis.causes import wait_cause
from radixflow.analysis.prose import in_the_way, seconds, stopped_by
from radixflow.figures import windows
from radixflow.figures.palette import Colours, slot_class

from .library import Library, Open
from .parts import CAUSE_WORDS, MAX_CHIPS, chip, chips, meter, section, title

SLOT_WORDS = {
    "row_visits": "selected",
    "resident": "resident",
    "avoidable": "avoidable",
    "blocked": "blocked",
    "idle": "idle",
    "unprobed": "not probed",
    "never_fits": "never fits",
}


def round_view(library: Library, key: str, n: int, among: list[str]) -> tuple[list[Any], list[Any]]:
    """The round inspector and the waiting queue at round n. Raises UnknownTrace, TraceError."""
    colours = library.colours(among if key in among else [key])
    with library.reading(key) as opened:
        trace = opened.trace
        if not trace.num_rounds:
            return [html.P("No round has been recorded yet.", className="soft")], []
        n = max(1, min(n, trace.num_rounds))
        try:
            view = trace.round(n)
        except KeyError as error:
            return [
                title(f"Round {n:,}", trace),
                html.P(str(error.args[0]).capitalize() + ".", className="soft"),
            ], []
        return _round(opened, view, colours, n), _queue(opened, view, colours)


def _round(opened: Open, view: Any, colours: Colours, n: int) -> list[Any]:
    trace = opened.trace
    ids, config = trace.ids, trace.config
    empty = windows.slots(view, config.max_num_seqs)
    used = sum(tokens for _, tokens in view.selected)
    when = (view.t - trace.header.clock.monotonic_ns) / 1e9
    host = f", {seconds(view.host_ns / 1e9)} on the worker" if view.host_ns is not None else ""
    out: list[Any] = [title(f"Round {n:,}", trace, f"at {when:.3f} s{host}")]
    if view.stalled:
        again = f", {view.repeat:,} times in a row" if view.repeat > 1 else ""
        out.append(html.P(f"Stalled: it scheduled nothing although a request waited{again}.", className="alert"))
    out.append(_slots(len(view.selected), empty, config.max_num_seqs))
    out.append(_tokens(view, ids, colours, used, config.max_num_batched_tokens))

    admitted = {admission.i: admission for admission in view.admissions}
    if view.selected:
        notes = {
            ids[i]: f"{tokens:,}"
            + (f" after {admitted[i].ready:,} cached" if i in admitted and admitted[i].ready else "")
            for i, tokens in view.selected
        }
        new = [ids[i] for i, _ in view.selected if i in admitted]
        old = [ids[i] for i, _ in view.selected if i not in admitted]
        if old:
            out.append(section("Running", chips(old, colours, notes), count=len(old), note="tokens"))
        if new:
            out.append(section("Selected from the queue", chips(new, colours, notes), count=len(new), note="tokens"))
    if view.resident:
        out.append(
            section(
                "Resident, no tokens",
                chips([ids[i] for i in view.resident], colours),
                count=len(view.resident),
            )
        )
    if view.blocked:
        lines = [
            _refusal(
                ids[blocked.i],
                colours,
                "blocked",
                {"producer": ids[blocked.producer] if blocked.producer >= 0 else "another request",
                 "boundary": f"{blocked.boundary:,}"},
                parked=blocked.parked,
            )
            for blocked in view.blocked[:MAX_CHIPS]
        ]  # fmt: skip
        out.append(section("Blocked", *lines, count=len(view.blocked)))
    if view.other:
        lines = [_refusal(ids[other.i], colours, other.cause, _facts(other, ids)) for other in view.other[:MAX_CHIPS]]
        out.append(section("Refused for another reason", *lines, count=len(view.other)))
    out += _scan_end(view, ids, colours)
    avoidable = [ids[i] for cause, i in empty if cause == "avoidable"]
    if avoidable:
        words = "Had the scan gone on, it would also have accepted these, one after another:"
        shown = chips(avoidable, colours)
        out.append(section("Avoidable bubble", html.P(words), shown, count=len(avoidable)))
    if view.preempted:
        words = "Running requests ran out of KV blocks, so these lost theirs and wait again:"
        out.append(section("Preempted", html.P(words), chips([ids[i] for i in view.preempted], colours)))
    out.append(html.P(_closing(view, config), className="soft"))
    return out


def _slots(selected: int, empty: list[tuple[str, int]], rows: int) -> html.Div:
    counts: dict[str, int] = {"row_visits": selected}
    for cause, _ in empty:
        counts[cause] = counts.get(cause, 0) + 1
    words = [f"{count:,} {SLOT_WORDS.get(cause, cause)}" for cause, count in counts.items() if count]
    sums = [html.B(f"{rows:,} rows"), " = ", " + ".join(words)]
    parts = [
        (
            "visit" if cause == "row_visits" else f"pat-{slot_class(cause)}",
            f"{count} {SLOT_WORDS.get(cause, cause)}",
            count,
        )
        for cause, count in counts.items()
    ]
    return html.Div(
        [
            meter(parts, rows, f"{rows} rows: {', '.join(words)}"),
            html.P(sums, className="sum", id="round-sum"),
        ],
        className="measure",
    )


def _tokens(view: Any, ids: list, colours: Colours, used: int, budget: int) -> html.Div:
    bar = html.Div(
        [
            html.Span(
                className="part",
                style={"flexGrow": tokens, "background": colours.fill(ids[i])},
                title=f"{ids[i]}: {tokens:,} tokens",
            )
            for i, tokens in view.selected[:128]
        ]
        + [html.Span(className="part rest", style={"flexGrow": max(0, budget - used)})],
        className="meter",
        role="img",
        **{"aria-label": f"{used} of {budget} tokens"},
    )
    return html.Div(
        [bar, html.P([html.B(f"{used:,}"), f" of {budget:,} tokens"], className="sum")], className="measure"
    )


def _refusal(request: str, colours: Colours, cause: str, facts: dict, parked: bool | None = None) -> html.Div:
    closed = wait_cause(cause)
    words: list[Any] = [html.B(CAUSE_WORDS.get(closed, closed).capitalize()), ". ", in_the_way(closed, facts)]
    if parked:
        words.append(" It was parked and the scan went on.")
    return html.Div(
        [chip(request, colours, pattern=f"edge pat-{slot_class(closed)}-edge"), html.P(words)],
        className="refusal",
    )


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


def _scan_end(view: Any, ids: list, colours: Colours) -> list[Any]:
    unexamined = [ids[i] for i in view.unexamined]
    out: list[Any] = []
    if view.stop is not None:
        if view.stop.i is not None:
            words = stopped_by([ids[view.stop.i]], wait_cause(view.stop.cause))
        elif view.stop.cause == "rows":
            words = "The scan ended because every row was taken."
        else:
            words = "The scan ended because the token budget was used up."
        out.append(section("Where the scan stopped", html.P(words)))
    elif view.closed is not None and view.queue:
        why = {
            "budget": "Running requests had spent the token budget, so the waiting queue was not entered.",
            "preemption": "A round that preempts admits nobody: the waiting queue was not entered.",
            "paused": "The scheduler was paused: the waiting queue was not entered.",
            "rows": "Every row was taken by running requests: the waiting queue was not entered.",
        }
        out.append(section("Where the scan stopped", html.P(why.get(view.closed, view.closed))))
    if unexamined:
        out.append(section("Not examined", chips(unexamined, colours), count=len(unexamined)))
    return out


def _closing(view: Any, config: Any) -> str:
    took = f", in {seconds(view.d / 1e9)}" if view.d else ""
    words = f"{view.free:,} of {max(0, config.num_blocks - 1):,} KV blocks were free when it was decided{took}."
    if view.released_by:
        words += f" Admission had just released what it held ({view.released_by})."
    return words


def _queue(opened: Open, view: Any, colours: Colours) -> list[Any]:
    """The waiting queue as the scan saw it, each request with what became of it."""
    ids = opened.trace.ids
    fate = dict.fromkeys(view.admitted, "taken")
    fate |= {blocked.i: "pat-blocked" for blocked in view.blocked}
    fate |= {other.i: "pat-other" for other in view.other}
    stopper = view.stop.i if view.stop is not None else None
    out: list[Any] = []
    for i in view.queue[:MAX_CHIPS]:
        pattern = fate.get(i, "pat-unexamined")
        out.append(chip(ids[i], colours, pattern="taken" if pattern == "taken" else f"edge {pattern}-edge"))
        if i == stopper:
            out.append(html.Span("scan stopped", className="stop-mark"))
    if len(view.queue) > MAX_CHIPS:
        out.append(html.Span(f"and {len(view.queue) - MAX_CHIPS:,} more", className="more"))
    if not out:
        return [html.Span("Nobody waits.", className="soft")]
    return out

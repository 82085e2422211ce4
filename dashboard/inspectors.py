"""The inspectors: one round and one request, in the words of `radixflow.analysis`.

Everything that comes from a trace reaches the page as a component's text, which React escapes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from dash import html

from radixflow.analysis.causes import wait_cause
from radixflow.analysis.explain import explain
from radixflow.analysis.prose import in_the_way, seconds, stopped_by
from radixflow.analysis.waits import WaitStretch
from radixflow.figures import windows
from radixflow.figures.palette import Colours, slot_class

from .library import Library, Open

MAX_CHIPS = 60
"""Requests listed one by one; the rest are counted."""

MAX_VISITS = 24

SLOT_WORDS = {
    "row_visits": "selected",
    "resident": "resident",
    "avoidable": "avoidable",
    "blocked": "blocked",
    "idle": "idle",
    "unprobed": "not probed",
    "never_fits": "never fits",
}

CAUSE_WORDS = {
    "blocked": "blocked",
    "capacity": "no free blocks",
    "never_fits": "never fits",
    "alignment": "alignment",
    "tokens": "token budget",
    "rows": "all rows taken",
    "unexamined": "not examined",
    "not_entered": "queue not entered",
    "admission": "held by admission",
    "fragmented": "put aside",
    "deferred": "deferred",
    "in_step": "arrived in a step",
    "unrecorded": "not recorded",
}


def chip(request: str, colours: Colours, note: str = "", pattern: str = "") -> html.Button:
    """A request as a button in its colour; pressing it selects the request everywhere."""
    fill = colours.fill(request) if request in colours else "#cccccc"
    children: list[Any] = [html.Span(request, className="chip-name")]
    if note:
        children.append(html.Span(note, className="chip-note"))
    return html.Button(
        children,
        className=f"chip {pattern}".strip(),
        style={"--fill": fill},
        type="button",
        title=f"Inspect {request}",
        **{"data-request": request},
    )


def chips(requests: Iterable[str], colours: Colours, notes: dict[str, str] | None = None, pattern: str = "") -> html.Div:
    """Requests as buttons, the first `MAX_CHIPS`."""
    requests = list(requests)
    shown = [chip(request, colours, (notes or {}).get(request, ""), pattern) for request in requests[:MAX_CHIPS]]
    if len(requests) > MAX_CHIPS:
        shown.append(html.Span(f"and {len(requests) - MAX_CHIPS:,} more", className="more"))
    return html.Div(shown, className="chips")


def _section(title: str, *children: Any, count: int | None = None, note: str | None = None) -> html.Section:
    head: list[Any] = [title]
    if count is not None:
        head.append(html.Span(f"{count:,}", className="count"))
    if note:
        head.append(html.Span(note, className="soft"))
    return html.Section([html.H3(head), *children])


def _meter(parts: list[tuple[str, str, float]], total: float, label: str) -> html.Div:
    """A bar of parts (class, words, amount) over a total."""
    return html.Div(
        [
            html.Span(className=f"part {name}", style={"flexGrow": amount}, title=words)
            for name, words, amount in parts
            if amount > 0
        ],
        className="meter",
        role="img",
        **{"aria-label": label},
    )


# -- a round ---------------------------------------------------------------------------------------------


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
            return [_title(f"Round {n:,}", trace), html.P(str(error.args[0]).capitalize() + ".", className="soft")], []
        return _round(opened, view, colours, n), _queue(opened, view, colours)


def _title(words: str, trace: Any, note: str = "") -> html.Div:
    return html.Div(
        [html.H2(words), html.Span(trace.header.policy, className="policy"), html.Span(note, className="soft")],
        className="inspector-title",
    )


def _round(opened: Open, view: Any, colours: Colours, n: int) -> list[Any]:
    trace = opened.trace
    ids, config = trace.ids, trace.config
    empty = windows.slots(view, config.max_num_seqs)
    used = sum(tokens for _, tokens in view.selected)
    when = (view.t - trace.header.clock.monotonic_ns) / 1e9
    host = f", {seconds(view.host_ns / 1e9)} on the worker" if view.host_ns is not None else ""
    out: list[Any] = [_title(f"Round {n:,}", trace, f"at {when:.3f} s{host}")]
    if view.stalled:
        again = f", {view.repeat:,} times in a row" if view.repeat > 1 else ""
        out.append(html.P(f"Stalled: it scheduled nothing although a request waited{again}.", className="alert"))
    out.append(_slots(len(view.selected), empty, config.max_num_seqs))
    out.append(_tokens(view, ids, colours, used, config.max_num_batched_tokens))

    admitted = {admission.i: admission for admission in view.admissions}
    if view.selected:
        notes = {
            ids[i]: f"{tokens:,}" + (f" after {admitted[i].ready:,} cached" if i in admitted and admitted[i].ready else "")
            for i, tokens in view.selected
        }
        new = [ids[i] for i, _ in view.selected if i in admitted]
        old = [ids[i] for i, _ in view.selected if i not in admitted]
        if old:
            out.append(_section("Running", chips(old, colours, notes), count=len(old), note="tokens"))
        if new:
            out.append(_section("Selected from the queue", chips(new, colours, notes), count=len(new), note="tokens"))
    if view.resident:
        out.append(
            _section("Resident, no tokens", chips([ids[i] for i in view.resident], colours), count=len(view.resident))
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
        out.append(_section("Blocked", *lines, count=len(view.blocked)))
    if view.other:
        lines = [_refusal(ids[other.i], colours, other.cause, _facts(other, ids)) for other in view.other[:MAX_CHIPS]]
        out.append(_section("Refused for another reason", *lines, count=len(view.other)))
    out += _scan_end(view, ids, colours)
    avoidable = [ids[i] for cause, i in empty if cause == "avoidable"]
    if avoidable:
        words = "Had the scan gone on, it would also have accepted these, one after another:"
        out.append(_section("Avoidable bubble", html.P(words), chips(avoidable, colours, pattern="pat-avoidable-edge"),
                            count=len(avoidable)))  # fmt: skip
    if view.preempted:
        words = "Running requests ran out of KV blocks, so these lost theirs and wait again:"
        out.append(_section("Preempted", html.P(words), chips([ids[i] for i in view.preempted], colours)))
    out.append(html.P(_closing(view, config), className="soft"))
    return out


def _slots(selected: int, empty: list[tuple[str, int]], rows: int) -> html.Div:
    counts: dict[str, int] = {"row_visits": selected}
    for cause, _ in empty:
        counts[cause] = counts.get(cause, 0) + 1
    words = [f"{count:,} {SLOT_WORDS.get(cause, cause)}" for cause, count in counts.items() if count]
    sums = [html.B(f"{rows:,} rows"), " = ", " + ".join(words)]
    parts = [
        ("visit" if cause == "row_visits" else f"pat-{slot_class(cause)}", f"{count} {SLOT_WORDS.get(cause, cause)}", count)
        for cause, count in counts.items()
    ]
    return html.Div(
        [_meter(parts, rows, f"{rows} rows: {', '.join(words)}"), html.P(sums, className="sum", id="round-sum")],
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
    return html.Div([chip(request, colours, pattern=f"edge pat-{slot_class(closed)}-edge"), html.P(words)], className="refusal")


def _facts(other: Any, ids: list) -> dict:
    names = ("gate", "needed", "free", "reserved", "watermark", "total", "tokens_left", "block", "status", "boundary")
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
        out.append(_section("Where the scan stopped", html.P(words)))
    elif view.closed is not None and view.queue:
        why = {
            "budget": "Running requests had spent the token budget, so the waiting queue was not entered.",
            "preemption": "A round that preempts admits nobody: the waiting queue was not entered.",
            "paused": "The scheduler was paused: the waiting queue was not entered.",
            "rows": "Every row was taken by running requests: the waiting queue was not entered.",
        }
        out.append(_section("Where the scan stopped", html.P(why.get(view.closed, view.closed))))
    if unexamined:
        out.append(_section("Not examined", chips(unexamined, colours), count=len(unexamined)))
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


# -- a request -------------------------------------------------------------------------------------------


def request_view(library: Library, key: str, request: str | None, among: list[str]) -> list[Any]:
    """The request inspector. Raises UnknownTrace, TraceError."""
    if request is None:
        return [html.P("Select a request in the timeline, the tree or the queue.", className="soft placeholder")]
    colours = library.colours(among if key in among else [key])
    with library.reading(key) as opened:
        try:
            i = opened.trace.index_of(request)
        except KeyError:
            return [_title(request, opened.trace), html.P("This run has no such request.", className="soft")]
        return _request(opened, i, request, colours)


def _request(opened: Open, i: int, request: str, colours: Colours) -> list[Any]:
    trace = opened.trace
    ledger = opened.ledger
    why = explain(trace, request, ledger)
    row = trace.requests.loc[i]
    opening, *lines = why.text.split("\n")
    stretches = [stretch for wait in ledger.of(i) for stretch in wait]
    visits = opened.derived("visits", _Visits).of(i)
    dot = html.Span(className="dot", style={"background": colours.fill(request)})
    out: list[Any] = [
        html.Div([dot, html.H2(request), html.Span(trace.header.policy, className="policy")], className="inspector-title"),
        html.P(opening, className="lead"),
        _life(row, stretches, visits),
    ]
    causes = [line[2:] for line in lines if line.startswith("- ")]
    others = [line for line in lines if not line.startswith("- ")]
    if causes:
        items = []
        for line, entry in zip(causes, why.causes, strict=False):
            name = slot_class(entry["cause"]) if entry["cause"] in ("blocked", "unexamined") else "other"
            items.append(html.Li([html.Span(className=f"swatch pat-{name}"), html.Span(line)]))
        out.append(_section("Why it waited", html.Ul(items, className="causes")))
    for line in others:
        if line.startswith("What would have helped: "):
            out.append(_section("What would have helped", html.P(line.removeprefix("What would have helped: "))))
        elif line.strip():
            out.append(html.P(line))
    out.append(_prefix(trace, i, why.prefix, int(row["prompt"])))
    out.append(_visited(visits))
    return [item for item in out if item is not None]


class _Visits:
    """Row visits by request."""

    def __init__(self, trace: Any):
        table = trace.visits
        self._order = np.argsort(table["i"].to_numpy(), kind="stable")
        self._i = table["i"].to_numpy()[self._order]
        self._rounds, self._tokens = table["round"].to_numpy(), table["tokens"].to_numpy()

    def of(self, i: int) -> list[tuple[int, int]]:
        """(round, tokens) of each of its row visits."""
        low, high = np.searchsorted(self._i, (i, i + 1))
        own = self._order[low:high]
        return list(zip(self._rounds[own].tolist(), self._tokens[own].tolist(), strict=True))


def _life(row: Any, stretches: list[WaitStretch], visits: list[tuple[int, int]]) -> html.Div:
    """From arrival to finish: each wait by cause, then its rounds in the batch, widths in rounds."""
    parts: list[tuple[int, str, str, int]] = []
    for stretch in stretches:
        if stretch.rounds:
            cause = CAUSE_WORDS.get(stretch.cause, stretch.cause)
            name = slot_class(stretch.cause) if stretch.cause in ("blocked", "unexamined", "unrecorded") else "other"
            parts.append((stretch.first_round, f"pat-{name}", f"{cause}: {_span(stretch.first_round, stretch.last_round)}", stretch.rounds))
    first = last = None
    for number, _ in [*visits, (None, 0)]:
        if first is not None and number != last + 1:
            parts.append((first, "visit", f"in the batch: {_span(first, last)}", last - first + 1))
            first = None
        if number is not None:
            first = number if first is None else first
            last = number
    parts.sort(key=lambda part: part[0])
    if not parts:
        return html.Div(className="measure")
    begin, end = parts[0][0], parts[-1][0] + parts[-1][3] - 1
    joined = parts if len(parts) <= 80 else parts[:79] + [(parts[79][0], "pat-other", "and more", end - parts[79][0] + 1)]
    finish = row["finish_reason"] if isinstance(row["finish_reason"], str) else "not finished yet"
    return html.Div(
        [
            _meter([(name, words, count) for _, name, words, count in joined], 1, "; ".join(words for _, _, words, _ in joined[:20])),
            html.P([f"Rounds {begin:,} to {end:,}", html.Span(f", {finish}", className="soft")], className="sum"),
        ],
        className="measure life",
    )


def _span(first: int, last: int) -> str:
    return f"round {first:,}" if first == last else f"rounds {first:,} to {last:,}"


def _prefix(trace: Any, i: int, prefix: dict, prompt: int) -> html.Section | None:
    """What the cache had for it: the longest match in each group, the ready boundary, and where its path leaves others'."""
    rows = []
    for group, tokens in (prefix.get("matched") or {}).items():
        rows.append((f"Matched in {group}", tokens))
    rows.append(("Ready (every component)", prefix.get("ready")))
    rows.append(("Shared with an earlier request", prefix.get("junction")))
    rows.append(("Most that a look-up may match", prefix.get("lookup_cap")))
    body = [
        html.Tr([html.Th(name, scope="row"), html.Td("-" if value is None else f"{value:,}")]) for name, value in rows
    ]
    path = [f"{name} ({count:,})" for name, count in trace.names_of(i)]
    return _section(
        "Prefix",
        html.P(" + ".join(path[:8]) + (" + ..." if len(path) > 8 else ""), className="soft") if path else None,
        html.Table(html.Tbody(body), className="facts"),
        note=f"of {prompt:,} prompt tokens",
    )


def _visited(visits: list[tuple[int, int]]) -> html.Section | None:
    if not visits:
        return None
    words = [f"{number:,} ({tokens:,})" for number, tokens in visits[:MAX_VISITS]]
    more = f" and {len(visits) - MAX_VISITS:,} more" if len(visits) > MAX_VISITS else ""
    return _section("Rounds in the batch", html.P(", ".join(words) + more), note="round (tokens)", count=len(visits))



# -- a node of the prefix tree ---------------------------------------------------------------------------


def node_view(library: Library, key: str, node_id: str, n: int, among: list[str]) -> list[Any]:
    """A node's requests, and what happened to its last boundary. Raises UnknownTrace, TraceError."""
    colours = library.colours(among if key in among else [key])
    with library.reading(key) as opened:
        trace = opened.trace
        tree = trace.tree(max(1, min(n, trace.num_rounds)))
        try:
            node = tree.node(node_id)
        except KeyError:
            return [html.P("This round's tree has no such node.", className="soft")]
        requests = tree.requests_of(node)
        note = f"tokens {node.depth:,} to {node.end:,}, as round {tree.at_round:,} left it"
        ids = trace.ids
        out: list[Any] = [
            html.Div([html.H3(node.name), html.Span(note, className="soft")], className="strip-title"),
            chips([ids[i] for i in requests], colours),
        ]
        rows = []
        for group in trace.config.groups:
            boundaries = tree.state(node, group.index)
            if not boundaries or not requests:
                continue
            boundary, state = boundaries[-1]
            events = tree.history(requests[0], group.index, boundary)
            words = "; ".join(
                f"{event} in round {at:,}" + (f" by {ids[by if event == 'evicted' and by >= 0 else i]}" if i >= 0 or by >= 0 else "")
                for at, event, i, by in events[-6:]
            )
            parts = " and ".join(group.components)
            rows.append(
                html.Tr([
                    html.Th(f"{parts} at {boundary:,}", scope="row"),
                    html.Td(state.replace("_", " ")),
                    html.Td(words or "never computed", className="soft"),
                ])
            )  # fmt: skip
        if rows:
            out.append(html.Table(html.Tbody(rows), className="facts"))
        return out

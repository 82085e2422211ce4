"""One request: its life line, why it waited (`explain`'s words), and what the cache had for it."""

from __future__ import annotations

from typing import Any

import numpy as np
from dash import html

from radixflow.analysis.explain import explain
from radixflow.analysis.waits import WaitStretch
from radixflow.figures.palette import Colours, slot_class

from .library import Library, Open
from .parts import CAUSE_WORDS, meter, section, title

MAX_VISITS = 24


def request_view(library: Library, key: str, request: str | None, among: list[str]) -> list[Any]:
    """The request inspector. Raises UnknownTrace, TraceError."""
    if request is None:
        return [html.P("Select a request in the timeline, the tree or the queue.", className="soft placeholder")]
    colours = library.colours(among if key in among else [key])
    with library.reading(key) as opened:
        try:
            i = opened.trace.index_of(request)
        except KeyError:
            return [title(request, opened.trace), html.P("This run has no such request.", className="soft")]
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
        html.Div(
            [dot, html.H2(request), html.Span(trace.header.policy, className="policy")],
            className="inspector-title",
        ),
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
        out.append(section("Why it waited", html.Ul(items, className="causes")))
    for line in others:
        if line.startswith("What would have helped: "):
            out.append(section("What would have helped", html.P(line.removeprefix("What would have helped: "))))
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
            parts.append(
                (
                    stretch.first_round,
                    f"pat-{name}",
                    f"{cause}: {_span(stretch.first_round, stretch.last_round)}",
                    stretch.rounds,
                )
            )
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
    joined = (
        parts if len(parts) <= 80 else parts[:79] + [(parts[79][0], "pat-other", "and more", end - parts[79][0] + 1)]
    )
    reason = row["finish_reason"]
    finish = f"finished ({reason})" if isinstance(reason, str) else "not finished yet"
    return html.Div(
        [
            meter(
                [(name, words, count) for _, name, words, count in joined],
                1,
                "; ".join(words for _, _, words, _ in joined[:20]),
            ),
            html.P([f"Rounds {begin:,} to {end:,}", html.Span(f", {finish}", className="soft")], className="sum"),
        ],
        className="measure life",
    )


def _span(first: int, last: int) -> str:
    return f"round {first:,}" if first == last else f"rounds {first:,} to {last:,}"


def _prefix(trace: Any, i: int, prefix: dict, prompt: int) -> html.Section | None:
    """What the cache had for it: the longest match in each group, the ready boundary, and where its path
    leaves others'."""
    rows = []
    groups = {str(group.index): group for group in trace.config.groups}
    for index, tokens in (prefix.get("matched") or {}).items():
        group = groups.get(str(index))
        parts = " and ".join(group.components) if group else "group"
        rows.append((f"Matched in {parts}" + (f" ({index})" if len(groups) > 2 else ""), tokens))
    rows.append(("Ready (every component)", prefix.get("ready")))
    rows.append(("Shared with an earlier request", prefix.get("junction")))
    rows.append(("Most that a look-up may match", prefix.get("lookup_cap")))
    body = [
        html.Tr([html.Th(name, scope="row"), html.Td("-" if value is None else f"{value:,}")]) for name, value in rows
    ]
    path = [f"{name} ({count:,})" for name, count in trace.names_of(i)]
    return section(
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
    return section("Rounds in the batch", html.P(", ".join(words) + more), note="round (tokens)", count=len(visits))

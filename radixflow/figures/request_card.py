"""One request: its life line, why it waited (`explain`'s words), and what the cache had for it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from radixflow.analysis.explain import explain
from radixflow.analysis.run_labels import run_name
from radixflow.analysis.waits import Ledger, WaitStretch
from radixflow.figures.cards import (
    Block,
    Card,
    Causes,
    Facts,
    Meter,
    Part,
    Section,
    Words,
    brief,
    colour_of,
    words,
)
from radixflow.figures.palette import Colours, slot_class
from radixflow.figures.wording import cause_words

MAX_VISITS = 24
"""Rounds in the batch that are named."""

MAX_STRETCHES = 80
"""Parts of a life line."""

TOLD_APART = ("blocked", "unexamined", "unrecorded")
"""Causes of a wait with a pattern of their own."""

HELPED = "What would have helped: "


class Visits:
    """Row visits of a trace by request."""

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


def request_card(
    trace: Any, request: str, colours: Colours, ledger: Ledger | None = None, visits: Visits | None = None
) -> Card:
    """Why the request with this id waited, and what it got. An id that the run doesn't have is said so.

    Pass `ledger` and `visits` where several requests of one trace are asked about.
    """
    try:
        i = trace.index_of(request)
    except KeyError:
        return Card(brief(request), run_name(trace), blocks=[words("This run has no such request.", "soft")])
    ledger = ledger or Ledger(trace)
    why = explain(trace, request, ledger)
    row = trace.requests.loc[i]
    opening, *lines = why.text.split("\n")
    stretches = [stretch for wait in ledger.of(i) for stretch in wait]
    own = (visits or Visits(trace)).of(i)
    out: list[Block] = [words(opening, "lead")]
    life = _life(row, stretches, own)
    if life is not None:
        out.append(life)
    causes = [line[2:] for line in lines if line.startswith("- ")]
    if causes:
        out.append(Section("Why it waited", [Causes([(_class_of(line), brief(line)) for line in causes])]))
    for line in lines:
        if line.startswith(HELPED):
            out.append(Section(HELPED.rstrip(": "), [words(line.removeprefix(HELPED))]))
        elif line.strip() and not line.startswith("- "):
            out.append(words(line))
    out.append(_prefix(trace, i, why.prefix, int(row["prompt"])))
    if own:
        said = ", ".join(f"{number:,} ({tokens:,})" for number, tokens in own[:MAX_VISITS])
        more = f" and {len(own) - MAX_VISITS:,} more" if len(own) > MAX_VISITS else ""
        out.append(Section("Rounds in the batch", [words(said + more)], len(own), "round (tokens)"))
    return Card(brief(request), run_name(trace), colour=colour_of(request, colours), blocks=out)


def _class_of(line: str) -> str:
    """The class of `palette.SLOTS` for a line of `explain`, which names its cause in the first brackets."""
    cause = re.match(r"[^(]*\((\w+)", line)
    return slot_class(cause[1]) if cause and cause[1] in TOLD_APART else "other"


def _life(row: Any, stretches: list[WaitStretch], visits: list[tuple[int, int]]) -> Meter | None:
    """From arrival to finish: each wait by cause, then its rounds in the batch, widths in rounds."""
    parts: list[tuple[int, Part]] = []
    for stretch in stretches:
        if stretch.rounds:
            cause = cause_words(stretch.cause)
            look = slot_class(stretch.cause) if stretch.cause in TOLD_APART else "other"
            span = _span(stretch.first_round, stretch.last_round)
            parts.append((stretch.first_round, Part(look, f"{cause}: {span}", stretch.rounds)))
    first = last = None
    for number, _ in [*visits, (None, 0)]:
        if first is not None and number != last + 1:
            parts.append((first, Part("visit", f"in the batch: {_span(first, last)}", last - first + 1)))
            first = None
        if number is not None:
            first = number if first is None else first
            last = number
    parts.sort(key=lambda part: part[0])
    if not parts:
        return None
    begin, end = parts[0][0], int(parts[-1][0] + parts[-1][1].amount - 1)
    joined = [part for _, part in parts]
    if len(joined) > MAX_STRETCHES:
        cut = parts[MAX_STRETCHES - 1][0]
        joined = [*joined[: MAX_STRETCHES - 1], Part("other", "and more", end - cut + 1)]
    reason = row["finish_reason"]
    finish = f"finished ({reason})" if isinstance(reason, str) else "not finished yet"
    total = Words(((f"Rounds {begin:,} to {end:,}, {finish}", False),), "sum")
    return Meter(joined, "; ".join(part.words for part in joined[:20]), total)


def _span(first: int, last: int) -> str:
    return f"round {first:,}" if first == last else f"rounds {first:,} to {last:,}"


def _prefix(trace: Any, i: int, prefix: dict, prompt: int) -> Section:
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
    facts = Facts([(name, "-" if value is None else f"{value:,}") for name, value in rows])
    path = [f"{name} ({count:,})" for name, count in trace.names_of(i)]
    said = [words(" + ".join(path[:8]) + (" + ..." if len(path) > 8 else ""), "soft")] if path else []
    return Section("Prefix", [*said, facts], note=f"of {prompt:,} prompt tokens")

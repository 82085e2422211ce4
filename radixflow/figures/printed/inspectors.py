"""`rf.figures.round` and `rf.figures.request`: the inspectors, for print."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from radixflow.analysis.waits import Ledger
from radixflow.figures.cards import Section
from radixflow.figures.figure import Figure
from radixflow.figures.palette import Colours
from radixflow.figures.printed.card import Page
from radixflow.figures.request_card import Visits, request_card
from radixflow.figures.round_card import round_card


def round(trace: Any, n: int, colours: Colours | None = None) -> Figure:
    """What round n decided, in words and sums, with the waiting queue as its scan found it.

    Raises ValueError where the trace has no round n.
    """
    if not 1 <= n <= trace.num_rounds:
        raise ValueError(f"no round {n}: {trace.path} has rounds 1 to {trace.num_rounds}")
    card, queue = round_card(trace, n, colours if colours is not None else Colours.of(trace))
    if queue is not None and queue.chips:
        waiting = Section("Waiting queue", [queue], len(queue.chips) + queue.more, "as the scan found it")
        card = replace(card, blocks=[*card.blocks[:2], waiting, *card.blocks[2:]])
    page = Page([card])
    return Figure(page.draw, page.height, f"round {n} of trace {trace.id}", f"radixflow.figures.round(trace, {n})")


def request(
    trace: Any,
    request: str,
    colours: Colours | None = None,
    ledger: Ledger | None = None,
    visits: Visits | None = None,
) -> Figure:
    """Why a request waited: its life line, each wait with its culprit, and what the cache had for it.

    `ledger` and `visits` as for `request_card`. Raises ValueError where the trace has no such request.
    """
    try:
        trace.index_of(request)
    except KeyError as error:
        raise ValueError(f"{trace.path}: {error.args[0]}") from None
    card = request_card(trace, request, colours if colours is not None else Colours.of(trace), ledger, visits)
    page = Page([card])
    name = request if len(request) <= 80 else f"{request[:77]}..."
    return Figure(
        page.draw, page.height, f"request {name} of trace {trace.id}", f"radixflow.figures.request(trace, {name!r})"
    )

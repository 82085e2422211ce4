"""A hundred thousand rounds in Chromium: the first picture, any round, and a link into the middle."""

from __future__ import annotations

import pytest
from dashboard_server import at_round, cells_drawn, cells_of, drawn, opened, serving
from dashboard_traces import long_run, write

from radixflow.trace import open_trace

ROUNDS = 100_000


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write(tmp_path_factory.mktemp("long") / "long.rft.jsonl", long_run(ROUNDS))


def test_any_of_many_rounds_is_drawn_as_the_trace_says(page, path):
    trace = open_trace(path)
    with serving(path) as address:
        opened(page, address)
        lane = drawn(page)["lanes"][0]
        assert (lane["num_rounds"], lane["mode"]) == (ROUNDS, "bins")
        for n in (70_001, 2, ROUNDS):
            page.locator("#round-slider").fill(str(n))
            at_round(page, n)
        page.goto(f"{address}/?round=50000&first=49990&last=50010&request=r9")
        page.wait_for_selector("#page[data-ready=true]")
        at_round(page, 50_000)
        page.wait_for_function("() => 50000 in radixflow.describe().lanes[0].rounds")
        lane = drawn(page)["lanes"][0]
        for n in range(49_992, 50_009):
            assert cells_drawn(lane, n) == cells_of(trace, n)
        page.locator("#lane-0 .rf-pane").focus()
        page.keyboard.press("ArrowRight")
        at_round(page, 50_001)
        bubbles = trace.rounds.index[trace.rounds["avoidable"].fillna(0) > 0]
        page.click("[data-jump=bubble]")
        at_round(page, int(bubbles[bubbles > 50_001][0]))
        page.goto("about:blank")  # before its server goes: the next tree is being asked for

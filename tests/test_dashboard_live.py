"""A trace that is still being written, in Chromium: followed, paused, caught up with, and told about when it
ends."""

from __future__ import annotations

import os
from contextlib import ExitStack

import msgspec
import pytest
from dashboard_server import ask, at_round, cells_drawn, cells_of, drawn, opened, serving
from dashboard_traces import Growing, long_run, write
from trace_records import header

from radixflow.trace import open_trace
from radixflow.trace.schema import Round
from radixflow.trace.writer import TraceWriter
from radixflow_dashboard.library import Library


@pytest.fixture
def serve():
    """Serves traces until the page is closed: name it before `page`, so that the page goes first."""
    with ExitStack() as stack:
        yield lambda *traces: stack.enter_context(serving(*traces))


@pytest.fixture
def growing(tmp_path):
    run = Growing(tmp_path / "live.rft.jsonl")
    run.round(5)
    yield run
    run.close()


def status(page, words: str) -> None:
    page.wait_for_function("(words) => document.getElementById('live-status').textContent.includes(words)", arg=words)


@pytest.mark.parametrize("query", ["", "?poll"])
def test_new_rounds_appear_as_they_are_written(growing, serve, page, query):
    address = serve(growing.path)
    opened(page, address, query)
    page.wait_for_selector("#pause-live")
    for _ in range(3):
        growing.round()
        at_round(page, growing.rounds)
    trace = open_trace(growing.path)
    page.wait_for_function("(n) => n in radixflow.describe().lanes[0].rounds", arg=growing.rounds)
    assert cells_drawn(drawn(page)["lanes"][0], growing.rounds) == cells_of(trace, growing.rounds)
    growing.end()
    status(page, "Finished")


def test_pause_keeps_the_picture_and_back_to_live_catches_up(growing, serve, page):
    address = serve(growing.path)
    opened(page, address)
    page.wait_for_selector("#pause-live")
    page.click("#pause-live")
    growing.round(7)
    status(page, "Paused, 7 new rounds")
    assert drawn(page)["lanes"][0]["num_rounds"] == 5
    page.click("#back-to-live")
    at_round(page, 12)
    growing.round()
    at_round(page, 13)


def test_going_back_stops_following_but_not_reading(growing, serve, page):
    address = serve(growing.path)
    opened(page, address)
    page.wait_for_selector("#pause-live")
    growing.round()
    at_round(page, 6)
    page.locator("#lane-0 .rf-pane").focus()
    page.keyboard.press("Home")
    at_round(page, 1)
    growing.round(4)
    page.wait_for_function("() => radixflow.describe().lanes[0].num_rounds === 10")
    assert page.evaluate("radixflow.state().round") == 1
    page.click("#back-to-live")
    at_round(page, 10)


def test_a_restarted_run_is_said_and_shown(growing, serve, page, tmp_path):
    address = serve(growing.path)
    opened(page, address)
    page.wait_for_selector("#pause-live")
    write(tmp_path / "new.rft.jsonl", long_run(3, "00000000000000cc"))
    os.replace(tmp_path / "new.rft.jsonl", growing.path)
    page.wait_for_function("() => radixflow.describe().lanes[0]?.num_rounds === 3")
    status(page, "Finished")


def test_a_truncated_run_is_said_and_stays(growing, serve, page):
    address = serve(growing.path)
    opened(page, address)
    page.wait_for_selector("#pause-live")
    os.truncate(growing.path, growing.path.stat().st_size // 2)
    status(page, "Truncated")
    assert drawn(page)["lanes"][0]["num_rounds"] == 5


def test_two_pages_follow_one_run_each_in_its_own_way(growing, serve, page, browser):
    address = serve(growing.path)
    opened(page, address)
    page.wait_for_selector("#pause-live")
    context = browser.new_context()
    other = context.new_page()
    opened(other, address)
    other.wait_for_selector("#pause-live")
    other.click("#pause-live")
    growing.round(2)
    at_round(page, 7)
    assert drawn(other)["lanes"][0]["num_rounds"] == 5
    context.close()


def test_the_parts_of_a_rotated_trace_are_one_run_also_without_the_first(tmp_path):
    records = list(long_run(3, "00000000000000cc"))
    write(tmp_path / "run.part2.rft.jsonl", records)
    with serving(trace_dir=tmp_path) as address:
        (run,) = ask(address, "/api/runs")["runs"]
        assert run["file"] == "run"
        assert ask(address, f"/api/overview?trace={run['key']}")["num_rounds"] == 3
        write(tmp_path / "run.part3.rft.jsonl", [msgspec.structs.replace(records[0], part=3)])
        assert [known["key"] for known in ask(address, "/api/runs")["runs"]] == [run["key"]]


def test_a_run_followed_for_days_is_held_only_as_far_as_its_files_go(tmp_path):
    path = tmp_path / "server.rft.jsonl"
    writer = TraceWriter(path, header(), max_bytes=3000, max_parts=3, on_rotate=lambda: [], synchronous=True)
    writer.write(Round(1, 1, 0))
    writer.flush()
    library = Library([path])
    followed = library.open(library.list()[0]["key"])
    held = []
    for n in range(2, 4001):
        writer.write(Round(n, n, 0, free=7))
        if n % 20 == 0:
            writer.flush()
            assert followed.update()
            held.append(len(followed.trace.rounds))
            assert followed.trace.num_rounds == n and followed.trace.round(n).free == 7
    on_disk = len(open_trace(path).rounds)
    assert max(held) < 4 * on_disk < 4000, "more is held than the files that are left"


def test_a_run_that_starts_empty_stays_in_sight_as_a_whole(serve, page, tmp_path):
    run = Growing(tmp_path / "live.rft.jsonl")
    address = serve(run.path)
    opened(page, address)
    page.wait_for_selector("#pause-live")
    for _ in range(4):
        run.round(3)
        at_round(page, run.rounds)
    page.wait_for_function("() => radixflow.describe().lanes[0].view.last === 12")
    assert drawn(page)["lanes"][0]["view"] == {"first": 1, "last": 12}
    run.close()

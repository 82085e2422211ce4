"""What is shown, taken away: each view, chart and table in each format that the menu offers."""

from __future__ import annotations

import csv
import json
import re
from urllib.parse import quote

import pytest
from dashboard_server import ask, get, opened, serving
from dashboard_traces import header, hostile, write
from figures_traces import figure1, stream

from radixflow.trace import open_trace
from radixflow.trace.schema import End, Request
from radixflow_dashboard.exports import OFFERS, PICTURES
from radixflow_dashboard.layout import SAVED

STARTS = {"svg": "<?xml", "pdf": "%PDF", "png": "\ufffdPNG", "csv": '"request"', "html": "<!doctype html>"}


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saves")
    return [
        write(folder / "figure1-radix.rft.jsonl", figure1("radix")),
        write(folder / "figure1-radixflow.rft.jsonl", figure1("radixflow+noadmit")),
        write(folder / "stream.rft.jsonl", stream(150, rows=16, tokens=2048)),
    ]


@pytest.fixture(scope="module")
def address(traces):
    with serving(*traces) as address:
        yield address


@pytest.fixture(scope="module")
def keys(traces):
    return [open_trace(path).id for path in traces]


def saved(address: str, keys: list[str], what: str, format: str, **more) -> tuple[int, str, str]:
    """Status, file name and content of a download."""
    query = {"first": 1, "last": 6, "round": 1, **more}
    path = f"/api/export?what={what}&format={format}&traces={'.'.join(keys)}" + "".join(
        f"&{name}={value}" for name, value in query.items()
    )
    status, headers, text = get(address + path)
    return status, headers.get("content-disposition", ""), text


def test_the_menu_offers_what_can_be_had():
    assert {what for group in SAVED.values() for what in group} == set(OFFERS)


def test_the_menu_leaves_out_what_these_runs_cannot_give(page, address, keys):
    offered = "() => [...document.querySelectorAll('.saves li:not([hidden]) > span')].map((words) => words.textContent)"
    alone = {"Timelines", "Prefix tree", "Round and queue", "Replay, works offline", "Rows a round", "Slots by cause"}
    alone |= {"Waits by cause", "Requests"}
    for traces, more in ((keys[:1], set()), (keys[:2], {"Metrics", "Host time saved"})):
        opened(page, address, f"?traces={'.'.join(traces)}")
        page.click("#downloads summary")
        assert set(page.evaluate(offered)) == alone | more, "no latency without a clock"


def test_why_nothing_could_be_saved_is_a_sentence_beside_the_menu(browser, address, keys):
    page = browser.new_page()  # a refused download is an error in the console
    opened(page, address, f"?traces={keys[0]}")
    page.route(
        "**/api/export?*", lambda route: route.fulfill(status=409, json={"error": "no latencies, expected some"})
    )
    page.click("#downloads summary")
    page.locator("#downloads a[data-what=timeline]").first.click()
    page.wait_for_function("() => document.getElementById('message').textContent === 'No latencies, expected some.'")
    menu, said = page.locator(".saves").bounding_box(), page.locator("#message").bounding_box()
    assert menu["y"] + menu["height"] <= said["y"]
    page.close()


def test_everything_offered_is_given(address, keys):
    for k, (what, formats) in enumerate(OFFERS.items()):
        # Each picture in one format, another one each time; whatever isn't a picture in all.
        for format in {formats[k % len(formats)]} | set(formats) - set(PICTURES):
            status, name, text = saved(address, keys[:2], what, format, request="A1")
            if what in ("latency", "cost"):  # figure 1 has no clock
                assert status in (200, 409)
                continue
            assert status == 200, (what, format, text[:200])
            assert text.startswith(STARTS[format]), (what, format)
            assert re.search(rf'filename="figure1-[^"]*{what}\.{format}"', name)


def test_round_and_request_are_of_the_run_that_is_shown(address, keys):
    for shown, policy in zip(keys[:2], ("radix", "radixflow_noadmit"), strict=True):
        for what in ("round", "request"):
            _, name, text = saved(address, keys[:2], what, "svg", request="A1", shown=shown, round=2)
            assert f"{what} {'2' if what == 'round' else 'A1'} of trace {shown}" in text
            assert policy in name.replace("+", "_")


def test_a_request_keeps_its_colour_of_the_page_in_every_picture(address, keys, traces):
    from radixflow.figures.palette import Colours

    colours = Colours.of(*(open_trace(path) for path in (traces[2], traces[0])))
    _, _, text = saved(address, [keys[2], keys[0]], "request", "svg", request="A1", shown=keys[0])
    assert colours.fill("A1") != Colours.of(open_trace(traces[0])).fill("A1")
    assert colours.fill("A1") in text


def test_what_makes_no_sense_is_refused_in_one_line(address, keys):
    pair = keys[:2]
    for status, what, format, more, says in (
        (400, "round", "html", {}, "format is 'html'; expected svg or pdf or png for round"),
        (400, "rounds", "svg", {}, "what is 'rounds'; expected one of timeline, tree, round"),
        (400, "requests", "svg", {"rows": "1.x"}, "rows is '1.x'; expected up to 200 numbers"),
        (400, "requests", "svg", {"rows": ".".join(["1"] * 300)}, "expected up to 200 numbers"),
        (400, "timeline", "svg", {"last": 10**12}, "expected at most 100,000"),
        (400, "timeline", "svg", {"first": "x"}, "first is 'x'; expected a whole number"),
        (400, "round", "svg", {"shown": keys[2]}, "shown names another trace"),
        (409, "request", "svg", {}, "no request is selected"),
        (409, "request", "svg", {"request": "A11"}, "A11"),
        (409, "latency", "svg", {}, "no latencies, expected a workload with arrival times"),
    ):
        got, _, text = saved(address, pair, what, format, **more)
        error = json.loads(text)["error"]
        assert (got, "\n" in error, says in error) == (status, False, True), (what, more, got, error)
    assert saved(address, ["feedfeedfeedfeed"], "tree", "svg")[0] == 404


def test_a_round_beyond_the_run_is_its_last(address, keys):
    status, _, text = saved(address, keys[1:2], "round", "svg", round=10**15)
    assert status == 200 and "radixflow.figures.round(trace, 4)" in text


def test_the_table_is_saved_as_it_was_sorted(page, address):
    opened(page, address, "?view=compare")
    page.wait_for_selector("#requests-grid .ag-cell")
    page.click("#downloads summary")
    href = page.locator("a[data-what=requests][data-format=pdf]").get_attribute("href")
    assert "rows=" not in href
    page.evaluate("window.grid = dash_ag_grid.getApi('requests-grid')")
    page.evaluate("grid.applyColumnState({ state: [{ colId: 'wait_rounds0', sort: 'desc' }] })")
    page.evaluate("document.getElementById('downloads').open = false")
    page.wait_for_function("() => grid.getDisplayedRowAtIndex(0).data.wait_rounds0 === 5")
    page.click("#downloads summary")
    page.wait_for_function(
        "() => document.querySelector('a[data-what=requests][data-format=pdf]').href.includes('rows=')"
    )
    rows = page.evaluate(
        "() => new URL(document.querySelector('a[data-what=requests][data-format=csv]').href).searchParams.get('rows')"
    )
    shown = page.evaluate("() => Array.from({ length: 15 }, (_, k) => grid.getDisplayedRowAtIndex(k).data.n).join('.')")
    assert rows == shown != ".".join(map(str, range(15)))
    with page.expect_download() as download:
        page.click("a[data-what=requests][data-format=csv]")
    lines = list(csv.reader(download.value.path().read_text().splitlines()))
    assert len(lines) == 16 and lines[1][0] == "P1"


def test_a_request_is_offered_once_one_is_selected(browser, address):
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    opened(page, address)
    page.click("#downloads summary")
    page.wait_for_selector("a[data-what=round][data-format=svg]")
    assert page.locator("a[data-what=request][data-format=svg]").is_hidden()
    page.keyboard.press("Escape")
    assert not page.locator("#downloads").evaluate("menu => menu.open")
    page.locator("#queue .chip", has_text="A1").first.click()
    page.click("#downloads summary")
    with page.expect_download() as download:
        page.click("a[data-what=request][data-format=svg]")
    assert b"request A1 of trace" in download.value.path().read_bytes()
    context.close()


def test_any_id_can_be_saved(tmp_path):
    ids = ["<script>alert(1)</script>", "x" * 3000, "שלום 👋", "a\nb"]
    records = [header("00000000000000ea"), *(Request(i, id, 0, 100, [(f"s{i}", 100)]) for i, id in enumerate(ids))]
    odd = write(tmp_path / "odd.rft.jsonl", [*records, End(10, "interrupted", 0)])
    strange = write(tmp_path / "h.rft.jsonl", [*hostile(), End(2_000_000, "finished", 1)])
    with serving(odd, strange) as address:
        for id in ids:
            status, _, text = saved(address, ["00000000000000ea"], "request", "svg", request=quote(id))
            assert status == 200 and "<script>" not in text
        key = next(run["key"] for run in ask(address, "/api/runs")["runs"] if run["key"] != "00000000000000ea")
        for what in ("round", "requests", "timeline", "tree"):
            status, name, text = saved(address, [key], what, "svg")
            assert status == 200 and "<script>" not in text and "<" not in name

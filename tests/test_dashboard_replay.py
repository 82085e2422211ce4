"""The replay in Chromium: what is drawn is what the trace says, on one cursor, and a link brings it back."""

from __future__ import annotations

import pytest
from dashboard_server import at_round, cells_drawn, cells_of, drawn, opened, serving
from dashboard_traces import hostile, write
from figures_traces import figure1, stream

from radixflow.analysis.compare import compare
from radixflow.trace import open_trace
from radixflow.trace.schema import End


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replay")
    return [
        write(folder / "figure1-radix.rft.jsonl", figure1("radix")),
        write(folder / "figure1-radixflow.rft.jsonl", figure1("radixflow+noadmit")),
        write(folder / "stream.rft.jsonl", stream(150, rows=16, tokens=2048)),
    ]


@pytest.fixture(scope="module")
def address(traces):
    with serving(*traces) as address:
        yield address


def test_every_slot_of_figure_1_is_drawn_as_the_trace_says(page, address, traces):
    opened(page, address)
    at_round(page, 1)
    page.wait_for_function("() => radixflow.describe().lanes.every((lane) => 1 in lane.rounds)")
    lanes = drawn(page)["lanes"]
    for lane, path in zip(lanes, traces[:2], strict=True):
        trace = open_trace(path)
        assert lane["num_rounds"] == trace.num_rounds
        for n in range(1, trace.num_rounds + 1):
            assert cells_drawn(lane, n) == cells_of(trace, n)


def test_a_longer_run_is_drawn_as_the_trace_says_wherever_the_cursor_goes(page, address, traces):
    trace = open_trace(traces[2])
    opened(page, address)
    page.select_option("#trace-select", label="stream0")
    page.wait_for_function("() => radixflow.describe().lanes.length === 1")
    at_round(page, 1)
    for n in (75, 150, 3):
        page.locator("#round-slider").fill(str(n))
        at_round(page, n)
        page.wait_for_function("(n) => n in radixflow.describe().lanes[0].rounds", arg=n)
        assert cells_drawn(drawn(page)["lanes"][0], n) == cells_of(trace, n)


def test_the_inspectors_say_what_the_round_did(page, address):
    opened(page, address)
    at_round(page, 1)
    inspector = page.locator("#round-inspector")
    assert "4 rows = 1 selected + 3 avoidable" in inspector.inner_text()
    assert "1,024 of 4,096 tokens" in inspector.inner_text()
    assert "The scan of the waiting queue stopped at A1" in inspector.inner_text()
    queue = page.locator("#queue .chip").all_inner_texts()
    assert queue[:3] == ["P1", "A1", "D1"] and len(queue) == 15
    page.locator("#queue .chip", has_text="A1").first.click()
    page.wait_for_selector("#request-inspector h2:text-is('A1')")
    text = page.locator("#request-inspector").inner_text()
    assert "waited 1 round" in text and "computed by P1" in text
    assert drawn(page)["lanes"][0]["selection"] == drawn(page)["tree"]["selection"] == "A1"


def test_keys_move_the_one_cursor(page, address):
    opened(page, address)
    at_round(page, 1)
    page.locator("#lane-0 .rf-pane").focus()
    page.keyboard.press("ArrowRight")
    at_round(page, 2)
    page.keyboard.press("End")
    at_round(page, 6)
    page.keyboard.press("Home")
    at_round(page, 1)
    page.locator("#round-slider").focus()
    page.keyboard.press("ArrowRight")
    at_round(page, 2)
    page.locator("#trace-select").evaluate("node => node.blur()")
    page.locator("h1").click()
    page.keyboard.press("ArrowRight")
    at_round(page, 3)
    page.keyboard.press("s")
    at_round(page, 4)
    page.keyboard.press("Shift+N")
    at_round(page, 3)


def test_playing_stops_at_the_end_and_space_pauses_it(page, address):
    opened(page, address)
    page.select_option("#speed", "30")
    # Six rounds last a fifth of a second: what the button said is kept, not caught.
    page.evaluate(
        """() => {
          const play = document.getElementById("play");
          window.said = [];
          const seen = new MutationObserver(() => said.push(play.getAttribute("aria-pressed")));
          seen.observe(play, { attributeFilter: ["aria-pressed"] });
        }"""
    )
    page.click("#play")
    page.wait_for_function("() => said[0] === 'true' && said.at(-1) === 'false'")
    at_round(page, 6)
    page.select_option("#speed", "1")
    page.locator("#lane-0 .rf-pane").focus()
    page.keyboard.press(" ")
    page.wait_for_selector("#play[aria-pressed=true]")
    page.keyboard.press(" ")
    page.wait_for_selector("#play[aria-pressed=false]")


def test_the_next_bubble_blocked_request_stop_and_parting_are_found(page, address, traces):
    trace = open_trace(traces[2])
    bubbles = trace.rounds.index[trace.rounds["avoidable"].fillna(0) > 0]
    opened(page, address)
    page.click("[data-jump=parting]")
    page.wait_for_selector("#message:not([hidden])")  # they part in round 1 already
    page.select_option("#trace-select", label="stream0")
    page.wait_for_function("() => radixflow.describe().lanes.length === 1")
    page.click("[data-jump=bubble]")
    at_round(page, int(bubbles[0] if bubbles[0] > 1 else bubbles[1]))


def test_a_link_brings_back_what_one_saw(page, browser, address):
    opened(page, address)
    page.locator("#lane-1 .rf-pane").focus()
    page.keyboard.press("ArrowRight")
    page.locator("#queue .chip", has_text="D3").first.click()
    page.click("[data-axis=time]")
    at_round(page, 2)
    page.wait_for_function("() => location.search.includes('axis=time') && location.search.includes('request=D3')")
    before = drawn(page)
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    other = context.new_page()
    other.goto(page.url)
    other.wait_for_selector("#page[data-ready=true]")
    at_round(other, 2)
    other.wait_for_selector("#request-inspector h2:text-is('D3')")
    assert drawn(other)["lanes"] == before["lanes"]
    assert other.evaluate("radixflow.state()") == page.evaluate("radixflow.state()")
    context.close()


def test_the_comparison_says_what_the_analysis_says(page, address, traces):
    found = compare(*(open_trace(path) for path in traces[:2]))
    opened(page, address, "?view=compare")
    page.wait_for_selector(".metrics")
    rows = {
        row.locator("th").inner_text(): row.locator("td").all_inner_texts()
        for row in page.locator(".metrics tbody tr").all()
    }
    assert rows["Rounds"][0] == str(found.summaries[0].rounds) == "6"
    assert rows["Rounds"][1].split()[0] == str(found.summaries[1].rounds) == "4"
    assert rows["Avoidable slots"][0] == str(found.summaries[0].avoidable_slots)
    page.wait_for_selector(".ag-cell")
    assert page.locator(".js-plotly-plot").count() == 4
    page.locator(".parting .link").first.click()
    page.wait_for_function("() => radixflow.state().round === 1")


def test_two_people_see_what_each_of_them_chose(page, browser, address):
    opened(page, address)
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    other = context.new_page()
    opened(other, address)
    other.select_option("#trace-select", label="stream0")
    other.wait_for_function("() => radixflow.describe().lanes.length === 1")
    other.locator("#round-slider").fill("40")
    at_round(other, 40)
    page.keyboard.press("ArrowRight")
    at_round(page, 2)
    assert [lane["num_rounds"] for lane in drawn(page)["lanes"]] == [6, 4]
    assert [lane["num_rounds"] for lane in drawn(other)["lanes"]] == [150]
    assert other.evaluate("radixflow.state().round") == 40
    page.reload()
    at_round(page, 2)
    context.close()


def test_a_node_of_the_tree_tells_its_history(page, address):
    opened(page, address, "?round=2")
    page.wait_for_function("() => radixflow.describe().tree !== null")
    page.locator("#tree .rf-pane").focus()
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    page.wait_for_selector("#node .facts")
    assert "published in round 1" in page.locator("#node").inner_text()


def test_ids_and_labels_that_are_markup_stay_text(page, tmp_path):
    records = [*hostile(), End(2_000_000, "finished", 1)]
    with serving(write(tmp_path / "h.rft.jsonl", records)) as address:
        opened(page, address)
        at_round(page, 1)
        page.locator("#queue .chip").first.click()
        page.wait_for_selector("#request-inspector .facts")
        page.click(".tab[data-view=compare]")
        page.wait_for_timeout(300)
        assert page.evaluate("window.pwned") is None
        assert "<script>window.pwned=1</script>" in page.locator("#queue").inner_text()
        assert "<script>" in page.locator("#round-inspector .policy").inner_text()
        page.goto("about:blank")  # before its server goes

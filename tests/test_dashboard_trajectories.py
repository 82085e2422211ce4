"""The trajectories card in Chromium: bars are what the trace says, they move, and everybody can reach and read them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dashboard_server import ask, at_round, drawn, faults, get, opened, serving
from dashboard_traces import write
from figures_traces import figure1
from trajectory_traces import agents

from radixflow.analysis import returns
from radixflow.figures.trajectory_bars import Contexts, bars
from radixflow.trace import open_trace

FAULTS = Path(__file__).with_name("dashboard_faults.mjs").read_text()


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trajectories")
    return [
        write(folder / "agents-lru.rft.jsonl", agents("lru", states=1, id="a" * 16)),
        write(folder / "agents-rr.rft.jsonl", agents("rr", states=1, id="b" * 16)),
        write(folder / "figure1-radix.rft.jsonl", figure1("radix")),
    ]


@pytest.fixture(scope="module")
def address(traces):
    with serving(*traces) as address:
        yield address


@pytest.fixture
def page(page):
    yield page
    page.goto("about:blank")  # before its server goes


def bars_at(page, n: int) -> dict:
    """Move the cursor, bring the card into sight, and what it draws then."""
    page.locator("#round-slider").fill(str(n))
    at_round(page, n)
    page.wait_for_function("() => !document.getElementById('trajectories').hidden")
    page.locator("#trajectories").scroll_into_view_if_needed()
    page.wait_for_function("(n) => radixflow.describe().trajectories?.round === n", arg=n)
    return drawn(page)["trajectories"]


def test_bars_are_what_the_traces_say_in_the_same_rows(page, address, traces):
    opened(page, address)
    contexts = [Contexts(open_trace(path)) for path in traces[:2]]
    for n in (48, 15, 1, 30):
        shown, want = bars_at(page, n), bars(contexts, n)
        assert shown["rows"] == want["rows"] and shown["extent"] == want["extent"]
        for run, said in zip(shown["runs"], want["runs"], strict=True):
            assert run["eviction"] == said["eviction"]
            for bar, true in zip(run["bars"], said["bars"], strict=True):
                for name in ("state", "request", "full", "ready", "matched", "vanished"):
                    assert bar[name] == true[name], (n, name)
                assert bar["lost"] == (0 if true["vanished"] else true["lost"])
                if true["lost"] and not true["miss"] and true["evictor"]:
                    assert bar["note"] == f"−{true['lost']:,} to {true['evictor']}"


def test_at_a_return_the_bar_is_what_the_look_up_reused(page, address, traces):
    opened(page, address)
    table = returns(open_trace(traces[1]))
    back = table[table["miss"] != "none"].iloc[2]
    shown = bars_at(page, int(back["round"]))
    bar = shown["runs"][1]["bars"][shown["rows"].index(back["trajectory"])]
    assert (bar["state"], bar["ready"], bar["note"]) == ("running", back["reused"], f"missed {back['missed']:,}")


def test_where_nobody_comes_back_there_is_no_card(page, address):
    opened(page, address)
    bars_at(page, 3)
    page.click("#downloads summary")
    assert page.locator("a[data-what=bars][data-format=pdf]").is_visible()
    page.click("#downloads summary")
    page.select_option("#trace-select", label="figure1")
    page.wait_for_function("() => radixflow.describe().lanes.length === 1")
    page.wait_for_function("() => document.getElementById('trajectories').hidden")
    assert drawn(page)["trajectories"] is None
    page.click("#downloads summary")
    assert not page.locator("a[data-what=bars]").first.is_visible()


def test_bars_move_by_width_on_nodes_that_stay(page, address):
    opened(page, address)
    bars_at(page, 14)
    page.evaluate("document.querySelectorAll('.bar-row').forEach((row, k) => (row.kept = k))")
    bars_at(page, 24)
    kept = page.evaluate("[...document.querySelectorAll('.bar-row')].map((row) => row.kept)")
    assert kept == list(range(12))
    moves = "getComputedStyle(document.querySelector('.bar-own')).transitionProperty"
    assert page.evaluate(moves) == "width"
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(moves) in ("none", "all")
    assert page.evaluate("getComputedStyle(document.querySelector('.bar-own')).transitionDuration") == "0s"


def test_keys_walk_the_bars_and_enter_or_a_click_selects_its_latest_request(page, address):
    opened(page, address)
    shown = bars_at(page, 20)
    bar_list = page.locator(".bar-list").nth(1)
    bar_list.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    current = page.evaluate("document.activeElement.getAttribute('aria-activedescendant')")
    option = page.locator(f"#{current}")
    assert option.get_attribute("role") == "option"
    words = option.get_attribute("aria-label")
    assert words.startswith("a2: ") and page.locator(".bar-words").inner_text() == f"In B, {words}"
    page.keyboard.press("Enter")
    page.wait_for_function("() => radixflow.state().request !== null")
    request = shown["runs"][1]["bars"][2]["request"]
    assert page.evaluate("[radixflow.state().request, radixflow.state().side]") == [request, 1]
    assert option.get_attribute("aria-selected") == "true"
    page.wait_for_selector(f"#request-inspector h2:text-is('{request}')")
    assert drawn(page)["lanes"][1]["selection"] == request
    page.keyboard.press("ArrowRight")  # rounds still go by the same keys
    at_round(page, 21)
    shown = bars_at(page, 20)
    row = page.locator(".bar-list").first.locator(".bar-row").nth(3)
    row.click()
    assert page.evaluate("radixflow.state().request") == shown["runs"][0]["bars"][3]["request"]
    row.click()
    assert page.evaluate("radixflow.state().request") is None


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_is_legible_and_axe_finds_no_fault(page, address, theme):
    page.emulate_media(color_scheme=theme)
    opened(page, address)
    bars_at(page, 33)
    page.locator(".bar-row").nth(1).click()
    assert page.evaluate(FAULTS) == []
    assert faults(page) == []


def test_the_pictures_are_saved_with_the_others(address, traces):
    keys = ".".join(open_trace(path).id for path in traces[:2])
    for what, call in (("trajectories", "trajectories(t1, t2)"), ("bars", "trajectories(t1, t2, at_round=20)")):
        query = f"/api/export?traces={keys}&what={what}&format=svg&first=1&last=48&round=20"
        status, _, text = get(address + query)
        assert status == 200 and f"radixflow.figures.{call}" in text


def test_a_question_that_makes_no_sense_is_refused(address):
    for query, says in (("round=1", "traces is missing"), ("traces=x&round=a", "round is 'a'")):
        status, _, text = get(f"{address}/api/trajectories?{query}")
        assert status == 400 and says in json.loads(text)["error"]
    assert get(f"{address}/api/trajectories?traces=feed&round=1")[0] == 404


def test_a_run_that_goes_on_is_followed(page, tmp_path):
    records = list(agents("lru", id="c" * 16))
    path = write(tmp_path / "live.rft.jsonl", records[: len(records) // 2])
    with serving(path) as address:
        opened(page, address)
        page.wait_for_function("() => !document.getElementById('trajectories').hidden")
        page.locator("#trajectories").scroll_into_view_if_needed()
        with open(path, "ab") as file:
            file.write(write(tmp_path / "rest", records[len(records) // 2 :]).read_bytes())
        page.wait_for_function("() => radixflow.describe().lanes[0].num_rounds === 48", timeout=60_000)
        page.wait_for_function("() => radixflow.describe().trajectories?.round === 48", timeout=60_000)
        shown = drawn(page)["trajectories"]["runs"][0]["bars"]
        want = ask(address, f"/api/trajectories?traces={'c' * 16}&round=48")["runs"][0]["bars"]
        assert [bar["ready"] for bar in shown] == [bar["ready"] for bar in want]
        page.goto("about:blank")

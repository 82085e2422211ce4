"""Odd ids, wrong links, the back button, small windows: nothing is lost, and one line says why."""

from __future__ import annotations

import threading

import pytest
from dashboard_server import ask, at_round, drawn, get, opened, serving
from dashboard_traces import header, write
from figures_traces import figure1

from radixflow.trace.schema import Admission, End, Finish, Request, Round, Step
from radixflow_dashboard import metrics
from radixflow_dashboard.library import Library

IDS = ["x" * 10_000, "שלום עולם-1", "👋🏽 emoji", "<script>window.pwned=1</script>", "a\nb", "normal"]


def odd(id: str):
    """One round a request, of ids of every kind."""
    yield header(id, workload="odd ids")
    for i, name in enumerate(IDS):
        yield Request(i, name, 0, 164, [("d", 64), (f"q{i}", 100)], names=[("doc", 64), (name, 100)])
    for i in range(len(IDS)):
        yield Round(i + 1, i * 1_000_000, 1000, [i, 164], [Admission(i, 0, 0)], free=10)
        yield Step(i + 1, (i + 1) * 1_000_000)
        yield Finish(i, (i + 1) * 1_000_000, "stop", 1, i + 1)
    yield End(10_000_000, "finished", len(IDS))


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacks")
    with serving(
        write(folder / "figure1-radix.rft.jsonl", figure1("radix")),
        write(folder / "figure1-radixflow.rft.jsonl", figure1("radixflow+noadmit")),
        write(folder / "odd.rft.jsonl", odd("00000000000000e1")),
    ) as address:
        yield address


def test_an_id_of_ten_thousand_letters_is_explained_and_its_link_opens(page, address):
    opened(page, address, "?traces=00000000000000e1")
    page.locator("#queue .chip").first.click()
    page.wait_for_selector("#request-inspector .facts")
    page.wait_for_function("() => location.search.includes('request=xxx')")
    title = page.locator("#request-inspector h2").inner_text()
    assert len(title) < 100 and "…" in title
    page.reload()
    page.wait_for_selector("#request-inspector .facts")
    assert page.evaluate("radixflow.state().request.length") == 10_000
    assert page.locator("#request-inspector").evaluate("node => node.scrollWidth <= node.clientWidth")
    page.goto("about:blank")


def test_an_id_that_no_address_can_hold_is_said_and_left_out_of_the_link(browser, tmp_path):
    long = "y" * 50_000
    records = [header("00000000000000e2"), Request(0, long, 0, 100, [("s", 100)])]
    records += [Round(1, 0, 1000, [0, 100], [Admission(0, 0, 0)], free=9), End(10, "interrupted", 1)]
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    with serving(write(tmp_path / "long.rft.jsonl", records)) as address:
        opened(page, address)
        page.locator("#queue .chip").first.click()
        page.wait_for_function("() => document.getElementById('message').textContent === "
                               "\"An id this long can't be asked about.\"")  # fmt: skip
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(400)
        assert len(page.url) < 300
        page.reload()
        at_round(page, 1)
        page.goto("about:blank")
    context.close()


def test_every_odd_id_is_explained(page, address):
    opened(page, address, "?traces=00000000000000e1")
    for name in IDS[1:]:
        page.evaluate("(name) => [...document.querySelectorAll('#queue .chip')]"
                      ".find((chip) => chip.dataset.request === name).click()", name)  # fmt: skip
        page.wait_for_function(
            "(name) => document.querySelector('#request-inspector h2')?.textContent === name", arg=name
        )
    assert page.evaluate("window.pwned") is None
    page.goto("about:blank")


def test_back_returns_to_the_view_before_and_forward_comes_again(page, address):
    opened(page, address)
    page.locator("#lane-0 .rf-pane").focus()
    page.keyboard.press("ArrowRight")
    at_round(page, 2)
    page.click(".tab[data-view=compare]")
    page.wait_for_selector(".metrics")
    page.go_back()
    page.wait_for_selector("#page[data-view=replay]")
    assert page.evaluate("radixflow.state().round") == 2
    assert page.locator(".tab[data-view=replay]").get_attribute("aria-pressed") == "true"
    page.go_forward()
    page.wait_for_selector("#page[data-view=compare]")
    page.goto("about:blank")


def test_a_link_to_runs_that_are_not_here_says_so_and_shows_others(browser, address):
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    opened(page, address, "?traces=feedfeedfeedfeed.0000000000000000&round=999&request=none&first=5&last=2")
    assert page.locator("#message").inner_text().startswith("No such trace")
    assert len(drawn(page)["lanes"]) == 2
    page.goto("about:blank")
    context.close()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("?round=999999999999999", "There is no round 999,999,999,999,999: the last one is 6."),
        ("?round=-1&side=9", "round=-1 in this link: expected a whole number from 1."),
        ("?round=1.5&side=x", "side=x in this link: expected a whole number from 0. round=1.5 in this link"),
        ("?first=6&last=1", "first=6 in this link: expected at most last=1."),
        ("?first=99&last=999", None),  # past the end: all that there is
        ("?view=nothing&axis=x", "view=nothing in this link: expected replay, compare, engines or classroom. axis=x"),
    ],
)
def test_a_link_that_makes_no_sense_shows_the_run_and_says_what_it_left_out(page, address, query, said):
    opened(page, address, query)
    page.wait_for_function("() => radixflow.describe().lanes.every((lane) => lane.num_rounds > 0)")
    round = page.evaluate("radixflow.state().round")
    assert 1 <= round <= 6
    at_round(page, round)
    message = page.locator("#message")
    assert message.inner_text().startswith(said) if said else message.is_hidden()
    page.goto("about:blank")


@pytest.mark.parametrize(("wide", "high"), [(360, 740), (720, 450)])
def test_a_small_window_shows_everything_one_under_another(page, address, wide, high):
    page.set_viewport_size({"width": wide, "height": high})
    opened(page, address, "?round=1&request=A1")
    page.wait_for_selector("#request-inspector .facts")
    at_round(page, 1)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    round, request, compare = (
        page.locator(id).bounding_box() for id in ("#round-inspector", "#request-inspector", "#compare")
    )
    assert page.locator("#round-inspector").evaluate("node => node.scrollHeight <= node.clientHeight + 1")
    assert round["y"] + round["height"] <= request["y"] and request["y"] + request["height"] <= compare["y"]
    page.click("#downloads summary")
    menu = page.locator(".saves").bounding_box()
    assert menu["x"] >= 0 and menu["x"] + menu["width"] <= wide
    page.goto("about:blank")


def test_the_menu_is_reached_and_used_by_keyboard_alone(page, address):
    opened(page, address)
    page.locator("#downloads summary").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Timelines as SVG"
    with page.expect_download():
        page.keyboard.press("Enter")
    page.goto("about:blank")


def test_no_question_however_odd_makes_the_server_fail(address):
    key = ask(address, "/api/runs")["runs"][0]["key"]
    odd = ("", "-1", "9" * 40, "9" * 5000, "NaN", "%00", "1.5", "%F0%9F%98%80", "../../etc/passwd", "<script>", "%0a1")
    routes = {
        "window": ("first", "last"),
        "tree": ("round",),
        "round": ("round", "trace"),
        "request": ("request", "among"),
        "node": ("node", "round"),
        "jump": ("what", "from"),
        "export": ("what", "format", "round", "rows"),
    }
    plain = {"first": 1, "last": 6, "round": 1, "trace": key, "among": key, "traces": key, "request": "A1", "node": 1,
             "what": "stop", "from": 1, "direction": 1, "format": "csv"}  # fmt: skip
    for route, names in routes.items():
        for name in names:
            for value in odd:
                query = {**plain, **({"what": "requests"} if route == "export" else {}), name: value}
                status, _, text = get(f"{address}/api/{route}?" + "&".join(f"{k}={v}" for k, v in query.items()))
                assert status < 500 and "\n" not in text[: 0 if status == 200 else 500], (route, name, value[:20], text)


def test_a_count_that_takes_long_holds_up_no_answer_and_comes_with_a_later_one(tmp_path, monkeypatch):
    go = threading.Event()
    counted = metrics._numbers
    monkeypatch.setattr(metrics, "PATIENCE", 0.0)
    monkeypatch.setattr(metrics, "_numbers", lambda *given: go.wait(60) and counted(*given))
    library = Library([write(tmp_path / "f.rft.jsonl", figure1("radix"))])
    key = library.list()[0]["key"]
    causes = metrics.Causes(library)

    def samples() -> list:
        return [sample for family in causes.collect() for sample in family.samples]

    assert samples() == []
    with library.reading(key) as opened:  # a page's question, meanwhile
        assert opened.trace.round(1).n == 1
    assert samples() == [], "one count at a time"
    go.set()
    causes._counting[key].join(60)
    assert any(sample.name == "radixflow_rounds_total" and sample.value == 6 for sample in samples())

"""The canvas module in Chromium: what is drawn, read back, is what was computed from the trace."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from figures_traces import figure1, header, stream, write

from radixflow import figures
from radixflow.figures import icicle, palette, windows
from radixflow.figures.palette import CANVAS, Colours
from radixflow.trace import open_trace
from radixflow.trace.schema import Admission, Blocked, End, Probe, Request, Round, Stop

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>test</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'self'; script-src 'self'; style-src 'self'">
</head><body><script type="module" src="/setup.mjs"></script></body></html>"""
SETUP = """import * as canvas from "/canvas.mjs";
window.canvas = canvas;
window.calls = [];
window.pixel = (x, y) => {
  const one = document.createElement("canvas");
  const ctx = one.getContext("2d", { willReadFrequently: true });
  ctx.drawImage(document.querySelector(".rf-stage canvas"), -x * devicePixelRatio, -y * devicePixelRatio);
  return [...ctx.getImageData(0, 0, 1, 1).data].slice(0, 3);
};
"""

DRAW = """([data, height]) => {
  const box = document.createElement("div");
  box.style.height = height + "px";
  document.body.append(box);
  const note = (name) => (value) => calls.push([name, value]);
  window.timeline = canvas.createTimeline(box, {
    theme: "light", label: "radix",
    onCursor: note("cursor"), onSelect: note("select"), onWindow: note("window"), onPlay: note("play"),
  });
  timeline.setOverview(data.overview);
  if (data.window) timeline.setData(data.window);
}"""


def opened(records):
    with TemporaryDirectory() as folder:
        return open_trace(write(Path(folder) / "t.rft.jsonl", records))


@pytest.fixture
def page(browser):
    """An empty page under a strict content-security policy; its console must stay empty."""
    page = browser.new_page(viewport={"width": 1200, "height": 900}, device_scale_factor=2, reduced_motion="reduce")
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    files = {
        "/": (PAGE, "text/html"),
        "/canvas.mjs": (CANVAS.read_text(encoding="utf-8"), "text/javascript"),
        "/setup.mjs": (SETUP, "text/javascript"),
        "/favicon.ico": ("", "image/x-icon"),
    }

    def answer(route):
        body, kind = files[route.request.url.removeprefix("http://radixflow.test")]
        route.fulfill(body=body, content_type=kind)

    page.route("**/*", answer)
    page.goto("http://radixflow.test/")
    eventually(page, "Boolean(window.canvas)")
    yield page
    page.close()
    assert said == []


def eventually(page, expression):
    """Wait until an expression is true (`wait_for_function` needs eval, which the policy forbids)."""
    for _ in range(400):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"never true: {expression}")


def show(page, trace, height=420, window=True):
    data = {"overview": windows.overview(trace)}
    if window:
        data["window"] = windows.window(trace, 1, trace.num_rounds)
    page.evaluate(DRAW, [data, height])
    return data


def expected(window):
    rounds = {n: [] for n in range(window["first"], window["last"] + 1)}
    for row, first, span, kind, request, tokens in windows.unpack(window["cells"], "<i4").reshape(-1, 6).tolist():
        who = window["requests"][request]["id"] if request >= 0 else None
        for n in range(first, first + span):
            rounds[n].append({"row": row, "kind": window["kinds"][kind], "request": who, "tokens": tokens})
    return {str(n): sorted(cells, key=lambda cell: cell["row"]) for n, cells in rounds.items()}


def shown(page):
    return page.evaluate("timeline.describe()")


@pytest.mark.parametrize("policy", ["radix", "radixflow+noadmit"])
def test_what_is_drawn_of_figure1_is_what_the_trace_says(page, policy):
    trace = opened(figure1(policy))
    data = show(page, trace)
    drawn = shown(page)
    assert drawn["mode"] == "cells"
    assert {n: r["cells"] for n, r in drawn["rounds"].items()} == expected(data["window"])
    for n, r in drawn["rounds"].items():
        view = trace.round(int(n))
        assert r["tokens"] == sum(tokens for _, tokens in view.selected)
        stop = view.stop and {
            "request": view.stop.i if view.stop.i is None else trace.ids[view.stop.i],
            "cause": view.stop.cause,
        }
        assert r["stop"] == stop
        assert [(p["request"], p["producer"]) for p in r["parked"]] == [
            (trace.ids[b.i], trace.ids[b.producer]) for b in view.blocked
        ]


def test_each_drawn_cell_lies_where_it_is_read_back_and_has_its_requests_colour(page):
    trace = opened(figure1("radix"))
    show(page, trace)
    colours = Colours.of(trace)
    for n, r in shown(page)["rounds"].items():
        for cell in r["cells"]:
            hit = page.evaluate(
                "([n, row]) => { const p = timeline.place(n, row); return timeline.inspect(p.x, p.y); }",
                [int(n), cell["row"]],
            )
            assert hit["cell"] == {"round": int(n), **cell}
            if cell["kind"] not in ("running", "waiting"):
                continue
            # Above the gauge, right of the label.
            pixel = page.evaluate(
                "([n, row]) => { const p = timeline.place(n, row); return pixel(p.x, p.y - 6); }",
                [int(n), cell["row"]],
            )
            ground = palette.visit(colours[cell["request"]], cell["tokens"], 4096, palette.THEMES["light"]["panel"])
            wanted = [int(ground[k : k + 2], 16) for k in (1, 3, 5)]
            assert max(abs(a - b) for a, b in zip(pixel, wanted, strict=True)) <= 2, (n, cell)


def test_a_zoomed_window_of_a_long_run_equals_the_trace_cell_by_cell(page):
    trace = opened(stream(600, rows=16, tokens=2048, seed=4))
    data = show(page, trace)
    assert shown(page)["mode"] == "bins"
    page.evaluate("timeline.setView(201, 320)")
    drawn = shown(page)
    assert drawn["mode"] == "cells"
    wanted = expected(data["window"])
    assert drawn["view"] == {"first": 201, "last": 320}
    assert {n: r["cells"] for n, r in drawn["rounds"].items()} == {str(n): wanted[str(n)] for n in range(201, 321)}


def test_keys_move_the_cursor_zoom_select_and_play(page):
    show(page, opened(figure1("radix")))
    page.locator("[role=application]").focus()

    def after(key):
        page.keyboard.press(key)
        return shown(page)

    assert after("ArrowRight")["cursor"] == 2
    assert after("End")["cursor"] == 6
    assert after("ArrowRight")["cursor"] == 6
    assert after("ArrowLeft")["cursor"] == 5
    assert after("Home")["cursor"] == 1
    assert "Round 1 of 6: 1 of 4 rows, 1,024 of 4,096 tokens, 3 avoidable" in page.locator("[aria-live]").text_content()
    assert "scan stopped at A1: blocked" in page.locator("[aria-live]").text_content()
    assert after("b")["cursor"] == 2
    after("Home")
    after("ArrowUp")
    assert "Round 1, row 1: P1" in page.locator("[aria-live]").text_content()
    assert after("Enter")["selection"] == "P1"
    assert after("Escape")["selection"] is None
    zoomed = after("+")["view"]
    assert zoomed["last"] - zoomed["first"] < 5
    assert after("0")["view"] == {"first": 1, "last": 6}
    page.keyboard.press(" ")
    names = [name for name, _ in page.evaluate("calls")]
    assert names.count("play") == 1
    assert [value for name, value in page.evaluate("calls") if name == "cursor"] == [2, 6, 5, 1, 2, 1]


def test_a_click_moves_the_cursor_and_selects_and_the_host_can_do_both_silently(page):
    show(page, opened(figure1("radix")))
    place = page.evaluate("timeline.place(3, 1)")
    origin = page.locator(".rf-stage").bounding_box()
    page.mouse.click(origin["x"] + place["x"], origin["y"] + place["y"])
    drawn = shown(page)
    assert (drawn["cursor"], drawn["selection"]) == (3, "D2")
    assert page.evaluate("calls") == [["cursor", 3], ["select", "D2"]]
    page.evaluate("timeline.setCursor(5); timeline.setSelection('A4')")
    drawn = shown(page)
    assert (drawn["cursor"], drawn["selection"]) == (5, "A4")
    assert len(page.evaluate("calls")) == 2


def test_hovering_says_what_a_cell_is(page):
    show(page, opened(figure1("radix")))
    origin = page.locator(".rf-stage").bounding_box()
    for (n, row), words in {
        (1, 1): ["Avoidable bubble", "D1 was ready"],
        (2, 0): ["A1", "620 of 4,096 tokens"],
        (6, 3): ["nobody else was waiting"],
    }.items():
        place = page.evaluate(f"timeline.place({n}, {row})")
        page.mouse.move(origin["x"] + place["x"], origin["y"] + place["y"])
        text = page.locator(".rf-tip").text_content()
        assert all(word in text for word in words), text


def test_dragging_pans_and_the_wheel_zooms_only_with_the_focus(page):
    show(page, opened(stream(200, rows=8, tokens=1024, seed=1)))
    page.evaluate("timeline.setView(50, 99)")
    origin = page.locator(".rf-stage").bounding_box()
    x, y = origin["x"] + 500, origin["y"] + 120
    page.mouse.move(x, y)
    page.mouse.wheel(0, -300)
    assert shown(page)["view"] == {"first": 50, "last": 99}
    page.mouse.down()
    page.mouse.move(x - 200, y, steps=4)
    page.mouse.up()
    panned = shown(page)["view"]
    assert panned["first"] > 55
    assert page.evaluate("calls.filter(([name]) => name === 'cursor').length") == 0
    page.locator("[role=application]").focus()
    page.mouse.wheel(0, -300)
    eventually(page, "timeline.describe().view.last - timeline.describe().view.first < 48")


def test_a_run_of_100_000_rounds_draws_from_its_overview_and_asks_for_what_it_needs(page):
    rows, total = 64, 100_000
    records = [header(rows, 8192, "radix", "many"), Request(i=0, id="a", t=0, prompt=10)]
    records += [
        Round(
            n=n,
            t=n * 1000,
            d=1,
            selected=[0, 1 + n % 4000],
            admissions=[Admission(0, 0, 0)] if n == 1 else [],
            probe=Probe(),
        )
        for n in range(1, total + 1)
    ]
    trace = opened([*records, End(total * 1000, "finished", total)])
    data = show(page, trace, window=False)
    assert len(json.dumps(data)) < 1_000_000
    drawn = shown(page)
    assert drawn["mode"] == "bins"
    assert drawn["view"] == {"first": 1, "last": total}
    bin = page.evaluate("(() => { const p = timeline.place(50000, 0); return timeline.inspect(p.x, p.y).bin; })()")
    assert bin["first"] <= 50_000 <= bin["last"]
    assert bin["rows"] == 1
    assert bin["idle"] == 63
    page.evaluate("timeline.setView(50000, 50100)")
    eventually(page, "calls.some(([name]) => name === 'window')")
    wanted = page.evaluate("calls.find(([name]) => name === 'window')[1]")
    assert wanted["first"] <= 50_000
    assert wanted["last"] >= 50_100
    assert wanted["last"] - wanted["first"] < windows.MAX_CELL_ROUNDS
    page.evaluate("(w) => timeline.setData(w)", windows.window(trace, wanted["first"], wanted["last"]))
    drawn = shown(page)
    assert drawn["mode"] == "cells"
    assert drawn["rounds"]["50050"]["cells"][0]["tokens"] == 1 + 50_050 % 4000


def test_a_growing_run_is_followed_only_by_a_view_that_looks_at_its_end(page):
    whole = stream(200, rows=8, tokens=1024, seed=1)
    part = opened([r for r in whole if not (isinstance(r, Round) and r.n > 120) and not isinstance(r, End)])
    show(page, part)
    grown = windows.overview(opened(whole))
    page.evaluate("timeline.setView(81, 120)")
    page.evaluate("(o) => timeline.setOverview(o)", grown)
    assert shown(page)["view"] == {"first": 161, "last": 200}
    page.evaluate("timeline.setView(11, 50)")
    page.evaluate("(o) => timeline.setOverview(o)", grown)
    assert shown(page)["view"] == {"first": 11, "last": 50}


def test_ids_from_outside_are_text_and_nothing_else(page):
    evil = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    trace = opened([
        header(2, 100, "radix", "t", 10),
        Request(i=0, id=evil, t=0, prompt=10),
        Request(i=1, id="b", t=0, prompt=10),
        Round(
            n=1, t=0, d=1, selected=[1, 10], admissions=[Admission(1, 0, 0)],
            blocked=[Blocked(0, 1, 10, [1], False)], stop=Stop("blocked", 0), probe=Probe([0]),
        ),
    ])  # fmt: skip
    show(page, trace)
    origin = page.locator(".rf-stage").bounding_box()
    place = page.evaluate("timeline.place(1, 1)")
    page.mouse.move(origin["x"] + place["x"], origin["y"] + place["y"])
    assert evil in page.locator(".rf-tip").text_content()
    assert page.locator("img, body script:not([src])").count() == 0


def test_both_themes_draw_with_their_own_colours(page):
    show(page, opened(figure1("radix")))
    for theme in ("light", "dark"):
        page.evaluate("(theme) => timeline.setTheme(theme)", theme)
        assert shown(page)["theme"] == theme
        pixel = page.evaluate("pixel(2, 2)")
        panel = palette.THEMES[theme]["panel"]
        assert pixel == [int(panel[k : k + 2], 16) for k in (1, 3, 5)]


def test_the_tree_shows_states_gaps_and_producers(page):
    trace = opened(figure1("radixflow+noadmit"))
    layout = icicle.layout(trace, 1)
    page.evaluate(
        """(layout) => {
           const box = document.createElement("div");
           box.style.height = "480px";
           document.body.append(box);
           const onSelect = (id) => calls.push(["select", id]);
           const onNode = (node) => calls.push(["node", node.label]);
           window.tree = canvas.createTree(box, { theme: "light", onSelect, onNode });
           tree.setData(layout); }""",
        layout,
    )
    drawn = page.evaluate("tree.describe()")
    doc1 = next(node for node in drawn["nodes"] if node["label"] == "doc1")
    assert {(m["component"], m["state"], m["end"]) for m in doc1["marks"]} == {
        ("kv", "published", 1024),
        ("rec", "in flight", 1024),
        ("conv", "in flight", 1024),
    }
    a1 = next(request for request in drawn["requests"] if request["id"] == "A1")
    assert (a1["state"], a1["matched"], a1["ready"], a1["producer"]) == ("blocked", 1024, 0, "P1")
    origin = page.locator(".rf-stage").bounding_box()
    page.mouse.click(origin["x"] + a1["x"] - 60, origin["y"] + a1["y"])
    assert page.evaluate("tree.describe()")["selection"] == "A1"
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert page.evaluate("calls") == [["select", "A1"], ["node", "a1"]]
    assert "a1: tokens 1,024 to 1,644" in page.locator("[aria-live]").text_content()


def test_an_exported_file_replays_offline_with_one_cursor(browser, tmp_path):
    from playwright.sync_api import expect

    traces = [opened(figure1("radix")), opened(figure1("radixflow+noadmit"))]
    file = figures.export_html(traces, tmp_path / "figure1.html")
    page = browser.new_page(reduced_motion="reduce")
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    assert page.locator("output").text_content() == "Round 1 of 6"
    page.get_by_role("button", name="Round on").click()
    assert page.locator("output").text_content() == "Round 2 of 6"
    assert page.locator(".rf-title small").last.text_content() == "in round 2"
    page.locator("select").select_option("30")
    page.get_by_role("button", name="Play").click()
    expect(page.locator("output")).to_have_text("Round 6 of 6")
    assert page.get_by_role("button", name="Play").count() == 1
    page.close()
    assert said == []
    assert asked == [file.as_uri()]


def test_an_exported_files_tables_move_sideways_on_a_phone_and_break_no_word(browser, tmp_path):
    traces = [opened(figure1("radix")), opened(figure1("radixflow+noadmit"))]
    file = figures.export_html(traces, tmp_path / "figure1.html")
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(file.as_uri())
    page.wait_for_selector(".scroll")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate(
        "[...document.querySelectorAll('.scroll')].map((one) => one.scrollWidth > one.clientWidth)"
    ) == [
        True,
        True,
    ]
    broken = page.evaluate(
        """() => {
          const found = [];
          const walk = document.createTreeWalker(document.querySelector(".words"), NodeFilter.SHOW_TEXT);
          for (let node; (node = walk.nextNode()); )
            for (const word of node.data.matchAll(/[^\\s]+/g)) {
              const range = document.createRange();
              range.setStart(node, word.index);
              range.setEnd(node, word.index + word[0].length);
              const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
              if (lines.size > 1) found.push(word[0]);
            }
          return found;
        }"""
    )
    page.close()
    assert broken == []


def test_the_module_is_a_widget_that_keeps_the_models_traits_in_step(page):
    trace = opened(figure1("radix"))
    state = {
        "overview": windows.overview(trace),
        "window": windows.window(trace, 1, 6),
        "tree": icicle.layout(trace, 1),
        "round": 2,
        "selected": None,
        "theme": "dark",
        "height": 700,
        "label": "radix",
    }
    page.evaluate(
        """(state) => {
          const listeners = {};
          window.model = {
            state, get: (k) => state[k],
            set: (k, v) => {
              state[k] = v;
              calls.push([k, v]);
              (listeners["change:" + k] || []).forEach((f) => f());
            },
            save_changes() {},
            on: (k, f) => (listeners[k] ??= []).push(f),
            off: (k, f) => (listeners[k] = (listeners[k] || []).filter((g) => g !== f)),
            listeners,
          };
          window.close_ = canvas.default.render({ model, el: document.body });
        }""",
        state,
    )
    assert page.locator("output").text_content() == "Round 2 of 6"
    page.get_by_role("button", name="Round on").click()
    assert page.evaluate("model.state.round") == 3
    assert ["wanted_tree", {"run": 0, "round": 3}] in page.evaluate("calls")
    page.evaluate("model.set('round', 5)")
    assert page.locator("output").text_content() == "Round 5 of 6"
    page.evaluate("close_()")
    assert page.locator(".rf-player").count() == 0
    assert page.evaluate("Object.values(model.listeners).flat().length") == 0

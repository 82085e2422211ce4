"""The tree across engines in Chromium: what is drawn is what the index holds; an index that goes is said so."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from dashboard_server import ask, faults, get, serving
from dashboard_traces import write
from figures_traces import figure1
from prometheus_client import CollectorRegistry
from test_dashboard_looks import FAULTS

from radixflow.figures import shared_tree
from radixflow.figures.printed import shared_tree as printed_shared_tree
from radixflow.figures.shared_tree import name_of
from radixflow.index import CacheLayout, Namespace, PrefixIndex
from radixflow.index.picture import MATCHED, READY
from radixflow.index.snapshot import snapshot
from radixflow.index.web import IndexPage
from radixflow.trace import open_trace
from radixflow_dashboard import engines
from radixflow_dashboard.app import create_app

HOSTILE = "<img src=x onerror=window.pwned=1>"
WORDS = {READY: "ready", MATCHED: "matched, not ready"}


@pytest.fixture
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def index():
    """Two tenants, three engines: a document that two of them hold, with states in one alone; questions behind it."""
    made = PrefixIndex()
    made.declare("m", CacheLayout(16, (("kv",), ("rec", "conv"))))
    for engine in ("one", "two", HOSTILE):
        made.add_engine(engine, "m")
    acme, other = Namespace("m", tenant="acme"), Namespace("m", tenant=HOSTILE, salt="secret salt")
    document = list(range(160))
    made.insert(document, acme, "one", groups=[0])
    made.insert(document, acme, "one", groups=[1], boundaries=[160])
    made.insert(document, acme, "two", groups=[0])
    made.insert([*document, *[7] * 32], acme, "one", groups=[0])
    made.insert([*document, *[7] * 32], acme, "one", groups=[1], boundaries=[192])
    made.insert([*document, *[8] * 48], acme, "two", groups=[0])
    made.insert(range(500, 596), other, HOSTILE)
    return made


@contextmanager
def page_of(index, port):
    served = IndexPage("127.0.0.1", port, CollectorRegistry(), lambda: snapshot(index, block_bytes={"m": 1000}))
    try:
        yield served
    finally:
        served.close()


def shown(page, condition="tree?.nodes.length > 0"):
    page.wait_for_function(f"() => {{ const e = radixflow.engines(); return e.{condition}; }}", timeout=60_000)
    return page.evaluate("radixflow.engines()")


def assert_drawn(drawn, told):
    """Every segment told is drawn with its boundaries, under its namespace's name."""
    nodes = {node["id"]: node for node in drawn["tree"]["nodes"]}
    headings = [node["label"] for node in nodes.values() if node["id"].startswith("space ")]
    assert headings == sorted(name_of(space) for space in told.spaces)
    for space in told.spaces:
        for segment in space.segments:
            node = nodes[segment.id]
            assert (node["start"], node["end"]) == (segment.start, segment.end)
            assert node["parent"] == segment.parent
            marks = [
                {"component": space.engines[share.engine], "state": WORDS[state], "start": a - space.block, "end": b,
                 "step": space.block}
                for share in segment.shares for a, b, state in share.marks
            ]  # fmt: skip
            assert node["marks"] == marks
    assert len(nodes) == sum(1 + len(space.segments) for space in told.spaces)


def test_a_running_indexs_tree_is_drawn_as_it_is_and_followed(page, index, port):
    with page_of(index, port), serving(index=f"http://127.0.0.1:{port}") as address:
        page.goto(address)
        drawn = shown(page)
        assert page.evaluate("radixflow.state().view") == "engines"
        assert_drawn(drawn, snapshot(index))
        assert [engine["blocks"] for engine in drawn["engines"]] == [12, 13, 6]
        index.evict(range(160), Namespace("m", tenant="acme"), "one", groups=[1])
        drawn = shown(
            page,
            "tree.nodes.every((n) => n.start || n.marks.every((m) => m.component !== 'one' || m.state !== 'ready'))",
        )
        assert_drawn(drawn, snapshot(index))
        page.goto("about:blank")  # before its server goes


def test_who_could_resume_is_answered_for_the_segment_chosen(page, index, port):
    with page_of(index, port), serving(index=f"http://127.0.0.1:{port}") as address:
        page.goto(address + "/?view=engines")
        shown(page)
        page.locator("#engines-tree .rf-pane").focus()
        for key in ("Home", "ArrowDown", "ArrowDown", "ArrowDown"):  # past the other tenant's
            page.keyboard.press(key)
        pane = page.locator("#engines-pane")
        assert "one can resume a prompt that goes this far at 160, its end." in pane.inner_text()
        rows = [row.locator("th, td").all_inner_texts() for row in pane.locator("tbody").last.locator("tr").all()]
        told = snapshot(index).spaces[0]
        first = told.segments[0]
        assert {row[0]: row[1:3] for row in rows} == {
            name: [str(first.ready[k]), str(first.matched[k])] for k, name in enumerate(told.engines)
        }
        assert rows[0] == ["one", "160", "160", "kv 10, rec+conv 1"]
        totals = [row.locator("th, td").all_inner_texts() for row in pane.locator("tbody").first.locator("tr").all()]
        assert totals[0][:3] == ["one", "12", "12 kB"]
        page.keyboard.press("ArrowRight")
        page.wait_for_function("() => document.querySelector('#engines-pane').innerText.includes('tokens 160 to')")
        assert page.evaluate("window.pwned") is None and HOSTILE in pane.inner_text()
        assert "secret salt" not in json.dumps(ask(address, "/api/engines"))
        assert page.evaluate(FAULTS) == [] and faults(page) == []
        page.emulate_media(color_scheme="dark")
        page.wait_for_function("() => document.documentElement.dataset.theme === 'dark'")  # the page hears of it later
        assert page.evaluate(FAULTS) == [] and faults(page) == []
        page.set_viewport_size({"width": 420, "height": 900})
        assert page.evaluate(FAULTS) == []
        page.goto("about:blank")


def test_an_index_that_goes_is_said_and_comes_back_by_itself(page, index, port):
    with serving(index=f"http://127.0.0.1:{port}") as address:
        with page_of(index, port):
            page.goto(address)
            before = shown(page)
        gone = shown(page, "gone !== null")
        assert "gone" in gone["source"] and "Connection refused" in gone["source"]
        assert gone["tree"] == before["tree"], "what it said last stays"
        index.insert(range(900, 1060), Namespace("m", tenant="new"), "two")
        with page_of(index, port):
            back = shown(page, "gone === null && e.tree.nodes.some((n) => n.label.includes('tenant new'))")
            assert_drawn(back, snapshot(index))
            page.goto("about:blank")


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("engines")
    return [
        write(folder / "figure1-radix.rft.jsonl", figure1("radix")),
        write(folder / "figure1-radixflow.rft.jsonl", figure1("radixflow+noadmit")),
    ]


def test_the_librarys_traces_are_engines_at_the_cursor(page, traces):
    with serving(*traces) as address:
        page.goto(address + "/?view=engines&round=1")
        opened = [open_trace(path) for path in traces]
        names = [f"{letter} {trace.header.policy}" for letter, trace in zip("AB", opened, strict=True)]
        for n in (1, 2, 4, 3):
            page.locator("#round-slider").fill(str(n))
            drawn = shown(page, f"source.includes('in round {n};')")
            states = {
                (node["label"], mark["component"]): mark["state"]
                for node in drawn["tree"]["nodes"] for mark in node["marks"]
            }  # fmt: skip
            for trace, name in zip(opened, names, strict=True):
                tree = trace.tree(min(n, trace.num_rounds))
                ready = {trace.names_of(i)[0][0]: tree.ready(i) for i in filter(tree.knows, range(len(trace.ids)))}
                matched = {
                    trace.names_of(i)[0][0]: max(tree.matched(i).values()) for i in filter(tree.knows, range(15))
                }
                for label in ready:
                    word = "ready" if ready[label] else "matched, not ready" if matched[label] else None
                    assert states.get((label, name)) == word, f"round {n}, {label} in {name}"
        page.click(f"[data-engine='{opened[1].id}']")
        assert [engine["name"] for engine in shown(page, "engines.length === 1")["engines"]] == ["radix"]
        one = "() => /[?&]traces=[^.&]+(&|$)/.test(location.search)"
        page.wait_for_function(one)  # the address follows a moment later
        page.reload()
        assert [engine["name"] for engine in shown(page)["engines"]] == ["radix"]
        page.click(".tab[data-view=replay]")
        page.wait_for_function("() => radixflow.describe().lanes[0]?.rounds[3]")
        page.goto("about:blank")


def test_the_picture_can_be_saved(page, index, port):
    with page_of(index, port), serving(index=f"http://127.0.0.1:{port}") as address:
        page.goto(address)
        shown(page)
        with page.expect_download() as download:
            page.click("#engines-save [data-format=pdf]")
        assert download.value.suggested_filename == "engines.pdf"
        assert download.value.path().read_bytes().startswith(b"%PDF")
        page.goto("about:blank")


# -- without a browser ---------------------------------------------------------------------------------


@contextmanager
def answering(answer):
    """A server that answers every question as `answer(handler)` does."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            answer(self)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def say(body, status=200, **headers):
    def answer(handler):
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        try:
            handler.wfile.write(body)
        except OSError:
            pass  # whoever asked has heard enough

    return answer


def drip(handler):
    say(b"[")(handler)
    for _ in range(40):
        time.sleep(0.1)
        try:
            handler.wfile.write(b" ")
        except OSError:
            return


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (say(b"<html>hello</html>"), "no picture of an index"),
        (say(b'{"kind":"index"}'), "missing required field"),
        (say(b"no", status=500), "status 500"),
        (say(b"", status=302, location="file:///etc/passwd"), "status 302"),
        (say(b" " * (engines.MAX_ANSWER + 1)), "longer than 8 MiB"),
        (drip, "no whole answer within"),
    ],
    ids=["a page", "half a picture", "a fault", "somewhere else", "too much", "too slow"],
)
def test_a_bad_answer_is_one_clear_line(answer, said, monkeypatch):
    monkeypatch.setattr(engines, "ANSWER_SECONDS", 2.0 if answer is drip else 20.0)
    with answering(answer) as address, serving(index=address) as dashboard:
        told = ask(dashboard, "/api/engines")
        assert said in told["gone"] and "\n" not in told["gone"] and len(told["gone"]) <= 200
        assert told["index"] == address and "tree" not in told


@pytest.mark.parametrize("address", ["file:///etc/passwd", "127.0.0.1:9109", "ftp://h/", "http://", "http://u:p@h:1"])
def test_an_index_is_at_an_http_address(address):
    with pytest.raises(ValueError, match="expected an address such as http://127.0.0.1:9109"):
        create_app(index=address)


def test_the_browser_cannot_choose_the_index(index, port, traces):
    with page_of(index, port), serving(traces[0]) as address:
        key = open_trace(traces[0]).id
        told = ask(address, f"/api/engines?traces={key}&round=1&index=http://127.0.0.1:{port}")
        assert [engine["name"] for engine in told["tree"]["engines"]] == ["radix"]


def test_what_was_seen_is_not_sent_again(traces):
    with serving(*traces) as address:
        keys = ".".join(open_trace(path).id for path in traces)
        first = ask(address, f"/api/engines?traces={keys}&round=2")
        assert ask(address, f"/api/engines?traces={keys}&round=2&seen={first['seen']}")["tree"] is None
        assert ask(address, f"/api/engines?traces={keys}&round=1&seen={first['seen']}")["tree"]["nodes"]


def test_it_is_drawn_for_print_with_names_as_they_are(traces, index, port):
    keys = ".".join(open_trace(path).id for path in traces)
    with serving(*traces) as address:
        status, headers, text = get(f"{address}/api/engines/picture?traces={keys}&round=3&format=svg")
        assert (status, headers["content-type"]) == (200, "image/svg+xml") and "round 3" in text
        assert get(f"{address}/api/engines/picture?traces={keys}&round=3&format=svg")[2] == text
        assert get(f"{address}/api/engines/picture?traces={keys}&round=3&format=exe")[0] == 400
    with serving(index=f"http://127.0.0.1:{port}") as address:
        status, _, text = get(f"{address}/api/engines/picture?format=svg")
        assert status == 409 and "the index is gone" in json.loads(text)["error"]
    index.add_engine("_$x$", "m")
    drawn = printed_shared_tree.engines(snapshot(index), "$title$ <b>", "of <b>").render("svg").decode()
    assert "<b>" not in drawn and "&lt;b&gt;" in drawn
    with pytest.raises(ValueError, match="nothing is cached"):
        printed_shared_tree.engines(snapshot(PrefixIndex()), "", "")


def test_nodes_lie_within_their_parents_and_none_over_another(index):
    for k in range(40):
        index.insert([*range(160), *[k + 10] * 16 * (1 + k % 3)], Namespace("m", tenant="acme"), "two")
    told = shared_tree.layout(snapshot(index, max_segments=12))
    nodes = {node["id"]: node for node in told["nodes"]}
    assert sum(bool(node["folded"]) for node in nodes.values()) >= 1
    taken = set()
    for node in nodes.values():
        rows = range(node["top"], node["top"] + node["height"])
        assert 0 <= node["start"] < node["end"] <= told["extent"] and rows.stop <= told["rows"]
        if node["parent"] is not None:
            parent = nodes[node["parent"]]
            assert parent["end"] == node["start"]
            assert parent["top"] <= rows.start and rows.stop <= parent["top"] + parent["height"]
        if node["heading"]:
            continue
        cells = {(row, at) for row in rows for at in range(node["start"], node["end"], 16)}
        assert not cells & taken
        taken |= cells


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("round=1", 400),
        ("traces=nothing&round=1", 404),
        ("traces=a.b.c.d.e.f.g&round=1", 400),
        ("traces=KEY&round=x", 400),
    ],
)
def test_a_bad_question_is_one_clear_line(traces, query, status):
    with serving(*traces) as address:
        query = query.replace("KEY", open_trace(traces[0]).id)
        code, _, text = get(f"{address}/api/engines?{query}")
        assert code == status and json.loads(text)["error"]

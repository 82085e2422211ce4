"""The classroom as a lecturer meets it: what is in sight at a projector's size, what a wrong number does, and what is
said while there is nothing to show yet. Runs are answered by the test: no engine is started."""

from __future__ import annotations

import json

import pytest
from dashboard_server import ask, drawn, faults, running, serving
from dashboard_traces import write
from figures_traces import figure1

from radixflow_dashboard.app import create_app, serve


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lessons")
    paths = [
        write(folder / "figure1-radix.rft.jsonl", figure1("radix")),
        write(folder / "figure1-radixflow.rft.jsonl", figure1("radixflow+noadmit")),
    ]
    with serving(*paths) as address:
        yield address


@pytest.fixture
def posted(page, address):
    """The recipes that the page asks for, each answered with the same two runs."""
    keys = [run["key"] for run in ask(address, "/api/runs")["runs"]]
    recipes: list[dict] = []

    def answer(route):
        recipes.append(json.loads(route.request.post_data))
        route.fulfill(json={"keys": keys})

    state = {**ask(address, "/api/lab"), "state": "ready"}
    page.route("**/api/run", answer)
    page.route("**/api/lab?*", lambda route: route.fulfill(json=state))
    return recipes


def entered(page, address, recipes):
    page.goto(f"{address}/?view=classroom")
    page.wait_for_selector("#page[data-ready=true]", timeout=60_000)
    page.wait_for_function("() => document.getElementById('lab-state').textContent.startsWith('Ran')")
    page.wait_for_function("() => radixflow.describe().lanes.length === 2")
    recipes.clear()


@pytest.mark.parametrize("size", [(1280, 720), (1366, 768), (1440, 900), (1920, 1080)])
def test_both_policies_rows_are_in_sight_with_the_player(page, address, posted, size):
    page.set_viewport_size({"width": size[0], "height": size[1]})
    entered(page, address, posted)
    boxes = {name: page.locator(name).bounding_box() for name in ("#lab-run", "#lane-0", "#lane-1", ".transport")}
    bottoms = {name: box["y"] + box["height"] for name, box in boxes.items()}
    assert bottoms["#lab-run"] < boxes["#lane-0"]["y"] < boxes["#lane-1"]["y"]
    assert bottoms["#lane-1"] <= boxes[".transport"]["y"] and bottoms[".transport"] <= size[1]
    for k, lane in enumerate(drawn(page)["lanes"]):
        rows = [page.evaluate("([k, row]) => radixflow.place(k, 1, row).y", [k, row]) for row in range(lane["S"])]
        assert rows[0] - rows[1] >= 15, "a row is high enough for a name"


@pytest.mark.parametrize("value", ["0", "-3", "1.5", "100000", ""])
def test_nothing_runs_while_a_field_is_wrong(page, address, posted, value):
    entered(page, address, posted)
    said = page.locator("#message")
    page.fill("#lab-max_num_seqs", value)
    page.click("#lab-run")
    said.wait_for(state="visible")
    assert said.inner_text() == "Rows a round (S): expected a whole number from 1 to 256."
    assert page.get_attribute("#lab-max_num_seqs", "aria-invalid") == "true"
    page.select_option("#lab-eviction-a", "rr")  # nor does anything else run it
    page.wait_for_timeout(500)
    assert posted == [] and page.inner_text("#lab-state") == "Not run"
    # A valid number and Run: once, and what was said is taken back.
    page.fill("#lab-max_num_seqs", "3")
    page.click("#lab-run")
    page.wait_for_function("() => document.getElementById('lab-state').textContent.startsWith('Ran')")
    page.wait_for_timeout(500)
    assert [recipe["options"] for recipe in posted] == [{"max_num_seqs": 3}]
    assert said.is_hidden() and page.get_attribute("#lab-max_num_seqs", "aria-invalid") is None


def test_a_wrong_field_is_legible_to_everybody(page, address, posted):
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        entered(page, address, posted)
        page.fill("#lab-block_size", "0")
        page.click("#lab-run")
        page.wait_for_selector("#lab-block_size[aria-invalid=true]")
        assert faults(page) == []


def test_a_folder_without_traces_is_said_in_the_page_and_at_the_prompt(page, tmp_path, monkeypatch):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "notes.md").write_text("no trace")
    app = create_app(trace_dir=folder)
    app.laboratory.state = "missing"  # as where vLLM isn't installed
    with running(app) as address:
        page.goto(address)
        page.wait_for_selector("#starting h2:text-is('No run can be made here')")
        said = page.inner_text("#no-traces")
        assert said.startswith("The folder docs holds no traces: files named *.rft.jsonl or *.rft.jsonl.zst")
        assert str(tmp_path) not in said
        assert page.locator("#timeline").is_hidden() and page.locator("#compare").is_hidden()
        assert page.inner_text("#live-status") == "No engine"
        assert faults(page) == []
    lines: list[str] = []
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    serve(trace_dir=folder, port=_free(), browser=False, say=lines.append)
    (told,) = [line for line in lines if "no traces" in line]
    assert told == f"{folder}: no traces in this folder, expected files named *.rft.jsonl or *.rft.jsonl.zst"


def _free() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_where_the_first_run_will_be_something_says_so_until_it_is_there(page, address, posted):
    held: list = []
    page.route("**/api/run", lambda route: held.append(route))
    page.route("**/api/lab?*", lambda route: route.fulfill(json={**ask(address, "/api/lab"), "state": "warming"}))
    page.goto(f"{address}/?view=classroom")
    page.wait_for_selector("#starting h2:text-is('The simulated engine is starting')")
    page.wait_for_function("() => /1 s so far/.test(document.getElementById('starting-words').textContent)")
    assert page.locator("#timeline").is_hidden() and page.inner_text("#live-status") == "Starting"
    keys = [run["key"] for run in ask(address, "/api/runs")["runs"]]
    held[0].fulfill(json={"keys": keys})
    page.wait_for_selector("#page[data-ready=true]")
    assert page.locator("#starting").is_hidden() and page.locator("#timeline").is_visible()

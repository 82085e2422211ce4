"""The classroom: a recipe is checked, its order keeps the arrivals, and the page runs it on the real
scheduler."""

from __future__ import annotations

import importlib.util

import pytest
from dashboard_server import at_round, drawn, faults, running

from radixflow.workloads import WorkloadRequest
from radixflow_dashboard.app import create_app
from radixflow_dashboard.laboratory import Recipe, RunRefused
from radixflow_dashboard.worker import reordered


def test_equal_recipes_are_one_run():
    one = Recipe.read({"workload": "figure1", "options": {"max_num_seqs": 4}}, "radix")
    other = Recipe.read({"options": {"max_num_seqs": 4}, "workload": "figure1", "order": []}, "radix")
    assert one == other and hash(one) == hash(other)
    with pytest.raises(RunRefused, match="each of them once"):
        Recipe.read({"workload": "figure1", "order": ["P1", "P1"]}, "radix")


def test_a_request_that_is_moved_takes_the_arrival_of_its_new_place():
    requests = [WorkloadRequest(id=id, prompt=[("a", 5)], arrival=float(t)) for t, id in enumerate("abc")]
    moved = reordered(requests, ["c", "a", "b"])
    assert [(request.id, request.arrival) for request in moved] == [("c", 0.0), ("a", 1.0), ("b", 2.0)]


def test_who_waits_for_another_keeps_waiting_for_it():
    requests = [
        WorkloadRequest(id="a", prompt=[("a", 5)]),
        WorkloadRequest(id="b", prompt=[("a", 5)], after="a"),
    ]
    assert [(request.id, request.after) for request in reordered(requests, ["b", "a"])] == [
        ("b", "a"),
        ("a", None),
    ]


@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="classroom runs need vLLM")
def test_a_class_reorders_requests_and_sees_what_each_policy_makes_of_it(page):
    with running(create_app()) as address:
        page.goto(address)  # without a trace, the classroom
        page.wait_for_selector("#page[data-ready=true]", timeout=240_000)
        at_round(page, 1)
        assert [lane["num_rounds"] for lane in drawn(page)["lanes"]] == [6, 4]
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            page.wait_for_function("(theme) => document.documentElement.dataset.theme === theme", arg=theme)
            assert faults(page) == []
        page.locator("#order li", has_text="A1").focus()
        for _ in range(14):
            page.keyboard.press("Alt+ArrowRight")
        assert page.locator("#order li b").last.inner_text() == "A1"
        page.wait_for_function("() => new URLSearchParams(location.search).getAll('order').at(-1) === 'A1'")
        page.wait_for_function("() => document.getElementById('lab-state').textContent.startsWith('Ran')")
        first = page.url
        page.fill("#lab-max_num_seqs", "2")
        page.keyboard.press("Tab")
        page.wait_for_function("() => radixflow.describe().lanes[0]?.S === 2")
        page.goto(first)
        page.wait_for_selector("#page[data-ready=true]")
        page.wait_for_function("() => radixflow.describe().lanes[0]?.S === 4")
        assert page.locator("#order li b").last.inner_text() == "A1"
        page.fill("#lab-block_size", "0")
        page.keyboard.press("Tab")
        page.wait_for_selector("#message:not([hidden])")
        assert "Tokens a block: expected a whole number" in page.locator("#message").inner_text()
        # Agents under two evictions, from a link; then the same one for both.
        page.goto(f"{address}/?view=classroom&workload=agents&policy=radix&policy=radix&eviction=lru&eviction=rr")
        shown = "(names) => radixflow.describe().trajectories?.runs.map((run) => run.eviction).join() === names"
        page.wait_for_function(shown, arg="lru,rr", timeout=60_000)
        assert drawn(page)["lanes"][0]["num_rounds"] != drawn(page)["lanes"][1]["num_rounds"]
        page.select_option("#lab-eviction-a", "rr")
        page.wait_for_function(shown, arg="rr,rr", timeout=60_000)
        # A link to what isn't here: said, and the classroom goes on with its own.
        page.goto(f"{address}/?view=classroom&workload=zzz&policy=zzz")
        told = "() => document.getElementById('message').textContent.includes('no workload zzz and no policy zzz')"
        page.wait_for_function(told, timeout=60_000)
        page.wait_for_function("() => radixflow.describe().lanes.length === 2", timeout=60_000)
        assert [lane["num_rounds"] for lane in drawn(page)["lanes"]] == [6, 4]
        page.goto("about:blank")


def test_a_recipe_names_an_eviction_and_equal_ones_with_another_are_two_runs():
    lru, rr = (Recipe.read({"workload": "agents"}, "radix", eviction) for eviction in ("lru", "rr"))
    assert lru == Recipe.read({"workload": "agents"}, "radix") != rr
    with pytest.raises(RunRefused, match="unknown eviction 'fifo'; expected one of lru, rr"):
        Recipe.read({"workload": "agents"}, "radix", "fifo")

"""Runs of vLLM's own scheduler in the page: the corpus is drawn as it must come out, and six policies stand in one
comparison."""

from __future__ import annotations

import importlib.util
import json
import re

import pytest
from dashboard_server import at_round, cells_drawn, cells_of, drawn, opened, serving
from playwright.sync_api import expect

import radixflow as rf
from radixflow.analysis import compare, diverge
from radixflow.scheduling.policies import POLICIES

pytestmark = pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="runs need vLLM's scheduler")

CASES = ("d01-same-round-producer", "d01b-three-documents", "d08-small-behind-big")
PAIR = ("radix", "radixflow+noadmit")
SIX = ("radix", "radix+timer5", "radix+flex", "radixflow", "radixflow+frag", "radixflow+noadmit")


@pytest.fixture(scope="module")
def runs(tmp_path_factory, corpus):
    """Traces by workload and policy."""
    folder = tmp_path_factory.mktemp("runs")
    wanted = [(corpus / f"{case}.workload.jsonl", case, policy) for case in CASES for policy in PAIR]
    wanted += [("figure1", "figure1", policy) for policy in SIX]
    return {
        (name, policy): rf.run(source, policy=policy, trace=folder / f"{name}-{policy}.rft.jsonl")
        for source, name, policy in wanted
    }


@pytest.fixture(scope="module")
def address(runs):
    with serving(*(trace.path for trace in runs.values())) as address:
        yield address


def keys(runs, workload, policies) -> str:
    return ".".join(runs[workload, policy].id for policy in policies)


@pytest.mark.parametrize("case", CASES)
def test_a_case_of_the_corpus_is_drawn_as_it_must_come_out(page, address, runs, corpus, case):
    expected = json.loads((corpus / "expected.json").read_text())[case]
    known = [policy for policy in PAIR if policy in expected]
    opened(page, address, f"?traces={keys(runs, case, known)}&round=1")
    at_round(page, 1)
    for lane, policy in zip(drawn(page)["lanes"], known, strict=True):
        trace = runs[case, policy]
        assert lane["num_rounds"] == trace.num_rounds == len(expected[policy]["rounds"])
        for n, selected in enumerate(expected[policy]["rounds"], 1):
            shown, view = lane["rounds"][str(n)], trace.round(n)
            visits = [(cell["request"], cell["tokens"]) for cell in shown["cells"] if cell["tokens"]]
            assert sorted(visits) == sorted(map(tuple, selected))
            assert cells_drawn(lane, n) == cells_of(trace, n)
            assert sum(cell["kind"] == "avoidable" for cell in shown["cells"]) == len(view.probe.avoidable)
            stop = view.stop and {"request": trace.ids[view.stop.i] if view.stop.i is not None else None}
            assert shown["stop"] == (stop and stop | {"cause": view.stop.cause})
            assert shown["parked"] == [
                {
                    "request": trace.ids[b.i],
                    "producer": trace.ids[b.producer],
                    "boundary": b.boundary,
                    "parked": b.parked,
                }
                for b in view.blocked
            ]
    # The native run of the first two is stopped at a blocked request, the other one parks it.
    if len(known) > 1:
        native, flow = (lane["rounds"]["1"] for lane in drawn(page)["lanes"])
        assert native["stop"]["cause"] == "blocked" and not native["parked"][0]["parked"]
        assert flow["stop"] is None and flow["parked"][0]["parked"]


def test_the_tree_shows_who_is_blocked_on_whom(page, address, runs):
    opened(page, address, f"?traces={keys(runs, 'd01-same-round-producer', PAIR)}&round=1")
    at_round(page, 1)
    (blocked,) = [request for request in drawn(page)["tree"]["requests"] if request["state"] == "blocked"]
    assert (blocked["id"], blocked["producer"]) == ("B", "A")
    assert (blocked["matched"], blocked["ready"]) == (640, 0)


@pytest.mark.parametrize("policies", [("radix", "radixflow", "radixflow+frag"), SIX], ids=len)
def test_three_to_six_runs_stand_under_one_another(page, address, runs, policies):
    traces = [runs["figure1", policy] for policy in policies]
    opened(page, address, f"?view=compare&traces={keys(runs, 'figure1', policies)}&round=1")
    page.wait_for_selector(".metrics")
    lanes = drawn(page)["lanes"]
    assert [lane["num_rounds"] for lane in lanes] == [trace.num_rounds for trace in traces]
    places = [page.locator(f"#lane-{k}").bounding_box() for k in range(len(policies))]
    assert all(above["y"] + above["height"] <= below["y"] + 1 for above, below in zip(places, places[1:], strict=False))
    for lane, trace in zip(lanes, traces, strict=True):
        for n in range(1, trace.num_rounds + 1):
            assert cells_drawn(lane, n) == cells_of(trace, n)

    found = compare(*traces)
    rows = {
        row.locator("th").inner_text(): row.locator("td").all_inner_texts()
        for row in page.locator(".metrics tbody tr").all()
    }
    for name, words in (("rounds", "Rounds"), ("empty_slots", "Empty slots"), ("avoidable_slots", "Avoidable slots")):
        shown = [int(cell.split()[0].replace(",", "")) for cell in rows[words]]
        assert shown == [int(found.metrics.at[name, label]) for label in found.labels]

    partings = [diverge(traces[0], trace) for trace in traces[1:]]
    links = page.locator(".parting button[data-round]")
    assert links.all_inner_texts() == [f"round {part.round:,}" for part in partings if part]
    links.last.click()
    at_round(page, [part.round for part in partings if part][-1])


def test_runs_are_added_and_taken_out_by_a_press(page, address, runs):
    opened(page, address, f"?view=compare&traces={keys(runs, 'figure1', SIX[:5])}")
    page.wait_for_selector(".metrics")
    chips = page.locator("[aria-label='Runs compared'] button")
    sixth = chips.filter(has_text=re.compile(f"^{re.escape(SIX[5])}$"))
    sixth.click()
    expect(sixth).to_have_attribute("aria-pressed", "true", timeout=60_000)
    assert len(drawn(page)["lanes"]) == 6
    chips.filter(has_text=re.compile("^radix$")).click()
    page.wait_for_function("() => radixflow.describe().lanes.length === 5")
    assert set(SIX) <= set(POLICIES)

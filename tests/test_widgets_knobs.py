"""Knobs rerun the workload on vLLM's own scheduler, and the player shows what came out."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

import radixflow as rf
from radixflow.widgets.knobs import ORDERS, POLICIES, RATES, arranged


@pytest.fixture(scope="module")
def made():
    return rf.knobs("figure1")


@pytest.fixture
def knobs(made):
    """The module's knobs, as they were made."""
    before = {name: control.value for name, control in made.controls.items()}
    yield made
    for name, value in before.items():
        made.controls[name].value = value


def rounds(knobs):
    return [trace.num_rounds for trace in knobs.traces]


def test_they_begin_with_the_workloads_own_values(knobs):
    values = {name: control.value for name, control in knobs.controls.items()}
    assert values == {
        "max_num_seqs": 4, "max_num_batched_tokens": 4096, "block_size": 1024, "order": "as written",
        "rate": 0.0, "above": "radix", "below": "radixflow",
    }  # fmt: skip
    assert rounds(knobs) == [6, 4]


def test_a_turn_runs_both_policies_again_and_redraws_them(knobs):
    shown = [overview["trace"] for overview in knobs.player.overview]
    knobs.controls["max_num_seqs"].value = 16
    expected = [rf.run("figure1", policy, max_num_seqs=16).num_rounds for policy in ("radix", "radixflow")]
    assert rounds(knobs) == expected
    now = [overview["trace"] for overview in knobs.player.overview]
    assert set(now).isdisjoint(shown) and [window["trace"] for window in knobs.player.window] == now
    assert f">{expected[0]}<" in knobs._readout.value


def test_turning_a_knob_back_runs_nothing(knobs, monkeypatch):
    first = knobs.traces
    knobs.controls["max_num_seqs"].value = 3
    monkeypatch.setitem(rf._PUBLIC, "run", "no.such.module")
    knobs.controls["max_num_seqs"].value = 4
    assert knobs.traces == first
    knobs.controls["above"].value = "radixflow"  # the policy below has it
    assert knobs.traces == (first[1], first[1])


def test_what_is_loaded_is_left_out_of_collections(knobs):
    assert gc.get_freeze_count() > 100_000


def test_producers_first_is_an_order_that_native_scheduling_likes(knobs):
    knobs.controls["order"].value = "documents in turn"
    native, flow = rounds(knobs)
    assert native < 6 and flow <= native


def test_each_policy_can_be_shown(knobs):
    for policy in POLICIES:
        knobs.controls["below"].value = policy
        assert knobs.traces[1].header.policy == policy == knobs.player.overview[1]["policy"]


def test_an_arrival_rate_gives_a_clock(knobs):
    assert "no clock" in knobs._readout.value
    knobs.controls["rate"].value = 100.0
    assert "no clock" not in knobs._readout.value
    arrivals = (knobs.traces[0].requests["arrival"] / 1e9).tolist()
    assert arrivals == pytest.approx([k / 100 for k in range(15)])


def test_the_cursor_and_the_selection_stay_where_they_can(knobs):
    knobs.player.round = 6
    knobs.player.selected = "A5"
    knobs.controls["above"].value = "radixflow"
    assert knobs.player.round == max(rounds(knobs)) == 4
    assert knobs.player.selected == "A5"


def test_a_combination_that_the_engine_refuses_is_one_line_and_the_old_picture_stays():
    import msgspec

    figure1 = rf.load_workload("figure1")
    engine = msgspec.structs.replace(figure1.engine, max_num_batched_tokens=48)
    knobs = rf.knobs(msgspec.structs.replace(figure1, engine=engine))
    shown = knobs.player.overview
    knobs.controls["max_num_seqs"].value = 64
    assert "Not possible" in knobs._readout.value and "max_num_seqs" in knobs._readout.value
    assert knobs.player.overview == shown


def test_a_run_that_stalls_says_so(knobs):
    knobs._pool, pool = 2 * 1024, knobs._pool
    try:
        knobs.controls["max_num_seqs"].value = 2
        assert "stalled" in knobs._readout.value
    finally:
        knobs._pool = pool


def test_orders_and_rates_move_requests_and_lose_none():
    workload = rf.load_workload("four-branch", documents=2, questions=2)
    ids = sorted(request.id for request in workload.requests)
    for order in ORDERS:
        for _, rate in RATES:
            assert sorted(request.id for request in arranged(workload, order, rate).requests) == ids
    turns = [request.prompt[0][0] for request in arranged(workload, "documents in turn", 0).requests]
    assert turns[:4] == ["d0", "d1", "d0", "d1"]
    with pytest.raises(ValueError, match="expected one of"):
        arranged(workload, "by size", 0)


def test_the_policies_are_those_of_the_scheduler():
    from radixflow.scheduling.policies import POLICIES as known

    assert tuple(known) == POLICIES


def test_where_no_widget_runs_there_is_a_picture(knobs):
    data, _ = knobs._repr_mimebundle_()
    assert data["image/png"][:8] == b"\x89PNG\r\n\x1a\n" and "application/vnd.jupyter.widget-view+json" in data


def test_importing_them_brings_in_no_vllm():
    code = "import sys, radixflow as rf; rf.knobs; assert not {'vllm', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)

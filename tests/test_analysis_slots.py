"""Slots add up, and a record that doesn't is reported with its round."""

from __future__ import annotations

from analysis_traces import header, written
from hypothesis import given, settings
from hypothesis import strategies as st
from test_analysis_waits import toy_trace

from radixflow.analysis import SLOT_CAUSES, slots
from radixflow.trace.schema import Admission, End, Probe, Request, Round, Stop


@given(seed=st.integers(0, 10**9), rounds=st.integers(1, 60), gaps=st.booleans())
@settings(max_examples=25)
def test_every_slot_of_every_round_has_the_cause_that_the_scheduler_had(seed, rounds, gaps):
    trace, toy = toy_trace(seed, rounds, gaps)
    accounted = slots(trace)
    assert (accounted.rounds[list(SLOT_CAUSES)].sum(axis=1) == toy.s).all()
    if not gaps:  # amid dropped rounds nothing tells whom admission still held
        assert accounted.faults.empty
    for n, expected in toy.books.slots.items():
        told = accounted.rounds.loc[n].drop("S")
        assert told[told > 0].to_dict() == {cause: k for cause, k in expected.items() if k}, n


def one_round(tmp_path, probe):
    requests = [Request(i, f"r{i}", 0, 10, path=[(f"s{i}", 10)]) for i in range(3)]
    row = Round(
        1, 0, 1, selected=[0, 10], admissions=[Admission(0, 0, 0)], stop=Stop("capacity", 1), probe=probe
    )
    return slots(written(tmp_path / "t.rft.jsonl", [header(4), *requests, row, End(9, "finished", 1)]))


def test_a_probe_that_forgets_a_waiting_request_is_a_fault(tmp_path):
    fine = one_round(tmp_path, Probe([], [(1, "capacity"), (2, "capacity")]))
    assert fine.faults.empty and fine.totals["idle"] == 1
    short = one_round(tmp_path, Probe([], [(1, "capacity")]))
    assert short.faults["round"].tolist() == [1]
    assert "owed 2 answers" in short.faults["what"][0]


def test_a_probe_that_names_more_than_there_is_room_for_is_a_fault(tmp_path):
    over = one_round(tmp_path, Probe([1, 2], [(1, "capacity"), (2, "capacity")]))
    assert "the causes take 5 slots" in over.faults["what"][0]


def test_without_a_probe_the_slots_that_somebody_could_have_taken_are_unprobed(tmp_path):
    bare = one_round(tmp_path, None)
    assert bare.faults.empty
    assert bare.totals[["row_visits", "unprobed", "idle"]].tolist() == [1, 2, 1]

"""Waits add up: one cause for each round and each nanosecond, and the cause that the scheduler had."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from analysis_traces import Toy, header, written
from hypothesis import given, settings
from hypothesis import strategies as st

from radixflow.analysis.causes import WAIT_CAUSES
from radixflow.analysis.waits import AccountingError, Ledger, wait_of, waits, waits_by_cause
from radixflow.trace.schema import Admission, End, Finish, Hold, Other, Request, Round, Stop


def toy_trace(seed: int, rounds: int, gaps: bool):
    toy = Toy(seed, gaps)
    records = toy.run(rounds)
    with tempfile.TemporaryDirectory() as folder:
        trace = written(Path(folder) / "toy.rft.jsonl", records)
    return trace, toy


def named(trace, stretch) -> int | None:
    who = stretch.facts.get("culprit") or (
        stretch.facts.get("producer") if stretch.cause == "blocked" else None
    )
    return None if who is None else trace.index_of(who)


@given(seed=st.integers(0, 10**9), rounds=st.integers(1, 60), gaps=st.booleans())
@settings(max_examples=25)
def test_each_round_of_each_wait_has_the_cause_that_the_scheduler_had(seed, rounds, gaps):
    trace, toy = toy_trace(seed, rounds, gaps)
    for i in range(len(toy.requests)):
        told = {
            n: (stretch.cause, named(trace, stretch))
            for stretch in wait_of(trace, i)
            if stretch.first_round is not None
            for n in range(stretch.first_round, stretch.last_round + 1)
        }
        assert told == dict(toy.books.causes[i]), f"request {i}"


@given(seed=st.integers(0, 10**9), rounds=st.integers(1, 60), gaps=st.booleans())
@settings(max_examples=25)
def test_stretches_of_a_wait_follow_each_other_from_its_begin_to_its_end(seed, rounds, gaps):
    trace, toy = toy_trace(seed, rounds, gaps)
    ledger = Ledger(trace)
    for i in range(len(toy.requests)):
        for (begin, end), stretches in zip(toy.books.waits[i], ledger.of(i), strict=True):
            end = toy.now if end is None else end
            assert sum(stretch.ns for stretch in stretches) == end - begin
            edges = [begin, *(stretch.end_ns for stretch in stretches)]
            assert [stretch.begin_ns for stretch in stretches] == edges[:-1]
            assert edges[-1] == end


@given(seed=st.integers(0, 10**9), rounds=st.integers(1, 60), gaps=st.booleans())
@settings(max_examples=25)
def test_the_table_of_all_waits_says_what_each_wait_says(seed, rounds, gaps):
    trace, _ = toy_trace(seed, rounds, gaps)
    ledger = Ledger(trace)
    counted, ns = ledger.totals()
    for p, period in enumerate(ledger.periods):
        expected = np.zeros((2, len(WAIT_CAUSES)), dtype=np.int64)
        for stretch in ledger.stretches(period):
            expected[:, WAIT_CAUSES.index(stretch.cause)] += (stretch.rounds, stretch.ns)
        assert (np.stack([counted[p], ns[p]]) == expected).all(), period
    table = waits(trace)
    by_cause = waits_by_cause(trace)
    assert table["ns"].sum() == by_cause["ns"].sum() == ns.sum()
    assert table["rounds"].sum() == by_cause["rounds"].sum() == counted.sum()


def held_run(release: int, t: int, d: int) -> list:
    return [
        header(),
        Request(0, "a", 10, 5, held=True, path=[("s", 5)], arrival=4),
        Hold(10, release, "deadline", [0]),
        Round(1, t, d, selected=[0, 5], admissions=[], stop=None),
        End(200, "finished", 1),
    ]


def stretches(tmp_path, records, i=0):
    trace = written(tmp_path / "t.rft.jsonl", records)
    return [(s.cause, s.first_round, s.begin_ns, s.end_ns) for s in wait_of(trace, i)]


def test_a_hold_ends_with_the_round_that_released_it(tmp_path):
    expected = [("in_step", None, 4, 10), ("admission", None, 10, 100)]
    assert stretches(tmp_path, held_run(release=103, t=100, d=5)) == expected


def test_a_poll_between_release_and_round_is_in_step(tmp_path):
    told = stretches(tmp_path, held_run(release=98, t=100, d=5))
    assert told == [("in_step", None, 4, 10), ("admission", None, 10, 98), ("in_step", None, 98, 100)]


def test_a_request_that_leaves_while_it_waits_is_explained_up_to_then(tmp_path):
    records = [
        header(),
        Request(0, "a", 0, 5, path=[("s", 5)]),
        Request(1, "b", 0, 5, path=[("r", 5)]),
        Round(1, 0, 1, other=[Other(0, "never_fits", needed=9, total=5)], stop=Stop("never_fits", 0)),
        Round(2, 10, 1, other=[Other(0, "never_fits", needed=9, total=5)], stop=Stop("never_fits", 0)),
        Finish(1, 14, "abort", 0, 2),
        Round(3, 20, 1, other=[Other(0, "never_fits", needed=9, total=5)], stop=Stop("never_fits", 0)),
        End(30, "stalled", 3),
    ]
    assert stretches(tmp_path, records, 1) == [("unexamined", 1, 0, 14)]
    assert stretches(tmp_path, records, 0) == [("never_fits", 1, 0, 30)]


def test_a_request_preempted_by_a_call_that_was_no_round_waits_for_no_round(tmp_path):
    records = [
        header(),
        Request(0, "a", 0, 5, path=[("s", 5)]),
        Round(1, 0, 1, selected=[0, 5], admissions=[Admission(0, 0, 0)]),
        Round(2, 10, 1, selected=[0, 6], admissions=[Admission(0, 0, 0)], preempted=[0]),
        End(30, "finished", 2),
    ]
    assert stretches(tmp_path, records) == []


def test_under_priority_rows_held_by_lower_priorities_are_named(tmp_path):
    records = [
        header(1, scheduling_policy="priority"),
        Request(0, "low", 0, 5, priority=5, path=[("s", 5)]),
        Round(1, 0, 1, selected=[0, 5], admissions=[Admission(0, 0, 0)]),
        Request(1, "high", 5, 5, priority=0, path=[("r", 5)]),
        Round(2, 10, 1, selected=[0, 1], closed="rows"),
        Finish(0, 20, "length", 2, 2),
        Round(3, 20, 1, selected=[1, 5], admissions=[Admission(1, 0, 0)]),
        End(30, "finished", 3),
    ]
    trace = written(tmp_path / "t.rft.jsonl", records)
    told = wait_of(trace, 1)
    assert [(s.cause, s.facts) for s in told] == [
        ("in_step", {}),
        ("rows", {"held_by_lower_priority": ["low"]}),
    ]


def test_a_sum_that_does_not_come_out_is_an_error_and_not_a_remainder(tmp_path):
    trace = written(tmp_path / "t.rft.jsonl", held_run(release=98, t=100, d=5))
    ledger = Ledger(trace)
    ledger.periods[0] = replace(ledger.periods[0], held=(10, 120))
    with pytest.raises(AccountingError, match="wait of a"):
        ledger.stretches(ledger.periods[0])

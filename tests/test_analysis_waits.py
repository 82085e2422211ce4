"""Waits add up: one cause for each round and each nanosecond, and the cause that the scheduler had."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from analysis_traces import Toy, header, written
from hypothesis import given, settings
from hypothesis import strategies as st

from radixflow.analysis.causes import WAIT_CAUSES
from radixflow.analysis.waits import Ledger, wait_of, waits, waits_by_cause
from radixflow.trace.schema import Blocked, End, Finish, Hold, Other, Probe, Request, Round, Step, Stop


def toy_trace(seed: int, rounds: int, gaps: bool):
    toy = Toy(seed, gaps)
    records = toy.run(rounds)
    with tempfile.TemporaryDirectory() as folder:
        trace = written(Path(folder) / "toy.rft.jsonl", records)
    return trace, toy


def named(trace, stretch) -> int | None:
    who = stretch.facts.get("culprit") or (stretch.facts.get("producer") if stretch.cause == "blocked" else None)
    return None if who is None else trace.index_of(who)


@given(seed=st.integers(0, 10**9), rounds=st.integers(1, 60), gaps=st.booleans())
@settings(max_examples=60, deadline=None)
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
@settings(max_examples=60, deadline=None)
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
@settings(max_examples=60, deadline=None)
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

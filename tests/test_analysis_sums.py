"""The other sums: prompt tokens, recomputation, host cost, the lower bound, and what a comparison flags."""

from __future__ import annotations

from fractions import Fraction

import pytest
from analysis_traces import header, written
from hypothesis import given
from hypothesis import strategies as st

from radixflow.analysis import (
    CostIdentity,
    CostRefused,
    HostCost,
    compare,
    cost_identity,
    explain,
    lower_bound,
    reuse,
    summarize,
)
from radixflow.trace.schema import Admission, Cache, End, Finish, Request, Round, Step

SHARED = [("doc", 2048)]


def alone(i: int, n: int, t: int, tokens: int, admission: Admission | None = None, **more) -> list:
    admissions = [admission] if admission else []
    return [Round(n, t, 1, selected=[i, tokens], admissions=admissions, **more), Step(n, t + 9)]


def request(i: int, own: int = 100, t: int = 0) -> Request:
    return Request(i, f"r{i}", t, 2048 + own, path=[*SHARED, (f"own{i}", own)])


@given(st.integers(1, 10**6), st.integers(0, 10**15), st.integers(1, 10**6), st.integers(0, 10**15))
def test_the_cost_identity_holds_exactly_for_any_counts(k0, t0, k1, t1):
    identity = CostIdentity(HostCost(k0, t0, 0), HostCost(k1, t1, 0))
    assert identity.holds
    assert identity.saved_ns == t0 - t1
    assert identity.first.mean_ns == Fraction(t0, k0)


def test_under_asynchronous_scheduling_the_identity_is_refused_and_says_why(tmp_path):
    records = [request(0), *alone(0, 1, 0, 2148, Admission(0, 0, 0)), End(20, "finished", 1)]
    sync = written(tmp_path / "a.rft.jsonl", [header(), *records])
    overlapped = written(tmp_path / "b.rft.jsonl", [header(async_scheduling=True), *records])
    with pytest.raises(CostRefused, match="asynchronous"):
        cost_identity(sync, overlapped)
    assert summarize(overlapped).host_seconds is None
    assert summarize(sync).host_seconds == 8e-9
    told = compare(sync, overlapped)
    assert told.costs == [None] and "asynchronous" in told.refusals[0]
    assert "async_scheduling is off in radix #1 and on in radix #2" in told.warnings


def test_traces_of_different_workloads_are_flagged(tmp_path):
    end = End(20, "finished", 1)
    a = written(
        tmp_path / "a.rft.jsonl", [header(), request(0), *alone(0, 1, 0, 2148, Admission(0, 0, 0)), end]
    )
    b = written(
        tmp_path / "b.rft.jsonl", [header(), request(0, 200), *alone(0, 1, 0, 2248, Admission(0, 0, 0))]
    )
    warnings = compare(a, b).warnings
    assert any("not the same workload" in line for line in warnings)
    assert any("no end" in line for line in warnings)


def cache_run(*before: Cache, own_chunk: int = 2148, matched: int = 2048) -> list:
    """r0 computes the document in a chunk of `own_chunk`, r1 looks it up in round 3 and resumes from 0."""
    return [
        header(states=1),
        request(0),
        *alone(0, 1, 0, own_chunk, Admission(0, 0, 0)),
        *before,
        Round(2, 10, 1, selected=[0, 100]),
        Step(2, 19),
        request(1, t=20),
        *alone(1, 3, 20, 2148, Admission(1, 0, matched)),
        End(40, "finished", 3),
    ]


@pytest.mark.parametrize(
    ("before", "chunk", "why", "by"),
    [
        ([Cache(1, published=[(0, 0, 0, 2048)])], 2148, "never_computed", None),
        ([Cache(1, published=[(0, 0, 0, 2048)])], 2048, "not_retained", "r0"),
        (
            [Cache(1, published=[(0, 0, 0, 2048), (0, 1, 0, 2048)]), Cache(2, evicted=[(0, 1, 0, 2048, 0)])],
            2048,
            "evicted",
            "r0",
        ),
        (
            [Cache(1, published=[(0, 0, 0, 2048)]), Cache(3, published=[(0, 1, 1024, 2048)])],
            2148,
            "in_flight",
            "r0",
        ),
    ],
)
def test_the_missing_component_of_forgone_tokens_is_named(tmp_path, before, chunk, why, by):
    trace = written(tmp_path / "t.rft.jsonl", cache_run(*before, own_chunk=chunk))
    row = reuse(trace).set_index("request").loc["r1"]
    assert (row["reused"], row["forgone"], row["fresh"], row["prompt"]) == (0, 2048, 100, 2148)
    assert [(missing.group, missing.boundary, missing.why, missing.by) for missing in row["missing"]] == [
        (1, 2048, why, by)
    ]
    told = explain(trace, "r1")
    assert told.prefix == {"matched": {"0": 2048, "1": 0}, "ready": 0, "junction": 2048, "lookup_cap": 2147}
    assert "could resume from 0 only" in told.text


def test_recomputation_counts_the_tokens_below_the_position_reached_and_not_what_the_cache_served(tmp_path):
    records = [
        header(),
        request(0),
        *alone(0, 1, 0, 2048, Admission(0, 0, 0)),
        *alone(0, 2, 10, 50),
        Round(3, 20, 1, preempted=[0], closed="preemption"),
        *alone(0, 4, 30, 1124, Admission(0, 1024, 1024)),
        Finish(0, 39, "length", 1, 4),
        End(40, "finished", 4),
    ]
    trace = written(tmp_path / "t.rft.jsonl", records)
    assert summarize(trace).recomputed_tokens == 2098 - 1024
    table = reuse(trace)
    assert (table["recomputed"].tolist(), table["reused"].tolist(), len(table)) == ([2098 - 1024], [0], 1)


def test_the_depth_follows_a_chain_of_states_through_several_requests(tmp_path):
    """r1 resumes from r0's first chunk, r2 from r1's only one: three rounds, whatever the budgets."""
    paths = [[("doc", 1024)], [("doc", 2048)], [("doc", 2048), ("tail", 8)]]
    requests = [Request(i, f"r{i}", 0, sum(n for _, n in path), path=path) for i, path in enumerate(paths)]
    chunks = [(1024, 0), (1024, 1024), (8, 2048)]
    records = [header(t=10**6), *requests]
    for i, (tokens, ready) in enumerate(chunks):
        records += alone(i, i + 1, 10 * i, tokens, Admission(i, ready, ready))
        records.append(
            Cache(i + 1, published=[(i, g, ready, ready + 1024) for g in range(4)] if i < 2 else [])
        )
    bound = lower_bound(written(tmp_path / "t.rft.jsonl", [*records, End(40, "finished", 3)]))
    assert (bound.by_tokens, bound.by_rows, bound.depth, bound.rounds) == (1, 1, 3, 3)
    assert bound.chain == ("r0", "r1", "r2")


def test_a_state_published_by_two_requests_ties_its_consumer_to_the_earlier_one(tmp_path):
    requests = [request(0), request(1), request(2)]
    slow = [*alone(0, 1, 0, 1024, Admission(0, 0, 0)), *alone(0, 2, 10, 1024)]
    fast = alone(1, 3, 20, 2048, Admission(1, 0, 0))
    both = [
        Cache(2, published=[(0, g, 0, 2048) for g in range(4)]),
        Cache(3, published=[(1, g, 0, 2048) for g in range(4)]),
    ]
    records = [
        *slow,
        both[0],
        *fast,
        both[1],
        *alone(2, 4, 30, 100, Admission(2, 2048, 2048)),
        End(50, "finished", 4),
    ]
    bound = lower_bound(written(tmp_path / "t.rft.jsonl", [header(t=10**6), *requests, *records]))
    assert bound.depth == 2 and bound.chain in (("r1", "r2"), ("r0",))


def test_an_unknown_request_names_near_ones(tmp_path):
    trace = written(tmp_path / "t.rft.jsonl", [header(), request(0), End(1, "finished", 0)])
    with pytest.raises(KeyError, match="near: r0"):
        explain(trace, "r00")


def test_an_empty_trace_has_a_summary(tmp_path):
    told = summarize(written(tmp_path / "t.rft.jsonl", [header()])).to_dict()
    assert (told["rounds"], told["requests"], told["reuse_rate"], told["latency"]) == (0, 0, None, None)

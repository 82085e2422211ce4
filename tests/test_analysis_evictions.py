"""Who evicted whom, and what was left on return: by hand on a small trace, and on agents against the theory."""

from __future__ import annotations

import json
import sys

import pytest
from analysis_traces import header, written

from radixflow.analysis import evictions, evictors, returns, summarize_evictions
from radixflow.trace.schema import Admission, Cache, Finish, Request, Round, Step

SECOND = 1_000_000_000


def arrives(i, id, t, prompt, path):
    return Request(i=i, id=id, t=t * SECOND, prompt=prompt, path=path)


def round_of(n, t, i, tokens, ready):
    return [
        Round(n=n, t=t * SECOND, d=0, selected=[i, tokens], admissions=[Admission(i, ready, ready)]),
        Step(n=n, t=(t + 1) * SECOND),
        Finish(i=i, t=(t + 1) * SECOND, reason="length", output=1, n=n),
    ]


@pytest.fixture
def small(tmp_path):
    """A and B share 100 tokens. B's prompt takes A's second block, C's takes all that B had of its own."""
    return written(
        tmp_path / "small.rft.jsonl",
        [
            header(block=100, states=0),
            arrives(0, "A0", 0, 320, [("s1", 320)]),
            *round_of(1, 0, 0, 320, 0),
            Cache(n=1, published=[(0, 0, 0, 300)]),
            arrives(1, "B0", 2, 250, [("s1", 100), ("s2", 150)]),
            *round_of(2, 2, 1, 150, 100),
            Cache(n=2, evicted=[(0, 0, 200, 300, 1)], published=[(1, 0, 100, 200)]),
            arrives(2, "A1", 4, 400, [("s1", 400)]),
            *round_of(3, 4, 2, 200, 200),
            Cache(n=3, published=[(2, 0, 200, 400)]),
            arrives(3, "C0", 6, 900, [("s3", 900)]),
            *round_of(4, 6, 3, 900, 0),
            Cache(n=4, evicted=[(1, 0, 100, 200, 3)], published=[(3, 0, 0, 900)]),
            arrives(4, "B1", 8, 300, [("s1", 100), ("s2", 200)]),
            *round_of(5, 8, 4, 200, 100),
        ],
    )


def test_each_eviction_names_victim_and_evictor_and_their_trajectories(small):
    table = evictions(small)
    assert table[["round", "victim", "evictor", "evictor_trajectory", "start", "end", "blocks"]].values.tolist() == [
        [2, "A0", "B0", "B0", 200, 300, 1],
        [4, "B0", "C0", "C0", 100, 200, 1],
    ]


def test_who_evicted_whom_adds_up_by_trajectory(small):
    assert evictors(small).values.tolist() == [["B0", "A0", 1, 1], ["C0", "B0", 1, 1]]
    assert evictors(small)["blocks"].sum() == evictions(small)["blocks"].sum()


def test_a_return_says_what_was_left_of_its_own_and_who_took_the_rest(small):
    table = returns(small).set_index("request")
    assert table.index.tolist() == ["A1", "B1"]  # B0 shares with A0, but doesn't continue it
    assert table.loc["A1", ["trajectory", "expected", "shared", "reused", "missed", "miss", "evictor"]].tolist() == [
        "A0", 300, 100, 200, 100, "partial", "B0",
    ]  # fmt: skip
    assert table.loc["B1", ["trajectory", "expected", "shared", "reused", "missed", "miss", "evictor"]].tolist() == [
        "B0", 200, 100, 100, 100, "whole", "C0",
    ]  # fmt: skip
    assert table["ttft"].tolist() == [1.0, 1.0]


def test_the_summary_counts_own_tokens_and_leaves_the_shared_beginning_out(small):
    found = summarize_evictions(small)
    assert (found.trajectories, found.returns, found.whole_misses, found.partial_misses) == (3, 2, 1, 1)
    assert found.measured == {"kept": pytest.approx(1 / 3), "recomputed": pytest.approx(2 / 3)}
    assert found.missed["mean"] == 100
    # 199 blocks, one of them shared; those that came back had a block and a half of their own.
    assert found.capacity == pytest.approx(198 / 1.5)
    assert found.active == pytest.approx(2 / 4)  # rounds 3 to 5 begin at 4, 6 and 8 s and take one each
    assert found.in_range is False
    assert found.verdict.startswith("m >= n (n_a = 0.5, m = 132.0, n = 3): all trajectories fit")


def test_the_command_prints_one_object_with_a_summary_a_trace(small, monkeypatch, capfd):
    from radixflow.cli import main

    for wish in (["--json"], []):
        monkeypatch.setattr(sys, "argv", ["radixflow", "evictions", str(small.path), str(small.path), *wish])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        out = capfd.readouterr().out
        if wish:
            found = json.loads(out)["traces"]
            assert [one["whole_misses"] for one in found] == [1, 1]
            assert found[0]["evicted"][0] == {
                "evictor_trajectory": "B0", "victim_trajectory": "A0", "blocks": 1, "times": 1,
            }  # fmt: skip
        else:
            assert "whole prefixes that fit m" in out and "whole misses" not in out
            assert "all trajectories fit" in out


def test_a_run_in_which_nobody_comes_back_has_no_theory(tmp_path):
    trace = written(
        tmp_path / "once.rft.jsonl",
        [header(block=100, states=0), arrives(0, "A0", 0, 320, [("s1", 320)]), *round_of(1, 0, 0, 320, 0)],
    )
    found = summarize_evictions(trace)
    assert (found.returns, found.theory, found.measured, found.in_range) == (0, None, None, None)
    assert found.verdict.startswith("Nobody came back")


def test_a_turn_that_comes_while_the_last_one_runs_is_no_return(tmp_path):
    first, second = round_of(1, 0, 0, 320, 0), round_of(2, 1, 1, 100, 300)
    trace = written(
        tmp_path / "beside.rft.jsonl",
        [
            header(block=100, states=0),
            arrives(0, "A0", 0, 320, [("s1", 320)]),
            arrives(1, "A1", 0, 400, [("s1", 400)]),
            *first[:2],
            *second,
            Finish(i=0, t=3 * SECOND, reason="length", output=1, n=2),
        ],
    )
    assert returns(trace).empty


def runs(engine=None, **options):
    pytest.importorskip("vllm")
    from radixflow.engines.run import run
    from radixflow.workloads import load_workload

    workload = load_workload("agents", **options)
    return [run(workload, "radix", eviction=eviction, probe=0, **(engine or {})) for eviction in ("lru", "rr")]


@pytest.fixture(scope="module")
def short():
    """A pool that holds 0.9 of the trajectories."""
    return [summarize_evictions(trace) for trace in runs(capacity=0.9, turns=12, growth=16, seed=1)]


def test_where_memory_is_short_both_keep_what_theory_expects(short):
    for found in short:
        assert found.in_range
        assert found.active == pytest.approx(4, abs=0.1)
        assert found.measured["kept"] == pytest.approx(found.theory["kept"], abs=0.05)
        assert found.measured["recomputed"] == pytest.approx(found.theory["recomputed"], abs=0.05)


def test_rotation_spreads_the_same_loss_so_that_nobody_loses_all(short):
    lru, rr = short
    assert rr.missed["mean"] == pytest.approx(lru.missed["mean"], abs=0.05 * 2300)
    assert rr.missed["p99"] < 0.8 * lru.missed["p99"]
    assert rr.ttft["p99"] < lru.ttft["p99"]
    # LRU misses whole prefixes, as often as it recomputes; rotation takes a part from many.
    assert lru.whole_misses / lru.returns == pytest.approx(lru.measured["recomputed"], abs=0.03)
    assert lru.partial_misses < 0.1 * lru.whole_misses + 10
    assert rr.whole_misses == 0
    assert rr.partial_misses > 3 * lru.whole_misses


@pytest.mark.parametrize(
    ("options", "kept"),
    [({"capacity": 1.2}, 1.0), ({"agents": 12, "active": 0.5, "capacity": 0.3}, 0.0)],
    ids=["all fit", "not even the active ones fit"],
)
def test_outside_the_useful_range_eviction_makes_no_difference(options, kept):
    lru, rr = (summarize_evictions(trace) for trace in runs(turns=6, **options))
    assert lru.in_range is rr.in_range is False
    assert "lru and rr are the same" in lru.verdict
    assert lru.theory == rr.theory == {"kept": kept, "recomputed": 1 - kept}
    assert lru.measured["kept"] == pytest.approx(kept, abs=0.05)
    assert rr.missed["mean"] == pytest.approx(lru.missed["mean"], rel=0.05)
    assert rr.missed["p99"] == pytest.approx(lru.missed["p99"], rel=0.05)


def test_the_finding_of_a_lost_state_names_who_evicted_it():
    pytest.importorskip("vllm")
    from radixflow.analysis.check import check
    from radixflow.engines.run import run
    from radixflow.workloads import load_workload

    workload = load_workload("agents", agents=12, active=0.2, turns=5, context=600, capacity=0.6)
    for eviction in ("lru", "rr"):
        trace = run(workload, "radix", eviction=eviction, probe=0, state_groups=1)
        lost = [finding for finding in check(trace).findings if finding.code == "state_evicted"]
        taken = evictions(trace)
        assert lost
        for finding in lost:
            by = finding.facts["evicted_by"]
            assert by in set(taken["evictor"])
            assert by in finding.message


def test_bars_of_a_real_hybrid_run_are_what_its_look_ups_found():
    from radixflow.figures.trajectory_bars import Contexts

    options = {"agents": 12, "active": 0.2, "turns": 5, "context": 600, "capacity": 0.6}
    for trace in runs(engine={"state_groups": 1}, **options):
        contexts = Contexts(trace)
        table = returns(trace)
        assert len(table) > 30
        for back in table.itertuples():
            bar = contexts.bar(contexts.names[back.trajectory], trace.tree(back.round))
            assert (bar.ready, bar.lost, bar.miss) == (back.reused, back.missed, back.miss)

"""The simulated engine reproduces vLLM's own rounds, ends when it should, and keeps its promises."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("vllm")

import radixflow as rf  # noqa: E402
from radixflow.analysis import summarize  # noqa: E402
from radixflow.engines.run import run_workload  # noqa: E402
from radixflow.workloads import EngineOptions, Workload, WorkloadRequest, load_workload  # noqa: E402

EXPECTED = json.loads(
    (__import__("pathlib").Path(__file__).parent.parent / "data/corpus/expected.json").read_text()
)
CASES = [(case, policy) for case, policies in EXPECTED.items() for policy in policies]


def request(id, *prompt, **more):
    return WorkloadRequest(id=id, prompt=list(prompt), **more)


@pytest.mark.parametrize(("case", "policy"), CASES)
def test_the_corpus_reproduces_what_vllm_scheduled(tmp_path, corpus, case, policy):
    trace = rf.run(corpus / f"{case}.workload.jsonl", policy, trace=tmp_path / "t.rft.jsonl")
    want = EXPECTED[case][policy]
    rounds = [
        [[trace.ids[i], tokens] for i, tokens in view.selected]
        for view in trace.iter_rounds()
        if view.selected
    ]
    whole = not case.startswith("n01")
    assert (rounds if whole else rounds[: len(want["rounds"])]) == want["rounds"]
    assert (trace.end.reason == "stalled") == want["stalled"]
    table = trace.requests.set_index("id")
    finished = table["finish_round"].dropna().to_dict()
    assert {id: n for id, n in finished.items() if id in want["finished_in_round"]} == want[
        "finished_in_round"
    ]
    for id, hit in want["first_hit"].items():
        assert table.at[id, "ready"] == hit, id


@pytest.mark.parametrize(
    ("policy", "rounds", "empty", "avoidable"), [("radix", 6, 9, 7), ("radixflow", 4, 1, 0)]
)
def test_figure1_has_the_papers_numbers(tmp_path, policy, rounds, empty, avoidable):
    summary = summarize(rf.run("figure1", policy, trace=tmp_path / "t.rft.jsonl.zst"))
    assert (summary.rounds, summary.empty_slots, summary.avoidable_slots) == (rounds, empty, avoidable)
    assert (summary.row_visits, summary.scheduled_tokens, summary.lower_bound_rounds) == (15, 12_970, 4)


def test_two_runs_are_identical(tmp_path):
    for policy in ("radix", "radixflow"):
        a, b = (rf.run("bursty", policy, trace=tmp_path / f"{k}.rft.jsonl") for k in range(2))
        assert a.visits.equals(b.visits) and a.refusals.equals(b.refusals) and a.rounds.equals(b.rounds)


def test_asynchronous_scheduling_generates_the_same_tokens(tmp_path):
    sync = run_workload("bursty", trace=tmp_path / "s.rft.jsonl")
    overlapped = run_workload("bursty", trace=tmp_path / "a.rft.jsonl", async_scheduling=True)
    assert sync.outputs == overlapped.outputs


def test_a_request_that_can_never_fit_ends_the_run_as_stalled(tmp_path):
    run = run_workload("d11-never-fits", "radix", trace=tmp_path / "t.rft.jsonl")
    assert run.end == "stalled"


def test_requests_arrive_by_clock_round_and_completion(tmp_path):
    requests = [
        request("a", ("a", 100), output_tokens=3, arrival=0.5),
        request("b", ("b", 100), after="a"),
        request("c", ("c", 100), after="b", output_tokens=2),
    ]
    trace = rf.run(Workload(name="chain", requests=requests), "radix", trace=tmp_path / "t.rft.jsonl")
    table = trace.requests.set_index("id")
    assert table.at["a", "t"] == 500_000_000
    assert table.at["b", "t"] == table.at["a", "finish_t"]
    assert table.at["c", "t"] == table.at["b", "finish_t"]


def test_an_aborted_request_leaves_after_its_round_and_its_successor_comes(tmp_path):
    requests = [
        request("long", ("l", 50), output_tokens=100, abort_after_round=4),
        request("next", ("n", 50), after="long"),
    ]
    trace = rf.run(Workload(name="abort", requests=requests), "radix", trace=tmp_path / "t.rft.jsonl")
    table = trace.requests.set_index("id")
    assert table.at["long", "finish_reason"] == "abort" and table.at["long", "finish_round"] == 4
    assert table.at["next", "finish_reason"] == "length"


def test_a_model_profile_brings_its_blocks_and_groups(tmp_path):
    trace = rf.run(
        load_workload("four-branch", documents=1, questions=1),
        "radixflow",
        model="Nemotron-Nano-9B-v2",
        trace=tmp_path / "t.rft.jsonl",
    )
    assert trace.config.block_size == 1312 and len(trace.config.groups) == 8
    assert trace.header.model == "Nemotron-Nano-9B-v2"


def test_finite_pools_preempt_and_everybody_still_finishes(tmp_path):
    requests = [request(f"r{k}", (f"p{k}", 60), output_tokens=80) for k in range(6)]
    engine = EngineOptions(block_size=16, num_blocks=40, max_num_seqs=6, max_num_batched_tokens=512)
    run = run_workload(
        Workload(name="tight", engine=engine, requests=requests), trace=tmp_path / "t.rft.jsonl"
    )
    trace = rf.open_trace(run.trace_path)
    assert run.end == "finished" and trace.requests["preemptions"].sum() > 0
    assert all(len(tokens) == 80 for tokens in run.outputs.values())


def test_a_round_that_only_preempts_is_no_end(tmp_path):
    low = request("low", ("l", 1000), priority=9)
    high = request("high", ("h", 60), output_tokens=10, priority=1, after_round=1)
    engine = EngineOptions(
        block_size=64, num_blocks=18, max_num_seqs=4, max_num_batched_tokens=190, scheduling_policy="priority"
    )
    run = run_workload(
        Workload(name="preempts", engine=engine, requests=[low, high]), "radix", trace=tmp_path / "t.rft.jsonl"
    )
    assert len(run.outputs["high"]) == 10
    alone = request("alone", ("a", 380), output_tokens=120)
    engine = EngineOptions(block_size=64, num_blocks=9)
    run = run_workload(
        Workload(name="grows", engine=engine, requests=[alone]), "radix", trace=tmp_path / "u.rft.jsonl"
    )
    trace = rf.open_trace(run.trace_path)
    assert (run.end == "finished") == (len(run.outputs["alone"]) == 120)
    last = trace.round(trace.num_rounds)
    assert run.end == "finished" or (last.stalled and not last.preempted), "a stall is a round in which nothing changes"


def circles(**more):
    """A request that fits when it is admitted and outgrows the pool before its first token."""
    options = EngineOptions(
        block_size=16,
        hash_block_size=8,
        num_blocks=14,
        state_groups=2,
        max_num_batched_tokens=102,
        spec_tokens=2,
        async_scheduling=True,
    )
    return request("grows", ("d", 32), ("own", 21), output_tokens=15, **more), options


def test_a_run_that_goes_in_circles_ends_as_stalled(tmp_path):
    grows, engine = circles()
    run = run_workload(
        Workload(name="circles", engine=engine, requests=[grows]), "radix", trace=tmp_path / "t.rft.jsonl"
    )
    trace = rf.open_trace(run.trace_path)
    assert run.end == trace.end.reason == "stalled"
    assert trace.num_rounds < 20 and trace.rounds["preempted"].sum() >= 2
    (finding,) = [found for found in rf.check(trace).findings if found.code == "no_progress"]
    assert finding.requests == ["grows"] and finding.facts["cause"] == "preemption"


def test_a_run_that_goes_in_circles_waits_for_whoever_may_still_end_it(tmp_path):
    grows, engine = circles(abort_after_round=30)
    last = request("last", ("l", 20), after="grows", output_tokens=2)
    run = run_workload(
        Workload(name="freed", engine=engine, requests=[grows, last]), "radix", trace=tmp_path / "t.rft.jsonl"
    )
    assert run.end == "finished" and len(run.outputs["last"]) == 2


def test_a_client_gives_up_in_stalled_rounds_and_before_the_first_one_too(tmp_path):
    requests = [
        request("big", ("b", 5000), after_round=0, abort_after_round=2),
        request("never", ("n", 20), after_round=0, abort_after_round=0),
        request("small", ("s", 20), after="big", output_tokens=2),
        request("late", ("t", 20), after_round=6),
    ]
    engine = EngineOptions(block_size=64, num_blocks=9)
    run = run_workload(
        Workload(name="gives-up", engine=engine, requests=requests), "radix", trace=tmp_path / "t.rft.jsonl"
    )
    assert run.end == "finished" and len(run.outputs["small"]) == 2 and len(run.outputs["late"]) == 1
    table = rf.open_trace(run.trace_path).requests.set_index("id")
    assert table.at["big", "finish_reason"] == "abort" and "never" not in table.index

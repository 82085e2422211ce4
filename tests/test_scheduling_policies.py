"""Admission, fragmentation, faults and settings, on vLLM's own scheduler."""

from __future__ import annotations

from operator import attrgetter

import pytest

pytest.importorskip("vllm")

from scheduling_cases import watch  # noqa: E402

import radixflow as rf  # noqa: E402
from radixflow.scheduling import get_policy  # noqa: E402
from radixflow.scheduling.settings import read_settings  # noqa: E402
from radixflow.trace import open_trace  # noqa: E402
from radixflow.workloads import EngineOptions, Workload, WorkloadRequest  # noqa: E402

MS = 1_000_000


def workload(*requests, **engine):
    return Workload(name="w", engine=EngineOptions(**engine), requests=list(requests))


def request(id, at, n=100, **more):
    return WorkloadRequest(id=id, prompt=[(id, n)], arrival=at / 1000, **more)


def holds(trace):
    ids = trace.ids
    return [
        (hold.begin // MS, hold.end // MS, hold.reason, [ids[i] for i in hold.requests])
        for hold in trace.holds.itertuples()
    ]


def traced(tmp_path, workload, policy):
    return rf.run(workload, policy, trace=tmp_path / f"{policy}.rft.jsonl")


def test_a_lone_arrival_is_held_until_the_deadline(tmp_path):
    trace = traced(tmp_path, workload(request("a", 0)), "radixflow")
    assert holds(trace) == [(0, 5, "deadline", ["a"])]
    assert trace.rounds.iloc[0]["t"] == 5 * MS


@pytest.mark.parametrize(("policy", "deadline"), [("radix+timer5", 5), ("radix+timer10", 10)])
def test_a_timer_holds_to_its_deadline_even_while_the_worker_runs(tmp_path, policy, deadline):
    # A round of 100 tokens takes 12 ms; b arrives while a runs.
    trace = traced(tmp_path, workload(request("a", 0, output_tokens=5), request("b", 13)), policy)
    assert holds(trace)[0] == (0, deadline, "deadline", ["a"])
    (begin, end, reason, ids) = holds(trace)[1]
    assert (reason, ids) == ("deadline", ["b"]) and end - begin >= deadline
    running = trace.rounds[trace.rounds["t"].between(begin * MS, (end - 1) * MS)]
    assert running["rows"].eq(1).all(), "held requests never delay running ones"


def test_flexible_admission_releases_at_once_while_the_worker_has_work(tmp_path):
    trace = traced(tmp_path, workload(request("a", 0, output_tokens=5), request("b", 9)), "radix+flex")
    assert holds(trace)[1][2:] == ("work", ["b"])


def test_flexible_admission_releases_when_the_held_fill_the_rows(tmp_path):
    trace = traced(tmp_path, workload(request("a", 0), request("b", 1), max_num_seqs=2), "radix+flex")
    assert holds(trace) == [(0, 1, "rows", ["a", "b"])]


def test_flexible_admission_releases_when_the_held_fill_the_token_budget(tmp_path):
    full = workload(request("a", 0), request("b", 2), max_num_batched_tokens=200)
    assert holds(traced(tmp_path, full, "radix+flex")) == [(0, 2, "tokens", ["a", "b"])]


def test_a_release_frees_all_that_are_held_and_nobody_is_held_twice(tmp_path):
    trace = traced(tmp_path, workload(*(request(f"r{k}", k) for k in range(4))), "radix+timer5")
    assert holds(trace) == [(0, 5, "deadline", ["r0", "r1", "r2", "r3"])]
    held = [id for _, _, _, ids in holds(trace) for id in ids]
    assert len(held) == len(set(held)) == 4


def test_aborting_a_held_request_loses_and_leaks_nothing(tmp_path):
    from vllm.v1.request import RequestStatus

    requests = [request("a", 0), request("b", 1), request("c", 1)]

    def after(scheduler, batch, seen):
        if "b" in getattr(scheduler.admission, "held_ids", []):
            assert scheduler.get_num_unfinished_requests() == 3
            scheduler.finish_requests(["b"], RequestStatus.FINISHED_ABORTED)
            assert scheduler.get_num_unfinished_requests() == 2

    path = tmp_path / "t.rft.jsonl"
    work = workload(*requests)
    run = watch(work, "radix+timer5", trace=str(path), after=after)
    trace = open_trace(path)
    assert ("abort", ["b"]) in [hold[2:] for hold in holds(trace)]
    assert set(run.outcome.outputs) == {"a", "c"}
    assert run.scheduler.kv_cache_manager.block_pool.get_num_free_blocks() == 299


def test_fragmentation_puts_a_cut_request_aside_for_one_that_fits(tmp_path):
    # 1000 tokens of budget: after 'first' 400 are left, which would cut 'big' at 384 of its 600.
    requests = [
        WorkloadRequest(id="first", prompt=[("f", 600)]),
        WorkloadRequest(id="big", prompt=[("b", 600)]),
        WorkloadRequest(id="small", prompt=[("s", 300)]),
    ]
    work = workload(*requests, max_num_batched_tokens=1000)
    plain = traced(tmp_path, work, "radixflow").round(1)
    aside = traced(tmp_path, work, "radixflow+frag")
    names = lambda trace, view: [trace.ids[i] for i, _ in view.selected]  # noqa: E731
    assert [i for i, _ in plain.selected] == [0, 1]
    assert names(aside, aside.round(1)) == ["first", "small"]
    assert [(aside.ids[entry.i], entry.cause) for entry in aside.round(1).other] == [("big", "fragmented")]


def test_fragmentation_comes_back_to_the_cut_request_where_none_fits(tmp_path):
    requests = [WorkloadRequest(id=f"r{k}", prompt=[(f"p{k}", 600)]) for k in range(3)]
    work = workload(*requests, max_num_batched_tokens=1000)
    trace = traced(tmp_path, work, "radixflow+frag")
    assert [i for i, _ in trace.round(1).selected] == [0, 1]
    assert all(entry.cause != "fragmented" for entry in trace.round(1).other)


FAULTS = [
    ("traversal", "decide"),
    ("admission", "due"),
    ("observer", "scheduled"),
    ("observer", "visiting"),
    ("observer", "refused"),
    ("observer.cache", "published"),
    ("observer", "arrived"),
    ("observer", "finished"),
    ("observer", "stepped"),
]


@pytest.mark.parametrize(("part", "method"), FAULTS)
def test_a_fault_in_policy_or_recorder_falls_back_to_native_scheduling(tmp_path, part, method):
    from radixflow.workloads import load_workload

    work = load_workload("figure1")

    def break_it(scheduler):
        def broken(*args, **kwargs):
            raise RuntimeError("injected")

        setattr(attrgetter(part)(scheduler), method, broken)

    run = watch(work, "radixflow", trace=str(tmp_path / "t.rft.jsonl"), prepare=break_it)
    assert run.outcome.end == "finished" and len(run.outcome.outputs) == 15
    if method != "refused":  # nothing is refused by vLLM itself under the traversal here
        assert run.scheduler.observer is None and run.scheduler.traversal is None
    open_trace(tmp_path / "t.rft.jsonl")


def test_a_fault_after_some_rounds_goes_on_natively_from_there(tmp_path):
    from radixflow.workloads import load_workload

    def after(scheduler, batch, seen):
        if scheduler.traversal is not None:
            scheduler.traversal.decide = None

    run = watch(load_workload("figure1"), "radixflow", after=after)
    assert run.outcome.end == "finished" and len(run.outcome.outputs) == 15


def test_one_name_serves_both_kinds_of_scheduling():
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler

    assert "RadixFlowScheduler" in dir(rf)
    for asynchronous in (False, True):
        run = watch(workload(request("a", 0), async_scheduling=asynchronous), "radixflow")
        assert isinstance(run.scheduler, rf.RadixFlowScheduler)
        assert isinstance(run.scheduler, AsyncScheduler) == asynchronous


def test_vllm_finds_the_scheduler_by_its_public_name():
    from vllm.config import SchedulerConfig

    config = SchedulerConfig(
        max_model_len=64, is_encoder_decoder=False, scheduler_cls="radixflow.RadixFlowScheduler"
    )
    assert config.get_scheduler_cls() is rf.RadixFlowScheduler


@pytest.mark.parametrize(
    ("given", "environ", "said"),
    [
        ({"radixflow": {"policy": "radixfow"}}, {}, "radixflow"),
        ({"radixflow": {"polcy": "radix"}}, {}, "polcy"),
        ({"radixflow": 3}, {}, "object of settings"),
        ({}, {"RADIXFLOW_PROBE": "often"}, "RADIXFLOW_PROBE"),
        ({}, {"RADIXFLOW_INCLUDE_TOKENS": "perhaps"}, "true or false"),
    ],
)
def test_bad_settings_get_one_line_that_names_them(given, environ, said):
    with pytest.raises(ValueError, match=said) as caught:
        read_settings(given, environ)
    assert "\n" not in str(caught.value)


def test_settings_come_from_the_environment_and_the_configuration_wins():
    environ = {"RADIXFLOW_POLICY": "radix", "RADIXFLOW_TRACE": "t.rft.jsonl", "RADIXFLOW_PROBE": "8"}
    settings = read_settings({"radixflow": {"policy": "radixflow+frag"}}, environ)
    assert settings.policy is get_policy("radixflow+frag")
    assert (settings.trace, settings.probe) == ("t.rft.jsonl", 8)
    assert read_settings(None, {}).policy is get_policy("radixflow")

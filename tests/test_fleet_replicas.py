"""Several engines in one virtual time: each decides as it would alone, and routing by readiness pays."""

from __future__ import annotations

import pytest

pytest.importorskip("vllm")

from radixflow.engines.replicas import run_replicas  # noqa: E402
from radixflow.engines.run import simulated_engine  # noqa: E402
from radixflow.engines.tally import tally_run  # noqa: E402
from radixflow.fleet import ROUTINGS, compare_routings  # noqa: E402
from radixflow.scheduling.policies import get_policy  # noqa: E402
from radixflow.workloads import EngineOptions, Workload, WorkloadRequest, load_workload  # noqa: E402


def stream(documents=7, questions=10, gap=0.02):
    requests = [
        WorkloadRequest(
            id=f"d{d}q{q}",
            prompt=[(f"doc{d}", 640), (f"own{d}.{q}", 40)],
            arrival=gap * (q * documents + d),
            output_tokens=2,
        )
        for q in range(questions)
        for d in range(documents)
    ]
    engine = EngineOptions(block_size=64, num_blocks=60, state_groups=1, max_num_seqs=4, max_num_batched_tokens=1024)
    return Workload(name="stream", engine=engine, requests=requests)


@pytest.mark.parametrize("policy", ["radix", "radixflow", "radix+timer5"])
@pytest.mark.parametrize("name", ["bursty", "chat"])
def test_one_replica_is_the_simulated_engine_round_for_round(name, policy):
    workload = load_workload(name)
    options, groups, cost = simulated_engine(workload, None, {})
    alone = tally_run(workload, options, groups, get_policy(policy), cost)
    (one,) = run_replicas(workload, 1, options, groups, get_policy(policy), cost, lambda request, replicas: 0)
    assert one.digest == alone.digest and one.finished == alone.finished and one.selected == alone.selected


@pytest.mark.parametrize("routing", ROUTINGS)
def test_every_request_ends_on_exactly_one_replica(routing):
    workload = stream()
    options, groups, cost = simulated_engine(workload, None, {})
    router = ROUTINGS[routing](workload, options, groups, 3)
    tallies = run_replicas(workload, 3, options, groups, get_policy("radixflow"), cost, router.choose, router.watch)
    ended = [id for tally in tallies for id in tally.finished]
    assert sorted(ended) == sorted(request.id for request in workload.requests)
    assert sum(len(tally.arrived) for tally in tallies) == len(workload.requests)


def test_routing_by_readiness_reuses_more_and_answers_sooner():
    table = compare_routings(stream(), 3)
    assert list(table.index) == list(ROUTINGS)
    assert table.at["ready", "reuse_rate"] > 1.2 * table["reuse_rate"][["round-robin", "random"]].max()
    assert table.at["ready", "latency_mean"] < table.at["round-robin", "latency_mean"]
    assert table.at["ready", "latency_mean"] < table.at["random", "latency_mean"]
    assert (table["completed"] == table["requests"]).all()


def test_who_matches_but_cannot_resume_is_told_apart_from_who_can():
    """Replica 0 knows the document by tokens, its only state lies beyond it; h^ sends the reader there, h doesn't."""
    requests = [
        WorkloadRequest(id="writer", prompt=[("doc", 128), ("w", 100)], arrival=0.0),
        WorkloadRequest(id="other", prompt=[("x", 640)], arrival=0.0),
        WorkloadRequest(id="busy", prompt=[("y", 100)], arrival=1.0),
        WorkloadRequest(id="reader", prompt=[("doc", 128), ("r", 100)], arrival=1.001),
    ]
    engine = EngineOptions(block_size=64, num_blocks=60, state_groups=1, max_num_seqs=4, max_num_batched_tokens=1024)
    workload = Workload(name="one-state", engine=engine, requests=requests)
    options, groups, cost = simulated_engine(workload, None, {})
    chosen = {}
    for name in ("matched", "ready"):
        router = ROUTINGS[name](workload, options, groups, 2)
        fixed = {"writer": 0, "other": 1, "busy": 0}

        def choose(request, replicas, router=router, fixed=fixed, name=name):
            picked = router.choose(request, replicas)
            chosen[name, request.id] = picked
            return fixed.get(request.id, picked)

        run_replicas(workload, 2, options, groups, get_policy("radix"), cost, choose, router.watch)
    assert chosen["matched", "reader"] == 0 and chosen["ready", "reader"] == 1


def test_conversations_go_on_over_the_fleet():
    requests = [
        WorkloadRequest(id="a1", prompt=[("a", 200)], output_tokens=3),
        WorkloadRequest(id="a2", prompt=[("a", 260)], output_tokens=3, after="a1"),
        WorkloadRequest(id="a3", prompt=[("a", 320)], output_tokens=3, after="a2"),
    ]
    table = compare_routings(Workload(name="turns", requests=requests), 2, ["ready", "round-robin"])
    assert (table["completed"] == 3).all()
    assert table.at["ready", "reuse_rate"] > table.at["round-robin", "reuse_rate"]


def test_what_cannot_be_run_over_several_engines_is_said(tmp_path):
    with pytest.raises(ValueError, match="'P1' comes after a round|no common count"):
        rounds = Workload(name="r", requests=[WorkloadRequest(id="P1", prompt=[("a", 9)], after_round=1)])
        compare_routings(rounds, 2)
    with pytest.raises(ValueError, match="expected one of round-robin"):
        compare_routings(stream(1, 1), 2, ["best"])
    with pytest.raises(ValueError, match="0 replicas"):
        compare_routings(stream(1, 1), 0)

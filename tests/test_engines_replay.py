"""What-if replays: a trace holds enough to run its workload again."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("vllm")

from scheduling_cases import watch, workloads  # noqa: E402

from radixflow.engines.replay import rebuild, replay  # noqa: E402
from radixflow.engines.run import run_workload  # noqa: E402
from radixflow.scheduling import POLICIES  # noqa: E402
from radixflow.trace import TraceError, open_trace  # noqa: E402
from radixflow.workloads import EngineOptions, Workload, WorkloadRequest  # noqa: E402

CORPUS = sorted((Path(__file__).parent.parent / "data" / "corpus").glob("*.workload.jsonl"))


def batches(trace):
    """Round by round: who was selected with how many tokens, who was preempted."""
    return [
        ([(trace.ids[i], n) for i, n in view.selected], [trace.ids[i] for i in view.preempted])
        for view in trace.iter_rounds()
    ]


def replayed(path, **changes):
    rebuilt = rebuild(path)
    again = Path(path).with_name("again.rft.jsonl")
    replay(rebuilt, again, **changes)
    return open_trace(again)


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(workloads(), st.sampled_from(sorted(POLICIES)))
def test_without_a_clock_the_replay_equals_the_recorded_rounds(workload, policy):
    with tempfile.TemporaryDirectory() as folder:
        recorded = Path(folder) / "recorded.rft.jsonl"
        watch(workload, policy, trace=str(recorded))
        assert batches(replayed(recorded)) == batches(open_trace(recorded))


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_every_corpus_case_replays_exactly(policy, tmp_path):
    for case in CORPUS:
        recorded = tmp_path / "recorded.rft.jsonl"
        run_workload(case, policy, trace=recorded, probe=0)
        assert batches(replayed(recorded)) == batches(open_trace(recorded)), case.name


def test_another_policy_and_other_options_are_predicted(tmp_path):
    recorded = tmp_path / "recorded.rft.jsonl"
    run_workload("figure1", "radix", trace=recorded)
    assert (open_trace(recorded).num_rounds, replayed(recorded, policy="radixflow").num_rounds) == (6, 4)
    run_workload("figure1", "radix", trace=tmp_path / "narrow.rft.jsonl", max_num_seqs=2)
    assert batches(replayed(recorded, max_num_seqs=2)) == batches(open_trace(tmp_path / "narrow.rft.jsonl"))


@pytest.mark.parametrize("changes", [{"block_size": 32}, {"num_blocks": 40}, {"retention_interval": None}])
def test_a_prediction_equals_the_run_that_really_has_those_options(changes, tmp_path):
    requests = [
        WorkloadRequest(id=f"q{k}", prompt=[("doc", 200 + 64 * (k % 2)), (f"own{k}", 30 + k)], output_tokens=3)
        for k in range(8)
    ]
    workload = Workload(name="w", engine=EngineOptions(block_size=64, num_blocks=60, state_groups=2), requests=requests)
    recorded = tmp_path / "recorded.rft.jsonl"
    run_workload(workload, "radix", trace=recorded)
    more = {"hash_block_size": changes["block_size"]} if "block_size" in changes else {}
    run_workload(workload, "radixflow", trace=tmp_path / "real.rft.jsonl", **changes, **more)
    assert batches(replayed(recorded, policy="radixflow", **changes)) == batches(
        open_trace(tmp_path / "real.rft.jsonl")
    )


def conversation(clocked):
    """Two conversations; each turn begins with the whole turn before it and comes when that one ends."""
    requests = []
    for c in "xy":
        prompt = [("system", 100)]
        for turn in range(3):
            prompt = [*prompt, (f"{c}{turn}", 40)]
            when = {"after": f"{c}{turn - 1}"} if turn else ({"arrival": 0.01} if clocked else {})
            requests.append(WorkloadRequest(id=f"{c}{turn}", prompt=prompt, output_tokens=2, **when))
    return Workload(name="chat", requests=requests)


@pytest.mark.parametrize("clocked", [True, False])
def test_turns_come_after_the_turn_before_them_also_under_other_rules(clocked, tmp_path):
    recorded = tmp_path / "recorded.rft.jsonl"
    workload = conversation(clocked)
    run_workload(workload, "radix", trace=recorded)
    rebuilt = rebuild(recorded)
    assert {r.id: r.after for r in rebuilt.workload.requests} == {r.id: r.after for r in workload.requests}
    run_workload(workload, "radixflow", trace=tmp_path / "real.rft.jsonl", max_num_seqs=1)
    predicted = replayed(recorded, policy="radixflow", max_num_seqs=1)
    assert batches(predicted) == batches(open_trace(tmp_path / "real.rft.jsonl"))


def test_salts_priorities_and_aborts_survive(tmp_path):
    requests = [
        WorkloadRequest(id="a", prompt=[("doc", 300)], salt="one", output_tokens=9),
        WorkloadRequest(id="b", prompt=[("doc", 300), ("b", 5)], salt="two", priority=1, output_tokens=9),
        WorkloadRequest(id="c", prompt=[("doc", 300), ("c", 5)], salt="one", priority=-1, abort_after_round=4),
        WorkloadRequest(id="d", prompt=[("doc", 300), ("d", 5)], salt="one", after_round=3),
    ]
    engine = EngineOptions(scheduling_policy="priority", max_num_seqs=2, num_blocks=40)
    recorded = tmp_path / "recorded.rft.jsonl"
    run_workload(Workload(name="w", engine=engine, requests=requests), "radixflow", trace=recorded)
    again = replayed(recorded)
    assert batches(again) == batches(open_trace(recorded))
    assert list(again.requests["finish_reason"]) == list(open_trace(recorded).requests["finish_reason"])


def test_the_round_cost_comes_out_of_the_trace(tmp_path):
    recorded = tmp_path / "recorded.rft.jsonl"
    run_workload("figure1", "radix", trace=recorded)
    rebuilt = rebuild(recorded)
    assert (rebuilt.cost.a, rebuilt.cost.b) == (pytest.approx(0.010, rel=1e-4), pytest.approx(20e-6, rel=1e-4))
    assert rebuilt.cost_error < 1e-6 and rebuilt.notes == ()


def test_what_a_trace_lacks_is_named(tmp_path):
    recorded = tmp_path / "recorded.rft.jsonl"
    run_workload("figure1", "radix", trace=recorded)
    lines = recorded.read_text().splitlines()
    gap = '{"kind":"gap","rounds":2,"records":5,"first":3,"last":4}'
    forgot = '{"kind":"gap","rounds":0,"records":0,"what":"paths"}'
    cut = tmp_path / "cut.rft.jsonl"
    cut.write_text("\n".join([*lines[: len(lines) // 2], gap, forgot]) + "\n")
    said = " / ".join(rebuild(cut).notes)
    assert "rounds missing from the trace: 2;" in said and "forgot its prompts" in said and "had not ended" in said


def test_a_cache_that_cant_be_simulated_is_refused_in_one_line(tmp_path):
    recorded = tmp_path / "recorded.rft.jsonl"
    run_workload("figure1", "radix", trace=recorded)
    header, *rest = recorded.read_text().splitlines()
    sliding = tmp_path / "sliding.rft.jsonl"
    sliding.write_text("\n".join([header.replace('"kind":"mamba"', '"kind":"sliding_window"', 1), *rest]) + "\n")
    with pytest.raises(TraceError, match="cache group 1 is sliding_window; a replay can have"):
        rebuild(sliding)
    empty = tmp_path / "empty.rft.jsonl"
    empty.write_text(header + "\n")
    with pytest.raises(TraceError, match="holds no requests"):
        rebuild(empty)


def test_an_id_used_again_is_another_request(tmp_path):
    recorded = tmp_path / "recorded.rft.jsonl"
    run_workload("figure1", "radix", trace=recorded)
    twice = tmp_path / "twice.rft.jsonl"
    twice.write_text(recorded.read_text().replace('"id":"A2"', '"id":"A1"'))
    ids = [request.id for request in rebuild(twice).workload.requests]
    assert {"A1", "A1#2"} <= set(ids) and len(set(ids)) == len(ids)

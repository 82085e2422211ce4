"""On vLLM's own scheduler: what the public reports' cases must say, and the sums over random workloads."""

from __future__ import annotations

import json
import random

import pytest
from analysis_traces import LEDGER

import radixflow as rf
from radixflow.analysis import (
    SLOT_CAUSES,
    Ledger,
    explain,
    explain_round,
    reuse,
    slots,
    summarize,
    wait_of,
    waits_by_cause,
)

CASES = [
    # case, request, cause, first and last round, facts that must be there
    ("d01-same-round-producer", "B", "blocked", [1, 1], {"producer": "A", "boundary": 640}),
    ("d01-same-round-producer", "C", "unexamined", [1, 1], {"culprit": "B", "culprit_cause": "blocked"}),
    ("d01-same-round-producer", "D", "unexamined", [1, 1], {"culprit": "B", "culprit_cause": "blocked"}),
    ("d06-budget-below-block", "B", "alignment", [1, 4], {"tokens_left": 992, "block": 1056}),
    ("d06-budget-below-block", "C", "unexamined", [1, 4], {"culprit": "B", "culprit_cause": "alignment"}),
    ("d08-small-behind-big", "big", "capacity", [3, 61], {"needed": 25, "free": 18}),
    ("d08-small-behind-big", "s1", "unexamined", [3, 61], {"culprit": "big", "culprit_cause": "capacity"}),
    ("d09-priority-at-row-cap", "hi", "rows", [2, 21], {"held_by_lower_priority": ["lo1", "lo2"]}),
    ("d10-hog-spends-budget", "new", "not_entered", [2, 11], {"spent_by": ["hog"]}),
    ("d11-never-fits", "big", "never_fits", [1, 1], {"needed": 17, "total": 10}),
    ("d11-never-fits", "small", "unexamined", [1, 1], {"culprit": "big", "culprit_cause": "never_fits"}),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory, root):
    """Runs a case under a policy, once."""
    folder = tmp_path_factory.mktemp("runs")
    done: dict[tuple[str, str], object] = {}

    def of(case: str, policy: str = "radix"):
        if (case, policy) not in done:
            source = root / "data" / "corpus" / f"{case}.workload.jsonl"
            done[case, policy] = rf.run(source, policy=policy, trace=folder / f"{case}.{policy}.rft.jsonl")
        return done[case, policy]

    return of


@pytest.mark.parametrize(("case", "request_id", "cause", "rounds", "facts"), CASES)
def test_the_case_names_the_cause_and_its_facts(run, case, request_id, cause, rounds, facts):
    causes = {entry["cause"]: entry for entry in explain(run(case), request_id).causes}
    assert causes[cause]["rounds"] == [rounds]
    assert {key: causes[cause][key] for key in facts} == facts


@pytest.mark.parametrize(
    ("case", "request_id", "boundary", "why"),
    [
        ("d02-checkpoint-in-unique-tokens-1500-700", "r1", 1056, "never_computed"),
        ("d02-checkpoint-in-unique-tokens-1600-600", "r1", 1584, "not_retained"),
        ("d05-draft-backoff-2048", "r1", 1344, "not_retained"),
    ],
)
def test_the_case_names_the_state_that_was_missing(run, case, request_id, boundary, why):
    row = reuse(run(case)).set_index("request").loc[request_id]
    assert row["forgone"] == boundary
    assert {(missing.boundary, missing.why) for missing in row["missing"]} == {(boundary, why)}


@pytest.mark.parametrize("policy", list(LEDGER["policies"]))
def test_a_real_run_of_figure_1_is_the_ledger_worked_out_by_hand(run, policy):
    trace, ledger = run("figure1", policy), LEDGER["policies"][policy]
    assert {cause: n for cause, n in slots(trace).totals.items() if n} == ledger["totals"]
    for name, expected in ledger["waits"].items():
        told = [{k: v for k, v in cause.items() if k != "seconds"} for cause in explain(trace, name).causes]
        assert told == [cause | {"rounds": [cause["rounds"]]} for cause in expected]


def random_workload(seed: int) -> list[dict]:
    dice = random.Random(seed)
    block = dice.choice([16, 32])
    engine = {
        "block_size": block,
        "num_blocks": dice.choice([24, 40, 200]),
        "state_groups": dice.choice([0, 1, 2]),
        "max_num_seqs": dice.choice([2, 4]),
        "max_num_batched_tokens": dice.choice([64, 128]),
        "scheduling_policy": dice.choice(["fcfs", "priority"]),
        "retention_interval": dice.choice([0, None]),
        "async_scheduling": dice.random() < 0.3,
    }
    lines: list[dict] = [{"kind": "workload", "schema": "1.0", "name": f"random{seed}", "engine": engine}]
    for k in range(dice.randint(6, 24)):
        shared = [dice.choice("abc"), dice.choice([block, 2 * block, 3 * block + 5])]
        line = {"kind": "request", "id": f"q{k}", "prompt": [shared, [f"u{k}", dice.randint(1, 120)]]}
        line |= {"output_tokens": dice.choice([1, 3, 20]), "priority": dice.randint(0, 2)}
        line["arrival"] = round(dice.random() * 0.3, 4)
        if dice.random() < 0.15:
            line["abort_after_round"] = dice.randint(1, 25)
        lines.append(line)
    return lines


@pytest.mark.parametrize(
    "policy", ["radix", "radix+timer5", "radix+flex", "radixflow+noadmit", "radixflow", "radixflow+frag"]
)
@pytest.mark.parametrize("seed", range(4))
def test_the_sums_hold_over_random_workloads(tmp_path, seed, policy):
    source = tmp_path / "w.workload.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in random_workload(seed)))
    trace = rf.run(source, policy=policy, trace=tmp_path / "t.rft.jsonl")
    assert slots(trace).faults.empty
    assert waits_by_cause(trace).loc["unrecorded", ["rounds", "ns"]].tolist() == [0, 0]
    table = reuse(trace)
    assert (table["prompt"] == table["reused"] + table["forgone"] + table["fresh"]).all()
    assert (table.loc[table["forgone"] > 0, "missing"].map(len) > 0).all()
    summary = summarize(trace)
    assert summary.lower_bound_rounds <= summary.rounds
    told = {
        i: [s for s in wait_of(trace, i) if s.first_round and s.cause != "admission"]
        for i in trace.requests.index
    }
    in_queue: dict[int, list[int]] = {i: [] for i in trace.requests.index}
    for view in trace.iter_rounds():
        for i in {*view.queue} - {*view.admitted}:
            in_queue[i] += range(view.n, view.n + view.repeat)
    assert {
        i: [n for s in own for n in range(s.first_round, s.last_round + 1)] for i, own in told.items()
    } == in_queue
    table = slots(trace).rounds[list(SLOT_CAUSES)]
    for n in trace.rounds.index:
        assert explain_round(trace, n).slots == table.loc[n].to_dict()
    assert len(Ledger(trace).periods) == len(trace.requests) + trace.rounds["preempted"].sum()

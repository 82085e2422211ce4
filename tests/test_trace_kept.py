"""How much of a prompt is kept is what the prefix tree says, whoever is asked first."""

from __future__ import annotations

import pytest
from dashboard_traces import long_run, write
from figures_traces import figure1
from trajectory_traces import agents

from radixflow.trace import open_trace
from radixflow.trace.kept import KeptPrompts

RUNS = {
    "lru": lambda: agents("lru"),
    "rr, hybrid": lambda: agents("rr", states=2),
    "lru, hybrid": lambda: agents("lru", states=1, seed=3),
    "figure 1": lambda: figure1("radixflow+noadmit"),
    "long": lambda: long_run(60),
}


@pytest.mark.parametrize("name", RUNS)
def test_it_is_what_the_tree_says_of_every_request_at_every_round(name, tmp_path):
    trace = open_trace(write(tmp_path / "t.rft.jsonl", RUNS[name]()))
    kept = KeptPrompts(trace)
    seen = set()
    for n in range(1, trace.num_rounds + 1):
        tree = trace.tree(n)
        assert kept.arrived(tree) == sum(tree.knows(i) for i in range(len(trace.ids)))
        for i in filter(tree.knows, range(len(trace.ids))):
            attention = [tree.matched(i)[group.index] for group in trace.config.groups if "kv" in group.components]
            assert kept.of(tree, i, tree.prompt(i) - 1) == (tree.ready(i), min(attention))
            seen.add(tree.ready(i))
    assert len(seen) > 1


def test_a_whole_prompt_counts_to_its_last_block(tmp_path):
    trace = open_trace(write(tmp_path / "t.rft.jsonl", long_run(3)))
    kept, tree = KeptPrompts(trace), trace.tree(2)
    assert trace.requests["prompt"][0] == 612
    assert kept.of(tree, 0) == kept.of(tree, 0, 611) == (512, 512)
    assert kept.of(tree, 0, 512) == (512, 512)
    assert kept.of(tree, 0, 511) == (448, 448)


def test_a_request_is_known_from_the_round_that_it_arrived_before(tmp_path):
    trace = open_trace(write(tmp_path / "t.rft.jsonl", agents("lru")))
    kept = KeptPrompts(trace)
    for k in range(len(trace.ids)):
        n = kept.arrival_round(k)
        assert trace.tree(n).knows(k)
        assert n == 1 or not trace.tree(n - 1).knows(k)

"""Built-in workloads: there from any folder, the same each time, and fit for what they show."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from radixflow.workloads import WorkloadError, four_branch, list_builtin, load_workload
from radixflow.workloads.builtin import BUILDERS

CORPUS = Path(__file__).parent.parent / "data" / "corpus"


def test_every_builtin_has_a_note_and_is_valid(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notes = list_builtin()
    assert next(iter(notes)) == "figure1"
    for name, note in notes.items():
        assert note and "\n" not in note, name
        workload = load_workload(name)
        workload.check()
        assert workload.name == name
        assert workload == load_workload(name)


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.workload.jsonl")), ids=lambda path: path.name)
def test_the_packaged_cases_are_those_of_the_corpus(path):
    name = path.name.removesuffix(".workload.jsonl")
    packaged, original = load_workload(name), load_workload(path)
    assert (packaged.engine, packaged.requests) == (original.engine, original.requests)


def test_a_builtin_name_wins_over_a_file_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "figure1").write_text('{"text": "hello"}\n')
    assert len(load_workload("figure1").requests) == 15
    assert len(load_workload("./figure1").requests) == 1


@pytest.mark.parametrize("name", list(BUILDERS))
def test_no_single_request_needs_more_than_half_of_its_pool(name):
    workload = load_workload(name)
    engine = workload.simulated_engine.resolved()
    for request in workload.requests:
        tokens = sum(n for _, n in request.prompt or ()) + request.output_tokens
        blocks = -(-tokens // engine.block_size) + 2 * engine.state_groups
        assert blocks <= engine.num_blocks / 2, request.id


def test_decode_heavy_outgrows_its_pool_while_running():
    workload = load_workload("decode-heavy")
    engine = workload.simulated_engine.resolved()
    running = workload.requests[: engine.max_num_seqs]
    prompts = sum(-(-sum(n for _, n in r.prompt) // engine.block_size) for r in running)
    outputs = sum(r.output_tokens // engine.block_size for r in running)
    assert prompts + len(running) < engine.num_blocks < prompts + outputs


def test_four_branches_share_all_but_their_answer_and_come_one_after_another():
    workload = four_branch(documents=2, questions=3, branch_spacing=0.002, seed=5)
    assert len(workload.requests) == 2 * 3 * 4
    for group, branches in itertools.groupby(workload.requests, key=lambda request: request.group):
        branches = list(branches)
        assert [branch.id for branch in branches] == [f"{group}.b{b}" for b in range(4)]
        assert len({tuple(branch.prompt[:2]) for branch in branches}) == 1
        assert len({branch.prompt[2][0] for branch in branches}) == 4
        gaps = [b.arrival - a.arrival for a, b in itertools.pairwise(branches)]
        assert gaps == pytest.approx([0.002] * 3)
        assert all(branch.output_tokens == 1 for branch in branches)


def test_orders_decide_who_meets_whom():
    def documents(order: str) -> list[str]:
        made = four_branch(documents=3, questions=2, order=order)
        return [request.prompt[0][0] for request in made.requests[::4]]

    assert documents("reuse") == ["d0", "d0", "d1", "d1", "d2", "d2"]
    assert documents("mixed") == ["d0", "d1", "d2", "d0", "d1", "d2"]
    cold = four_branch(documents=3, questions=2, order="cold").requests
    assert [request.salt for request in cold] == [request.group for request in cold]
    assert all(request.salt is None for request in four_branch().requests)


def test_the_same_seed_is_the_same_workload_and_another_is_not():
    assert four_branch(seed=1) == four_branch(seed=1)
    assert four_branch(seed=1).requests != four_branch(seed=2).requests


def test_the_page_on_workloads_names_every_builtin():
    page = (CORPUS.parent.parent / "docs" / "workloads.md").read_text(encoding="utf-8")
    for name in ("figure1", *BUILDERS):
        assert f"| `{name}` |" in page


def test_without_a_rate_there_is_no_clock():
    assert four_branch().has_clock
    assert not four_branch(rate=None).has_clock


def test_options_reach_the_builder_and_wrong_ones_are_named():
    assert len(load_workload("four-branch", documents=1, questions=1).requests) == 4
    for options, said in [
        ({"document": 1}, 'workload "four-branch" has no option "document"; did you mean "documents"'),
        ({"documents": 0}, "documents is 0; expected a whole number, 1 or more"),
        ({"order": "random"}, 'order is "random"; expected one of cold, reuse, mixed'),
        ({"rate": 0}, "rate is 0; expected a number above 0"),
        ({"documents": 10**9}, "documents x questions x 4 would be 16,000,000,000 requests"),
        ({"branch_spacing": -1}, "branch_spacing is -1; expected a number, 0 or more"),
        ({"document_tokens": (9, 3)}, r"document_tokens is \[9, 3\]; expected tokens, or \(least, most\)"),
        ({"document_tokens": 0}, "document_tokens is 0; expected a whole number, 1 or more"),
    ]:
        with pytest.raises(WorkloadError, match=said):
            load_workload("four-branch", **options)
    with pytest.raises(WorkloadError, match='workload "figure1" is fixed, got seed; expected no options'):
        load_workload("figure1", seed=1)

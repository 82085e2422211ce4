"""Agents on growing contexts: made by rule, and read from session traces that name blocks by hash."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from radixflow.workloads import WorkloadError, load_workload
from radixflow.workloads.importers import detect


def turns_of(workload):
    own = {}
    for request in workload.requests:
        own.setdefault(request.group, []).append(request)
    return own


def stream(request):
    """The prompt as (label, position) pairs."""
    return [(label, k) for label, n in request.segments() for k in range(n)]


def test_each_turn_appends_the_answer_and_new_tokens_to_the_one_before():
    workload = load_workload("agents", agents=6, active=0.3, turns=4, growth=40, answer=16, context=300)
    for own in turns_of(workload).values():
        for before, after in zip(own, own[1:], strict=False):
            grown = stream(after)
            assert grown[: len(stream(before))] == stream(before)
            assert 16 + 20 <= len(grown) - len(stream(before)) <= 16 + 60


def test_as_many_lanes_as_are_active_and_each_turn_follows_one_of_its_lane():
    workload = load_workload("agents", agents=20, active=0.2, turns=5)
    first = [request for request in workload.requests if request.after is None]
    assert len(first) == 4
    assert workload.has_clock
    followed = [request.after for request in workload.requests if request.after is not None]
    assert len(set(followed)) == len(followed) == 20 * 5 - 4
    lane = {request.id: k for k, request in enumerate(first)}
    for request in workload.requests:
        if request.after is not None:
            lane[request.id] = lane[request.after]
    for own in turns_of(workload).values():
        # An agent keeps to one lane, so no turn of its own can run beside another.
        assert len({lane[request.id] for request in own}) == 1


def test_by_clock_tools_take_their_pause_and_turns_come_in_order():
    workload = load_workload("agents", agents=10, active=0.2, turns=40, pause=2.0)
    assert [r.arrival for r in workload.requests] == sorted(r.arrival for r in workload.requests)
    gaps = []
    for own in turns_of(workload).values():
        assert [request.id.split(".t")[1] for request in own] == [str(k) for k in range(40)]
        gaps += [b.arrival - a.arrival for a, b in zip(own, own[1:], strict=False)]
    assert min(gaps) >= 0.5  # 2 s * 0.2 / 0.8 for the turn itself
    assert sum(gaps) / len(gaps) == pytest.approx(2.5, rel=0.15)


def test_the_same_seed_gives_the_same_agents_and_another_one_others():
    assert load_workload("agents", seed=3) == load_workload("agents", seed=3)
    assert load_workload("agents", seed=3) != load_workload("agents", seed=4)


def test_the_pool_holds_the_stated_share_of_the_trajectories():
    workload = load_workload("agents", capacity=0.5, shared=0, growth=2)
    blocks = sum(sum(n for _, n in r.prompt) // 64 for r in workload.requests) / len(workload.requests)
    assert (workload.engine.num_blocks - 1) / blocks == pytest.approx(0.5 * 32, rel=0.01)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"active": 1.0}, "active is 1.0; expected a share between 0 and 1"),
        ({"agents": 0}, "agents is 0; expected a whole number, 1 or more"),
        ({"pause": 0}, "pause is 0; expected a number above 0"),
        ({"tools": 3}, 'has no option "tools"'),
    ],
)
def test_an_option_out_of_range_is_named(options, complaint):
    with pytest.raises(WorkloadError, match=complaint):
        load_workload("agents", **options)


SESSION = {
    "id": "s1",
    "block_size": 64,
    "hash_id_scope": "local",
    "requests": [
        {"t": 0.0, "type": "s", "in": 150, "out": 20, "hash_ids": [1, 2, 3], "api_time": 1.0},
        {"type": "subagent", "agent_id": "x", "requests": [{"t": 1.5, "in": 128, "out": 0, "hash_ids": [1, 9]}]},
        {"t": 4.0, "type": "n", "in": 300, "out": 5, "hash_ids": [1, 2, 4]},
    ],
}


def sessions(path: Path, *lines) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_session_becomes_its_turns_with_shared_blocks_by_their_hash(tmp_path):
    path = sessions(tmp_path / "coding.jsonl", SESSION)
    assert detect(path) == "agent-sessions"
    workload = load_workload(path)
    workload.check()
    assert [(r.id, r.arrival, r.output_tokens, r.group) for r in workload.requests] == [
        ("s1.t0", 0.0, 20, "s1"),
        ("s1.x.1.t0", 1.5, 1, "s1.x.1"),
        ("s1.t1", 4.0, 5, "s1"),
    ]
    assert workload.requests[0].segments() == [("s1.1", 64), ("s1.2", 64), ("s1.3", 22)]
    assert workload.requests[1].segments() == [("s1.1", 64), ("s1.9", 64)]
    # What no hash names is shared with nobody.
    assert workload.requests[2].segments() == [("s1.1", 64), ("s1.2", 64), ("s1.4", 64), ("s1.t1.rest", 108)]
    assert workload.simulated_engine.block_size == 64


def test_hashes_are_shared_between_sessions_only_where_the_file_says_so(tmp_path):
    for scope, same in (("local", False), ("global", True)):
        lines = [SESSION | {"id": name, "hash_id_scope": scope} for name in ("a", "b")]
        first, second = load_workload(sessions(tmp_path / f"{scope}.jsonl", *lines)).requests[:2]
        assert (first.segments()[0] == second.segments()[0]) is same


def test_without_pauses_a_turn_follows_the_one_before_it_in_its_trajectory(tmp_path):
    path = sessions(tmp_path / "coding.jsonl", SESSION)
    links = {r.id: r.after for r in load_workload(path, pauses=False).requests}
    assert links == {"s1.t0": None, "s1.t1": "s1.t0", "s1.x.1.t0": None}


def test_speed_spacing_and_limit_move_the_sessions(tmp_path):
    lines = [SESSION | {"id": f"s{k}"} for k in range(3)]
    workload = load_workload(sessions(tmp_path / "c.jsonl", *lines), limit=2, spacing=10.0, speed=2.0)
    assert {r.id: r.arrival for r in workload.requests if r.group in ("s0", "s1")} == {
        "s0.t0": 0.0, "s0.t1": 2.0, "s1.t0": 5.0, "s1.t1": 7.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"block_size": 0}, "block_size is 0; expected a whole number, 1 or more"),
        ({"hash_id_scope": "file"}, 'hash_id_scope is "file"; expected local or global'),
        ({"requests": []}, "requests is .*; expected a non-empty list"),
        ({"requests": [7]}, r"requests\[0\] is 7; expected an object"),
        ({"requests": [{"t": 0, "in": 5, "out": 1}]}, r"requests\[0\]: no hash_ids; expected t, in, out and hash_ids"),
        (
            {"requests": [{"t": 0, "in": 64, "out": 1, "hash_ids": [1, 2]}]},
            r"requests\[0\]: hash_ids names 2 blocks for 64 tokens; expected at most 1 blocks of 64",
        ),
    ],
)
def test_a_session_that_cannot_be_read_is_named_by_its_line(tmp_path, change, complaint):
    path = sessions(tmp_path / "bad.jsonl", SESSION, SESSION | {"id": "s2"} | change)
    with pytest.raises(WorkloadError, match=rf"bad.jsonl:2: .*{complaint}"):
        load_workload(path)


def test_a_session_named_twice_is_refused(tmp_path):
    path = sessions(tmp_path / "bad.jsonl", SESSION, SESSION)
    with pytest.raises(WorkloadError, match=r'bad.jsonl:2: id "s1" is already that of line 1'):
        load_workload(path)

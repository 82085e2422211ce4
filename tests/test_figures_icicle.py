from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from figures_traces import figure1, header, stream, write

from radixflow.figures import icicle
from radixflow.trace import open_trace
from radixflow.trace.schema import Admission, Cache, Request, Round


def opened(records):
    with TemporaryDirectory() as folder:
        return open_trace(write(Path(folder) / "t.rft.jsonl", records))


@pytest.fixture(scope="module")
def flow():
    return opened(figure1("radixflow+noadmit"))


def by(items, key, value):
    return next(item for item in items if item[key] == value)


def test_a_blocked_request_stands_at_what_it_matches_with_its_gap_and_its_producer(flow):
    layout = icicle.layout(flow, 1)
    a1 = by(layout["requests"], "id", "A1")
    assert (a1["state"], a1["at"], a1["matched"], a1["ready"], a1["producer"]) == (
        "blocked",
        1024,
        1024,
        0,
        "P1",
    )
    p1 = by(layout["requests"], "id", "P1")
    assert (p1["state"], p1["at"]) == ("running", 1024)
    a3 = by(layout["requests"], "id", "A3")
    assert (a3["state"], a3["at"]) == ("waiting", 0)


def test_states_are_in_flight_in_their_round_and_published_after_it(flow):
    def marks(n):
        node = by(icicle.layout(flow, n)["nodes"], "label", "doc1")
        return {(m["component"], m["state"], m["start"], m["end"]) for m in node["marks"]}

    assert [c["name"] for c in icicle.layout(flow, 1)["components"]] == ["kv", "rec", "conv"]
    assert marks(1) == {
        (0, icicle.PUBLISHED, 0, 1024),
        (1, icicle.IN_FLIGHT, 0, 1024),
        (2, icicle.IN_FLIGHT, 0, 1024),
    }
    assert marks(2) == {(c, icicle.PUBLISHED, 0, 1024) for c in range(3)}


def test_children_lie_to_the_right_of_their_parent_and_within_its_rows(flow):
    for n in range(1, 5):
        layout = icicle.layout(flow, n)
        nodes = {node["id"]: node for node in layout["nodes"]}
        spans = []
        for node in nodes.values():
            assert 0 <= node["top"] and node["top"] + node["height"] <= layout["rows"]
            if node["parent"] is None:
                spans += range(node["top"], node["top"] + node["height"])
                continue
            parent = nodes[node["parent"]]
            assert node["start"] == parent["end"]
            assert parent["top"] <= node["top"]
            assert node["top"] + node["height"] <= parent["top"] + parent["height"]
        assert sorted(spans) == list(range(layout["rows"]))


def test_each_request_keeps_its_row_from_round_to_round(flow):
    rows: dict[str, int] = {}
    for n in range(1, 5):
        for request in icicle.layout(flow, n)["requests"]:
            assert rows.setdefault(request["id"], request["row"]) == request["row"]
    assert len(rows) == len(set(rows.values())) == 15


def test_a_state_is_drawn_published_only_when_all_its_groups_have_it():
    first = header(4, 4096, "radix", "groups")
    groups = [*first.config.groups, type(first.config.groups[0])(2, "mamba", ["rec", "conv"], 1024)]
    first.config.groups = groups
    trace = opened([
        first,
        Request(i=0, id="a", t=0, prompt=3000, path=[("s", 3000)]),
        Round(n=1, t=0, d=1, selected=[0, 2048], admissions=[Admission(0, 0, 0)]),
        Cache(n=1, published=[(0, 0, 0, 2048), (0, 1, 0, 2048), (0, 2, 0, 2048)]),
        Round(n=2, t=9, d=1, selected=[0, 952]),
        Cache(n=2, evicted=[(0, 1, 0, 1024, -1)]),
    ])  # fmt: skip
    layout = icicle.layout(trace, 2)
    assert [(c["name"], c["groups"]) for c in layout["components"]] == [("kv", 1), ("rec", 2), ("conv", 2)]
    marks = layout["nodes"][0]["marks"]
    assert [(m["state"], m["start"], m["end"]) for m in marks if m["component"] == 1] == [
        (icicle.EVICTED, 0, 1024),
        (icicle.PUBLISHED, 1024, 2048),
    ]


def test_a_large_tree_folds_but_never_a_live_request_and_says_how_much():
    trace = opened(stream(300, rows=16, tokens=2048, seed=2))
    prefix = trace.tree(280)
    layout = icicle.layout(trace, 280, max_nodes=150)
    assert len(prefix.nodes) > 600
    assert len(layout["nodes"]) < 350
    assert {r["i"] for r in layout["requests"]} == {*prefix.running, *prefix.waiting}
    shown = {node["id"] for node in layout["nodes"]}
    assert {request["node"] for request in layout["requests"]} <= shown
    folded = sum(node["folded"] for node in layout["nodes"])
    assert folded + sum(node["joined"] for node in layout["nodes"]) == len(prefix.nodes)
    json.dumps(layout)


def test_a_chat_of_many_turns_does_not_exhaust_the_stack():
    turns = 2500
    records = [header(2, 4096, "radix", "chat", 16)]
    for i in range(turns):
        records.append(Request(i=i, id=f"t{i}", t=i, prompt=16 * (i + 1), path=[("s", 16 * (i + 1))]))
    records.append(
        Round(n=1, t=turns, d=1, selected=[turns - 1, 16], admissions=[Admission(turns - 1, 0, 0)])
    )
    layout = icicle.layout(opened(records), 1, max_nodes=5000)
    assert layout["rows"] >= 1

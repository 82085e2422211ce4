"""A snapshot says what look-ups say, adds up, and stays small."""

from __future__ import annotations

import json
import threading

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_index_prefix_index import HYBRID, A, B, Naive, index, steps

from radixflow.index import CacheLayout, Namespace, PrefixIndex
from radixflow.index import snapshot as module
from radixflow.index.picture import MATCHED, READY, read_picture
from radixflow.index.snapshot import snapshot

ENGINES = ["x", "y"]


def state_at(naive, namespace, engine, tokens, end):
    """What an engine has at a boundary of a sequence that goes at least so far."""
    size = naive.layout.block_size

    def has(group, at):
        return (namespace, engine, group, tuple(tokens[:at])) in naive.held

    attention = all(has(0, at) for at in range(size, end + 1, size))
    if attention and has(1, end):
        return READY
    return MATCHED if attention or has(1, end) else 0


@settings(max_examples=150, deadline=None)
@given(st.lists(steps, max_size=14))
def test_every_segment_says_what_look_ups_along_it_say(operations):
    made, naive = index(*ENGINES), Naive(HYBRID)
    for add, tokens, namespace, engine, groups, block in operations:
        ends = [block * 4] if block is not None and block * 4 <= len(tokens) else None
        (made.insert if add else made.evict)(tokens, namespace, engine, groups, ends)
        naive.change(add, tokens, namespace, engine, groups, ends)
    told = snapshot(made)
    spaces = {Namespace("m", tenant=space.tenant): space for space in told.spaces}
    sizes = {namespace: size for namespace, size in made.sizes().items() if size.nodes}
    assert set(spaces) == set(sizes)
    for namespace, space in spaces.items():
        held = {cell[3] for cell in naive.held if cell[0] == namespace}
        prefixes = {tokens[: 4 * k] for tokens in held for k in range(1, len(tokens) // 4 + 1)}
        by_id = {made.keys_of(tokens, namespace)[-1].hex()[:16]: tokens for tokens in prefixes}
        covered = set()
        for segment in space.segments:
            begins = by_id[segment.id]
            assert len(begins) == segment.start + 4
            whole = next(t for t in prefixes if len(t) == segment.end and t[: len(begins)] == begins)
            covered |= {whole[:at] for at in range(segment.start + 4, segment.end + 1, 4)}
            parent = by_id.get(segment.parent)
            assert segment.start == 0 if parent is None else whole[: len(parent)] == parent
            matches = made.longest_match(whole, namespace)
            for k, engine in enumerate(space.engines):
                assert (segment.matched[k], segment.ready[k]) == (matches[engine].matched, matches[engine].ready)
                share = next((share for share in segment.shares if share.engine == k), None)
                marks = {at: s for a, b, s in (share.marks if share else ()) for at in range(a, b + 1, 4)}
                for at in range(segment.start + 4, segment.end + 1, 4):
                    assert marks.get(at, 0) == state_at(naive, namespace, engine, whole, at)
                own = [
                    (namespace, engine, g, whole[:at])
                    for at in range(segment.start + 4, segment.end + 1, 4)
                    for g in (0, 1)
                ]
                kept = [cell[2] for cell in own if cell in naive.held]
                assert bool(kept) == (share is not None)
                if share:
                    assert share.held == {"kv": kept.count(0), "rec": kept.count(1), "conv": kept.count(1)}
        assert covered == prefixes, "everything is told where there is room"
        assert (space.blocks, space.duplicated, space.unread) == (len(prefixes), sizes[namespace].duplicated, 0)
    assert [(total.name, total.blocks) for total in told.engines] == [
        (name, sum(size.held[name] for size in sizes.values())) for name in ENGINES
    ]
    assert read_picture(msgspec.json.encode(told)) == told


def crowd(prompts=3000):
    """A document that three engines hold, conversations behind it, and many prompts of one block of one engine each."""
    made = index("a", "b", "c", layout=CacheLayout(4))
    document = list(range(40))
    for engine in "abc":
        made.insert(document, A, engine)
    for k in range(50):
        made.insert([*document, *[1000 + k] * (4 + 4 * (k % 5))], A, "abc"[k % 3])
    for k in range(prompts):
        made.insert([100_000 + k] * 4, A, "a")
    return made


def test_the_most_shared_come_first_and_the_rest_is_counted():
    told = snapshot(crowd(), max_segments=20).spaces[0]
    assert len(told.segments) == 20
    first = told.segments[0]
    assert (first.start, first.end, first.parent) == (0, 40, None)
    assert first.ready == [40, 40, 40]
    assert told.duplicated == 20
    assert sum(segment.parent == first.id for segment in told.segments) == 19
    assert first.hidden == 50 - 19 and told.hidden == 3000
    blocks = sum((segment.end - segment.start) // 4 + segment.hidden_blocks for segment in told.segments)
    assert blocks + told.hidden_blocks + told.unread == told.blocks


def test_it_reads_no_more_than_it_may_and_says_what_it_left():
    told = snapshot(crowd(250), max_read=100).spaces[0]
    blocks = sum((segment.end - segment.start) // 4 + segment.hidden_blocks for segment in told.segments)
    assert blocks + told.hidden_blocks == 100 and told.unread == told.blocks - 100
    assert told.segments[0].end == 40, "what is shared most is read first"
    assert told.segments[0].hidden + sum(s.parent == told.segments[0].id for s in told.segments) == 50
    chain = index("a", layout=CacheLayout(4))
    chain.insert(range(4000), A, "a")
    cut = snapshot(chain, max_read=100).spaces[0]
    assert [(s.end, s.hidden) for s in cut.segments] == [(400, 1)] and cut.unread == 900


def test_namespaces_are_roots_of_their_own_and_the_largest_are_told(monkeypatch):
    made = index("a")
    made.insert(range(40), A, "a")
    made.insert(range(40), B, "a")
    assert [space.tenant for space in snapshot(made).spaces] in (["a", "b"], ["b", "a"])
    assert not {s.id for s in snapshot(made).spaces[0].segments} & {s.id for s in snapshot(made).spaces[1].segments}
    made.insert(range(100, 200), B, "a")
    monkeypatch.setattr(module, "MAX_SPACES", 1)
    told = snapshot(made)
    assert [space.tenant for space in told.spaces] == ["b"] and told.hidden_spaces == 1


def test_a_small_namespace_is_told_beside_a_large_one():
    made = crowd(500)
    made.insert(range(4), B, "a")
    told = snapshot(made, max_segments=5)
    assert [len(space.segments) for space in told.spaces] == [4, 1]


def test_a_segment_with_too_many_changes_says_how_far_it_reaches():
    made = index("a")
    made.insert(range(4 * 400), A, "a", groups=[0])
    made.insert(range(4 * 400), A, "a", groups=[1], boundaries=range(8, 1200, 8))
    (share,) = snapshot(made).spaces[0].segments[0].shares
    assert share.marks == [(4, 1600, MATCHED), (1192, 1192, READY)]


def test_bytes_are_said_where_a_blocks_size_is_known():
    made = crowd(0)
    assert snapshot(made).duplicated_bytes is None and snapshot(made).engines[0].bytes is None
    told = snapshot(made, block_bytes={"m": 10}, states={"a": "connected"})
    assert told.duplicated_bytes == 200 and told.engines[0].bytes == 10 * told.engines[0].blocks
    assert [total.state for total in told.engines] == ["connected", "", ""]


def test_names_are_those_of_the_blocks_and_never_long():
    made = index("a", layout=CacheLayout(4))
    made.insert(range(16), A, "a")
    keys = made.keys_of(range(16), A)
    names = dict(zip(keys, ["doc", "doc", "q", "q"], strict=True))
    assert snapshot(made, label_of=names.get).spaces[0].segments[0].name == "doc + q"
    assert len(snapshot(made, label_of=lambda key: "x" * 500).spaces[0].segments[0].name) == 80


def test_an_empty_index_is_an_empty_picture():
    told = snapshot(PrefixIndex())
    assert told.engines == told.spaces == [] and told.duplicated == 0


def test_it_can_be_taken_while_writers_come_and_go():
    made, stop, wrong = index(), threading.Event(), []
    tokens = list(range(40))

    def write():
        while not stop.is_set():
            made.insert(tokens, A, "e")
            made.evict(tokens, A, "e")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(100):
            for space in snapshot(made).spaces:
                wrong += [s for s in space.segments if (s.ready, s.end) != ([40], 40)]
    finally:
        stop.set()
        writer.join()
    assert not wrong, "all of it or nothing: the picture is one moment's"


@pytest.mark.parametrize("kv_block", [6, 10])
def test_attentions_blocks_are_multiples_of_the_indexs(kv_block):
    with pytest.raises(ValueError, match="expected a multiple of 4"):
        CacheLayout(4, kv_block_size=kv_block)


def test_a_part_of_attentions_block_is_of_no_use():
    made = index(layout=CacheLayout(4, (("kv",), ("rec", "conv")), kv_block_size=8))
    made.insert(range(16), A, "e")
    assert made.longest_match(range(16), A)["e"].ready == 16
    assert made.longest_match(range(12), A)["e"].ready == 8


def plain():
    made = index("a", "b")
    made.insert(range(16), A, "a")
    made.insert([*range(8), 9, 9, 9, 9], A, "b")
    return json.loads(msgspec.json.encode(snapshot(made)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda told: told.clear(), "missing required field"),
        (lambda told: told.update(kind="workload"), "Invalid value"),
        (lambda told: told.update(at="<b>"), "Expected `float`"),
        (lambda told: told["engines"].extend(told["engines"] * 200), "expected at most 256"),
        (lambda told: told["engines"].pop(), "engine that isn't listed"),
        (lambda told: told["spaces"][0].update(tenant="x" * 10_000), "a name of 10,000 characters"),
        (lambda told: told["spaces"][0].update(block=0), "expected 1 or more"),
        (lambda told: told["spaces"][0].update(block=3), "whole blocks"),
        (lambda told: told["spaces"][0].update(held=[]), "0 counts for 2 engines"),
        (lambda told: told["spaces"][0]["segments"].reverse(), "doesn't come before it"),
        (lambda told: told["spaces"][0]["segments"].extend(told["spaces"][0]["segments"]), "comes twice"),
        (lambda told: told["spaces"][0]["segments"][1].update(start=4), "where its parent ends"),
        (lambda told: told["spaces"][0]["segments"][0].update(end=4 << 50), "whole blocks long"),
        (lambda told: told["spaces"][0]["segments"][1].update(end=4 << 30), "expected at most 1,000,000"),
        (lambda told: told["spaces"][0]["segments"][0].update(ready=[1]), "doesn't speak of 2 engines"),
        (lambda told: share(told).update(engine=2), "speaks of engine 2"),
        (lambda told: share(told).update(marks=[[4, 4000, 1]]), "boundary outside"),
        (lambda told: share(told).update(marks=[[4, 8, 1], [4, 8, 1]]), "boundary outside"),
        (lambda told: share(told).update(marks=[[4, 8, 3]]), "boundary of state 3"),
    ],
)
def test_a_hostile_picture_is_refused_in_one_line(change, said):
    told = plain()
    change(told)
    with pytest.raises(ValueError, match=said) as refused:
        read_picture(json.dumps(told).encode())
    assert "\n" not in str(refused.value)


def share(told):
    return told["spaces"][0]["segments"][0]["shares"][0]


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff", b"[" * 100_000])
def test_what_is_no_picture_is_refused_in_one_line(body):
    with pytest.raises(ValueError, match="no picture of an index"):
        read_picture(body)

"""An index fed from traces says what the traces say, and what the engines' own events said while they ran."""

from __future__ import annotations

import importlib.util
import random

import pytest
from dashboard_traces import Growing, write
from figures_traces import figure1
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trace_records import header, written

from radixflow.index import CacheLayout, Namespace, PrefixIndex
from radixflow.index.traces import TraceFeed
from radixflow.trace import PromptPaths, open_trace
from radixflow.trace.schema import Cache, Finish, Gap, Group, Request, Round

needs_vllm = pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="the engine's own look-up is vLLM's")
few = settings(max_examples=10, suppress_health_check=list(HealthCheck))


def ready(feed, i):
    return feed.index.match_keys(iter(feed.keys_of(i)), feed.namespace_of(i))[feed.engine].ready


def assert_equals_the_tree(feed, n):
    feed.show(n)
    tree = feed.trace.tree(feed.round)
    for i in filter(tree.knows, range(len(feed.trace.ids))):
        assert ready(feed, i) == tree.ready(i), f"round {n}, request {i}"


if importlib.util.find_spec("vllm"):
    from msgspec.structs import replace
    from scheduling_cases import watch, workloads
    from vllm.distributed.kv_events import KVEventBatch

    from radixflow.index.events import EventReader, decode
    from radixflow.workloads import Workload

    runs = workloads()
else:
    runs = st.nothing()


@needs_vllm
@few
@given(runs, st.sampled_from(["radix", "radixflow", "radixflow+frag"]), st.sampled_from(["lru", "rr"]), st.randoms())
def test_at_any_round_it_says_what_the_traces_own_tree_says(tmp_path_factory, workload, policy, eviction, chance):
    """Preemptions, aborts, evictions of both kinds, hybrids and attention alone, drafts, hits inside a block."""
    path = tmp_path_factory.mktemp("runs") / "run.rft.jsonl"
    watch(workload, policy, trace=str(path), eviction=eviction)
    trace = open_trace(path)
    feed = TraceFeed(PrefixIndex(), "e", trace)
    rounds = list(range(trace.num_rounds + 1))
    for n in [*rounds, *chance.sample(rounds, min(6, len(rounds)))]:
        assert_equals_the_tree(feed, n)
    feed.show(0)
    assert not sum(size.nodes for size in feed.index.sizes().values()), "nothing was cached before the first round"


@needs_vllm
@settings(few, max_examples=6)
@given(workloads(state_groups=st.integers(0, 2)) if importlib.util.find_spec("vllm") else st.nothing(),
       st.sampled_from(["radix", "radixflow"]))  # fmt: skip
def test_a_growing_trace_says_what_the_engines_events_say(tmp_path_factory, workload, policy):
    size = workload.engine.block_size
    engine = replace(workload.engine, hash_block_size=size, spec_tokens=0, kv_cache_events=True)
    requests = [replace(r, prompt=None, token_ids=workload.token_ids(r)) for r in workload.requests]
    workload = Workload(name="ids", engine=engine, requests=requests)
    live, recorded = PrefixIndex(), PrefixIndex()
    live.declare("m", CacheLayout(size, (("kv",), *[("rec", "conv")] * engine.state_groups)))
    live.add_engine("e", "m")
    reader = EventReader(live, "e", lambda adapter, salt: Namespace("m", salt=salt))
    path = tmp_path_factory.mktemp("live") / "run.rft.jsonl"
    prompts = {r.id: r.token_ids for r in requests}
    feeds = []

    def after(scheduler, batch, seen):
        reader.apply(decode(encode(KVEventBatch(ts=0.0, events=scheduler.kv_cache_manager.take_events()))))
        scheduler.observer._recorder._writer.flush()
        if not feeds:
            feeds.append(TraceFeed(recorded, "e", open_trace(path)))
        feed = feeds[0]
        feed.trace.update()
        feed.show()
        for i, id in enumerate(feed.trace.ids):
            found = recorded.match_keys(iter(feed.keys_of(i)), feed.namespace_of(i))["e"]
            assert found == live.longest_match(prompts[id][:-1], Namespace("m"))["e"], f"{id}: components and all"

    import msgspec

    encode = msgspec.msgpack.Encoder().encode
    watch(workload, policy, trace=str(path), after=after)


# -- several traces ------------------------------------------------------------------------------------


def feeds_of(*traces):
    index = PrefixIndex()
    return index, [TraceFeed(index, f"e{k}", trace) for k, trace in enumerate(traces)]


def test_the_same_labels_are_the_same_prefix_in_every_trace(tmp_path):
    paths = [write(tmp_path / f"{policy}.rft.jsonl", figure1(policy)) for policy in ("radix", "radixflow+noadmit")]
    index, feeds = feeds_of(*map(open_trace, paths))
    for feed in feeds:
        feed.show()
    first, second = feeds
    assert first.namespace == second.namespace
    for i, id in enumerate(first.trace.ids):
        assert first.keys_of(i) == second.keys_of(second.trace.index_of(id))
    size = index.sizes()[first.namespace]
    assert size.held["e0"] == size.held["e1"] == size.duplicated == size.nodes > 0
    first.show(0)
    assert index.sizes()[first.namespace].held == {"e0": 0, "e1": size.nodes}


TOKENS = [int(token) for token in range(8)]


def one_request(folder, name, *, workload="w", model=None, block=4, tokens=None, names=(), salted=False, salt=b"a"):
    """A trace of one request of eight tokens, all of it cached."""
    path = PromptPaths(salt=salt).insert(TOKENS, "salt" if salted else "")
    request = Request(0, "r", 0, 8, path, names=list(names), salted=salted, token_ids=tokens)
    records = [request, Round(1, 0, 1, [0, 8]), Cache(1, published=[(0, 0, 0, 8)])]
    return attention_only(folder / f"{name}.rft.jsonl", records, block, id=name * 16, workload=workload, model=model)


def attention_only(path, records, block=4, **named):
    groups = [Group(0, "full_attention", ["kv"], block)]
    return open_trace(written(path, records, header(block=block, groups=groups, **named)))


DOC = [("doc", 8)]


@pytest.mark.parametrize(
    ("one", "two", "shared"),
    [
        ({"names": DOC}, {"names": DOC}, 2),
        ({"names": DOC}, {"names": [("doc", 4), ("other", 4)]}, 1),
        ({"names": DOC}, {"names": DOC, "workload": "x", "model": "m"}, 0),
        ({"names": DOC, "model": "m"}, {"names": DOC, "model": "m", "workload": "x"}, 2),
        ({"names": DOC}, {"names": DOC, "workload": "x"}, 0),
        ({"tokens": TOKENS}, {"tokens": TOKENS}, 2),
        ({"tokens": TOKENS, "model": "m", "workload": None}, {"tokens": TOKENS, "model": "m", "workload": None}, 0),
        ({}, {}, 0),
        ({"salt": b"s"}, {"salt": b"s"}, 0),
        ({"names": DOC, "salted": True}, {"names": DOC, "salted": True}, 0),
        ({"names": DOC, "block": 4}, {"names": DOC, "block": 8}, 0),
    ],
    ids=["labels", "a part of them", "another model", "one model", "unnamed models", "tokens", "tokens of a server",
         "nothing recorded", "equal hashes by chance", "salts", "another layout"],
)  # fmt: skip
def test_prompts_of_two_traces_are_the_same_only_where_the_record_says_so(tmp_path, one, two, shared):
    index, feeds = feeds_of(one_request(tmp_path, "1", **one), one_request(tmp_path, "2", **two))
    for feed in feeds:
        feed.show()
        assert ready(feed, 0) in (4, 0), "its own prompt is there all the same"
    assert sum(size.duplicated for size in index.sizes().values()) == shared
    assert sum(sum(size.held.values()) for size in index.sizes().values()) in (4, 3)


def test_a_salted_prompt_is_nobody_elses(tmp_path):
    _, (feed,) = feeds_of(one_request(tmp_path, "1", names=DOC, salted=True))
    feed.show()
    assert feed.namespace_of(0) != feed.namespace and ready(feed, 0) == 4
    key = feed.keys_of(0)
    assert feed.index.match_keys(iter(key), feed.namespace)["e0"].matched == 0


def test_blocks_are_called_by_label_or_by_the_request_that_brought_them(tmp_path):
    index, feeds = feeds_of(one_request(tmp_path, "1", names=[("doc", 4), ("own", 4)]), one_request(tmp_path, "2"))
    for feed in feeds:
        feed.show()
    assert [feeds[0].label_of(key) for key in feeds[0]._streams[feeds[0].trace.path_of(0)[0][0]].keys] == ["doc", "own"]
    assert feeds[1].label_of(feeds[1].keys_of(0)[0]) == "r"
    assert feeds[0].label_of(feeds[1].keys_of(0)[0]) == ""


def test_a_trace_that_grows_says_the_same_as_one_that_is_read_at_the_end(tmp_path):
    growing = Growing(tmp_path / "g.rft.jsonl")
    growing.round()
    _, (feed,) = feeds_of(open_trace(growing.path))
    for count in (1, 5, 30):
        growing.round(count)
        assert feed.trace.update()
        assert_equals_the_tree(feed, growing.rounds)
        _, (fresh,) = feeds_of(open_trace(growing.path))
        fresh.show(growing.rounds)
        assert fresh.index.sizes()[fresh.namespace] == feed.index.sizes()[feed.namespace]
    growing.close()


def test_outputs_are_held_once_their_request_has_finished(tmp_path):
    paths = PromptPaths(salt=b"a")
    path = paths.insert(TOKENS)
    more = paths.extend(path, [50, 51, 52, 53, 54])
    turn = paths.insert([*TOKENS, 50, 51, 52, 53, 60])
    records = [
        Request(0, "r", 0, 8, path),
        Round(1, 0, 1, [0, 12]),
        Cache(1, published=[(0, 0, 0, 12)]),
        Finish(0, 1, "stop", 5, 1, more),
        Request(1, "next", 2, 13, turn),
        Round(2, 2, 1, [1, 1]),
        Cache(2, evicted=[(0, 0, 4, 12, 1)]),
    ]
    _, (feed,) = feeds_of(attention_only(tmp_path / "o.rft.jsonl", records))
    feed.show(1)
    assert ready(feed, 1) == 12 and feed.index.sizes()[feed.namespace].nodes == 3
    feed.show(2)
    assert ready(feed, 1) == 4 and feed.index.sizes()[feed.namespace].nodes == 1


def test_a_gap_is_told(tmp_path):
    gap = Gap(rounds=3, records=9, first=2, last=4)
    records = [Round(1, 0, 1, []), gap, Round(5, 5, 1, [])]
    _, (feed,) = feeds_of(attention_only(tmp_path / "g.rft.jsonl", records))
    feed.show(1)
    assert feed.certain
    feed.show()
    assert not feed.certain


def test_a_trace_leaves_the_index_as_it_came(tmp_path):
    index, feeds = feeds_of(one_request(tmp_path, "1", names=DOC), one_request(tmp_path, "2", names=DOC))
    for feed in feeds:
        feed.show()
    feeds[0].close()
    assert set(index.engines) == {"e1"} and index.sizes()[feeds[1].namespace].held == {"e1": 2}


def test_random_spans_are_replayed_as_the_tree_has_them(tmp_path):
    """Attention in blocks of 2 beside states in blocks of 4 and 2: keys are as short as the shortest."""
    from test_trace_tree import GROUPS, random_run

    for seed in range(6):
        records, _ = random_run(random.Random(seed), GROUPS, 12)
        records = [record[1] if isinstance(record, tuple) else record for record in records]
        trace = open_trace(written(tmp_path / f"{seed}.rft.jsonl", records, header(block=2, groups=GROUPS)))
        _, (feed,) = feeds_of(trace)
        for n in (*range(13), 3, 7):
            assert_equals_the_tree(feed, n)

"""vLLM's own cache events, through vLLM's own publisher, make the index say what vLLM's cache would answer."""

from __future__ import annotations

import time

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

pytest.importorskip("vllm")

from scheduling_cases import watch, workloads  # noqa: E402
from vllm.distributed.kv_events import BlockStored, KVEventBatch, ZmqEventPublisher  # noqa: E402

from radixflow.engines.block_hashes import BlockHasher  # noqa: E402
from radixflow.engines.simulator import Simulator  # noqa: E402
from radixflow.index import CacheLayout, Namespace, PrefixIndex  # noqa: E402
from radixflow.index.events import EventReader, decode  # noqa: E402
from radixflow.index.feed import EngineFeed  # noqa: E402
from radixflow.workloads import Workload  # noqa: E402

encode = msgspec.msgpack.Encoder().encode


def of_ids(workload):
    """The same prompts as token ids, since events carry ids; blocks are hashed whole and announced."""
    size = workload.engine.block_size
    engine = replace(workload.engine, hash_block_size=size, spec_tokens=0, kv_cache_events=True)
    requests = [replace(r, prompt=None, token_ids=workload.token_ids(r)) for r in workload.requests]
    return Workload(name="ids", engine=engine, requests=requests)


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(workloads(state_groups=st.integers(0, 2)), st.sampled_from(["radix", "radixflow"]))
def test_the_index_answers_as_vllms_own_look_up_after_every_round(workload, policy):
    workload = of_ids(workload)
    groups = (("kv",), *[("rec", "conv")] * workload.engine.state_groups)
    index = PrefixIndex()
    index.declare("m", CacheLayout(workload.engine.block_size, groups))
    index.add_engine("e", "m")
    reader = EventReader(index, "e", lambda adapter, salt: Namespace("m", salt=salt))
    hasher = BlockHasher(workload, workload.engine.block_size)
    asked = [Simulator._make_request(_Maker(hasher), spec) for spec in workload.requests]

    def after(scheduler, batch, seen):
        events = scheduler.kv_cache_manager.take_events()
        reader.apply(decode(encode(KVEventBatch(ts=0.0, events=events))))
        find = scheduler.kv_cache_manager.coordinator.find_longest_cache_hit
        for request in asked:
            ids = list(request.prompt_token_ids)
            hit = find(request.block_hashes, len(ids) - 1)
            assert index.longest_match(ids[:-1], Namespace("m"))["e"].ready == hit[1]

    watch(workload, policy, after=after)


class _Maker:
    """As much of a `Simulator` as making a request takes."""

    def __init__(self, hasher):
        self._hasher, self._params, self._clock = hasher, {}, type("Clock", (), {"now": 0})


# -- over the wire ---------------------------------------------------------------------------------


def stored(*hashes, parent=None, size=4, group=0, extra=None):
    ids = [token for h in hashes for token in range(h * 100, h * 100 + size)]
    return BlockStored(
        block_hashes=list(hashes), parent_block_hash=parent, token_ids=ids, block_size=size, lora_id=None,
        medium="GPU", lora_name=None, extra_keys=extra, group_idx=group,
    )  # fmt: skip


def tokens(*hashes):
    return [token for h in hashes for token in range(h * 100, h * 100 + 4)]


@pytest.fixture
def wire(tmp_path):
    """An index, its feed, and a function that starts vLLM's publisher: (index, feed, publish, start, stop)."""
    pub, replay = f"ipc://{tmp_path}/pub", f"ipc://{tmp_path}/replay"
    index = PrefixIndex()
    index.declare("m", CacheLayout(4))
    index.add_engine("e", "m")
    running = []

    def start(**more):
        running.append(ZmqEventPublisher(0, endpoint=pub, replay_endpoint=replay, **more))
        return running[-1]

    def stop():
        running.pop().shutdown()

    feed = EngineFeed(index, "e", pub, replay)
    yield index, feed, start, stop
    feed.close()
    while running:
        stop()


def publish(publisher, *events):
    publisher.publish(KVEventBatch(ts=time.time(), events=list(events)))


def eventually(holds, what):
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def ready(index, *hashes, salt=""):
    return index.longest_match(tokens(*hashes), Namespace("m", salt=salt))["e"].ready


def test_what_was_published_before_anybody_listened_is_asked_for(wire):
    index, feed, start, _ = wire
    publisher = start()
    publish(publisher, stored(1, 2))
    time.sleep(0.3)
    feed.start()
    eventually(lambda: ready(index, 1, 2) == 8, "the replay")
    publish(publisher, stored(3, parent=2))
    eventually(lambda: ready(index, 1, 2, 3) == 12, "what is published now")
    assert feed.state.losses == feed.state.restarts == 0 and feed.state.connected


def test_a_killed_engine_holds_nothing_and_its_successor_is_followed(wire):
    index, feed, start, stop = wire
    feed.start()
    publisher = start()
    eventually(lambda: feed.state.connected, "the connection")
    publish(publisher, stored(1, 2))
    eventually(lambda: ready(index, 1, 2) == 8, "the first engine")
    stop()
    eventually(lambda: ready(index, 1, 2) == 0, "the engine is gone")
    publisher = start()
    publish(publisher, stored(1))
    eventually(lambda: ready(index, 1, 2) == 4, "the second engine")


def test_missing_messages_are_replayed_and_where_they_are_gone_the_engine_is_forgotten(wire):
    index, feed, start, _ = wire
    publisher = start(buffer_steps=2)
    for h in range(1, 6):
        publish(publisher, stored(h))
    time.sleep(0.3)
    take, state = feed.take, feed.state

    def message(*events):
        return encode(KVEventBatch(ts=0.0, events=list(events)))

    take(0, message(stored(1)))
    take(2, message(stored(3)))  # message 1 is missing, and the publisher has only 3 and 4 left
    assert state.gaps == 1 and state.losses == 1
    assert ready(index, 1) == 0 and ready(index, 4) == 4 and ready(index, 5) == 4
    assert state.next_seq == 5


def test_a_number_that_comes_again_with_other_contents_is_a_restart(wire):
    index, feed, _, _ = wire
    feed._replay_endpoint = None
    message = lambda *events: encode(KVEventBatch(ts=0.0, events=list(events)))  # noqa: E731
    for seq in range(3):
        feed.take(seq, message(stored(seq + 1)))
    assert ready(index, 3) == 4
    feed.take(0, message(stored(9)))
    assert feed.state.restarts == 1 and ready(index, 3) == 0 and ready(index, 9) == 4


def test_a_salt_is_a_namespace_and_nobody_elses_prefix(wire):
    index, feed, _, _ = wire
    feed._replay_endpoint = None
    feed.take(0, encode(KVEventBatch(ts=0.0, events=[stored(1, 2, extra=[("secret",), None])])))
    assert ready(index, 1, 2) == 0 and ready(index, 1, 2, salt="secret") == 8


def test_what_cannot_be_read_is_counted_and_ends_nothing(wire, caplog):
    index, feed, _, _ = wire
    feed._replay_endpoint = None
    feed.take(0, b"\xc1 not a message")
    feed.take(1, encode(KVEventBatch(ts=0.0, events=[stored(1, size=8)])))
    feed.take(2, encode(KVEventBatch(ts=0.0, events=[stored(2)])))
    assert feed.state.faults == 2 and ready(index, 2) == 4
    assert len(caplog.records) == 1

"""Requests go where their answer comes soonest, and an index that is off or broken loses none."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from radixflow.index import CacheLayout, Load, Namespace, PrefixIndex, rank
from radixflow.index.feed import EngineFeed
from radixflow.index.metrics import IndexCollector, MeasuredIndex

TENANT = Namespace("m", tenant="a")
PROMPT = list(range(12))


def index(kind=PrefixIndex):
    made = kind()
    made.declare("m", CacheLayout(4, (("kv",), ("rec", "conv"))))
    for engine in "xy":
        made.add_engine(engine, "m")
    return made


def best(made, **loads):
    return rank(made, PROMPT, TENANT, loads)[0].engine


def test_ready_beats_matched():
    made = index()
    made.insert(PROMPT, TENANT, "x", groups=[0])  # all of the attention, none of the states
    made.insert(PROMPT[:4], TENANT, "y")
    choices = rank(made, PROMPT, TENANT, {"x": Load(), "y": Load()})
    assert [choice.engine for choice in choices] == ["y", "x"]
    assert choices[1].match.matched == 8 and choices[1].match.ready == 0
    assert choices[0].compute_tokens == 8


def test_a_long_queue_outweighs_what_is_ready():
    made = index()
    made.insert(PROMPT, TENANT, "x")
    assert best(made, x=Load(), y=Load()) == "x"
    assert best(made, x=Load(waiting_tokens=8), y=Load()) == "x", "a tie goes to whoever came first"
    assert best(made, x=Load(waiting_tokens=9), y=Load()) == "y"


def test_the_dead_get_nothing():
    made = index()
    made.insert(PROMPT, TENANT, "x")
    assert best(made, x=Load(alive=False), y=Load(waiting_tokens=1000)) == "y"
    assert rank(made, PROMPT, TENANT, {"x": Load(alive=False)}) == []


def test_without_an_index_or_with_a_broken_one_the_load_decides():
    loads = {"x": Load(waiting_tokens=5), "y": Load(waiting_tokens=2), "z": Load(waiting_tokens=2, running=1)}
    assert [choice.engine for choice in rank(None, PROMPT, TENANT, loads)] == ["y", "z", "x"]

    class Broken(PrefixIndex):
        def longest_match(self, tokens, namespace):
            raise RuntimeError("injected")

    assert [choice.engine for choice in rank(index(Broken), PROMPT, TENANT, loads)] == ["y", "z", "x"]


def test_metrics_say_what_the_index_holds_and_was_asked():
    made = index(MeasuredIndex)
    made.insert(PROMPT, TENANT, "x")
    made.insert(PROMPT[:8], TENANT, "y")
    made.longest_match(PROMPT, TENANT)
    made.longest_match(PROMPT, Namespace("m", tenant="b"))
    feed = EngineFeed(made, "x", "inproc://nowhere")
    registry = CollectorRegistry()
    registry.register(IndexCollector(made, [feed], {"m": 100}))
    lines = generate_latest(registry).decode().splitlines()
    for line in (
        'radixflow_index_nodes{model="m",tenant="a"} 3.0',
        'radixflow_index_held_blocks{engine="y",model="m",tenant="a"} 2.0',
        'radixflow_index_duplicated_bytes{model="m",tenant="a"} 200.0',
        'radixflow_index_bytes{engine="x",model="m",tenant="a"} 300.0',
        'radixflow_index_lookups_total{model="m"} 2.0',
        'radixflow_index_hits_total{model="m"} 1.0',
        'radixflow_index_asked_tokens_total{model="m"} 24.0',
        'radixflow_index_ready_tokens_total{model="m"} 12.0',
        'radixflow_index_feed_connected{engine="x"} 0.0',
        'radixflow_index_feed_losses_total{engine="x"} 0.0',
    ):
        assert line in lines, line
    assert any(line.startswith('radixflow_index_lookup_seconds{quantile="0.99"}') for line in lines)

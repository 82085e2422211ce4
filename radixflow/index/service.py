"""`radixflow index`: follows engines and serves the index's metrics."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, start_http_server

from radixflow.index.feed import EngineFeed
from radixflow.index.metrics import IndexCollector, MeasuredIndex
from radixflow.index.namespace import CacheLayout

_ADDRESS = re.compile(r"(tcp|ipc)://\S+")


@dataclass(frozen=True, slots=True)
class FollowedEngine:
    """An engine as the command line names it: `NAME=tcp://host:5557` or `NAME=tcp://host:5557,tcp://host:5558`."""

    name: str
    endpoint: str
    replay_endpoint: str | None = None

    @classmethod
    def parse(cls, text: str) -> FollowedEngine:
        """ValueError where it isn't one."""
        name, _, addresses = text.partition("=")
        parts = addresses.split(",")
        if not name or len(parts) > 2 or not all(_ADDRESS.fullmatch(part) for part in parts):
            raise ValueError(f"engine {text!r}: expected NAME=tcp://HOST:PORT[,tcp://HOST:REPLAY_PORT]")
        return cls(name, *parts)


def parse_layout(block_size: int, groups: str) -> CacheLayout:
    """`kv,rec+conv,rec+conv` as a layout: vLLM's cache groups in order, each with its components."""
    return CacheLayout(block_size, tuple(tuple(group.split("+")) for group in groups.split(",")))


def serve(
    engines: Sequence[FollowedEngine],
    model: str,
    layout: CacheLayout,
    *,
    host: str,
    port: int,
    block_bytes: int | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Follow the engines until interrupted. OSError where the address can't be listened on."""
    index = MeasuredIndex()
    index.declare(model, layout)
    with ExitStack() as closing:
        feeds = []
        for engine in engines:
            index.add_engine(engine.name, model)
            feeds.append(EngineFeed(index, engine.name, engine.endpoint, engine.replay_endpoint))
        registry = CollectorRegistry()
        registry.register(IndexCollector(index, feeds, {model: block_bytes} if block_bytes else None))
        server, thread = start_http_server(port, addr=host, registry=registry)
        closing.callback(thread.join)
        closing.callback(server.shutdown)
        for feed in feeds:
            closing.enter_context(feed)
        names = ", ".join(feed.engine for feed in feeds)
        say(f"radixflow index of {names}: metrics on http://{host}:{port}/metrics (Ctrl-C ends it)")
        told: dict[str, bool] = {}
        try:
            while True:
                for feed in feeds:
                    if told.get(feed.engine, False) != feed.state.connected:
                        told[feed.engine] = feed.state.connected
                        say(f"{feed.engine}: {'connected' if feed.state.connected else 'gone, and its blocks with it'}")
                time.sleep(0.2)
        except KeyboardInterrupt:
            say("interrupted")

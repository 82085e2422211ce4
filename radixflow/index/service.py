"""`radixflow index`: follows engines or traces, and serves the index's page."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry

from radixflow.addresses import in_url
from radixflow.index.feed import EngineFeed
from radixflow.index.metrics import IndexCollector, MeasuredIndex
from radixflow.index.namespace import CacheLayout
from radixflow.index.prefix_index import PrefixIndex
from radixflow.index.snapshot import Snapshot, snapshot
from radixflow.index.traces import TraceFeed
from radixflow.index.web import IndexPage
from radixflow.trace import TraceError, TraceReplaced, open_trace
from radixflow.trace.files import COMPRESSED, PLAIN, later_parts
from radixflow.trace.parts import Progress

_ADDRESS = re.compile(r"(tcp|ipc)://\S+")
LOOK_SECONDS = 0.2
"""How often feeds and files are looked at."""


@dataclass(frozen=True, slots=True)
class FollowedEngine:
    """An engine as the command line names it: `NAME=tcp://host:5557`, `NAME=tcp://host:5557,tcp://host:5558`, or
    `NAME=run.rft.jsonl.zst`."""

    name: str
    endpoint: str | None = None
    replay_endpoint: str | None = None
    trace: Path | None = None

    @classmethod
    def parse(cls, text: str) -> FollowedEngine:
        """ValueError where it isn't one."""
        name, _, where = text.partition("=")
        parts = where.split(",")
        if name and len(parts) <= 2 and all(map(_is_address, parts)):
            return cls(name, *parts)
        if name and where.endswith((PLAIN, COMPRESSED)):
            return cls(name, trace=Path(where))
        raise ValueError(
            f"engine {text!r}: expected NAME=tcp://HOST:PORT[,tcp://HOST:REPLAY_PORT] or NAME=TRACE{PLAIN}[.zst]"
        )


def _is_address(text: str) -> bool:
    port = text.rpartition(":")[2]
    return bool(_ADDRESS.fullmatch(text)) and not (port.isdigit() and int(port) > 65_535)


def parse_layout(block_size: int, groups: str) -> CacheLayout:
    """`kv,rec+conv,rec+conv` as a layout: vLLM's cache groups in order, each with its components."""
    return CacheLayout(block_size, tuple(tuple(group.split("+")) for group in groups.split(",")))


class LiveEngines:
    """Engines of one model that are followed by their cache events. ValueError where a name comes twice."""

    def __init__(self, engines: Sequence[FollowedEngine], model: str, layout: CacheLayout) -> None:
        self.index = MeasuredIndex()
        self.index.declare(model, layout)
        self.feeds: list[EngineFeed] = []
        for engine in engines:
            self.index.add_engine(engine.name, model)
            self.feeds.append(EngineFeed(self.index, engine.name, engine.endpoint or "", engine.replay_endpoint))
        self._told: dict[str, bool] = {}

    def __enter__(self) -> LiveEngines:
        for feed in self.feeds:
            feed.start()
        return self

    def __exit__(self, *_: object) -> None:
        for feed in self.feeds:
            feed.close()

    def look(self) -> Iterator[str]:
        """What has changed since the last look, in words."""
        for feed in self.feeds:
            if self._told.get(feed.engine, False) != feed.state.connected:
                self._told[feed.engine] = feed.state.connected
                yield f"{feed.engine}: {'connected' if feed.state.connected else 'gone, and its blocks with it'}"

    def picture(self, block_bytes: int | None) -> Snapshot:
        states = {feed.engine: "connected" if feed.state.connected else "gone" for feed in self.feeds}
        return snapshot(self.index, states=states, block_bytes=_of_every_model(self.index, block_bytes))


class RecordedEngines:
    """Traces as engines, each followed as far as its file goes."""

    def __init__(self, engines: Sequence[FollowedEngine], reading: Reading) -> None:
        self.index = MeasuredIndex()
        self.feeds: list[EngineFeed] = []
        """Of live engines: none."""
        self._paths = {engine.name: engine.trace for engine in engines if engine.trace is not None}
        if len(self._paths) < len(engines):
            raise ValueError("two engines of one name; expected a name of its own for each")
        self._traces: dict[str, TraceFeed] = {}
        self._faults: dict[str, str] = {}
        self._lock = threading.Lock()
        """A trace must not grow while its names are read."""
        for name, path in self._paths.items():
            with reading(f"reading {path.name}") as progress:
                self._open(name, progress)

    def __enter__(self) -> RecordedEngines:
        return self

    def __exit__(self, *_: object) -> None:
        """Files need no farewell."""

    def _open(self, name: str, progress: Progress | None = None) -> None:
        feed = TraceFeed(self.index, name, open_trace(self._paths[name], progress))
        feed.show()
        self._traces[name] = feed

    def look(self) -> Iterator[str]:
        """Read what the runs have appended; what has changed otherwise, in words."""
        for name in self._paths:
            with self._lock:
                words = self._grown(name)
            if words != self._faults.get(name, ""):
                self._faults[name] = words
                yield f"{name}: {words or 'there again'}"

    def _grown(self, name: str) -> str:
        try:
            feed = self._traces.get(name)
            if feed is None:
                self._open(name)
            elif feed.trace.update():
                feed.show()
        except (TraceError, OSError) as error:
            if name in self._traces:
                self._traces.pop(name).close()
            if not self._paths[name].exists() and not later_parts(self._paths[name]):
                return "its file is gone, and its blocks with it"
            if isinstance(error, TraceReplaced):
                return "another run has taken its file"
            return f"{error}; its blocks are forgotten"
        return ""

    def picture(self, block_bytes: int | None) -> Snapshot:
        with self._lock:
            feeds = list(self._traces.values())
            return snapshot(
                self.index,
                label_of=lambda key: next(filter(None, (feed.label_of(key) for feed in feeds)), ""),
                states={feed.engine: feed.state for feed in feeds},
                block_bytes=_of_every_model(self.index, block_bytes),
            )


Reading = Callable[[str], AbstractContextManager[Progress | None]]


def _of_every_model(index: PrefixIndex, block_bytes: int | None) -> dict[str, int]:
    return dict.fromkeys(index.engines.values(), block_bytes) if block_bytes else {}


@contextmanager
def _silently(_words: str) -> Iterator[None]:
    yield None


def serve(
    engines: Sequence[FollowedEngine],
    model: str | None = None,
    layout: CacheLayout | None = None,
    *,
    host: str,
    port: int,
    block_bytes: int | None = None,
    say: Callable[[str], None] = print,
    reading: Reading = _silently,
) -> None:
    """Follow the engines until interrupted.

    model, layout: of live engines; traces say their own. reading: called with words for each trace that is read.
    ValueError where live engines and traces are mixed, or what one needs is missing; TraceError; OSError where the
    address can't be listened on.
    """
    recorded = [engine.trace is not None for engine in engines]
    if any(recorded) and not all(recorded):
        raise ValueError(
            "live engines and traces in one index: events name prompts by their tokens, which traces don't hold; "
            "expected the one or the other"
        )
    if all(recorded):
        if model is not None or layout is not None:
            raise ValueError("--model, --block-size and --groups are for live engines; a trace says its own")
        followed: LiveEngines | RecordedEngines = RecordedEngines(engines, reading)
    elif model is None or layout is None:
        raise ValueError("live engines need --model and --block-size, as they log them at their start")
    else:
        followed = LiveEngines(engines, model, layout)
    registry = CollectorRegistry()
    sizes = _of_every_model(followed.index, block_bytes)
    registry.register(IndexCollector(followed.index, followed.feeds, sizes))
    with ExitStack() as closing:
        page = IndexPage(host, port, registry, lambda: followed.picture(block_bytes))
        closing.callback(page.close)
        closing.enter_context(followed)
        names = ", ".join(engine.name for engine in engines)
        say(f"radixflow index of {names}: http://{in_url(host)}:{port}/metrics and /tree (Ctrl-C ends it)")
        try:
            while True:
                for words in followed.look():
                    say(words)
                time.sleep(LOOK_SECONDS)
        except KeyboardInterrupt:
            say("interrupted")

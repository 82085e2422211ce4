"""Feeds an index from recorded runs: each trace is one engine, with the cache that a round left it.

A trace holds no tokens but streams (docs/trace-format.md), and their names are salted anew in each trace:

    run a   |-- s1: doc ------|-- s2: a1 --|     s1 and t1 begin alike: both were built from ["doc", ...], and a
    run b   |-- t1: doc ------|-- t2: b1 --|     label stands for the same tokens always and everywhere

So a block's key is made of what the record says of its content: the workload's labels; else the token ids, where they
were included and the run names its workload (others may use adapters, which aren't recorded); else the stream, which
is the trace's own, so that nobody else has that block. Prompts with a cache salt have a namespace of their own.
"""

from __future__ import annotations

import hashlib
import json
import math
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Any

import numpy as np

from radixflow.index.namespace import KV, CacheLayout, Namespace
from radixflow.index.prefix_index import PrefixIndex
from radixflow.index.tree import Tree
from radixflow.trace import Trace
from radixflow.trace.growth import stream_name
from radixflow.trace.paths import join


def layout_of(trace: Trace) -> CacheLayout:
    """A trace's cache. Its blocks are `hash_block_size` tokens long, where hits may end inside an engine's block."""
    config = trace.config
    attention = [group.block_size for group in config.groups if _is_kv(group)]
    unit = math.gcd(config.hash_block_size, *(group.block_size for group in config.groups))
    groups = tuple(tuple(group.components) for group in config.groups)
    return CacheLayout(unit, groups, kv_block_size=math.lcm(*attention) if attention else unit)


class TraceFeed:
    """One trace as an engine of an index.

    index: gets the engine, and the trace's model with its layout. Where it knows the model with another layout, the
    name says which one this is: caches of different shape have nothing in common. engine: its name there.
    Raises ValueError where the name is taken.
    """

    def __init__(self, index: PrefixIndex, engine: str, trace: Trace) -> None:
        self.index, self.engine, self.trace = index, engine, trace
        self.layout = layout_of(trace)
        self.namespace = Namespace(_declared(index, trace, self.layout))
        """Of all prompts but those that have a cache salt."""
        self.salted = Namespace(self.namespace.model, salt=f"salts of {engine}")
        """Of the others. Salts aren't recorded, so nobody else is in it; streams keep them apart."""
        index.add_engine(engine, self.namespace.model)
        self.round = 0
        """The round whose cache the index holds."""
        self._streams: dict[str, _Stream] = {}
        self._requests = 0
        self._running: list[int] = []
        """Requests whose output isn't known yet."""
        self._shown = [np.empty(0, np.int64) for _ in self.layout.groups]
        """Per group, the boundaries that the index holds, `stream << 32 | depth`, ascending."""
        self._copies: Counter[tuple[int, bytes]] = Counter()
        """Per group and key, the boundaries behind it: attention's blocks that part inside have keys in common."""
        self._places: dict[bytes, tuple[str, int]] = {}
        """Key of a block that is held -> the stream and the depth where it ends."""

    @property
    def certain(self) -> bool:
        """False where a gap lies before the round: the engine may hold less than this, or more."""
        return self.trace.tree(self.round).certain

    @property
    def state(self) -> str:
        """How far it is, in words."""
        words = f"round {self.round:,} of {self.trace.num_rounds:,}" + ("" if self.trace.complete else " so far")
        return words if self.certain else f"{words}, some not recorded"

    def show(self, at_round: int | None = None) -> None:
        """Make the index hold what that round left cached, as `Trace.tree` has it; in either direction.

        None: after the last round read, with the states that it published, which can be read from the next one on.
        Call it again after `Trace.update`.
        """
        self._read()
        last = self.trace.num_rounds
        self.round = last if at_round is None else max(0, min(at_round, last))
        tree = self.trace.tree(self.round)
        for k, group in enumerate(self.trace.config.groups):
            streams, depths = tree.cached(group.index, in_flight=at_round is None)
            if _is_kv(group):
                whole = depths % group.block_size == 0
                streams, depths = streams[whole], depths[whole]
            now, before = streams << 32 | depths, self._shown[k]
            self._change(k, np.setdiff1d(before, now, assume_unique=True), -1)
            self._change(k, np.setdiff1d(now, before, assume_unique=True), 1)
            self._shown[k] = now

    def keys_of(self, i: int) -> list[bytes]:
        """The keys of the blocks that request i may resume from, for `PrefixIndex.match_keys` in `namespace_of(i)`:
        whole ones, short of its last token."""
        self._read()
        path = self.trace.path_of(i)
        size = self.layout.block_size
        prompt = sum(n for _, n in path)
        return self._streams[path[-1][0]].path(prompt // size)[: (prompt - 1) // size] if path else []

    def namespace_of(self, i: int) -> Namespace:
        """Whose prefixes request i may use."""
        path = self.trace.path_of(i)
        return self.salted if path and self._streams[path[0][0]].salted else self.namespace

    def label_of(self, key: bytes) -> str:
        """What a block that the engine holds is called: the workload's labels, or the request that brought it."""
        place = self._places.get(key)
        if place is None:
            return ""
        stream, end = self._streams[place[0]], place[1]
        at = end - stream.base
        labels = self.trace.labels_of(place[0], max(0, at - self.layout.block_size), at)
        return labels[-1] if labels else self.trace.ids[stream.request] or f"request {stream.request}"

    def close(self) -> None:
        """Take the engine out of the index."""
        self.index.remove_engine(self.engine)

    # -- keys ----------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Give keys to the blocks of prompts and outputs that have come since."""
        trace = self.trace
        requests = trace.requests
        new = requests.iloc[self._requests :]
        for i, salted in zip(new.index.tolist(), new["salted"].tolist(), strict=True):
            self._learn(i, trace.path_of(i), salted)
            self._running.append(i)
        self._requests = len(requests)
        finished = set(requests.index[requests["finish_reason"].notna()].tolist())
        for i in self._running:
            if i in finished and (more := trace.output_path_of(i)):
                self._learn(i, join(trace.path_of(i), more), False)
        self._running = [i for i in self._running if i not in finished]

    def _learn(self, i: int, path: list[tuple[str, int]], salted: bool) -> None:
        size, begin, above = self.layout.block_size, 0, None
        content = None
        for name, n in path:
            stream = self._streams.get(name)
            if stream is None:
                private = above.salted if above is not None else salted
                stream = self._streams[name] = _Stream(above, begin, begin // size, i, private)
            for number in range(stream.first + len(stream.keys), (begin + n) // size):
                if content is None:
                    content = _Content(self.trace, i, private=stream.salted)
                end = (number + 1) * size
                parent = stream.key_at(number)
                if parent is None:
                    parent = self.index.seed_of(self.salted if stream.salted else self.namespace)
                stream.keys.append(Tree.child(parent, content.of(end - size, end) or self._own(name, end - begin)))
            above, begin = stream, begin + n

    def _own(self, stream: str, offset: int) -> bytes:
        header = self.trace.header
        return _digest([header.id, header.engine_index, stream, offset])

    # -- what is held --------------------------------------------------------------------------------

    def _covered(self, k: int) -> int:
        """Blocks of the index that one boundary of a group stands for."""
        group = self.trace.config.groups[k]
        return group.block_size // self.layout.block_size if _is_kv(group) else 1

    def _change(self, k: int, places: np.ndarray, step: int) -> None:
        """These boundaries of a group came (1) or went (-1)."""
        size, covered = self.layout.block_size, self._covered(k)
        found = [(place >> 32, place & 0xFFFFFFFF) for place in places.tolist()]
        for code, boundaries in groupby(found, itemgetter(0)):
            name = stream_name(self.trace, code)
            stream = self._streams[name]
            namespace = self.salted if stream.salted else self.namespace
            path: list[bytes] = []
            changed: list[bytes] = []
            for depth in reversed([depth for _, depth in boundaries]):
                path = path or stream.path(depth // size)  # of the deepest: all the others lie on it
                for number in range(depth // size - covered, depth // size):
                    key = path[number]
                    self._copies[k, key] += step
                    if self._copies[k, key] == (1 if step > 0 else 0):
                        changed.append(key)
                    if step > 0:
                        self._places[key] = (name, (number + 1) * size)
            if step > 0:
                self.index.insert_keys(path, namespace, self.engine, [k], set(changed))
                continue
            self.index.evict_keys(changed, namespace, self.engine, [k])
            for key in changed:
                del self._copies[k, key]
                if not any((group, key) in self._copies for group in range(len(self._shown))):
                    del self._places[key]


@dataclass(slots=True)
class _Stream:
    """A stream's place, and the keys of the blocks that end on it."""

    above: _Stream | None
    """The stream that it leaves."""
    base: int
    """Tokens before it."""
    first: int
    """Whole blocks before it."""
    request: int
    """That brought it."""
    salted: bool
    keys: list[bytes] = field(default_factory=list)

    def key_at(self, blocks: int) -> bytes | None:
        """The key of so many whole blocks from the root; None for none."""
        stream: _Stream | None = self
        while stream is not None and blocks <= stream.first:
            stream = stream.above
        return stream.keys[blocks - stream.first - 1] if stream is not None and blocks else None

    def path(self, blocks: int) -> list[bytes]:
        """The keys of so many whole blocks, from the root on."""
        parts, stream = [], self
        while stream is not None:
            parts.append(stream.keys[: max(0, blocks - stream.first)])
            blocks, stream = min(blocks, stream.first), stream.above
        return [key for part in reversed(parts) for key in part]


class _Content:
    """What a trace says of a request's tokens that means the same in other traces."""

    def __init__(self, trace: Trace, i: int, private: bool) -> None:
        self._names = [] if private else trace.names_of(i)
        self._begins = [0, *accumulate(n for _, n in self._names)]
        self._tokens = None if private or trace.header.workload is None else _tokens(trace, i)

    def of(self, begin: int, end: int) -> bytes | None:
        """Of tokens begin..end-1; None where it says nothing."""
        if end <= self._begins[-1]:
            first, last = bisect_right(self._begins, begin) - 1, bisect_left(self._begins, end)
            pieces = zip(self._names[first:last], self._begins[first:last], strict=True)
            return _digest([(label, max(begin - at, 0), min(n, end - at)) for (label, n), at in pieces])
        if self._tokens is not None and end <= len(self._tokens):
            return array("q", self._tokens[begin:end].tolist()).tobytes()
        return None


def _tokens(trace: Trace, i: int) -> np.ndarray | None:
    prompt, output = trace.tokens_of(i), trace.output_tokens_of(i)
    return np.concatenate((prompt, output)) if prompt is not None and output is not None else prompt


def _digest(what: Any) -> bytes:
    """A block's content where it isn't tokens: one byte longer than any tokens are."""
    return hashlib.blake2b(json.dumps(what).encode(), digest_size=32).digest() + b"."


def _is_kv(group: Any) -> bool:
    return group.kind != "mamba" and KV in group.components


def _declared(index: PrefixIndex, trace: Trace, layout: CacheLayout) -> str:
    """The compatibility group of a trace. Runs without a named model share one with their own workload's only."""
    header = trace.header
    model = header.model or f"model of {header.workload or header.id}"
    groups = " ".join("+".join(group) for group in layout.groups)
    for name in (model, f"{model}, blocks of {layout.block_size}, {groups}, kv by {layout.kv_block_size}"):
        try:
            index.declare(name, layout)
        except ValueError:
            continue
        return name
    raise AssertionError("a name that says the layout has that layout")

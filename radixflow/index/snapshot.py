"""A picture of the index, as data: which engine has what of which prefix, for whoever runs it.

    |<-- doc: 640 ------------->|<- a: 320 ->|       a segment is an unbranched run of blocks that the same engines
    |  one  o o o o o o o o o * |  one  o *  |       hold; each engine's boundaries in it are ready (*: it can resume
    |  two  o o o o o           |            |       there), matched (o: it has something there), or neither

It is bounded in what it reads and in what it says: the most shared segments are read first, the largest are told, and
how much isn't is counted. A tree's picture is that of one moment (`Tree.read`).
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Collection, Mapping
from itertools import accumulate, count, groupby, islice
from operator import and_

from radixflow.index.namespace import KV, Namespace
from radixflow.index.picture import MATCHED, READY, EngineTotal, Segment, Share, Snapshot, Space
from radixflow.index.prefix_index import Engine, IndexSize, PrefixIndex
from radixflow.index.tree import Node, Tree, children_of

MAX_SEGMENTS = 240
"""Told."""
MAX_SPACES = 24
"""Namespaces told, the largest."""
MAX_READ = 20_000
"""Blocks looked at, over all namespaces."""
GLANCES = 3
"""How many times as many first blocks are glanced at, to read the most shared ones."""
MAX_RUNS = 64
"""Runs of boundaries of an engine in a segment; where there are more, only how far it reaches is told."""
MAX_NAME = 80
"""Characters of a segment's name."""


def snapshot(
    index: PrefixIndex,
    *,
    label_of: Callable[[bytes], str] = lambda key: "",
    states: Mapping[str, str] | None = None,
    block_bytes: Mapping[str, int] | None = None,
    max_segments: int = MAX_SEGMENTS,
    max_read: int = MAX_READ,
) -> Snapshot:
    """What the index holds.

    label_of: what a block is called, by its key. states: engine -> how its feed stands. block_bytes: model -> bytes of
    a block in all its groups.
    """
    trees = index.trees()
    sizes = {namespace: index.size_of(namespace, tree) for namespace, tree in trees.items()}
    largest = sorted((space for space, size in sizes.items() if size.nodes), key=lambda space: -sizes[space].nodes)
    shown = largest[:MAX_SPACES]
    pictures = [
        _Picture(space, sizes[space], trees[space], index.engines_of(space.model), max_read // len(shown))
        for space in shown
    ]
    _choose(pictures, max_segments)
    each = block_bytes or {}
    totals = []
    for name, model in index.engines.items():
        blocks = sum(size.held.get(name, 0) for size in sizes.values())
        totals.append(EngineTotal(name, model, blocks, _bytes(blocks, each.get(model)), (states or {}).get(name, "")))
    copies = {space: _bytes(size.duplicated, each.get(space.model)) for space, size in sizes.items()}
    return Snapshot(
        at=time.time(),
        engines=totals,
        duplicated=sum(size.duplicated for size in sizes.values()),
        duplicated_bytes=None if None in copies.values() else sum(copies.values()),
        spaces=[picture.told(label_of) for picture in pictures],
        hidden_spaces=len(largest) - len(shown),
    )


def _bytes(blocks: int, each: int | None) -> int | None:
    return None if each is None else blocks * each


class _Run:
    """A segment as it was read."""

    __slots__ = ("blocks", "chosen", "copies", "engines", "holders", "keys", "parent", "pending")

    def __init__(self, parent: int) -> None:
        self.parent = parent
        self.keys: list[bytes] = []
        self.holders: list[int] = []
        self.engines = 0
        """How many hold its blocks."""
        self.pending = 0
        """Segments behind it that were seen and not read."""
        self.copies = 0
        """Blocks here and behind it, once for each engine that holds them."""
        self.blocks = 0
        """Blocks here and behind it."""
        self.chosen = False


class _Picture:
    """One namespace's tree, as far as it was read."""

    def __init__(
        self, namespace: Namespace, size: IndexSize, tree: Tree, engines: dict[str, Engine], max_read: int
    ) -> None:
        self.namespace = namespace
        self.size = size
        self.engines = engines
        self.tree = tree
        self.runs, self.roots, self.unread = tree.read(lambda nodes: self._read(nodes, max_read))
        for run in reversed(self.runs):
            run.copies += run.engines * len(run.keys)
            run.blocks += len(run.keys)
            if run.parent >= 0:
                self.runs[run.parent].copies += run.copies
                self.runs[run.parent].blocks += run.blocks

    def _read(self, nodes: dict[bytes, Node], left: int) -> tuple[list[_Run], int, int]:
        """Runs, a parent before its children; roots and blocks that weren't read."""
        bits = [engine.all_bits for engine in self.engines.values()]
        having: dict[int, int] = {}

        def who(holders: int) -> int:
            """The engines, a bit each."""
            found = having.get(holders)
            if found is None:
                found = having[holders] = sum(1 << k for k, own in enumerate(bits) if holders & own)
            return found

        runs: list[_Run] = []
        size, order, glances = 0, count(), GLANCES * left
        waiting: list[tuple[int, int, bytes, int]] = []

        def wait(keys: Collection[bytes], parent: int) -> int:
            """Put first blocks of segments down, as many as may still be read; how many are left out."""
            nonlocal glances
            seen = [(-who(nodes[key].holders).bit_count(), next(order), key, parent) for key in islice(keys, glances)]
            glances -= len(seen)
            room = max(0, left - size - len(waiting))
            for one in seen if len(seen) <= room else heapq.nsmallest(room, seen):
                heapq.heappush(waiting, one)
            return len(keys) - min(len(seen), room)

        roots = wait(self.tree.roots, -1)
        while waiting and size < left:
            _, _, key, parent = heapq.heappop(waiting)
            run = _Run(parent)
            node = nodes[key]
            mine = who(node.holders)
            run.engines = mine.bit_count()
            while True:
                run.keys.append(key)
                run.holders.append(node.holders)
                size += 1
                behind = node.children
                if not isinstance(behind, bytes) or size >= left:
                    break
                following = nodes[behind]
                if who(following.holders) != mine:
                    break
                key, node = behind, following
            runs.append(run)
            run.pending = wait(children_of(node), len(runs) - 1)
        for _, _, _, parent in waiting:
            if parent >= 0:
                runs[parent].pending += 1
            else:
                roots += 1
        return runs, roots, len(nodes) - size

    def told(self, label_of: Callable[[bytes], str]) -> Space:
        """The segments that were chosen; the others counted where they hang."""
        hidden = [[run.pending, 0] for run in self.runs]
        roots = [self.roots, 0]
        for at in reversed(range(len(self.runs))):
            run = self.runs[at]
            if not run.chosen:
                into = hidden[run.parent] if run.parent >= 0 else roots
                into[0] += 1 + hidden[at][0]
                into[1] += len(run.keys) + hidden[at][1]
        block = next(iter(self.engines.values())).layout if self.engines else None
        paths: dict[int, list[int]] = {-1: []}
        segments = []
        for at, run in enumerate(self.runs):
            if run.chosen:
                paths[at] = paths[run.parent] + run.holders
                segments.append(self._segment(run, paths[at], hidden[at], label_of))
        space, names = self.namespace, list(self.engines)
        return Space(
            model=space.model,
            revision=space.revision,
            adapter=space.adapter,
            tenant=space.tenant,
            # What a client sends to be kept apart is nobody else's to read.
            salt=f"#{self.tree.seed.hex()[:8]}" if space.salt else "",
            block=self.tree.block_size,
            components=list(block.components) if block else [],
            engines=names,
            held=[self.size.held.get(name, 0) for name in names],
            blocks=self.size.nodes,
            duplicated=self.size.duplicated,
            unread=self.unread,
            hidden=roots[0],
            hidden_blocks=roots[1],
            segments=segments,
        )

    def _segment(self, run: _Run, path: list[int], hidden: list[int], label_of: Callable[[bytes], str]) -> Segment:
        size, before = self.tree.block_size, len(path) - len(run.keys)
        unbroken = list(accumulate(path, and_))
        matches = [engine.match(path, unbroken) for engine in self.engines.values()]
        # Equal holders follow one another: (holders, first block, last block), blocks counted from the root.
        alike, at = [], before
        for holders, same in groupby(run.holders):
            first, at = at + 1, at + sum(1 for _ in same)
            alike.append((holders, first, at))
        shares = []
        for k, engine in enumerate(self.engines.values()):
            held = dict.fromkeys(engine.layout.components, 0)
            for holders, first, last in alike:
                for name in held:
                    bits = engine.components[name]
                    held[name] += (last - first + 1) * (holders & bits == bits)
            if any(holders & engine.all_bits for holders, _, _ in alike):
                marks = _marks(engine, alike, matches[k].components.get(KV, len(path) * size) // size)
                shares.append(Share(k, held, [(a * size, b * size, state) for a, b, state in marks]))
        parent = self.runs[run.parent] if run.parent >= 0 else None
        return Segment(
            id=_id(run),
            parent=_id(parent) if parent is not None else None,
            start=before * size,
            end=len(path) * size,
            name=_name(run.keys, label_of),
            matched=[match.matched for match in matches],
            ready=[match.ready for match in matches],
            shares=shares,
            hidden=hidden[0],
            hidden_blocks=hidden[1],
        )


def _choose(pictures: list[_Picture], most: int) -> None:
    """Mark the segments to tell: the largest first, what many hold counting as often; each namespace's largest one
    in any case."""
    behind: list[dict[int, list[int]]] = []
    order = count()
    waiting: list[tuple[int, int, int, int]] = []
    for k, picture in enumerate(pictures):
        children: dict[int, list[int]] = {}
        for at, run in enumerate(picture.runs):
            children.setdefault(run.parent, []).append(at)
        behind.append(children)
        first = max(children.get(-1, ()), key=lambda at: picture.runs[at].copies, default=None)
        for at in children.get(-1, ()):
            rank = -picture.runs[at].copies - (1 << 62 if at == first else 0)
            heapq.heappush(waiting, (rank, next(order), k, at))
    left = most
    while waiting and left > 0:
        _, _, k, at = heapq.heappop(waiting)
        pictures[k].runs[at].chosen = True
        left -= 1
        for child in behind[k].get(at, ()):
            heapq.heappush(waiting, (-pictures[k].runs[child].copies, next(order), k, child))


def _marks(engine: Engine, alike: list[tuple[int, int, int]], kv: int) -> list[tuple[int, int, int]]:
    """Runs of boundaries (first, last, state), in blocks; `kv`: how far attention reaches without a gap."""
    states = [bits for name, bits in engine.components.items() if bits and name != KV]
    needed = engine.all_bits & ~engine.components[KV]
    runs: list[tuple[int, int, int]] = []
    for holders, first, last in alike:
        partly = any(holders & bits == bits for bits in states)
        whole = holders & needed == needed
        reached = KV in engine.layout.components
        for a, b, within in ((first, min(last, kv), True), (max(first, kv + 1), last, False)):
            state = READY if within and whole else MATCHED if partly or (within and reached) else 0
            if a > b or not state:
                continue
            if runs and runs[-1][1] + 1 == a and runs[-1][2] == state:
                runs[-1] = (runs[-1][0], b, state)
            else:
                runs.append((a, b, state))
    if len(runs) <= MAX_RUNS:
        return runs
    ready = [b for _, b, state in runs if state == READY]
    return [(runs[0][0], runs[-1][1], MATCHED), *((b, b, READY) for b in ready[-1:])]


def _id(run: _Run) -> str:
    return run.keys[0].hex()[:16]


def _name(keys: list[bytes], label_of: Callable[[bytes], str]) -> str:
    names = [name for name in dict.fromkeys(map(label_of, keys)) if name]
    text = " + ".join(names[:3]) + (" + ..." if len(names) > 3 else "")
    return text if len(text) <= MAX_NAME else text[: MAX_NAME - 3] + "..."

"""The radix tree of one namespace: a node a block, keyed by the hash of all that leads to it.

    tokens        |0 ..... 527|528 ... 1055|1056 ..        block size 528
    keys     seed ----> k1 --------> k2                    each hashed over its parent and its own tokens
    boundary          528          1056

A node's holders are one integer: for every engine one bit a cache group. Readers take no lock: they read the version,
the nodes, and the version again, and begin anew where a writer came between (a seqlock); a reader never waits for
another one. Writers take the tree's lock.
"""

from __future__ import annotations

import hashlib
import threading
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

_KEY_BYTES = 16
_TRIES = 4
"""Readings that a writer may spoil before the reader asks for the writers' lock."""


class Node:
    """One block: where it hangs, and who holds it."""

    __slots__ = ("children", "depth", "holders", "parent")

    def __init__(self, parent: bytes, depth: int) -> None:
        self.parent = parent
        self.depth = depth
        """Blocks from the root, this one included."""
        self.holders = 0
        self.children: bytes | set[bytes] | None = None
        """Keys of the blocks behind it; a single one, as most have, without a set around it."""


class Tree:
    """The blocks known under one namespace."""

    def __init__(self, seed: bytes, block_size: int) -> None:
        self.seed = seed
        self.block_size = block_size
        self.lock = threading.RLock()
        self.roots: set[bytes] = set()
        """Keys of the first blocks."""
        self.holdings: dict[int, int] = {}
        """Holders -> blocks that exactly these hold; those that nobody holds aren't counted."""
        self._nodes: dict[bytes, Node] = {}
        self._version = 0

    def __len__(self) -> int:
        return len(self._nodes)

    def keys(self, tokens: Sequence[int]) -> Iterator[bytes]:
        """The keys of the whole blocks of a sequence, from the root on."""
        size, parent = self.block_size, self.seed
        flat = memoryview(array("q", tokens)).cast("B")
        for end in range(size, len(tokens) + 1, size):
            parent = self.child(parent, flat[(end - size) * 8 : end * 8])
            yield parent

    @staticmethod
    def child(parent: bytes, content: bytes | memoryview) -> bytes:
        """The key of the block with this content behind `parent`."""
        return hashlib.blake2b(content, key=parent, digest_size=_KEY_BYTES).digest()

    # -- reading -------------------------------------------------------------------------------------

    def read(self, what: Callable[[dict[bytes, Node]], T]) -> T:
        """What `what` makes of the nodes at one moment. It may be called several times and must not write."""
        for _ in range(_TRIES):
            before = self._version
            if not before & 1:
                try:
                    found = what(self._nodes)
                except (KeyError, RuntimeError):  # a writer took away what was just there
                    continue
                if self._version == before:
                    return found
        with self.lock:
            return what(self._nodes)

    # -- writing -------------------------------------------------------------------------------------

    def hold(self, path: Iterable[bytes], holder: Callable[[], int], only: Collection[bytes] | None = None) -> int:
        """Add holders along a path of keys from the root, to all of its blocks or to some `only`.

        holder: asked for the bits once nobody else writes; an engine may be removed until then. Returns how many
        blocks are held that weren't.
        """
        new = 0
        with self._writing():
            bits = holder()
            parent, depth = self.seed, 0
            for key in path:
                depth += 1
                node = self._nodes.get(key)
                if node is None:
                    node = self._nodes[key] = Node(parent, depth)
                    if depth > 1:
                        above = self._nodes[parent]
                        above.children = _with(above.children, key)
                    else:
                        self.roots.add(key)
                if (only is None or key in only) and node.holders & bits != bits:
                    new += 1
                    self._held_by(node, node.holders | bits)
                parent = key
            if depth:
                self._prune(parent)
        return new

    def release(self, keys: Iterable[bytes], bits: int) -> int:
        """Take holders from these blocks, wherever they hang. Returns how many lost one."""
        lost = 0
        with self._writing():
            for key in keys:
                node = self._nodes.get(key)
                if node is not None and node.holders & bits:
                    self._held_by(node, node.holders & ~bits)
                    lost += 1
                    self._prune(key)
        return lost

    def release_all(self, bits: int) -> int:
        """Take holders from every block: an engine is gone, or has emptied its cache."""
        with self.lock:
            return self.release([key for key, node in self._nodes.items() if node.holders & bits], bits)

    def _prune(self, key: bytes) -> None:
        """Nodes that nobody holds and nothing hangs from are forgotten, up to the first that is needed."""
        while (node := self._nodes.get(key)) is not None and not node.holders and not node.children:
            del self._nodes[key]
            above = self._nodes.get(node.parent)
            if above is None:
                self.roots.discard(key)
            else:
                above.children = _without(above.children, key)
            key = node.parent

    def _held_by(self, node: Node, holders: int) -> None:
        """Change a node's holders, and the counts with it."""
        counts, before = self.holdings, node.holders
        if before:
            counts[before] -= 1
            if not counts[before]:
                del counts[before]
        if holders:
            counts[holders] = counts.get(holders, 0) + 1
        node.holders = holders

    def _writing(self) -> _Writing:
        return _Writing(self)


def children_of(node: Node) -> Collection[bytes]:
    """Keys of the blocks behind a node. A writer may change them meanwhile: ask inside `Tree.read`."""
    children = node.children
    return (children,) if isinstance(children, bytes) else children or ()


def _with(children: bytes | set[bytes] | None, key: bytes) -> bytes | set[bytes]:
    if children is None:
        return key
    if isinstance(children, bytes):
        return {children, key}
    children.add(key)
    return children


def _without(children: bytes | set[bytes] | None, key: bytes) -> bytes | set[bytes] | None:
    if not isinstance(children, set):
        return None
    children.discard(key)
    return children if len(children) > 1 else next(iter(children), None)


class _Writing:
    """Holds the tree's lock and keeps its version odd."""

    __slots__ = ("_tree",)

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def __enter__(self) -> None:
        self._tree.lock.acquire()
        self._tree._version += 1

    def __exit__(self, *_: object) -> None:
        self._tree._version += 1
        self._tree.lock.release()

"""Which free blocks give up their prefixes when memory is short: vLLM's LRU, or rotating tails.

Agents append to one long context, so each request refreshes its whole path and LRU by blocks becomes LRU
by agents: whoever was idle longest loses everything. Rotation (RR-Evict, arXiv 2609.32278) spreads the
loss: it cuts one chunk from the tail of one idle trajectory after another.

    trajectory A   [ shared ][ a1 ][ a2 ][ a3 ]   <- 1st cut, 4th cut goes to a2, ...
    trajectory B   [ shared ][ b1 ][ b2 ]         <- 2nd cut
    trajectory C   [ c1 ][ c2 ][ c3 ][ c4 ]       <- 3rd cut

A node stands for one prefix, by its hash; its blocks hold that prefix's last tokens, one in each cache
group. A trajectory is a path of nodes from a leaf up; it is idle while no request holds a block of the leaf.
"""

from __future__ import annotations

import difflib
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

EVICTIONS = {
    "lru": "vLLM's own: the block that was freed first, whoever's it was",
    "rr": "rotating tails (RR-Evict): one chunk from the tail of one idle trajectory after another",
}

Key = Hashable
"""A prefix by its hash: equal where the tokens up to there are equal."""


def get_eviction(name: str) -> str:
    """The name, where it is one of EVICTIONS. Raises ValueError naming the known ones."""
    if name in EVICTIONS:
        return name
    near = difflib.get_close_matches(name, EVICTIONS, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"unknown eviction {name!r}: expected one of {', '.join(EVICTIONS)}{hint}")


@dataclass(slots=True)
class _Node:
    parent: Key | None
    copies: dict[int, list[Any]] = field(default_factory=dict)
    """Cache group -> blocks of its own; more than one where two requests computed the same prefix."""
    borrowed: dict[int, list[Any]] = field(default_factory=dict)
    """Cache group -> blocks of a longer prefix that also serve this one."""

    def blocks(self) -> Iterator[Any]:
        for copies in self.copies.values():
            yield from copies


def _held(block: Any) -> bool:
    return block.ref_cnt > 0


class Rotation:
    """The cached prefixes as a tree, and the order in which its tails are cut.

    `groups` are the cache groups that a prefix needs to be resumed. A node at which each of them has a
    block is a boundary that a request can resume from, where `windows` (group -> blocks, nodes a block) ask
    for as many in a row of groups that look back further than one. A leaf that lacks one (key-values past
    the last state) serves nobody, so it goes first; a cut through it goes on until a boundary is left.
    """

    def __init__(self, groups: frozenset[int], windows: Mapping[int, tuple[int, int]] | None = None) -> None:
        self._groups = groups
        self._windows = dict(windows or {})
        self._nodes: dict[Key, _Node] = {}
        self._children: defaultdict[Key, int] = defaultdict(int)
        self._tails: OrderedDict[Key, None] = OrderedDict()
        """Idle leaves, the next to be cut first."""
        self._doubled: dict[Key, None] = {}
        """Nodes at which two blocks of a group hold the same."""

    # -- what the block pool tells -------------------------------------------------------------------

    def add(self, key: Key, parent: Key | None, group: int, block: Any) -> None:
        """`block` holds the last tokens of prefix `key` in `group`; `parent` is the prefix before them."""
        node = self._node(key, parent)
        copies = node.copies.setdefault(group, [])
        copies.append(block)
        if len(copies) > 1:
            self._doubled[key] = None
        self._tails.pop(key, None)

    def lend(self, key: Key, longer: Key, group: int, block: Any) -> None:
        """`block`, prefix `longer`'s own, also serves the shorter prefix `key` inside it.

        The shorter one then hangs from the longer one: its own blocks are cut first.
        """
        node = self._node(key, longer)
        if node.parent != longer:
            self._leave(node.parent)
            node.parent = longer
            self._join(longer)
        node.borrowed.setdefault(group, []).append(block)

    def remove(self, key: Key, group: int, block: Any) -> None:
        """`block` doesn't hold prefix `key` any more."""
        node = self._nodes.get(key)
        if node is None:
            return
        for held in (node.copies, node.borrowed):
            copies = held.get(group, [])
            if block in copies:
                copies.remove(block)
                if not copies:
                    del held[group]
        if node.copies:
            if key in self._doubled and all(len(copies) < 2 for copies in node.copies.values()):
                del self._doubled[key]
            self.settle(key)
            return
        del self._nodes[key]
        self._tails.pop(key, None)
        self._doubled.pop(key, None)
        self._leave(node.parent)

    def hold(self, key: Key) -> None:
        """A block of `key` came into use."""
        self._tails.pop(key, None)

    def settle(self, key: Key) -> None:
        """A block of `key` came free: see whether it is the tail of an idle trajectory."""
        node = self._nodes.get(key)
        if node is None or key in self._children:
            return
        if any(map(_held, node.blocks())):
            self._tails.pop(key, None)
        elif not self._resumable(node):
            self._tails[key] = None
            self._tails.move_to_end(key, last=False)
        elif key not in self._tails:
            self._tails[key] = None

    def clear(self) -> None:
        """The whole prefix cache was reset."""
        self.__init__(self._groups, self._windows)

    # -- the order -----------------------------------------------------------------------------------

    def victims(self, in_use: Callable[[Any], bool] = _held) -> Iterator[Any]:
        """Free blocks in the order in which they give up their prefixes; changes nothing.

        Copies of what another block holds come first, then one chunk from each tail in turn. Blocks
        that hang above one in use are not among them. A block may come twice.
        """
        for key in self._doubled:
            for copies in self._nodes[key].copies.values():
                free = [block for block in copies if not in_use(block)]
                yield from free[: len(copies) - 1]
        cut: defaultdict[Key, int] = defaultdict(int)
        dead: list[Key] = []
        again: deque[Key] = deque()
        first = iter(self._tails)
        while (key := dead.pop() if dead else next(first, None) or (again.popleft() if again else None)) is not None:
            node = self._nodes[key]
            if any(map(in_use, node.blocks())):
                continue
            yield from node.blocks()
            above = self._nodes.get(node.parent) if node.parent is not None else None
            if above is not None:
                cut[node.parent] += 1
                if cut[node.parent] == self._children[node.parent]:
                    (again if self._resumable(above) else dead).append(node.parent)

    # -- the tree ------------------------------------------------------------------------------------

    def _resumable(self, node: _Node) -> bool:
        if not self._groups <= node.copies.keys() | node.borrowed.keys():
            return False
        return all(self._reaches_back(node, group, *window) for group, window in self._windows.items())

    def _reaches_back(self, node: _Node, group: int, blocks: int, apart: int) -> bool:
        """Whether the last `blocks` blocks of a group before this boundary, or all up to the start, are there."""
        for _ in range(blocks - 1):
            for _ in range(apart):
                above = self._nodes.get(node.parent) if node.parent is not None else None
                if above is None:
                    return node.parent is None
                node = above
            if group not in node.copies and group not in node.borrowed:
                return False
        return True

    def _node(self, key: Key, parent: Key | None) -> _Node:
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = _Node(parent)
            self._join(parent)
        return node

    def _join(self, parent: Key | None) -> None:
        if parent is not None:
            self._children[parent] += 1
            self._tails.pop(parent, None)

    def _leave(self, parent: Key | None) -> None:
        if parent is None:
            return
        self._children[parent] -= 1
        if not self._children[parent]:
            del self._children[parent]
            self.settle(parent)

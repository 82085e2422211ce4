"""A prefix tree as a few lines of text, for a prompt or a notebook's cell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from radixflow.trace.boundaries import is_state

if TYPE_CHECKING:
    from radixflow.trace.tree import Node, PrefixTree

MAX_LINES = 30
MAX_NAME = 32
MAX_NAMED = 4
"""Requests named at a node; the rest are counted."""


def tree_text(tree: PrefixTree) -> str:
    """A line a node, the first `MAX_LINES` from the root down: its tokens, what can be read there, who runs on it."""
    title = f"prefix tree at round {tree.at_round:,}: {tree.size:,} node{'s' * (tree.size != 1)}"
    lines = []
    running: dict[int, list[int]] = {}  # by the node in which the prompt ends
    for i in sorted(tree.running):
        if len(places := tree.places_of(i)):
            running.setdefault(int(places[-1]), []).append(i)
    for indent, place, node in _down(tree):
        if len(lines) == MAX_LINES:
            lines.append((f"... and {tree.size - MAX_LINES:,} more nodes", "", ""))
            break
        name = node.name if len(node.name) <= MAX_NAME else f"{node.name[: MAX_NAME - 1]}…"
        facts = (_readable(tree, node), _named(tree, running.get(place, [])))
        lines.append(("  " * indent + name, f"{node.depth:,} to {node.end:,}", "; ".join(filter(None, facts))))
    wide = [max((len(line[k]) for line in lines), default=0) for k in (0, 1)]
    body = (f"{name:<{wide[0]}}  {tokens:>{wide[1]}}  {facts}".rstrip() for name, tokens, facts in lines)
    return "\n".join([title, *body])


def _down(tree: PrefixTree) -> Iterator[tuple[int, int, Node]]:
    """Nodes with their level and place, each before those below it. One look over all parents a node, so take few."""
    parents = tree._shape["parent"]
    waiting = [(0, int(k)) for k in np.flatnonzero(parents < 0)[::-1]]
    while waiting:
        level, k = waiting.pop()
        yield level, k, tree.some([k])[0]
        waiting += [(level + 1, int(below)) for below in np.flatnonzero(parents == k)[::-1]]


def _readable(tree: PrefixTree, node: Node) -> str:
    """The furthest boundary in the node from which a prompt can go on, and the furthest that is on its way."""
    through = tree.first_requests_of(node, 1)
    if not through:  # of outputs alone
        return ""
    ends = [furthest(tree, through[0], node, usable) for usable in ({"published"}, {"published", "in_flight"})]
    words = [f"readable to {ends[0]:,}"] if ends[0] else []
    if ends[1] > ends[0]:
        words.append(f"{ends[1]:,} from the next round on")
    return ", ".join(words)


def furthest(tree: PrefixTree, i: int, node: Node, usable: set[str]) -> int:
    """As `PrefixTree.matched` has it: attention needs every block from the first on, a state its boundary alone."""
    common: set[int] | None = None
    for group in tree.trace.config.groups:
        found = set()
        for depth, status in tree.along(i, group.index):
            if depth > node.end or (status not in usable and not is_state(group)):
                break
            if depth > node.depth and status in usable:
                found.add(depth)
        common = found if common is None else common & found
    return max(common or {0})


def _named(tree: PrefixTree, running: list[int]) -> str:
    if not running:
        return ""
    names = ", ".join(str(tree.trace.ids[i]) for i in running[:MAX_NAMED])
    return f"runs {names}" + (f" and {len(running) - MAX_NAMED:,} more" if len(running) > MAX_NAMED else "")

"""A prefix tree as plain data, for the canvas."""

from __future__ import annotations

import numpy as np

from radixflow.trace.boundaries import IS_PUBLISHED, NEVER, STATUSES
from radixflow.trace.segments import WIDE
from radixflow.trace.tree import PrefixTree


def drawing(tree: PrefixTree, max_nodes: int | None) -> dict:
    """See `PrefixTree.to_dict`."""
    nodes, groups = tree.nodes, tree._boundaries.groups
    at = {node.id: index for index, node in enumerate(nodes)}
    on: dict[int, tuple[list[int], list[int]]] = {}
    for which, numbers in enumerate((tree.running, tree.waiting)):
        for i in numbers:
            for node in tree.nodes_of(i):
                on.setdefault(at[node.id], ([], []))[which].append(i)
    shown, folded = _shown(tree, on, max_nodes)
    counts = _request_counts(tree).tolist()
    runs = {group: _runs(tree, group, shown) for group in groups}
    drawn = []
    for place, index in enumerate(shown):
        node = nodes[index]
        running, waiting = on.get(index, ([], []))
        drawn.append(
            {
                "id": node.id,
                "parent": node.parent,
                "stream": node.stream,
                "name": node.name,
                "start": node.start,
                "length": node.length,
                "depth": node.depth,
                "requests": counts[index],
                "running": running,
                "waiting": waiting,
                "folded": folded.get(index, 0),
                "groups": {str(group): of_nodes[place] for group, of_nodes in runs.items()},
            }
        )
    return {
        "round": tree.at_round,
        "certain": tree.certain,
        "groups": [
            {"group": g.index, "kind": g.kind, "components": g.components, "block": g.block_size}
            for g in groups.values()
        ],
        "nodes": drawn,
        "requests": [
            _request(tree, i, state)
            for state, numbers in (("running", tree.running), ("waiting", tree.waiting))
            for i in numbers
            if tree.knows(i)
        ],
    }


def _request(tree: PrefixTree, i: int, state: str) -> dict:
    return {
        "i": i,
        "id": tree.trace.ids[i],
        "state": state,
        "prompt": tree.prompt(i),
        "identity": tree.identity(i),
        "ready": tree.ready(i),
        "matched": {str(group): tokens for group, tokens in tree.matched(i).items()},
    }


def _shown(tree: PrefixTree, on: dict, max_nodes: int | None) -> tuple[list[int], dict[int, int]]:
    """Indices of the nodes to draw, and how many each folds."""
    count = len(tree.nodes)
    if max_nodes is None or count <= max_nodes:
        return list(range(count)), {}
    parent = tree._shape["parent"].tolist()
    cached = sum(
        _count(tree, group, tree._status == IS_PUBLISHED) for group in tree._boundaries.groups
    ).tolist()
    depth = tree._shape["begin"].tolist()
    rank = sorted(range(count), key=lambda index: (index not in on, not cached[index], depth[index]))
    shown: set[int] = set()
    for index in rank:
        if len(shown) >= max_nodes:
            break
        while index >= 0 and index not in shown:
            shown.add(index)
            index = parent[index]
    folded: dict[int, int] = {}
    for index in range(count):
        if index not in shown:
            above = parent[index]
            while above >= 0 and above not in shown:
                above = parent[above]
            folded[above] = folded.get(above, 0) + 1
    return sorted(shown), folded


def _request_counts(tree: PrefixTree) -> np.ndarray:
    """Per node, how many requests run through it."""
    segments, stream = tree._segments, tree._shape["stream"]
    keys = segments.prompt_keys[segments.prompt_rows < tree._arrived]
    return np.searchsorted(keys, (stream + 1) * WIDE) - np.searchsorted(
        keys, stream * WIDE + tree._shape["end"]
    )


def _count(tree: PrefixTree, group: int, which: np.ndarray) -> np.ndarray:
    """Per node, how many of its boundaries in a group `which` (a mask over all boundaries) marks."""
    shape = tree._shape
    before = np.concatenate(([0], np.cumsum(which)))
    low, high = tree._boundaries.slots(group, shape["stream"], shape["begin"], shape["end"])
    return before[high] - before[low]


def _runs(tree: PrefixTree, group: int, shown: list[int]) -> list[list]:
    """For the nodes with these indices, runs of boundaries with one status: [first, last, status]."""
    touched = _count(tree, group, tree._status != NEVER).tolist()
    found: list[list] = []
    for index in shown:
        runs: list[list] = []
        found.append(runs)
        if touched[index]:
            node = tree.nodes[index]
            depths, status = tree._within(tree._stream(node), group, node.depth, node.end)
            last = NEVER
            for depth, now in zip(depths.tolist(), status.tolist(), strict=True):
                if now != NEVER and now == last:
                    runs[-1][1] = depth
                elif now != NEVER:
                    runs.append([depth, depth, STATUSES[now]])
                last = now
    return found

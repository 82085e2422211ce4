"""A prefix tree as plain data, for the canvas."""

from __future__ import annotations

import numpy as np

from radixflow.trace.boundaries import IS_PUBLISHED, NEVER, STATUSES
from radixflow.trace.segments import WIDE
from radixflow.trace.tree import PrefixTree


def drawing(tree: PrefixTree, max_nodes: int | None) -> dict:
    """See `PrefixTree.to_dict`."""
    groups = tree._boundaries.groups
    on: dict[int, tuple[list[int], list[int]]] = {}
    for which, numbers in enumerate((tree.running, tree.waiting)):
        for i in numbers:
            for index in tree.places_of(i).tolist():
                on.setdefault(index, ([], []))[which].append(i)
    shown, folded = _shown(tree, on, max_nodes)
    counts = _request_counts(tree, shown).tolist()
    runs = {group: _runs(tree, group, shown) for group in groups}
    drawn = []
    for place, (index, node) in enumerate(zip(shown.tolist(), tree.some(shown), strict=True)):
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
                "requests": counts[place],
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
        "requests": _requests(tree),
    }


def _requests(tree: PrefixTree) -> list[dict]:
    who = [("running", i) for i in tree.running if tree.knows(i)]
    who += [("waiting", i) for i in tree.waiting if tree.knows(i)]
    found = tree.matches([i for _, i in who])
    identity, ready = found.identity.tolist(), found.ready.tolist()
    matched = {str(group): tokens.tolist() for group, tokens in found.matched.items()}
    return [
        {
            "i": i,
            "id": tree.trace.ids[i],
            "state": state,
            "prompt": tree.prompt(i),
            "identity": identity[k],
            "ready": ready[k],
            "matched": {group: tokens[k] for group, tokens in matched.items()},
        }
        for k, (state, i) in enumerate(who)
    ]


def _shown(tree: PrefixTree, on: dict, max_nodes: int | None) -> tuple[np.ndarray, dict[int, int]]:
    """Indices of the nodes to draw, ascending, and how many each folds."""
    count = tree.size
    if max_nodes is None or count <= max_nodes:
        return np.arange(count), {}
    parent = tree._shape["parent"]
    published = tree._status == IS_PUBLISHED
    cached = np.zeros(count, bool)
    for group in tree._boundaries.groups:
        cached |= _count(tree, group, published) > 0
    live = np.zeros(count, bool)
    live[list(on)] = True
    shown: set[int] = set()
    # Who holds or waits, then what is cached, then the rest; each from the root on.
    for which in (live, cached & ~live, ~(cached | live)):
        # At most `max_nodes` are taken and as many are there already: later ones needn't be put in order.
        some = np.flatnonzero(which)
        depth = tree._shape["begin"][some]
        if len(some) > 2 * max_nodes:
            some = some[depth <= np.partition(depth, 2 * max_nodes)[2 * max_nodes]]
            depth = tree._shape["begin"][some]
        for index in some[np.argsort(depth, kind="stable")].tolist():
            if len(shown) >= max_nodes:
                break
            while index >= 0 and index not in shown:
                shown.add(index)
                index = int(parent[index])
    kept = np.array(sorted(shown), np.int64)
    # The nearest node above that is shown, for all nodes at once: -1 for none.
    above = np.where(parent >= 0, parent, count)
    above = np.append(above, count)
    above[kept] = kept
    while True:
        further = above[above]
        if np.array_equal(further, above):
            break
        above = further
    away = np.ones(count, bool)
    away[kept] = False
    names, counts = np.unique(above[:count][away], return_counts=True)
    folded = {(-1 if name == count else name): n for name, n in zip(names.tolist(), counts.tolist(), strict=True)}
    return kept, folded


def _request_counts(tree: PrefixTree, shown: np.ndarray) -> np.ndarray:
    """How many requests run through each of these nodes."""
    segments, stream = tree._segments, tree._shape["stream"][shown]
    keys = segments.prompt_keys[segments.prompt_rows < tree._arrived]
    return np.searchsorted(keys, (stream + 1) * WIDE) - np.searchsorted(keys, stream * WIDE + tree._shape["end"][shown])


def _count(tree: PrefixTree, group: int, which: np.ndarray) -> np.ndarray:
    """Per node, how many of its boundaries in a group `which` (a mask over all boundaries) marks."""
    shape = tree._shape
    before = np.concatenate(([0], np.cumsum(which, dtype=np.int32)))
    low, high = tree._boundaries.slots(group, shape["stream"], shape["begin"], shape["end"])
    return before[high] - before[low]


def _runs(tree: PrefixTree, group: int, shown: np.ndarray) -> list[list]:
    """For the nodes with these indices, runs of boundaries with one status: [first, last, status]."""
    boundaries, shape = tree._boundaries, tree._shape
    unit, block = boundaries.unit[group], boundaries.groups[group].block_size
    begin, end = shape["begin"][shown], shape["end"][shown]
    low, high = boundaries.slots(group, shape["stream"][shown], begin, end)
    counts = high - low
    place = np.repeat(np.arange(len(shown)), counts)
    within = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)
    status = tree._status[np.repeat(low, counts) + within]
    depth = (np.repeat(begin // unit, counts) + 1 + within) * unit
    if unit != block:  # partial boundaries only where something happened
        real = (depth % block == 0) | (status != NEVER)
        place, status, depth = place[real], status[real], depth[real]
    found: list[list] = [[] for _ in range(len(shown))]
    if not len(place):
        return found
    starts = np.flatnonzero(np.append(True, (place[1:] != place[:-1]) | (status[1:] != status[:-1])))
    ends = np.append(starts[1:], len(place)) - 1
    happened = status[starts] != NEVER
    starts, ends = starts[happened], ends[happened]
    columns = (place[starts], depth[starts], depth[ends], status[starts])
    for node, first, last, now in zip(*(column.tolist() for column in columns), strict=True):
        found[node].append([first, last, STATUSES[now]])
    return found

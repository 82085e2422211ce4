"""What the prefix tree's picture shows at one round: an icicle, left to right by tokens.

Pure: the trace's `PrefixTree` in, a dict out that `json.dumps` takes and `widgets/canvas.mjs` draws.

    |<- doc1: 1,024 tokens ------------>|<- a1: 620 ->|      row 0    A1 waits at h^ = 1,024; h = 0
    |                                   |                    row 1    P1 ends here
    |<- d1: 950 ------------------->|                        row 2

A node is as high as the rows of what lies to its right. While all nodes are shown, each request has a
row of its own from its arrival on, so that nothing jumps from round to round.
"""

from __future__ import annotations

from typing import Any

from radixflow.figures.palette import Colours
from radixflow.figures.windows import name_of
from radixflow.trace.tree import Node

PUBLISHED, IN_FLIGHT, EVICTED = 1, 2, 3
STATES: dict[str, int] = {"published": PUBLISHED, "in_flight": IN_FLIGHT, "evicted": EVICTED}
"""How a boundary's component is drawn: filled, hollow, crossed. `never` isn't drawn."""

SHAPES: dict[str, str] = {"kv": "square", "rec": "circle", "conv": "diamond"}

MAX_NAMED = 24
"""Requests that a node names, the first ones."""

MERGE_ABOVE = 120
"""With more nodes than this, unbranched chains are drawn as one node."""


def layout(trace: Any, at_round: int, colours: Colours | None = None, max_nodes: int = 400) -> dict[str, Any]:
    """The tree as the round `at_round` left it, for the canvas.

    Arguments: `max_nodes` nodes at most are shown; those that no live request needs are folded first, and
    a node says how many it hides. Lengths are tokens, `top` and `height` rows. `marks` are runs of
    boundaries `start + step, ..., end` of one component in one state.
    """
    if colours is None:
        colours = Colours.of(trace)
    at_round = max(1, min(int(at_round), trace.num_rounds))
    prefix = trace.tree(at_round)
    data = prefix.to_dict(max_nodes)
    whole = prefix.size <= max_nodes
    components, lanes = _components(data["groups"])
    members = _members(lanes, data["groups"])
    nodes = {node["id"]: _node(node, prefix, trace, colours, members) for node in data["nodes"]}
    requests = _requests(trace, prefix, data, at_round, nodes, colours)
    if len(nodes) > MERGE_ABOVE:
        whole = False
        _fold_dead(nodes)
        _merge_chains(nodes, requests)
    hidden = prefix.size - sum(node["joined"] + node["hidden"] for node in nodes.values())
    rows = _place(nodes, requests, prefix if whole else None, hidden)
    extent = max((node["end"] for node in nodes.values()), default=0)
    for node in nodes.values():
        if node["folded"]:
            node["end"] = node["start"] + max(1, extent // 12)
    return {
        "kind": "tree",
        "trace": trace.id,
        "policy": trace.header.policy,
        "round": at_round,
        "certain": data["certain"],
        "block": trace.config.block_size,
        "extent": max((node["end"] for node in nodes.values()), default=0),
        "rows": rows,
        "components": components,
        "nodes": list(nodes.values()),
        "requests": requests,
    }


def _components(groups: list[dict]) -> tuple[list[dict], dict[tuple[int, str], int]]:
    """One lane a component and block size, however many groups have it; and which lane is whose."""
    order: dict[tuple[str, int], list[int]] = {}
    for group in groups:
        for component in group["components"]:
            order.setdefault((component, group["block"]), []).append(group["group"])
    lanes = {}
    components = []
    for lane, ((component, block), members) in enumerate(order.items()):
        shape = SHAPES.get(component, "square")
        components.append({"name": component, "groups": len(members), "block": block, "shape": shape})
        lanes.update({(group, component): lane for group in members})
    return components, lanes


def _node(node: dict, prefix: Any, trace: Any, colours: Colours, members: list) -> dict:
    first = prefix.first_requests_of(_tree_node(node, prefix), MAX_NAMED)
    marks = _marks(node["groups"], members)
    return {
        "id": node["id"],
        "parent": node["parent"],
        "start": node["depth"],
        "end": node["depth"] + node["length"],
        "label": node["name"],
        "colour": list(colours.of_request(trace, first[0])) if first else [0, 0],
        "requests": node["requests"],
        "ids": [name_of(trace, i) for i in first],
        "live": bool(node["running"] or node["waiting"]),
        "hidden": node["folded"],
        "folded": 0,
        "joined": 1,
        "computed": bool(node["running"]) or any(mark["state"] != EVICTED for mark in marks),
        "marks": marks,
    }


def _tree_node(node: dict, prefix: Any) -> Node:
    """The tree's node that a drawn one stands for."""
    place = (node["stream"], node["start"], node["length"], node["depth"])
    return Node(prefix, node["id"], node["parent"], *place)


def _members(lanes: dict[tuple[int, str], int], groups: list[dict]) -> list[tuple[list[int], int, list[str]]]:
    """(lanes, block size, groups) of each set of groups: its recurrent and its convolution states lie in the
    same blocks, so their lanes show the same boundaries."""
    owners: dict[int, list[str]] = {}
    step: dict[int, int] = {}
    for group in groups:
        for component in group["components"]:
            lane = lanes[group["group"], component]
            owners.setdefault(lane, []).append(str(group["group"]))
            step[lane] = group["block"]
    alike: dict[tuple[str, ...], list[int]] = {}
    for lane, names in sorted(owners.items()):
        alike.setdefault(tuple(names), []).append(lane)
    return [(same, step[same[0]], list(names)) for names, same in alike.items()]


def _marks(runs_of: dict[str, list], members: list[tuple[list[int], int, list[str]]]) -> list[dict]:
    """Runs of equal boundaries a lane. Where a lane stands for several groups, a boundary is published
    only if it is in all of them."""
    marks = []
    for lanes, step, owners in members:
        runs = _common([runs_of[name] for name in owners], step)
        marks += [
            {"component": lane, "state": s, "start": a - step, "end": b, "step": step}
            for lane in lanes
            for a, b, s in runs
        ]
    return marks


def _common(given: list[list], step: int) -> list[tuple[int, int, int]]:
    first = given[0]
    if given.count(first) == len(given):
        return [(a, b, STATES[status]) for a, b, status in first if status in STATES]
    states: dict[int, list[int]] = {}
    for own in given:
        for a, b, status in own:
            if status in STATES:
                for boundary in range(a, b + 1, step):
                    states.setdefault(boundary, []).append(STATES[status])
    runs: list[tuple[int, int, int]] = []
    for boundary, seen in sorted(states.items()):
        alike = len(seen) == len(given) and len(set(seen)) == 1
        state = seen[0] if alike else IN_FLIGHT if IN_FLIGHT in seen else EVICTED
        if runs and runs[-1][2] == state and runs[-1][1] + step == boundary:
            runs[-1] = (runs[-1][0], boundary, state)
        else:
            runs.append((boundary, boundary, state))
    return runs


def _requests(
    trace: Any, prefix: Any, data: dict, at_round: int, nodes: dict[str, dict], colours: Colours
) -> list[dict]:
    """Who runs or waits: where it stands (`at`), and for waiting ones h^ (`matched`) and h (`ready`)."""
    producers = {}
    done = {}
    view = prefix.view
    # In a gap the tree is that of the round before.
    if view is not None and view.n + view.repeat > at_round:
        producers = {b.i: b.producer for b in view.blocked}
        done = {i: prefix.computed(i) for i in prefix.running if prefix.knows(i)}
    leaf = {}
    for node in data["nodes"]:
        for i in (*node["running"], *node["waiting"]):
            if i not in leaf or nodes[leaf[i]]["end"] < nodes[node["id"]]["end"]:
                leaf[i] = node["id"]
    result = []
    for request in data["requests"]:
        i = request["i"]
        if i not in leaf:
            continue
        running = request["state"] == "running"
        producer = producers.get(i)
        result.append(
            {
                "i": i,
                "id": name_of(trace, i),
                "colour": list(colours.of_request(trace, i)),
                "node": leaf[i],
                "state": "running" if running else "blocked" if i in producers else "waiting",
                "at": min(done.get(i, 0), request["prompt"]) if running else request["identity"],
                "matched": request["identity"],
                "ready": request["ready"],
                "prompt": request["prompt"],
                "producer": name_of(trace, producer) if producer is not None and producer >= 0 else None,
            }
        )
    return result


def _fold_dead(nodes: dict[str, dict]) -> None:
    """Fold what no live request is on and of which nothing is cached."""
    needed: set[str | None] = set()
    # Children come after their parents.
    for key in reversed(list(nodes)):
        node = nodes[key]
        cached = any(mark["state"] != EVICTED for mark in node["marks"])
        if node["live"] or cached or key in needed:
            needed.add(node["parent"])
            continue
        del nodes[key]
        if node["parent"] is not None:
            nodes[node["parent"]]["hidden"] += node["hidden"] + 1


def _merge_chains(nodes: dict[str, dict], requests: list[dict]) -> None:
    """Join a node with its only child where no live request ends at it; `joined` counts them."""
    children: dict[str | None, list[str]] = {}
    for node in nodes.values():
        children.setdefault(node["parent"], []).append(node["id"])
    ends = {request["node"] for request in requests}
    for key in list(nodes):
        if key not in nodes:
            continue
        node = nodes[key]
        while len(children.get(key, ())) == 1 and not node["hidden"] and key not in ends:
            child = nodes.pop(children[key][0])
            node["marks"] += child["marks"]
            node["joined"] += child["joined"]
            node["end"] = child["end"]
            node["hidden"] = child["hidden"]
            if child["label"] not in node["label"]:
                node["label"] += f" + {child['label']}"
            grandchildren = children.pop(child["id"], [])
            children[key] = grandchildren
            for grandchild in grandchildren:
                nodes[grandchild]["parent"] = key
            for request in requests:
                if request["node"] == child["id"]:
                    request["node"] = key
                    ends.add(key)


def _place(nodes: dict[str, dict], requests: list[dict], prefix: Any | None, hidden: int) -> int:
    """Give nodes `top` and `height`, requests `row`, and each node that hides others a child that says
    so. Returns the number of rows. `prefix` only where nothing is folded."""
    live: dict[str, list[dict]] = {}
    for request in requests:
        live.setdefault(request["node"], []).append(request)
    for key in [key for key, node in nodes.items() if node["hidden"]]:
        nodes[f"{key}+"] = _folded(f"{key}+", key, nodes[key]["end"], nodes[key]["hidden"])
    if hidden > 0:
        nodes["+"] = _folded("+", None, 0, hidden)
    children: dict[str | None, list[str]] = {}
    for node in nodes.values():
        children.setdefault(node["parent"] if node["parent"] in nodes else None, []).append(node["id"])

    def own_rows(key: str) -> list[int | None]:
        """The requests that end at a node: all of them where rows are kept, else the live ones."""
        here = [request["i"] for request in live.get(key, ())]
        if prefix is None or nodes[key]["folded"]:
            return here
        through = set(prefix.requests_of(prefix.node(key)))
        deeper = [child for child in children.get(key, ()) if not nodes[child]["folded"]]
        below = {i for child in deeper for i in prefix.requests_of(prefix.node(child))}
        return sorted((through - below) | set(here))

    row = 0
    row_of: dict[int, int] = {}
    # Depth first without recursion: chat sessions make long chains.
    stack: list[tuple[str, bool]] = [(key, False) for key in reversed(children.get(None, []))]
    while stack:
        key, left = stack.pop()
        node = nodes[key]
        if not left:
            node["top"] = row
            stack.append((key, True))
            stack += [(child, False) for child in reversed(children.get(key, []))]
            continue
        for i in own_rows(key):
            row_of[i] = row
            row += 1
        row = max(row, node["top"] + 1)
        node["height"] = row - node["top"]
    for request in requests:
        request["row"] = row_of[request["i"]]
    return row


def _folded(key: str, parent: str | None, start: int, count: int) -> dict:
    return {
        "id": key,
        "parent": parent,
        "start": start,
        "end": start + 1,
        "label": "",
        "colour": [0, 0],
        "requests": 0,
        "ids": [],
        "live": False,
        "computed": False,
        "hidden": 0,
        "folded": count,
        "joined": 0,
        "marks": [],
    }

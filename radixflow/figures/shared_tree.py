"""What the tree across engines shows: who has what of which prefix, an icicle as the prefix tree's.

Pure: a picture of the index in (`radixflow.index.picture.Snapshot`), a dict out that `json.dumps` takes and
`widgets/canvas.mjs` draws.

    acme                                               a row that names the namespace
    |<- doc: 1,024 tokens -------->|<- a1: 640 ->|     a lane an engine, in each: filled where it can resume, hollow
    |  one  o o o o o o o o o o *  |  o o o *    |     where it has something that can't be resumed from
    |  two  o o o o o *            |
"""

from __future__ import annotations

import re
from typing import Any

from radixflow.analysis.prose import counted

SHAPES = ("square", "circle", "diamond")
"""Of the engines' marks, in turn: an engine is told by its lane, its colour and its shape."""

HUES = (0, 1, 4, 5, 2, 9, 6, 11, 3, 8, 7, 10)
"""Of `palette.HUES`, in the order in which engines get them: the first ones are the furthest apart."""

STATES = ("not held", "ready", "matched, not ready")
"""By the state of a mark; drawn as absent, filled, hollow."""

MAX_WORDS = 60
"""Characters of a part of a namespace's name."""


def layout(picture: Any) -> dict[str, Any]:
    """The picture for the canvas. Lengths are tokens, `top` and `height` rows; `marks` are runs of boundaries
    `start + step, ..., end` of one engine in one state."""
    number = {total.name: k for k, total in enumerate(picture.engines)}
    nodes: list[dict[str, Any]] = []
    row = 0
    extent = max((segment.end for space in picture.spaces for segment in space.segments), default=0)
    # By name, so that rows keep their places while prefixes come and go.
    for space in sorted(picture.spaces, key=lambda space: _natural(name_of(space))):
        heading = _heading(f"space {name_of(space)}", space, extent, row)
        if any(node["id"] == heading["id"] for node in nodes):
            heading["id"] += f" {len(nodes)}"
        nodes.append(heading)
        row = _place(heading["id"], space, [number[name] for name in space.engines], extent, row + 1, nodes)
    whole = max((node["end"] for node in nodes), default=0)
    for node in nodes:
        if node["heading"]:
            node["end"] = whole
    return {
        "kind": "engines",
        "states": list(STATES),
        "block": min((space.block for space in picture.spaces), default=1),
        "extent": whole,
        "rows": row,
        "components": [
            {
                "name": total.name,
                "colour": [HUES[k % len(HUES)], 0],
                "shape": SHAPES[k % len(SHAPES)],
                "groups": 1,
                "block": 1,
            }
            for k, total in enumerate(picture.engines)
        ],
        "nodes": nodes,
        "requests": [],
        "engines": [
            {"name": t.name, "model": t.model, "blocks": t.blocks, "bytes": t.bytes, "state": t.state}
            for t in picture.engines
        ],
        "duplicated": picture.duplicated,
        "duplicated_bytes": picture.duplicated_bytes,
        "hidden_spaces": picture.hidden_spaces,
    }


def name_of(space: Any) -> str:
    """A namespace in words."""
    parts = [_short(space.model)]
    for words in ("revision", "adapter", "tenant", "salt"):
        value = getattr(space, words)
        if value:
            parts.append(f"{words} {_short(value)}")
    return ", ".join(parts)


def _short(text: str) -> str:
    return text if len(text) <= MAX_WORDS else text[: MAX_WORDS - 1] + "…"


def _natural(text: str) -> list[tuple[int, str]]:
    """For sorting: a2 before a10."""
    return [(int(part[:18]) if part.isdigit() else 0, part) for part in re.split(r"([0-9]+)", text)]


def _heading(id: str, space: Any, extent: int, row: int) -> dict[str, Any]:
    held = f"{counted(space.blocks, 'block')} of {counted(space.block, 'token')}"
    copies = counted(space.duplicated, "further copy").replace("copys", "copies")
    said = [held, f"{copies} on other engines" if space.duplicated else "each on one engine only"]
    if space.unread:
        said.append(f"{space.unread:,} not looked at")
    return _node(id=id, end=extent, top=row, label=name_of(space), note=", ".join(said), heading=True)


def _place(root: str, space: Any, engines: list[int], extent: int, row: int, nodes: list[dict[str, Any]]) -> int:
    """Append a namespace's segments, each as high as what lies behind it; the row after the last one."""
    children: dict[str | None, list[Any]] = {}
    for segment in sorted(space.segments, key=lambda segment: (_natural(segment.name), segment.id)):
        children.setdefault(segment.parent, []).append(segment)
    # Depth first without recursion: conversations make long chains.
    stack: list[tuple[Any, bool, dict[str, Any] | None]] = [(s, False, None) for s in reversed(children.get(None, []))]
    while stack:
        segment, left, node = stack.pop()
        if left and node is not None:
            if segment.hidden:
                nodes.append(_fold(segment.id, segment.id, segment.end, segment, extent, row))
                row += 1
            row = max(row, node["top"] + 1)
            node["height"] = row - node["top"]
            continue
        node = _segment(space, segment, engines, row)
        nodes.append(node)
        stack.append((segment, True, node))
        stack += [(child, False, None) for child in reversed(children.get(segment.id, []))]
    if space.hidden:
        nodes.append(_fold(root, None, 0, space, extent, row))
        row += 1
    return row


def _segment(space: Any, segment: Any, engines: list[int], row: int) -> dict[str, Any]:
    held = {share.engine: share.held for share in segment.shares}
    return _node(
        id=segment.id,
        parent=segment.parent,
        start=segment.start,
        end=segment.end,
        top=row,
        label=segment.name or f"#{segment.id[:6]}",
        sharing=len(segment.shares),
        lanes=len(engines),
        marks=[
            {
                "component": engines[share.engine],
                "lane": share.engine,
                "state": state,
                "start": first - space.block,
                "end": last,
                "step": space.block,
            }
            for share in segment.shares
            for first, last, state in share.marks
        ],
        # One for each engine of the namespace's model.
        answers=[
            {
                "engine": engine,
                "matched": segment.matched[place],
                "ready": segment.ready[place],
                "held": held.get(place, {}),
            }
            for place, engine in enumerate(engines)
        ],
        blocks=(segment.end - segment.start) // space.block,
    )


def _fold(id: str, parent: str | None, start: int, of: Any, extent: int, row: int) -> dict[str, Any]:
    """What isn't drawn `of` a segment or a namespace."""
    return _node(
        id=f"{id}+",
        parent=parent,
        start=start,
        end=start + max(1, extent // 12),
        top=row,
        folded=of.hidden,
        note=counted(of.hidden_blocks, "block") if of.hidden_blocks else "",
    )


def _node(**given: Any) -> dict[str, Any]:
    return {
        "parent": None,
        "start": 0,
        "height": 1,
        "label": "",
        "note": "",
        "heading": False,
        "folded": 0,
        "sharing": 0,
        "lanes": 1,
        "marks": [],
        "answers": [],
        "blocks": 0,
        # What the prefix tree's nodes have and these don't.
        "colour": [0, 0],
        "requests": 0,
        "ids": [],
        "computed": True,
        **given,
    }

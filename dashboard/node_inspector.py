"""A node of the prefix tree: whose prompts run through it, and what happened to its last boundary."""

from __future__ import annotations

from typing import Any

from dash import html

from radixflow.figures.cards import chips as chips_of

from .library import Library
from .parts import chips


def node_view(library: Library, key: str, node_id: str, n: int, among: list[str]) -> list[Any]:
    """A node's requests, and what happened to its last boundary. Raises UnknownTrace, TraceError."""
    colours = library.colours(among if key in among else [key])
    with library.reading(key) as opened:
        trace = opened.trace
        tree = trace.tree(max(1, min(n, trace.num_rounds)))
        try:
            node = tree.node(node_id)
        except KeyError:
            return [html.P("This round's tree has no such node.", className="soft")]
        requests = tree.requests_of(node)
        note = f"tokens {node.depth:,} to {node.end:,}, as round {tree.at_round:,} left it"
        ids = trace.ids
        out: list[Any] = [
            html.Div([html.H3(node.name), html.Span(note, className="soft")], className="strip-title"),
            chips(chips_of([ids[i] for i in requests], colours)),
        ]
        rows = []
        for group in trace.config.groups:
            boundaries = tree.state(node, group.index)
            if not boundaries or not requests:
                continue
            boundary, state = boundaries[-1]
            events = tree.history(requests[0], group.index, boundary)
            words = "; ".join(
                f"{event} in round {at:,}"
                + (f" by {ids[by if event == 'evicted' and by >= 0 else i]}" if i >= 0 or by >= 0 else "")
                for at, event, i, by in events[-6:]
            )
            parts = " and ".join(group.components)
            rows.append(
                html.Tr([
                    html.Th(f"{parts} at {boundary:,}", scope="row"),
                    html.Td(state.replace("_", " ")),
                    html.Td(words or "never computed", className="soft"),
                ])
            )  # fmt: skip
        if rows:
            out.append(html.Table(html.Tbody(rows), className="facts"))
        else:
            out.append(html.P("No block ends in it, so nothing of it can be cached.", className="soft"))
        return out

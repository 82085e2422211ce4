"""The prefix tree of the prompts, and what is cached of it, at any round.

Path-compressed: a node ends where prompts end or part from one another (or from a recorded output). Only
requests that had arrived count. Cached boundaries belong to places in the tree, not to the requests that
published them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from radixflow.trace.boundaries import IN_FLIGHT, IS_PUBLISHED, NEVER, STATUSES
from radixflow.trace.matches import Matcher, Matches
from radixflow.trace.segments import WIDE
from radixflow.trace.store import CLEARED

if TYPE_CHECKING:
    from radixflow.trace.reader import Trace
    from radixflow.trace.rounds import RoundView


class Node:
    """A run of tokens, start <= offset < start + length, of one stream."""

    __slots__ = ("_tree", "depth", "id", "length", "parent", "start", "stream")

    def __init__(self, tree, id, parent, stream, start, length, depth):
        self._tree = tree
        self.id: str = id
        """`stream:end`; the same at every round at which the node's end is one."""
        self.parent: str | None = parent
        self.stream: str = stream
        self.start: int = start
        """Offset in the stream, tokens."""
        self.length: int = length
        """Tokens."""
        self.depth: int = depth
        """Tokens of the prompt before this node."""

    def __repr__(self) -> str:
        return f"<Node {self.name}: tokens {self.depth} to {self.depth + self.length}>"

    @property
    def end(self) -> int:
        """Tokens of the prompt up to this node's end."""
        return self.depth + self.length

    @property
    def requests(self) -> list[int]:
        """Requests whose prompt runs through the whole node."""
        return self._tree.requests_of(self)

    @property
    def name(self) -> str:
        """The workload's labels of these tokens, or the stream."""
        labels = list(dict.fromkeys(self._tree.trace.labels_of(self.stream, self.start, self.start + self.length)))
        return " + ".join(labels[:3]) + (" + ..." if len(labels) > 3 else "") if labels else self.stream[:8]


class PrefixTree:
    """The tree as round `at_round` left it (its own allocations included).

    Request numbers `i` are the trace's. KeyError for a request that hadn't arrived yet.
    """

    def __init__(self, trace: Trace, at_round: int):
        self.trace = trace
        self.at_round = at_round
        store = trace._store
        rounds = store.rounds.rows()
        self._row = int(np.searchsorted(rounds["n"], at_round, side="right")) - 1
        if len(rounds) and self._row < 0:
            self._arrived = 0
        else:
            self._arrived = int(rounds["request_end"][self._row]) if len(rounds) else len(store.requests)
        self._segments = trace._segments
        self._boundaries = trace._boundaries
        self._status = self._boundaries.at(at_round)
        self._requests = store.requests.rows()
        self._matcher = Matcher(self)

    def __repr__(self) -> str:
        from radixflow.trace.tree_text import tree_text

        return tree_text(self)

    # Shape

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return len(self._cuts)

    @cached_property
    def nodes(self) -> list[Node]:
        """All nodes; a parent before its children."""
        return self.some(np.arange(self.size))

    def some(self, indices) -> list[Node]:
        """The nodes at these places of `nodes`, in the same order."""
        store = self.trace._store
        name = store.streams.name
        shape = self._shape
        indices = np.asarray(indices, np.int64)
        parents = shape["parent"][indices]
        streams = shape["stream"][indices]
        base = self._segments.base[streams].tolist()
        above = np.maximum(parents, 0)
        if self.size:
            parent_stream, parent_end = shape["stream"][above], shape["end"][above]
            parent_first = self._segments.base[parent_stream]
        else:
            parent_stream = parent_end = parent_first = above
        columns = (streams, shape["begin"][indices], shape["end"][indices], parents)
        columns += (parent_stream, parent_end - parent_first)
        return [
            Node(
                self,
                f"{name(stream)}:{end - first}",
                f"{name(over)}:{over_end}" if parent >= 0 else None,
                name(stream),
                begin - first,
                end - begin,
                begin,
            )
            for stream, begin, end, parent, over, over_end, first in zip(
                *(column.tolist() for column in columns), base, strict=True
            )
        ]

    @cached_property
    def _cuts(self) -> np.ndarray:
        """stream * WIDE + depth of each node's end, sorted."""
        return self._segments.cuts[self._segments.first_row < self._arrived]

    @cached_property
    def _shape(self) -> dict[str, np.ndarray]:
        """Columns of the nodes: stream, begin and end (depths), parent (index); and `place`, the index of
        each of `_cuts`."""
        segments = self._segments
        cuts = self._cuts
        stream, end = cuts // WIDE, cuts % WIDE
        begin = segments.base[stream]
        follows = np.flatnonzero(stream[1:] == stream[:-1]) + 1
        begin[follows] = end[follows - 1]
        parent_stream = segments.parent[stream]
        parent = np.searchsorted(cuts, parent_stream * WIDE + begin)
        parent[parent_stream < 0] = -1
        parent[follows] = follows - 1
        # By depth, and by stream where that is equal: `cuts` are sorted by stream.
        order = np.argsort(begin, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        parent = np.where(parent >= 0, place[np.maximum(parent, 0)], -1) if len(place) else parent
        return {
            "stream": stream[order],
            "begin": begin[order],
            "end": end[order],
            "parent": parent[order],
            "place": place,
        }

    def node(self, id: str) -> Node:
        """A node by its id. KeyError where there is none at this round."""
        stream, _, end = id.rpartition(":")
        if not end.isdigit():
            raise KeyError(id)
        code = self.trace._store.streams.find(stream)
        key = code * WIDE + int(self._segments.base[code]) + int(end)
        at = int(np.searchsorted(self._cuts, key))
        if at == len(self._cuts) or self._cuts[at] != key:
            raise KeyError(id)
        return self.some([self._shape["place"][at]])[0]

    def requests_of(self, node: Node) -> list[int]:
        """Requests that had arrived and whose prompt runs through the whole node, in order of arrival."""
        return sorted(self._requests["i"][self._rows_through(node)].tolist())

    def first_requests_of(self, node: Node, count: int) -> list[int]:
        """The first `count` of `requests_of`, found without sorting all."""
        numbers = self._requests["i"][self._rows_through(node)]
        if len(numbers) > count:
            numbers = np.partition(numbers, count)[:count]
        return sorted(numbers.tolist())

    def _rows_through(self, node: Node) -> np.ndarray:
        rows = self._segments.prompts_through(self._stream(node), node.end, self._requests["prompt"])
        return rows[: np.searchsorted(rows, self._arrived)]

    def nodes_of(self, i: int) -> list[Node]:
        """The nodes along a request's prompt, from the root."""
        return self.some(self.places_of(i))

    def places_of(self, i: int) -> np.ndarray:
        """Where those are in `nodes`."""
        parts = [np.empty(0, np.int64)]
        depth = 0
        for stream, n in self.trace.path_of(self._known(i)):
            depth += n
            code = self.trace._store.streams.find(stream)
            low, high = np.searchsorted(self._cuts, [code * WIDE, code * WIDE + depth + 1])
            parts.append(self._shape["place"][low:high])
        return np.concatenate(parts)

    @property
    def certain(self) -> bool:
        """False where a gap lies before this round: publications or evictions may be missing."""
        store = self.trace._store
        return not store.header.part and not any(row <= self._row for row in store.gap_rows)

    def knows(self, i: int) -> bool:
        """Whether request i had arrived by this round (and its record was read)."""
        return self.trace._store.row_of.get(i, self._arrived) < self._arrived

    def prompt(self, i: int) -> int:
        """Prompt tokens of request i."""
        return int(self._requests["prompt"][self.trace._store.row_of[self._known(i)]])

    # What is cached

    def state(self, node: Node, group: int) -> list[tuple[int, str]]:
        """(boundary, status) of a node's boundaries in a cache group, boundaries as depths in tokens.

        `published`; `in_flight`: a state published in this very round, readable from the next on; `evicted`;
        `never`.
        """
        depths, status = self._within(self._stream(node), group, node.depth, node.end)
        return [(d, STATUSES[s]) for d, s in zip(depths.tolist(), status.tolist(), strict=True)]

    def cached(self, group: int, in_flight: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """All boundaries published in a cache group: streams (`growth.stream_name`) and depths in tokens.

        in_flight: also states that this very round published. Outputs count where their path is recorded.
        """
        base, end = self._segments.base, self._segments.base + self._segments.length
        if not len(base):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        low, high = self._boundaries.slots(group, np.arange(len(base)), base, end)
        status = self._status[low[0] : high[-1]]
        at = low[0] + np.flatnonzero((status == IS_PUBLISHED) | (in_flight & (status == IN_FLIGHT)))
        stream = np.searchsorted(high, at, side="right")
        unit = self._boundaries.unit[group]
        return stream, (base[stream] // unit + 1 + at - low[stream]) * unit

    def state_at(self, i: int, group: int, boundary: int) -> str:
        """Status of one boundary on request i's path."""
        depths, status = self._along(i, group)
        at = np.flatnonzero(depths == boundary)
        return STATUSES[status[at[0]]] if len(at) else STATUSES[NEVER]

    def along(self, i: int, group: int) -> list[tuple[int, str]]:
        """As `state`, along the whole of request i's prompt."""
        depths, status = self._along(i, group)
        return [(d, STATUSES[s]) for d, s in zip(depths.tolist(), status.tolist(), strict=True)]

    def matched(self, i: int) -> dict[int, int]:
        """Per group, how many tokens of i's prompt a look-up matches in that group alone, in flight included.

        Attention needs every block from the first on; a state group needs the one boundary. At most prompt -
        1 (vLLM's `KVCacheManager.get_computed_blocks`: the last token is always computed). What speculative
        drafts make vLLM step back isn't taken off.
        """
        return {group: int(tokens[0]) for group, tokens in self.matches([i]).matched.items()}

    def ready(self, i: int) -> int:
        """h: the largest boundary, at most prompt - 1, at which every group is published."""
        return int(self.matches([i]).ready[0])

    def identity(self, i: int) -> int:
        """h^: the longest prefix of i's prompt, token for token, that another request has computed by this
        round.

        What another one computes in this round counts; so do outputs whose path is recorded.
        """
        return self._matcher.identity(self.trace._store.row_of[self._known(i)], self._computed)

    def matches(self, numbers: Sequence[int]) -> Matches:
        """The three of them for many requests, one entry each: together it takes little more than for one."""
        row_of = self.trace._store.row_of
        rows = np.array([row_of[self._known(i)] for i in numbers], np.int64)
        return self._matcher.matches(rows, self._computed)

    def computed(self, i: int) -> int:
        """The furthest token of request i, output included, that was computed or found cached by this
        round."""
        return int(self._computed[self.trace._store.row_of[self._known(i)]])

    def history(self, i: int, group: int, boundary: int) -> list[tuple[int, str, int, int]]:
        """(round, event, request, by) of all that happened to a boundary on i's path up to this round."""
        segments, store = self._segments, self.trace._store
        at = int(segments.find(np.array([store.row_of[self._known(i)]]), np.array([boundary]))[0])
        cache = store.cache.rows()
        events = self._boundaries.history(group, int(segments.whole[1][at]), boundary, self.at_round)
        names = {0: "published", 1: "evicted", CLEARED: "cleared"}
        return [(n, names[int(cache[k]["event"])], int(cache[k]["i"]), int(cache[k]["by"])) for k, n in events]

    # Who is on it

    @cached_property
    def view(self) -> RoundView | None:
        """The last round recorded up to `at_round`, expanded; None before the first one."""
        return next(self.trace._reader.views(self._row, self._row + 1)) if self._row >= 0 else None

    @cached_property
    def running(self) -> list[int]:
        """Requests that run in this round: those it gave tokens, and those that kept their row."""
        view = self.view
        return [*(i for i, _ in view.selected), *view.resident] if view is not None else []

    @cached_property
    def waiting(self) -> list[int]:
        """Requests that this round left in the queue, in the native order it saw."""
        view = self.view
        if view is None:
            return []
        taken = set(view.admitted)
        return [i for i in view.queue if i not in taken]

    def holders(self, node: Node) -> list[int]:
        """Running requests whose prompt runs through the whole node."""
        through = set(self.requests_of(node))
        return [i for i in self.running if i in through]

    def to_dict(self, max_nodes: int | None = 5000) -> dict:
        """For drawing: nodes with runs of cached boundaries, and the requests that run or wait.

        A group's `runs` are [first boundary, last boundary, status]; boundaries outside are `never`. With
        more than `max_nodes` nodes, those that nobody holds, waits at or has cached are folded into `folded`
        of the node above.
        """
        from radixflow.trace.tree_drawing import drawing

        return drawing(self, max_nodes)

    # Inside

    def _stream(self, node: Node) -> int:
        return self.trace._store.streams.find(node.stream)

    def _within(self, stream: int, group: int, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
        """Boundaries (depths) and statuses with low < depth <= high on a stream."""
        unit, block = self._boundaries.unit[group], self._boundaries.groups[group].block_size
        depths = np.arange(low // unit + 1, high // unit + 1) * unit
        status = self._status[self._boundaries.slot(group, stream, low, high)]
        if unit != block:  # partial boundaries only where something happened
            real = (depths % block == 0) | (status != NEVER)
            depths, status = depths[real], status[real]
        return depths, status

    def _along(self, i: int, group: int) -> tuple[np.ndarray, np.ndarray]:
        """Boundaries and statuses along a request's prompt."""
        parts = []
        depth = 0
        for stream, n in self.trace.path_of(self._known(i)):
            parts.append(self._within(self.trace._store.streams.find(stream), group, depth, depth + n))
            depth += n
        if not parts:
            return np.empty(0, np.int64), np.empty(0, np.uint8)
        return np.concatenate([d for d, _ in parts]), np.concatenate([s for _, s in parts])

    def _known(self, i: int) -> int:
        if not self.knows(i):
            raise KeyError(f"request {i} hadn't arrived by round {self.at_round}")
        return i

    @cached_property
    def _computed(self) -> np.ndarray:
        """Tokens of each request (by row) that had been computed, or found cached, by the end of this
        round."""
        rounds = self.trace._store.rounds.rows()
        return self.trace._computed.at(int(rounds["visit_end"][self._row]) if self._row >= 0 else 0)

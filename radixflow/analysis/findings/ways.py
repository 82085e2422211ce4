"""Requests' ways down the radix tree, outputs included, and who else goes along them."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate

from radixflow.analysis.places import Place
from radixflow.trace.paths import join


@dataclass(frozen=True, slots=True)
class Way:
    """One request's path with its depths."""

    streams: list[str]
    ends: list[int]
    """Depth in tokens at which it leaves each stream."""

    def at(self, depth: int) -> Place | None:
        """The place after `depth` tokens; None past its end."""
        k = bisect_left(self.ends, depth)
        return (self.streams[k], depth) if k < len(self.ends) else None

    def shared_with(self, other: Way) -> int:
        """Tokens of the common prefix."""
        shared = 0
        for stream, end, its_stream, its_end in zip(
            self.streams, self.ends, other.streams, other.ends, strict=False
        ):
            if stream != its_stream:
                break
            shared = min(end, its_end)
            if end != its_end:
                break
        return shared


class Ways:
    """Ways by request."""

    def __init__(self, trace):
        self._trace = trace
        self._known: dict[int, Way] = {}

    def of(self, i: int) -> Way:
        """Request i's; without streams where the trace has no record of the request."""
        way = self._known.get(i)
        if way is None:
            way = self._known[i] = self._read(i)
        return way

    def _read(self, i: int) -> Way:
        try:
            path = join(self._trace.path_of(i), self._trace.output_path_of(i))
        except KeyError:
            path = []
        return Way([stream for stream, _ in path], list(accumulate(n for _, n in path)))


class Followers:
    """Who else goes through a place, anywhere in the trace."""

    def __init__(self, trace, ways: Ways):
        deepest: dict[str, list[tuple[int, int]]] = {}
        for i in trace.requests.index.tolist():
            way = ways.of(i)
            for stream, end in zip(way.streams, way.ends, strict=True):
                two = deepest.setdefault(stream, [])
                two.append((end, i))
                if len(two) > 2:
                    two.remove(min(two))
        self._deepest = deepest

    def alone(self, i: int, place: Place) -> bool:
        """Whether no request but i goes through it."""
        stream, depth = place
        return all(end < depth for end, other in self._deepest.get(stream, ()) if other != i)

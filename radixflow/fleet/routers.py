"""Four ways of choosing a replica. Only two of them know what is cached where."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from radixflow.index import CacheLayout, Match, Namespace, PrefixIndex, Scope
from radixflow.workloads import EngineOptions, Workload, WorkloadRequest

if TYPE_CHECKING:
    from radixflow.engines.groups import CacheGroup
    from radixflow.engines.replicas import Replica


class RoundRobin:
    """One after another, whatever they have."""

    def __init__(self, *_: Any) -> None:
        self._next = count()

    def choose(self, request: WorkloadRequest, replicas: Sequence[Replica]) -> int:
        return next(self._next) % len(replicas)

    def watch(self, replica: Replica) -> None:
        """It looks at nothing."""


class Random(RoundRobin):
    """Any, with the same chance; seeded."""

    def __init__(self, *_: Any) -> None:
        self._chance = random.Random(0)

    def choose(self, request: WorkloadRequest, replicas: Sequence[Replica]) -> int:
        return self._chance.randrange(len(replicas))


class Indexed:
    """Fewest tokens until the answer (`radixflow.index.rank`), by what `counts` of a match.

    Simulated prompts have no tokens, so paths are vLLM's own block hashes: equal where the prompts are.
    """

    counts: Callable[[Match], int]

    def __init__(self, workload: Workload, options: EngineOptions, groups: list[CacheGroup], replicas: int) -> None:
        from radixflow.engines.block_hashes import BlockHasher
        from radixflow.engines.replicas import event_name

        self._event_name = event_name
        self._index = PrefixIndex()
        self._index.declare("model", CacheLayout(int(options.block_size), tuple(g.components for g in groups)))
        for number in range(replicas):
            self._index.add_engine(str(number), "model")
        self._namespace = Namespace("model")
        self._hasher = BlockHasher(workload, int(options.block_size))
        self._block = int(options.block_size)
        self._parents: dict[Any, Any] = {}
        """Block hash -> the one before; None before the first."""
        self._keys: dict[Any, bytes] = {}
        """As events name a block -> its hash."""
        self._copies: Counter[tuple[str, int, bytes]] = Counter()
        """Of an engine's block in one group: vLLM stores a prefix twice where two requests compute it at once."""

    def choose(self, request: WorkloadRequest, replicas: Sequence[Replica]) -> int:
        path, tokens = self._path_of(request)
        matches = self._index.match_keys(iter(path), self._namespace)
        return min(
            replicas,
            key=lambda r: (tokens - type(self).counts(matches[str(r.number)]) + r.waiting_tokens, r.running, r.number),
        ).number

    def _path_of(self, request: WorkloadRequest) -> tuple[list[bytes], int]:
        """Hashes of the blocks that may be resumed, and the prompt's length."""
        made = _Hashed(request, self._hasher.prompt(request))
        hashes = self._hasher(made)
        for parent, own in zip([None, *hashes], hashes, strict=False):
            self._parents[own] = parent
            self._keys[self._event_name(own)] = own
        return hashes[: (made.num_tokens - 1) // self._block], made.num_tokens

    def watch(self, replica: Replica) -> None:
        """Take its cache events."""
        engine = str(replica.number)
        for change in replica.changes():
            if change.what == "cleared":
                self._index.invalidate(Scope(engine=engine))
                self._copies = Counter({own: n for own, n in self._copies.items() if own[0] != engine})
                continue
            step = 1 if change.what == "stored" else -1
            for name in change.names:
                key = self._keys.get(name)
                if key is None:  # generated tokens are in nobody's prompt here
                    continue
                own = (engine, change.group, key)
                self._copies[own] += step
                if step > 0 and self._copies[own] == 1:
                    self._index.insert_keys(self._path_to(key), self._namespace, engine, [change.group], {key})
                elif self._copies[own] == 0:
                    self._index.evict_keys([key], self._namespace, engine, [change.group])

    def _path_to(self, key: Any) -> list[bytes]:
        path = []
        while key is not None:
            path.append(key)
            key = self._parents[key]
        return path[::-1]


class Matched(Indexed):
    """By h^: what the replica knows of the prompt, whether or not it can resume from there."""

    counts = staticmethod(lambda match: match.matched)


class Ready(Indexed):
    """By h: what the replica can resume from."""

    counts = staticmethod(lambda match: match.ready)


class _Hashed:
    """As much of a request as its block hashes take."""

    def __init__(self, request: WorkloadRequest, prompt: Sequence[int]) -> None:
        self.request_id = request.id
        self.cache_salt = request.salt
        self._all_token_ids = prompt
        self.num_tokens = self.num_prompt_tokens = len(prompt)
        self.block_hashes: list[bytes] = []


ROUTINGS: dict[str, type[RoundRobin] | type[Indexed]] = {
    "round-robin": RoundRobin,
    "random": Random,
    "matched": Matched,
    "ready": Ready,
}
"""By name; `ready` is `radixflow.index.rank`, `matched` the same by h^, and the other two know of no cache."""

"""Who holds which prefix, for every namespace and engine."""

from __future__ import annotations

import hashlib
import secrets
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import and_

from radixflow.index.namespace import COMPONENTS, KV, CacheLayout, Namespace, Scope
from radixflow.index.tree import Node, Tree


@dataclass(frozen=True, slots=True)
class Match:
    """How far one engine holds a sequence. All in tokens, multiples of the block size."""

    matched: int
    """h^: the furthest that any component reaches."""
    ready: int
    """h: the largest boundary from which the engine can resume: attention's blocks up to it, every state at it."""
    components: dict[str, int]
    """For each component of the model, how far it reaches: `kv` without a gap from the start, a state at a boundary."""


@dataclass(frozen=True, slots=True)
class IndexSize:
    """What one namespace takes."""

    nodes: int
    """Blocks that somebody holds, or that lead to one."""
    held: dict[str, int]
    """Engine -> blocks of which it holds something."""
    duplicated: int
    """Copies beyond the first: a block held by three engines counts two."""


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine's place in the holders' bits."""

    model: str
    layout: CacheLayout
    shift: int
    all_bits: int
    components: dict[str, int]
    """Component -> bits of the groups that hold it."""

    @classmethod
    def at(cls, shift: int, model: str, layout: CacheLayout) -> Engine:
        holding = {
            component: sum(1 << k for k, group in enumerate(layout.groups) if component in group) << shift
            for component in COMPONENTS
        }
        return cls(model, layout, shift, ((1 << len(layout.groups)) - 1) << shift, holding)

    def bits(self, groups: Collection[int] | None) -> int:
        if groups is None:
            return self.all_bits
        wrong = [group for group in groups if not 0 <= group < len(self.layout.groups)]
        if wrong:
            raise ValueError(f"cache group {wrong[0]}, expected 0 to {len(self.layout.groups) - 1}")
        return sum(1 << group for group in set(groups)) << self.shift

    def match(self, path: list[int], unbroken: list[int]) -> Match:
        """What it has of a path of holders; `unbroken` are the holders of all blocks up to each."""
        size, reach = self.layout.block_size, {}
        kv = self.components[KV]
        whole = bisect_left(unbroken, True, key=lambda holders: holders & kv != kv)
        whole -= whole % self.layout.kv_blocks
        for component in self.layout.components:
            depth = whole if component == KV else _last(path, self.components[component], len(path))
            reach[component] = size * depth
        ready = _last(path, self.all_bits & ~kv, whole)
        return Match(max(reach.values()), ready * size, reach)


class PrefixIndex:
    """A radix tree over token hashes for each namespace; see `radixflow.index`.

    Thread-safe: readers never wait for readers, writers of one namespace wait for each other. Keys are hashed with a
    secret of this index, so that nobody can make a sequence that collides with another one's.
    """

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._layouts: dict[str, CacheLayout] = {}
        self._engines: dict[str, Engine] = {}
        self._free: dict[int, list[int]] = {}
        """Groups -> places in the holders' bits that engines of as many groups have left."""
        self._next_bit = 0
        self._trees: dict[Namespace, Tree] = {}
        self._sessions: dict[tuple[Namespace, str], set[bytes]] = {}
        self._session_counts: dict[Namespace, Counter[bytes]] = {}

    # -- who takes part ------------------------------------------------------------------------------

    def declare(self, model: str, layout: CacheLayout) -> None:
        """Declare a compatibility group: engines added under this name hold interchangeable caches.

        ValueError where the name is declared already with another layout.
        """
        with self._lock:
            known = self._layouts.setdefault(model, layout)
        if known != layout:
            raise ValueError(f"model {model!r} is declared with {known}, expected the same layout, got {layout}")

    def add_engine(self, engine: str, model: str) -> None:
        """Let an engine answer for a declared model. ValueError where the name is taken, or the model unknown."""
        with self._lock:
            if model not in self._layouts:
                raise ValueError(f"engine {engine!r}: model {model!r} isn't declared; call declare() first")
            if engine in self._engines:
                raise ValueError(f"engine {engine!r} is there already")
            layout = self._layouts[model]
            free = self._free.get(len(layout.groups))
            if free:
                shift = free.pop()
            else:
                shift, self._next_bit = self._next_bit, self._next_bit + len(layout.groups)
            self._engines = {**self._engines, engine: Engine.at(shift, model, layout)}

    def remove_engine(self, engine: str) -> None:
        """Forget an engine and all it holds."""
        gone = self._engine(engine)
        with self._lock:
            self._engines = {name: known for name, known in self._engines.items() if name != engine}
            trees = list(self._trees.values())
        # From here on nobody inserts for it: its place is empty for the next engine once all trees have let go.
        for tree in trees:
            tree.release_all(gone.all_bits)
        with self._lock:
            self._free.setdefault(len(gone.layout.groups), []).append(gone.shift)

    @property
    def engines(self) -> dict[str, str]:
        """Engine -> model."""
        return {name: engine.model for name, engine in self._engines.items()}

    def layout(self, model: str) -> CacheLayout:
        """A declared model's cache. KeyError where there is none."""
        return self._layouts[model]

    # -- what they hold ------------------------------------------------------------------------------

    def insert(
        self,
        tokens: Sequence[int],
        namespace: Namespace,
        engine: str,
        groups: Collection[int] | None = None,
        boundaries: Collection[int] | None = None,
        session: str | None = None,
    ) -> int:
        """An engine has published blocks of this sequence.

        groups: the cache groups that hold them, all by default. boundaries: ends of the blocks held, in tokens, every
        whole block by default; what leads to them is known by then but held by nobody. session: whose they are, for
        `invalidate`. Returns how many blocks are new to the engine.
        """
        path = list(self._tree(namespace).keys(tokens))
        return self.insert_keys(path, namespace, engine, groups, self._chosen(path, boundaries, namespace), session)

    def insert_keys(
        self,
        path: Sequence[bytes],
        namespace: Namespace,
        engine: str,
        groups: Collection[int] | None = None,
        only: Collection[bytes] | None = None,
        session: str | None = None,
    ) -> int:
        """`insert` for a path whose keys are known (`keys_of`); `only` these of its blocks are held."""
        if session is not None:
            self._claim(namespace, session, path if only is None else only)
        return self._tree(namespace).hold(path, lambda: self._holder(engine, namespace).bits(groups), only)

    def evict(
        self,
        tokens: Sequence[int],
        namespace: Namespace,
        engine: str,
        groups: Collection[int] | None = None,
        boundaries: Collection[int] | None = None,
    ) -> int:
        """The engine has evicted those blocks. Returns how many it held."""
        path = list(self._tree(namespace).keys(tokens))
        chosen = self._chosen(path, boundaries, namespace)
        return self.evict_keys(path if chosen is None else chosen, namespace, engine, groups)

    def evict_keys(
        self, keys: Iterable[bytes], namespace: Namespace, engine: str, groups: Collection[int] | None = None
    ) -> int:
        """`evict` for blocks whose keys are known."""
        return self._tree(namespace).release(keys, self._holder(engine, namespace).bits(groups))

    def invalidate(self, scope: Scope) -> int:
        """Forget all that lies in a scope. Returns how many blocks lost a holder.

        The engines may still hold them; nobody is sent there for them any more. A session's scope forgets the blocks
        that no other session has claimed.
        """
        engine = self._engine(scope.engine) if scope.engine is not None else None
        with self._lock:
            trees = [(namespace, tree) for namespace, tree in self._trees.items() if scope.covers(namespace)]
        lost = 0
        for namespace, tree in trees:
            bits = engine.all_bits if engine is not None else -1
            if scope.session is not None:
                lost += tree.release(self._disclaim(namespace, scope.session), bits)
            else:
                lost += tree.release_all(bits)
        return lost

    # -- questions -----------------------------------------------------------------------------------

    def longest_match(self, tokens: Sequence[int], namespace: Namespace) -> dict[str, Match]:
        """For each engine of the namespace's model, how far it holds this sequence.

        The answer is that of one moment. A prompt's last token is always computed, so ask with what may be resumed:
        `tokens[:-1]` (vLLM's `KVCacheManager.get_computed_blocks`). KeyError where the model isn't declared.
        """
        return self.match_keys(self._tree(namespace, keep=False).keys(tokens), namespace)

    def match_keys(self, keys: Iterator[bytes], namespace: Namespace) -> dict[str, Match]:
        """`longest_match` for a path of keys, taken only as far as somebody knows it."""
        tree = self._tree(namespace, keep=False)
        asked: list[bytes] = []

        def holders(nodes: dict[bytes, Node]) -> list[int]:
            found: list[int] = []
            while True:
                if len(found) == len(asked):
                    key = next(keys, None)
                    if key is None:
                        return found
                    asked.append(key)
                node = nodes.get(asked[len(found)])
                if node is None:
                    return found
                found.append(node.holders)

        path = tree.read(holders)
        unbroken = list(accumulate(path, and_))
        return {name: engine.match(path, unbroken) for name, engine in self.engines_of(namespace.model).items()}

    def keys_of(self, tokens: Sequence[int], namespace: Namespace) -> list[bytes]:
        """The keys of a sequence's whole blocks under a namespace."""
        return list(self._tree(namespace).keys(tokens))

    def seed_of(self, namespace: Namespace) -> bytes:
        """The key that a namespace's first blocks hang from."""
        return self._tree(namespace).seed

    # -- for whoever runs the index, never for a tenant ----------------------------------------------

    def trees(self) -> dict[Namespace, Tree]:
        """Every namespace's tree."""
        with self._lock:
            return dict(self._trees)

    def engines_of(self, model: str) -> dict[str, Engine]:
        """The engines of a model, in the order in which they were added."""
        return {name: engine for name, engine in self._engines.items() if engine.model == model}

    def sizes(self) -> dict[Namespace, IndexSize]:
        """What each namespace takes."""
        return {namespace: self.size_of(namespace, tree) for namespace, tree in self.trees().items()}

    def size_of(self, namespace: Namespace, tree: Tree) -> IndexSize:
        """What a namespace's tree takes."""
        engines = {name: engine.all_bits for name, engine in self.engines_of(namespace.model).items()}
        nodes, holdings = tree.read(lambda nodes: (len(nodes), dict(tree.holdings)))
        held, duplicated = dict.fromkeys(engines, 0), 0
        for holders, blocks in holdings.items():
            having = [name for name, bits in engines.items() if holders & bits]
            duplicated += max(0, len(having) - 1) * blocks
            for name in having:
                held[name] += blocks
        return IndexSize(nodes, held, duplicated)

    # -- inside --------------------------------------------------------------------------------------

    def _engine(self, name: str) -> Engine:
        try:
            return self._engines[name]
        except KeyError:
            raise KeyError(f"engine {name!r} isn't known to the index; it has {sorted(self._engines)}") from None

    def _holder(self, name: str, namespace: Namespace) -> Engine:
        engine = self._engine(name)
        if engine.model != namespace.model:
            raise ValueError(f"engine {name!r} holds caches of {engine.model!r}, expected {namespace.model!r}")
        return engine

    def _tree(self, namespace: Namespace, keep: bool = True) -> Tree:
        """The namespace's tree, new and empty where there is none; questions leave none behind (`keep`)."""
        tree = self._trees.get(namespace)
        if tree is None:
            if namespace.model not in self._layouts:
                raise KeyError(f"model {namespace.model!r} isn't declared; call declare() first")
            seed = hashlib.blake2b(namespace.encoded(), key=self._secret, digest_size=32).digest()
            tree = Tree(seed, self._layouts[namespace.model].block_size)
            if keep:
                with self._lock:
                    tree = self._trees.setdefault(namespace, tree)
        return tree

    def _chosen(self, path: list[bytes], boundaries: Collection[int] | None, namespace: Namespace) -> set[bytes] | None:
        if boundaries is None:
            return None
        size = self._layouts[namespace.model].block_size
        wrong = [end for end in boundaries if end % size or not 0 < end <= len(path) * size]
        if wrong:
            raise ValueError(f"boundary {wrong[0]}, expected a multiple of {size} up to {len(path) * size}")
        return {path[end // size - 1] for end in boundaries}

    def _claim(self, namespace: Namespace, session: str, keys: Collection[bytes]) -> None:
        with self._lock:
            own = self._sessions.setdefault((namespace, session), set())
            counts = self._session_counts.setdefault(namespace, Counter())
            counts.update(key for key in keys if key not in own)
            own.update(keys)

    def _disclaim(self, namespace: Namespace, session: str) -> list[bytes]:
        """The session's blocks that nobody else has claimed."""
        with self._lock:
            own = self._sessions.pop((namespace, session), set())
            counts = self._session_counts.get(namespace, Counter())
            counts.subtract(own)
            alone = [key for key in own if counts[key] <= 0]
            for key in alone:
                del counts[key]
        return alone


def _last(path: list[int], bits: int, limit: int) -> int:
    """The last depth up to `limit` at which all of `bits` are held; 0 where none is."""
    return next((depth for depth in range(limit, 0, -1) if path[depth - 1] & bits == bits), 0)

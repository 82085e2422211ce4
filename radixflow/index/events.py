"""vLLM's cache events as they come over the wire (`vllm.distributed.kv_events`, 0.29), and what they tell the index."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from radixflow.index.namespace import Namespace, Scope
from radixflow.index.prefix_index import PrefixIndex
from radixflow.index.tree import Tree

NamespaceOf = Callable[[str, str], Namespace]
"""(adapter, salt) -> whose prefixes they are."""


class BlockStored(msgspec.Struct, tag=True):
    """Blocks became cached in one group."""

    block_hashes: list[Any]
    parent_block_hash: Any
    token_ids: list[int]
    block_size: int
    lora_name: str | None = None
    extra_keys: list[list[Any] | None] | None = None
    group_idx: int | None = None


class BlockRemoved(msgspec.Struct, tag=True):
    """Blocks were evicted from one group."""

    block_hashes: list[Any]
    group_idx: int | None = None


class AllBlocksCleared(msgspec.Struct, tag=True):
    """The engine has emptied its prefix cache."""


class Batch(msgspec.Struct, array_like=True):
    """One message: what one step of one engine did."""

    ts: float
    events: list[BlockStored | BlockRemoved | AllBlocksCleared]
    data_parallel_rank: int | None = None


_decoder = msgspec.msgpack.Decoder(Batch)


def decode(payload: bytes) -> Batch:
    """A message's payload. msgspec.DecodeError where it isn't one."""
    return _decoder.decode(payload)


@dataclass(slots=True)
class _Block:
    """What an engine's hash stands for."""

    namespace: Namespace
    key: bytes
    parent: Any
    """vLLM's hash of the block before; None for the first."""
    copies: Counter[int] = field(default_factory=Counter)
    """Group -> physical blocks that hold it. vLLM stores a prefix twice where two requests compute it at once, and
    announces the eviction of either."""
    children: int = 0
    """Blocks known behind it."""


class EventReader:
    """Applies one engine's events to an index.

    A removal names a block by vLLM's hash alone, and with sparse retention a state group stores fewer hashes than
    tokens. Attention's blocks are all announced with their tokens, so each hash is learned from them; a state that
    comes before them waits until they do. Events must be of vLLM's default report mode: "full" announces what is
    reused as if it were another copy.
    """

    def __init__(self, index: PrefixIndex, engine: str, namespace_of: NamespaceOf) -> None:
        self._index = index
        self._engine = engine
        self._namespace_of = namespace_of
        self._layout = index.layout(index.engines[engine])
        self._blocks: dict[Any, _Block] = {}
        """By vLLM's hash: those that are held, and those before them."""
        self._early: dict[Any, Counter[int]] = {}
        """Hashes that a state group announced before attention did -> group -> copies."""

    def clear(self) -> None:
        """The engine holds nothing: it has restarted, or what it holds isn't known any more."""
        self._index.invalidate(Scope(engine=self._engine))
        self._blocks.clear()
        self._early.clear()

    def apply(self, batch: Batch) -> None:
        """Take one message's events in order. ValueError where they contradict the declared layout."""
        for event in batch.events:
            if isinstance(event, BlockStored):
                self._stored(event)
            elif isinstance(event, BlockRemoved):
                self._removed(event)
            else:
                self.clear()

    def _stored(self, event: BlockStored) -> None:
        group = event.group_idx or 0
        if group >= len(self._layout.groups) or event.block_size != self._layout.block_size:
            raise ValueError(
                f"engine {self._engine!r} stores blocks of {event.block_size} tokens in group {group}, expected "
                f"{self._layout.block_size} tokens and groups 0 to {len(self._layout.groups) - 1}"
            )
        if len(event.token_ids) == len(event.block_hashes) * event.block_size:
            self._learn(event)
        new: dict[int, list[Any]] = {}
        for name in event.block_hashes:
            block = self._blocks.get(name)
            if block is None:
                self._early.setdefault(name, Counter())[group] += 1
                continue
            copies = self._early.pop(name, Counter())
            copies[group] += 1
            for held in copies:
                if not block.copies[held]:
                    new.setdefault(held, []).append(name)
            block.copies += copies
        for held, names in new.items():
            only = {self._blocks[name].key for name in names}
            path = self._path(names[-1])
            self._index.insert_keys(path, self._blocks[names[-1]].namespace, self._engine, [held], only)

    def _learn(self, event: BlockStored) -> None:
        """Where these blocks stand: behind their parent, each behind the one before."""
        size, parent, adapter = event.block_size, event.parent_block_hash, event.lora_name or ""
        # vLLM's keys of a block: the adapter's name, pictures as pairs, and, of the first block alone, the salt.
        extras = [list(keys or ())[1 if adapter else 0 :] for keys in event.extra_keys or ()]
        extras += [[] for _ in range(len(event.block_hashes) - len(extras))]
        if parent is None:
            salt = next((extras[0].pop(k) for k, x in enumerate(extras[0]) if isinstance(x, str)), "")
            namespace = self._namespace_of(adapter, salt)
            key = self._index.seed_of(namespace)
        elif parent in self._blocks:
            namespace, key = self._blocks[parent].namespace, self._blocks[parent].key
        else:
            return  # the parent was missed, and with it what these are
        flat = memoryview(array("q", event.token_ids)).cast("B")
        for k, (name, more) in enumerate(zip(event.block_hashes, extras, strict=True)):
            content: bytes | memoryview = flat[k * size * 8 : (k + 1) * size * 8]
            if more:  # a picture stands among the tokens as placeholders, and here by its hash
                content = bytes(content) + repr(more).encode()
            key = Tree.child(key, content)
            if name not in self._blocks:
                self._blocks[name] = _Block(namespace, key, parent)
                if parent is not None:
                    self._blocks[parent].children += 1
            parent = name

    def _path(self, name: Any) -> list[bytes]:
        """Keys from the root to a block."""
        keys: list[bytes] = []
        while name is not None:
            block = self._blocks[name]
            keys.append(block.key)
            name = block.parent
        return keys[::-1]

    def _removed(self, event: BlockRemoved) -> None:
        group = event.group_idx or 0
        for name in event.block_hashes:
            block = self._blocks.get(name)
            copies = block.copies if block is not None else self._early.get(name, Counter())
            if copies[group] > 1:
                copies[group] -= 1
            elif copies.pop(group, 0) and block is not None:
                self._index.evict_keys([block.key], block.namespace, self._engine, [group])
                self._forget(name)

    def _forget(self, name: Any) -> None:
        """Blocks that are neither held nor lead to one aren't needed any more."""
        while name is not None:
            block = self._blocks[name]
            if block.copies or block.children:
                return
            del self._blocks[name]
            name = block.parent
            if name is not None:
                self._blocks[name].children -= 1

"""What must agree before one prefix is the same as another: weights, tenant, and the layout of the cache."""

from __future__ import annotations

from dataclasses import dataclass, fields

KV, REC, CONV = "kv", "rec", "conv"
"""State components (CONTRACT 1): attention's blocks, the recurrent state, the convolution's state."""
COMPONENTS = (KV, REC, CONV)


@dataclass(frozen=True, slots=True)
class CacheLayout:
    """The cache of a compatibility group: same weights, same tokenizer, and blocks of the same shape."""

    block_size: int
    """Tokens a block; boundaries are its multiples."""
    groups: tuple[tuple[str, ...], ...] = ((KV,),)
    """Components that each cache group holds, by vLLM's `group_idx`: `(("kv",), ("rec", "conv"))`. A vLLM Mamba
    block holds both states."""
    kv_block_size: int | None = None
    """Tokens a block of attention's, where they are several of the index's; as many by default. A part of one is of
    no use to anybody."""

    def __post_init__(self) -> None:
        if self.block_size < 1:
            raise ValueError(f"block_size is {self.block_size}, expected 1 or more tokens")
        if self.kv_block_size is None:
            object.__setattr__(self, "kv_block_size", self.block_size)
        if self.kv_blocks * self.block_size != self.kv_block_size:
            raise ValueError(f"kv_block_size is {self.kv_block_size}, expected a multiple of {self.block_size}")
        if not self.groups or any(not group or set(group) - set(COMPONENTS) for group in self.groups):
            shown = ",".join("+".join(group) for group in self.groups)
            raise ValueError(f"groups are {shown!r}, expected for each some of {', '.join(COMPONENTS)}: kv,rec+conv")

    @property
    def kv_blocks(self) -> int:
        """Blocks of the index that one of attention's takes."""
        return max(1, (self.kv_block_size or 0) // self.block_size)

    @property
    def components(self) -> tuple[str, ...]:
        """Those that the model has, in the order kv, rec, conv."""
        return tuple(name for name in COMPONENTS if any(name in group for group in self.groups))


@dataclass(frozen=True, slots=True)
class Namespace:
    """Part of every key: prefixes under different namespaces have nothing in common, whatever their tokens."""

    model: str
    """The compatibility group: engines that declare the same name hold interchangeable caches."""
    revision: str = ""
    adapter: str = ""
    tenant: str = ""
    salt: str = ""

    def encoded(self) -> bytes:
        """A byte string that no other namespace has."""
        return b"".join(
            len(value := getattr(self, field.name).encode()).to_bytes(4, "big") + value for field in fields(self)
        )


@dataclass(frozen=True, slots=True)
class Scope:
    """What `PrefixIndex.invalidate` forgets: everything that agrees in all the fields that are given."""

    model: str | None = None
    revision: str | None = None
    adapter: str | None = None
    tenant: str | None = None
    salt: str | None = None
    engine: str | None = None
    session: str | None = None
    """A session's own prefixes: those inserted under this name and no other."""

    def __post_init__(self) -> None:
        if all(getattr(self, field.name) is None for field in fields(self)):
            raise ValueError("an empty scope would forget everything: expected at least one field")

    def covers(self, namespace: Namespace) -> bool:
        """Whether a namespace lies in it; `engine` and `session` cut across namespaces."""
        return all(
            (wanted := getattr(self, field.name)) is None or wanted == getattr(namespace, field.name)
            for field in fields(Namespace)
        )

"""Engine options that a workload may state, and what they default to."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from radixflow.workloads.errors import WorkloadError, near, shown

AtLeast0 = Annotated[int, msgspec.Meta(ge=0)]
AtLeast1 = Annotated[int, msgspec.Meta(ge=1)]
Blocks = Annotated[int, msgspec.Meta(ge=2, le=10_000_000)]


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """What a workload says about the engine it wants; what it leaves out is `UNSET`.

    `UNSET` and `None` differ for `retention_interval`: left out it is 0 (sparse, vLLM's default),
    `None` is dense. The command line and a model's profile are laid over it by `resolved`.
    """

    model: Annotated[str, msgspec.Meta(min_length=1)] | UnsetType = UNSET
    """Name of a model profile."""
    block_size: AtLeast1 | UnsetType = UNSET
    """Tokens a KV cache block."""
    hash_block_size: AtLeast1 | UnsetType = UNSET
    """Tokens a block hash covers; divides `block_size`, and is equal to it where left out."""
    num_blocks: Blocks | UnsetType = UNSET
    """Blocks in the pool, the null block included."""
    state_groups: AtLeast0 | UnsetType = UNSET
    """Recurrent cache groups beside the full-attention one; 0 = full attention only."""
    max_num_seqs: AtLeast1 | UnsetType = UNSET
    """The row budget S."""
    max_num_batched_tokens: AtLeast1 | UnsetType = UNSET
    """The token budget T of a round."""
    scheduling_policy: Literal["fcfs", "priority"] | UnsetType = UNSET
    retention_interval: AtLeast0 | UnsetType | None = UNSET
    """Tokens between retained states: 0 = sparse, None = dense (every block boundary)."""
    spec_tokens: AtLeast0 | UnsetType = UNSET
    """EAGLE-style draft tokens a step; 0 = no drafts."""
    async_scheduling: bool | UnsetType = UNSET
    kv_cache_events: bool | UnsetType = UNSET
    """Whether vLLM publishes prefix-cache events."""

    def given(self) -> dict[str, Any]:
        """The options that were stated, by name, as stated."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not UNSET}

    def resolved(self, **overrides: Any) -> EngineOptions:
        """Every option with a value: the overrides, then what was stated, then the defaults.

        An override of None counts as not given, except for `retention_interval`, where it means
        dense and `UNSET` means not given. `model` stays `UNSET` where nobody named one. To lay a
        model's profile underneath: `EngineOptions(**profile | options.given()).resolved(...)`.
        Raises WorkloadError where a value is wrong or two contradict each other.
        """
        stated = self.given()
        for name, value in overrides.items():
            if value is UNSET or (value is None and name != "retention_interval"):
                continue
            stated[name] = value
        stated = DEFAULTS | stated
        stated.setdefault("hash_block_size", stated.get("block_size"))
        return options_from(stated)


DEFAULTS: dict[str, Any] = {
    "block_size": 64,
    "num_blocks": 300,
    "state_groups": 1,
    "max_num_seqs": 8,
    "max_num_batched_tokens": 4096,
    "retention_interval": 0,
    "scheduling_policy": "fcfs",
    "spec_tokens": 0,
    "async_scheduling": False,
    "kv_cache_events": False,
}
"""CONTRACT 2's defaults; `hash_block_size` follows `block_size`, `model` has none."""

EXPECTED = {
    "model": "the name of a model profile",
    "block_size": "a whole number of tokens, 1 or more",
    "hash_block_size": "a whole number of tokens, 1 or more, that divides block_size",
    "num_blocks": "a whole number from 2 (the null block and one more) to 10,000,000",
    "state_groups": "a whole number, 0 or more (0 = full attention only)",
    "max_num_seqs": "a whole number, 1 or more",
    "max_num_batched_tokens": "a whole number of tokens, 1 or more",
    "scheduling_policy": '"fcfs" or "priority"',
    "retention_interval": "a whole number of tokens, 0 (sparse) or more, or null (dense)",
    "spec_tokens": "a whole number, 0 or more",
    "async_scheduling": "true or false",
    "kv_cache_events": "true or false",
}


def options_from(values: Any) -> EngineOptions:
    """EngineOptions from a JSON object; WorkloadError (without a place) where it can't be one."""
    if not isinstance(values, dict):
        raise WorkloadError(f"engine is {shown(values)}; expected an object of options")
    for key in values:
        if key not in EXPECTED:
            raise WorkloadError(f'unknown engine option "{key}"; {near(key, EXPECTED, "known ones")}')
    for key, value in values.items():
        try:
            msgspec.convert({key: value}, EngineOptions)
        except msgspec.ValidationError:
            raise WorkloadError(f"engine.{key} is {shown(value)}; expected {EXPECTED[key]}") from None
    options = msgspec.convert(values, EngineOptions)
    check_options(options)
    return options


def check_options(options: EngineOptions) -> None:
    """Raise WorkloadError where two options contradict each other (vLLM's own start-up checks).

    With a model named, what isn't stated comes from its profile, so only stated ones are compared.
    """
    values = options.given() if options.model is not UNSET else DEFAULTS | options.given()
    block, hashed = values.get("block_size"), values.get("hash_block_size")
    if block and hashed and block % hashed:
        raise WorkloadError(
            f"engine.hash_block_size {hashed} doesn't divide block_size {block}; "
            f"expected a divisor of {block}, or leave it out"
        )
    retention = values.get("retention_interval")
    if block and retention and retention % block:
        raise WorkloadError(
            f"engine.retention_interval {retention} isn't a multiple of block_size {block}; "
            f"expected 0 (sparse), null (dense) or {block}, {2 * block}, ..."
        )
    if retention and values.get("state_groups") == 0:
        raise WorkloadError(
            f"engine.retention_interval {retention} with state_groups 0; "
            "expected 0 or null, since full attention retains no states"
        )
    rows, tokens = values.get("max_num_seqs"), values.get("max_num_batched_tokens")
    if rows and tokens and tokens < rows:
        raise WorkloadError(
            f"engine.max_num_batched_tokens {tokens} is less than max_num_seqs {rows}; "
            "expected at least one token a row"
        )

"""Token ids that are only counted: prompts made of labels have none, and vLLM's scheduler reads none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


class UnreadTokens(Sequence[int]):
    """`length` zeros and what was generated after them, in the place of vLLM's `prompt_token_ids` list.

    Two lists of 6,000 ids a request were a third of a simulated run's time.
    """

    __slots__ = ("_generated", "_length")

    def __init__(self, length: int, generated: Iterable[int] = ()) -> None:
        self._length = length
        self._generated = list(generated)

    def __len__(self) -> int:
        return self._length + len(self._generated)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return [self[k] for k in range(start, stop, step)]
            zeros = max(0, min(stop, self._length) - start)
            return [0] * zeros + self._generated[max(0, start - self._length) : max(0, stop - self._length)]
        position = range(len(self))[index]
        return self._generated[position - self._length] if position >= self._length else 0

    def append(self, token: int) -> None:
        self._generated.append(token)

    def extend(self, tokens: Iterable[int]) -> None:
        self._generated.extend(tokens)

    def copy(self) -> UnreadTokens:
        return UnreadTokens(self._length, self._generated)

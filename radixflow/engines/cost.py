"""What a round costs the modelled worker, in seconds of virtual time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RoundWork:
    """What a round asks of the worker."""

    rows: int
    tokens: int


class RoundCost(Protocol):
    """Any callable from a round's work to seconds."""

    def __call__(self, work: RoundWork) -> float: ...


@dataclass(frozen=True, slots=True)
class LinearCost:
    """a + b * tokens: a fixed price a round (launches, sampling, host work) and a price a token."""

    a: float
    """Seconds a round."""
    b: float
    """Seconds a token."""

    def __call__(self, work: RoundWork) -> float:
        return self.a + self.b * work.tokens

"""Options of builders and importers: what came from a command line, checked by one rule each."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

from radixflow.workloads.errors import WorkloadError, near, shown

MAX_REQUESTS = 1_000_000
"""That a builder makes: more would only fill the memory."""


def call_with(function: Callable[..., Any], what: str, options: dict[str, Any], *fixed: Any) -> Any:
    """`function(*fixed, **options)`, or WorkloadError where it has no option of that name."""
    known = [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    ]
    for name in options:
        if name not in known:
            hint = near(name, known, "its options") if known else "expected no options"
            raise WorkloadError(f'{what} has no option "{name}"; {hint}')
    return function(*fixed, **options)


def whole(name: str, value: Any, least: int = 1) -> int:
    """The value, a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise WorkloadError(f"{name} is {shown(value)}; expected a whole number, {least} or more")
    return value


def few_enough(what: str, requests: int) -> None:
    """WorkloadError where `what` asks for more requests than `MAX_REQUESTS`."""
    if requests > MAX_REQUESTS:
        raise WorkloadError(f"{what} would be {requests:,} requests; expected at most {MAX_REQUESTS:,}")


def number(name: str, value: Any, above: float = 0.0, or_equal: bool = False) -> float:
    """The value, a finite number above (or at) `above`."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not fits or value < above or (value == above and not or_equal):
        raise WorkloadError(
            f"{name} is {shown(value)}; expected a number{f', {above:g} or more' if or_equal else f' above {above:g}'}"
        )
    return float(value)


def part_of_one(name: str, value: Any) -> float:
    """The value, above 0 and at most 1."""
    if number(name, value) > 1:
        raise WorkloadError(f"{name} is {value:g}; expected a share above 0, at most 1")
    return float(value)


def one_of(name: str, value: Any, known: Sequence[str]) -> str:
    """The value, one of the known words."""
    if value not in known:
        raise WorkloadError(f"{name} is {shown(value)}; expected one of {', '.join(known)}")
    return value

"""Which engine should take a request: the one from which it will have its answer soonest.

An engine that matches a long prefix (h^) but can't resume from it (h) computes it again, so what counts is what is
ready. What is ready somewhere is worth a wait there only as long as the wait is shorter than computing it elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from radixflow.index.namespace import Namespace
from radixflow.index.prefix_index import Match, PrefixIndex


@dataclass(frozen=True, slots=True)
class Load:
    """What an engine has before it."""

    waiting_tokens: int = 0
    """Prompt tokens that it has accepted and not computed yet."""
    running: int = 0
    """Requests that are running."""
    alive: bool = True


@dataclass(frozen=True, slots=True)
class Choice:
    """One engine, and what taking the request would cost there."""

    engine: str
    match: Match
    compute_tokens: int
    """Of the prompt, not ready there."""
    before_tokens: int
    """To be computed there first."""

    @property
    def tokens(self) -> int:
        """Tokens until the request's first one."""
        return self.compute_tokens + self.before_tokens


def rank(
    index: PrefixIndex | None,
    tokens: Sequence[int],
    namespace: Namespace,
    loads: Mapping[str, Load],
) -> list[Choice]:
    """Engines that are alive, the best one first: fewest tokens until the answer, then fewest running requests.

    loads: every engine that may be asked. Without an index (switched off, or lost) nothing counts as ready and the
    load alone decides: no request is lost with it.
    """
    matches: Mapping[str, Match] = {}
    if index is not None and len(tokens) > 1:
        try:
            matches = index.longest_match(tokens[:-1], namespace)  # the last token is always computed
        except Exception:  # an index that fails is an index that is off
            matches = {}
    nothing = Match(0, 0, {})
    choices = [
        Choice(
            engine,
            match := matches.get(engine, nothing),
            compute_tokens=len(tokens) - match.ready,
            before_tokens=load.waiting_tokens,
        )
        for engine, load in loads.items()
        if load.alive
    ]
    return sorted(choices, key=lambda choice: (choice.tokens, loads[choice.engine].running))

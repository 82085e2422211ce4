"""The cost identity: how a saving of host time splits into fewer rounds and dearer rounds."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from radixflow.analysis.prose import Told, counted, seconds

NS = 10**9


class CostRefused(ValueError):
    """The identity can't be stated for this trace; the message says why."""


@dataclass(frozen=True, slots=True)
class HostCost:
    """Host time of a run: from `schedule()`'s return to `update_from_output()`'s entry, summed.

    K counts the rounds with at least one token whose answer was recorded; of a cut trace the round in
    flight has no host time yet and is left out of both K and the sum.
    """

    rounds: int
    """K."""
    total_ns: int
    """T_host, nanoseconds."""
    unanswered: int
    """Rounds left out because their answer was not recorded."""

    @property
    def mean_ns(self) -> Fraction:
        """c = T_host / K, exact; 0 for a run without rounds."""
        return Fraction(self.total_ns, self.rounds) if self.rounds else Fraction(0)


@dataclass(frozen=True, slots=True, repr=False)
class CostIdentity(Told):
    """T_host,0 - T_host,1 = (K0 - K1) * c0 - K1 * (c1 - c0), in exact rationals (nanoseconds)."""

    first: HostCost
    second: HostCost

    @property
    def saved_ns(self) -> int:
        """The left side: positive where the second run spent less host time."""
        return self.first.total_ns - self.second.total_ns

    @property
    def fewer_rounds_ns(self) -> Fraction:
        """(K0 - K1) * c0: what the rounds that are gone would have cost at the first run's mean."""
        return (self.first.rounds - self.second.rounds) * self.first.mean_ns

    @property
    def dearer_rounds_ns(self) -> Fraction:
        """K1 * (c1 - c0): what the remaining rounds cost more than the first run's mean."""
        return self.second.rounds * (self.second.mean_ns - self.first.mean_ns)

    @property
    def holds(self) -> bool:
        """Whether the two sides are equal. Exact arithmetic: False means a fault, not rounding."""
        return self.saved_ns == self.fewer_rounds_ns - self.dearer_rounds_ns

    @property
    def text(self) -> str:
        """`20 ms of host time saved: 2 rounds fewer save 106 ms (53.2 ms each), 4 dearer rounds cost ...`"""

        def spoken(ns: Fraction | int) -> str:
            return seconds(abs(float(ns)) / NS)

        gone = self.first.rounds - self.second.rounds
        if not gone and not self.dearer_rounds_ns:
            return "the same host time, in as many rounds."
        said = f"{spoken(self.saved_ns)} {'of host time saved' if self.saved_ns >= 0 else 'more host time'}: "
        if gone:
            how = f"fewer {_verb('save', gone)}" if gone > 0 else f"more {_verb('cost', gone)}"
            each = spoken(self.first.mean_ns)
            said += f"{counted(abs(gone), 'round')} {how} {spoken(self.fewer_rounds_ns)} ({each} each), "
        dearer = self.dearer_rounds_ns
        if not dearer:
            return f"{said}and the others cost the same."
        kind, what = ("dearer", "cost") if dearer > 0 else ("cheaper", "save")
        each = spoken(self.second.mean_ns - self.first.mean_ns)
        rounds = self.second.rounds
        return f"{said}{counted(rounds, f'{kind} round')} {_verb(what, rounds)} {spoken(dearer)} ({each} each)."

    def to_dict(self) -> dict:
        """Seconds, and the exact counts that they come from."""
        return {
            "rounds": [self.first.rounds, self.second.rounds],
            "host_seconds": [self.first.total_ns / NS, self.second.total_ns / NS],
            "mean_round_seconds": [float(self.first.mean_ns / NS), float(self.second.mean_ns / NS)],
            "saved_seconds": self.saved_ns / NS,
            "fewer_rounds_seconds": float(self.fewer_rounds_ns / NS),
            "dearer_rounds_seconds": float(self.dearer_rounds_ns / NS),
            "holds": self.holds,
        }


def _verb(verb: str, rounds: int) -> str:
    return f"{verb}s" if abs(rounds) == 1 else verb


def host_cost(trace) -> HostCost:
    """The trace's host time. Raises `CostRefused` under asynchronous scheduling."""
    if trace.config.async_scheduling:
        raise CostRefused(
            "asynchronous scheduling: steps overlap, so the time between schedule() and "
            "update_from_output() is not the cost of one round"
        )
    rounds = trace.rounds
    host = rounds.loc[rounds["tokens"] > 0, "host_ns"]
    known = host.dropna()
    total = int(np.sum(known.to_numpy(dtype=np.int64))) if len(known) else 0
    return HostCost(len(known), total, len(host) - len(known))


def cost_identity(first, second) -> CostIdentity:
    """The identity for two traces. Raises `CostRefused` where either ran asynchronously or holds no
    answered round, since a mean cost needs at least one."""
    sides = []
    for trace in (first, second):
        cost = host_cost(trace)
        if not cost.rounds:
            raise CostRefused(f"{trace.path}: no round with a recorded answer, so no mean cost of a round")
        sides.append(cost)
    identity = CostIdentity(*sides)
    if not identity.holds:
        raise ArithmeticError(f"cost identity broken for {first.path} and {second.path}: report this")
    return identity

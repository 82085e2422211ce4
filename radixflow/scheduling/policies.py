"""The scheduling policies by name (CONTRACT 1; RadixFlow, arXiv 2610.18143)."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

MILLISECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class AdmissionRule:
    """How long arrivals are held to fill a round."""

    deadline_ns: int
    """The oldest held arrival is released at this age, and all others with it."""
    early_release: bool
    """Flexible admission: release as soon as holding can't help any more."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What differs from native vLLM: three switches, each of which may be off."""

    name: str
    admission: AdmissionRule | None
    traversal: bool
    """State-ready traversal in place of the native prefix-stop."""
    fragmentation: bool
    note: str


_FLEX = AdmissionRule(5 * MILLISECOND, early_release=True)

POLICIES: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        Policy("radix", None, False, False, "native vLLM: the scan stops at the first refusal"),
        Policy(
            "radix+timer5",
            AdmissionRule(5 * MILLISECOND, False),
            False,
            False,
            "native scan; arrivals wait for a fixed 5 ms deadline",
        ),
        Policy(
            "radix+timer10",
            AdmissionRule(10 * MILLISECOND, False),
            False,
            False,
            "native scan; arrivals wait for a fixed 10 ms deadline",
        ),
        Policy("radix+flex", _FLEX, False, False, "native scan; 5 ms deadline with early release"),
        Policy("radixflow", _FLEX, True, False, "flexible admission and state-ready traversal"),
        Policy(
            "radixflow+frag", _FLEX, True, True, "radixflow, then avoids cutting a request's aligned segment"
        ),
        Policy("radixflow+noadmit", None, True, False, "state-ready traversal alone, for proofs and lessons"),
    )
}


def get_policy(name: str) -> Policy:
    """The policy called `name`. Raises ValueError naming the known ones, the nearest first."""
    try:
        return POLICIES[name]
    except KeyError:
        near = difflib.get_close_matches(name, POLICIES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown policy {name!r}: expected one of {', '.join(POLICIES)}{hint}") from None

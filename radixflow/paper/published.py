"""What the paper publishes (RadixFlow, arXiv 2610.18143: vLLM 0.29, one A800, eager, synchronous)."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True, slots=True)
class Change:
    """A published change, and between what it lies: a number is known to its printed digits only."""

    value: float
    low: float
    high: float

    @classmethod
    def between(cls, before: float, after: float, *, points: bool = False) -> Change:
        """From two printed numbers in percent, or in points. Whole numbers of rounds are counts, and exact."""
        places = max(_decimals(before), _decimals(after))
        half = 0.0 if places == 0 and isinstance(before, int) and isinstance(after, int) else 0.5 * 10**-places
        a, b = (before - half, before + half), (after - half, after + half)
        if points:
            return cls(after - before, b[0] - a[1], b[1] - a[0])
        return cls(*(100 * (y / x - 1) for y, x in ((after, before), (b[0], a[1]), (b[1], a[0]))))

    @classmethod
    def said(cls, percent: float) -> Change:
        """Printed as a change, with one decimal."""
        return cls(percent, percent - 0.05, percent + 0.05)

    def may_be(self, low: float, high: float) -> bool:
        """Whether what was printed may stand for a number from `low` to `high`."""
        tiny = 1e-9  # of the arithmetic: 81.366 - 81.362 isn't 0.004 to the last bit
        return self.low - tiny <= high and low <= self.high + tiny


def _decimals(printed: float) -> int:
    return 0 if printed == int(printed) else len(repr(printed).partition(".")[2])


@dataclass(frozen=True, slots=True)
class Published:
    """One model's row of the paper's Tables 1 and 2; pairs are (Radix, RadixFlow)."""

    model: str
    latency: tuple[float, float]
    """Mean client latency, seconds."""
    rounds: tuple[int, int]
    """Over all six streams."""
    reuse: tuple[float, float]
    """Percent of prompt tokens."""
    rows_per_round: tuple[float, float]
    first_selected: tuple[float, float]
    """Mean wait until first selected, seconds."""
    agreement: float
    """First tokens that are the same under both policies, percent."""
    rate: float = 5.0
    """Questions a second."""

    def change(self, metric: str) -> Change:
        """From Radix to RadixFlow: percent, points of `reuse`."""
        return Change.between(*getattr(self, metric), points=metric == "reuse")


PUBLISHED = {
    row.model: row
    for row in (
        Published(
            "Qwen3.5-0.8B", (0.256, 0.232), (19_803, 17_610), (81.362, 81.366), (3.63, 4.10), (0.057, 0.049), 98.477
        ),
        Published(
            "Qwen3.5-4B", (13.1, 10.0), (13_424, 10_146), (80.405, 80.431), (5.42, 7.31), (12.576, 9.273), 99.850
        ),
        Published(
            "Qwen3.5-9B", (26.7, 24.8), (11_042, 7_444), (79.686, 79.696), (6.61, 10.02), (25.682, 23.255), 99.680
        ),
        Published(
            "Qwen3.5-27B", (164.0, 159.0), (11_748, 6_529), (68.497, 68.508), (6.51, 12.11), (160.538, 153.314), 99.995
        ),
        Published(
            "Nemotron-Nano-9B-v2",
            (2.44, 2.15),
            (14_338, 9_613),
            (75.939, 75.950),
            (2.91, 4.38),
            (1.898, 1.582),
            99.688,
            rate=1.5,
        ),
        Published("Qwen3-8B", (16.4, 16.4), (9_223, 6_746), (85.243, 85.250), (4.28, 5.86), (15.817, 15.813), 99.441),
    )
}
"""By profile name, in the order of the paper's tables; the last is the full-attention control."""

CONTROL = "Qwen3-8B"
RADIX, RADIXFLOW = "radix", "radixflow"

PAPERS = (RADIX, "radix+flex", RADIXFLOW)
"""The policies to show where not all six fit: those with published tables, and the step between them."""
PUBLISHED_HERE = ", published"
"""Ends the heading of a published column beside ours."""
QUESTIONS = 9_306
"""A policy and model, over three streams and two orders."""

FURTHER = (
    ("Qwen3.5-27B", "rounds", "radix+flex", "radix", Change.said(-1.6)),
    ("Nemotron-Nano-9B-v2", "rounds", "radix+flex", "radix", Change.said(-27.0)),
    ("Nemotron-Nano-9B-v2", "rounds", "radixflow", "radix+flex", Change.said(-8.0)),
    ("Qwen3-8B", "rounds", "radix+flex", "radix", Change.between(9_223, 6_782)),
    ("Qwen3.5-27B", "host_seconds", "radixflow", "radix", Change.said(-3.8)),
    ("Qwen3.5-27B", "tokens_per_round", "radixflow", "radix", Change.said(80.0)),
    ("Qwen3.5-27B", "throughput", "radixflow", "radix", Change.said(3.0)),
    ("Qwen3.5-9B", "throughput", "radixflow", "radix", Change.said(4.0)),
    ("Qwen3.5-4B", "throughput", "radixflow", "radix", Change.said(4.2)),
    ("Qwen3.5-9B", "latency_p95", "radixflow", "radix", Change.between(73.3, 70.6)),
    ("Nemotron-Nano-9B-v2", "latency_p95", "radixflow", "radix", Change.between(15.8, 13.3)),
    ("Qwen3.5-27B", "latency", "radixflow+frag", "radixflow", Change.said(-5.0)),
)
"""Changes that the text gives: model, metric, policy, compared with, how much."""

TRAVERSAL_BY_STREAM = {"cold": Change.said(-44.0), "mixed": Change.said(-43.0), "reuse": Change.said(-44.0)}
"""Rounds of `radixflow` against `radix+flex` on Qwen3.5-27B."""


def published_table() -> pd.DataFrame:
    """Tidy: `model`, `policy` (radix, radixflow), and a column a published quantity.

    `latency` and `first_selected` in seconds, `reuse` in percent.
    """
    return pd.DataFrame(
        {
            "model": row.model,
            "policy": policy,
            "latency": row.latency[k],
            "rounds": row.rounds[k],
            "reuse": row.reuse[k],
            "rows_per_round": row.rows_per_round[k],
            "first_selected": row.first_selected[k],
        }
        for row in PUBLISHED.values()
        for k, policy in enumerate((RADIX, RADIXFLOW))
    )

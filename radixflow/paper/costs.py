"""The round costs that the experiment uses: fitted once on Radix alone, then frozen (`radixflow.paper.fit`)."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import msgspec

from radixflow.engines.profiles import get_profile


class FittedCost(msgspec.Struct, kw_only=True):
    """One model's round cost a + b * tokens, and how it was found."""

    model: str
    a: float
    """Seconds a round."""
    b: float
    """Seconds a token."""
    targets: dict[str, float]
    """The published Radix figures it was fitted to: `latency` (seconds), `rounds`."""
    reached: dict[str, float]
    """What Radix gives with it in the simulator."""
    elasticity: list[list[float]]
    """d log(latency, rounds) / d log(a, b) at the fit: a 2 x 2 table, rows latency and rounds."""
    seed: int = 0
    evaluations: int = 0

    at_floor: bool = False
    """a is as small as the profile allows: the published rounds can't be reached from below."""

    @property
    def misfit(self) -> dict[str, float]:
        """Reached against target, as a share of the target."""
        return {key: self.reached[key] / self.targets[key] - 1 for key in self.targets}


FILE = "costs.json"


def fitted_costs() -> dict[str, FittedCost]:
    """The frozen fits by model."""
    path = Path(str(resources.files("radixflow.paper") / FILE))
    found = msgspec.json.decode(path.read_bytes(), type=list[FittedCost]) if path.exists() else []
    return {fit.model: fit for fit in found}


def frozen_cost(model: str) -> tuple[float, float]:
    """a, b of a model: the frozen fit, or the profile's estimate where there is none."""
    fit = fitted_costs().get(model)
    if fit is not None:
        return fit.a, fit.b
    cost = get_profile(model).cost
    return cost.a, cost.b

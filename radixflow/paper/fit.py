"""Round costs: a + b * tokens, fitted to two published figures of Radix and of nothing else.

The two figures are Radix's mean latency and its number of rounds over all six streams. Whatever the other
policies then take is a prediction. Both figures depend on both parameters (a dearer round makes the next
one fuller, so that there are fewer), and not always enough: `FittedCost.elasticity` says how well two
figures fix two parameters, `FittedCost.misfit` how well the two can be reached at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from radixflow.engines.profiles import get_profile
from radixflow.paper.cell import Cell, CellResult, run_cell, standard_cell
from radixflow.paper.costs import FittedCost
from radixflow.paper.published import PUBLISHED, RADIX
from radixflow.workloads.paper import ORDERS, STREAMS

STEP = 0.15
"""Of the logarithms, for the slopes: wide, since a run's rounds move in jumps."""
FARTHEST = 0.7
"""No step of the fit changes a logarithm by more."""
CLOSE = 0.01
"""A misfit below 1% ends the fit: another seed moves the figures by more."""
TYPICAL = np.array([[0.2, 3.0], [-0.05, -0.5]])
"""Slopes that the fit begins with, and corrects with every step: latency hangs on b, rounds on either a little."""

Runner = Callable[[Iterable[Cell]], list[CellResult]]


def one_by_one(cells: Iterable[Cell]) -> list[CellResult]:
    return [run_cell(cell) for cell in cells]


def fit_cost(
    model: str,
    *,
    run: Runner = one_by_one,
    start: tuple[float, float] | None = None,
    scale: float = 1.0,
    seed: int = 0,
    evaluations: int = 12,
    progress: Callable[[str], None] | None = None,
) -> FittedCost:
    """The model's round cost by least squares on the two logarithms (Gauss-Newton, damped).

    a is not let below the profile's own: no round is cheaper than reading the weights once. It moves along
    one order's three streams; `FittedCost.reached` is then taken over both orders.
    start: a first guess of a and b. scale: below 1 a slice of the workload stands for the whole; its rounds
    are scaled up. evaluations: at most so many times three streams.
    """
    published = PUBLISHED[get_profile(model).name]
    target = np.log([published.latency[0], published.rounds[0]])
    spent = 0

    def figures(x: np.ndarray, orders: Sequence[int] = ORDERS[:1]) -> np.ndarray:
        nonlocal spent
        spent += 1
        a, b = np.exp(x).tolist()
        results = run(
            standard_cell(published.model, RADIX, stream, order, seed, scale=scale, cost=(a, b))
            for stream in STREAMS
            for order in orders
        )
        latency = float(np.mean(np.concatenate([result.latency for result in results]))) / 1e6
        rounds = sum(result.rounds for result in results) / scale * len(ORDERS) / len(orders)
        if progress is not None:
            progress(
                f"{published.model}: a = {1e3 * a:.3g} ms, b = {1e6 * b:.3g} us: "
                f"latency {latency:.4g} of {published.latency[0]} s, rounds {rounds:.0f} of {published.rounds[0]}"
            )
        return np.log([latency, rounds])

    def slopes(x: np.ndarray, here: np.ndarray) -> np.ndarray:
        steps = [(figures(x + STEP * np.eye(2)[k]) - here) / STEP for k in range(2)]
        return np.array(steps).T

    estimate = get_profile(model).cost
    floor = math.log(estimate.a)
    x = np.log(start or (estimate.a, estimate.b))
    x[0] = max(x[0], floor)
    here = figures(x)
    table, damping = TYPICAL.copy(), 0.01
    while spent < evaluations and np.abs(here - target).max() > CLOSE:
        move = np.linalg.solve(table.T @ table + damping * np.eye(2), table.T @ (target - here))
        if x[0] + move[0] <= floor:
            # As few rounds as a round's least price allows: b alone is left, and latency decides it.
            move[0] = floor - x[0]
            move[1] = (target[0] - here[0] - table[0, 0] * move[0]) / table[0, 1]
        move *= min(1.0, FARTHEST / np.abs(move).max())
        if np.abs(move).max() < CLOSE / 5:
            break
        there = figures(x + move)
        # Broyden: the slopes learn from every step, also from one that isn't taken.
        table = table + np.outer(there - here - table @ move, move) / (move @ move)
        if _misfit(there, target) < _misfit(here, target):
            x, here, damping = x + move, there, damping / 3
        else:
            damping *= 10
    elasticity = slopes(x, here).tolist()
    reached = np.exp(figures(x, ORDERS)).tolist()
    a, b = np.exp(x).tolist()
    return FittedCost(
        model=published.model,
        a=a,
        b=b,
        targets={"latency": published.latency[0], "rounds": published.rounds[0]},
        reached=dict(zip(("latency", "rounds"), reached, strict=True)),
        elasticity=elasticity,
        seed=seed,
        evaluations=spent,
        at_floor=bool(x[0] <= floor + 1e-9),
    )


def _misfit(figures: np.ndarray, target: np.ndarray) -> float:
    """Latency counts ten times: where rounds can't be reached, it must not be given up for them."""
    return float(np.sum((np.array([10.0, 1.0]) * (figures - target)) ** 2))


def uncertainty(fit: FittedCost, share: float = 0.01) -> tuple[float, float]:
    """How far a and b may be off, as shares, where both figures are only known to within `share`.

    Infinite where the two figures don't tell the two parameters apart.
    """
    table = np.array(fit.elasticity)
    if np.linalg.matrix_rank(table, tol=1e-3) < 2:
        return float("inf"), float("inf")
    spread = np.sqrt(np.diag(np.linalg.inv(table.T @ table))) * share
    return float(spread[0]), float(spread[1])

"""Where RadixFlow helps, where it doesn't, where it hurts: one assumption or budget changed at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from radixflow.engines.profiles import get_profile
from radixflow.paper.cell import Cell, CellResult, standard_cell
from radixflow.paper.tables import pooled

POLICIES = ("radix", "radix+flex", "radixflow")


@dataclass(frozen=True, slots=True)
class Knob:
    """One thing to vary."""

    name: str
    note: str
    values: Sequence[Any]
    apply: Callable[[Cell, Any], Cell]
    given: dict[str, Any] = field(default_factory=dict)
    """Fields of `Cell` that differ from the standard cell at every value."""


def _option(name: str) -> Callable[[Cell, Any], Cell]:
    return lambda cell, value: replace(cell, options=((name, value),))


def _pool(cell: Cell, share: float) -> Cell:
    blocks = max(40, round(get_profile(cell.model).num_blocks * share))
    return replace(cell, options=(("num_blocks", blocks),))


def _retention(cell: Cell, blocks: int | None) -> Cell:
    tokens = None if blocks is None else blocks * get_profile(cell.model).block_size
    return replace(cell, options=(("retention_interval", tokens),))


KNOBS = {
    knob.name: knob
    for knob in (
        Knob(
            "rate",
            "arrival rate, as a multiple of the paper's",
            (0.25, 0.5, 1, 1.5, 2, 4),
            lambda cell, value: replace(cell, rate=cell.rate * value),
        ),
        Knob("S", "rows a round", (4, 8, 16, 32, 64, 128), _option("max_num_seqs")),
        Knob("T", "tokens a round", (1024, 2048, 4096, 8192, 16_384), _option("max_num_batched_tokens")),
        Knob("pool", "block pool, as a multiple of the profile's", (0.05, 0.1, 0.25, 0.5, 1, 2), _pool),
        Knob(
            "shared",
            "share of each article that its requests share",
            (0.0, 0.25, 0.5, 0.75, 0.9, 1.0),
            lambda cell, value: replace(cell, shared=value),
        ),
        Knob("retention", "blocks between kept states (0: sparse, dense: every one)", (0, 4, 2, None), _retention),
        Knob(
            "branch_spacing",
            "seconds between a question's branches",
            (0.0, 0.0002, 0.001, 0.003, 0.01, 0.03, 0.1),
            lambda cell, value: replace(cell, branch_spacing=value),
        ),
        Knob(
            "output_tokens",
            "tokens that each branch generates",
            (1, 4, 16, 64, 256),
            lambda cell, value: replace(cell, output_tokens=value),
        ),
        Knob(
            "decode_pool",
            "block pool, as a multiple of the profile's, where a branch generates 256 tokens",
            (0.04, 0.06, 0.08, 0.1, 0.15, 0.2),
            _pool,
            {"output_tokens": 256, "questions": 60},
        ),
    )
}


def sensitivity_cells(
    knob: str,
    *,
    model: str = "Qwen3.5-9B",
    stream: str = "mixed",
    policies: Sequence[str] = POLICIES,
    scale: float = 0.25,
    seeds: Sequence[int] = (0,),
) -> list[tuple[Any, Cell]]:
    """The cells to run, each with the knob's value. Raises ValueError for an unknown knob."""
    if knob not in KNOBS:
        raise ValueError(f"unknown sensitivity {knob!r}: expected one of {', '.join(KNOBS)}")
    given = {"scale": scale} | KNOBS[knob].given
    return [
        (value, KNOBS[knob].apply(standard_cell(model, policy, stream, seed=seed, **given), value))
        for value in KNOBS[knob].values
        for policy in policies
        for seed in seeds
    ]


def sensitivity(knob: str, run: Callable[[Iterable[Cell]], list[CellResult]], **choices: Any) -> pd.DataFrame:
    """Tidy: `knob`, `value` (as text), `policy`, `model`, `stream`, the metrics of `tables.METRICS`, and
    `longest_wait` (seconds until first selected, the worst question: what starvation shows in)."""
    asked = sensitivity_cells(knob, **choices)
    results = run([cell for _, cell in asked])
    groups: dict[tuple[str, str], list[CellResult]] = {}
    for (value, cell), result in zip(asked, results, strict=True):
        groups.setdefault((_text(knob, value), cell.policy), []).append(result)
    rows = []
    for (value, policy), cells in groups.items():
        told = {"knob": knob, "value": value, "policy": policy}
        told |= {"model": cells[0].cell["model"], "stream": cells[0].cell["stream"]}
        worst = max((float(np.max(cell.first_selected)) / 1e6 for cell in cells if cell.first_selected), default=0.0)
        rows.append(told | pooled(cells) | {"longest_wait": worst, "end": cells[0].end})
    return pd.DataFrame(rows)


def _text(knob: str, value: Any) -> str:
    return "dense" if knob == "retention" and value is None else f"{value:g}"

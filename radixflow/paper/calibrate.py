"""Budgets S and T by native scheduling alone, on held-out questions (`paper --calibrate`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pandas as pd

from radixflow.engines.profiles import get_profile
from radixflow.paper.cell import Cell, CellResult, standard_cell
from radixflow.paper.published import RADIX
from radixflow.paper.tables import pooled

HELD_OUT_SEED = 1_000_003
"""Of articles, questions and arrivals that no table is made of."""
QUESTIONS = 64
ROWS = (8, 16, 32, 64, 128)
TOKENS = (2048, 4096, 8192, 16_384)


def calibration_cells(
    model: str, rows: Sequence[int] = ROWS, tokens: Sequence[int] = TOKENS, stream: str = "mixed"
) -> list[Cell]:
    """Radix on 64 held-out questions under every pair of budgets."""
    return [
        standard_cell(
            model,
            RADIX,
            stream,
            seed=HELD_OUT_SEED,
            questions=QUESTIONS,
            options=(("max_num_seqs", s), ("max_num_batched_tokens", t)),
        )
        for s in rows
        for t in tokens
    ]


def calibrate(models: Iterable[str], run: Callable[[Iterable[Cell]], list[CellResult]]) -> pd.DataFrame:
    """Tidy: `model`, `S`, `T`, `latency` (mean, seconds), `rounds`, `best`, `frozen` (the experiment's budgets).

    The best is the pair with the least mean latency; of those within 1% of it, the one with the smallest S, then
    T: a larger budget that gains nothing costs memory.
    """
    frames = []
    for model in models:
        profile = get_profile(model)
        rows = []
        for result in run(calibration_cells(profile.name)):
            budgets = dict(result.cell["options"])
            numbers = pooled([result])
            rows.append(
                {
                    "model": profile.name,
                    "S": budgets["max_num_seqs"],
                    "T": budgets["max_num_batched_tokens"],
                    "latency": numbers["latency"],
                    "rounds": numbers["rounds"],
                }
            )
        frame = pd.DataFrame(rows)
        near = frame[frame["latency"] <= 1.01 * frame["latency"].min()].sort_values(["S", "T"])
        frame["best"] = frame.index == near.index[0]
        frame["frozen"] = (frame["S"] == profile.max_num_seqs) & (frame["T"] == profile.max_num_batched_tokens)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)

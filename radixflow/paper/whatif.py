"""What-if, judged: the recorded run, its own prediction, and the prediction under other rules side by side."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from radixflow.analysis import summarize
from radixflow.analysis.diverge import diverge
from radixflow.analysis.slots import slots
from radixflow.engines.replay import Rebuilt, rebuild, replay
from radixflow.paper.words import WHATIF
from radixflow.trace import Trace, open_trace


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The answer, and how far to trust it."""

    policy: str
    """Under which it was predicted."""
    changes: dict[str, Any]
    """Engine options that differ from the recorded ones."""
    end: str
    """How the predicted run ended."""
    table: pd.DataFrame
    """Index metric; `recorded`, `replayed` (the same policy and options), `error` (replayed against recorded, as a
    share), `predicted`, `change` (predicted against replayed, as a share). None where a metric isn't known."""
    slots: pd.DataFrame
    """Index cause; slots of the rounds with a token, `recorded`, `replayed`, `predicted`."""
    parts_in_round: int | None
    """First round in which the replay of the same policy differs from the recorded run; None where none does."""
    cost: tuple[float, float]
    """a, b of the round cost a + b * tokens that the recorded rounds gave, seconds."""
    cost_error: float
    """Mean distance of the recorded rounds' times from it, as a share of their mean."""
    notes: tuple[str, ...]
    trace: Path | None
    """The predicted run's trace, where it was kept."""

    @property
    def exact(self) -> bool:
        """The replay of the same policy equals the recorded run round for round."""
        return self.parts_in_round is None

    def to_dict(self) -> dict[str, Any]:
        """What `whatif --json` prints."""
        return {
            "policy": self.policy,
            "changes": self.changes,
            "end": self.end,
            "exact": self.exact,
            "parts_in_round": self.parts_in_round,
            "metrics": _plain(self.table),
            "slots": _plain(self.slots),
            "round_cost": {"a": self.cost[0], "b": self.cost[1], "error": self.cost_error},
            "notes": list(self.notes),
            "trace": str(self.trace) if self.trace else None,
        }


def what_if(
    path: str | Path,
    policy: str | None = None,
    *,
    output: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
    **changes: Any,
) -> WhatIf:
    """Replay a trace under another policy or other engine options (`max_num_seqs`, `max_num_batched_tokens`,
    `num_blocks`, `block_size`, `retention_interval`, ...), and under its own, which measures the error.

    output: keep the predicted run's trace there. Raises TraceError, WorkloadError or ValueError, one line.
    """
    recorded = open_trace(path)
    rebuilt = rebuild(path)
    with tempfile.TemporaryDirectory(prefix="radixflow-") as folder:
        same = Path(folder) / "same.rft.jsonl.zst"
        replay(rebuilt, same, progress=progress, probe=recorded.config.probe)
        other = Path(output) if output is not None else Path(folder) / "other.rft.jsonl.zst"
        end = replay(rebuilt, other, policy, progress=progress, **changes)
        replayed, predicted = open_trace(same), open_trace(other)
        return WhatIf(
            policy=policy or rebuilt.header.policy,
            changes=changes,
            end=end,
            table=_table(recorded, replayed, predicted),
            slots=pd.DataFrame(
                {
                    name: slots(trace).totals
                    for name, trace in (("recorded", recorded), ("replayed", replayed), ("predicted", predicted))
                }
            ),
            parts_in_round=_parts(recorded, replayed),
            cost=(rebuilt.cost.a, rebuilt.cost.b),
            cost_error=rebuilt.cost_error,
            notes=_notes(rebuilt),
            trace=other if output is not None else None,
        )


def _notes(rebuilt: Rebuilt) -> tuple[str, ...]:
    if rebuilt.header.clock.arrivals or rebuilt.header.clock.virtual:
        return rebuilt.notes
    return (*rebuilt.notes, "the workload had no clock: rounds are compared, times mean nothing")


def _parts(recorded: Trace, replayed: Trace) -> int | None:
    part = diverge(recorded, replayed)
    return None if part is None else part.round


def _table(recorded: Trace, replayed: Trace, predicted: Trace) -> pd.DataFrame:
    columns = {
        name: _flat(trace) for name, trace in (("recorded", recorded), ("replayed", replayed), ("predicted", predicted))
    }
    table = pd.DataFrame(columns, index=list(WHATIF), dtype=float)
    table["error"] = _share(table["replayed"], table["recorded"])
    table["change"] = _share(table["predicted"], table["replayed"])
    return table.filter(["recorded", "replayed", "error", "predicted", "change"])


def _share(after: pd.Series, before: pd.Series) -> pd.Series:
    share = after / before.where(before != 0) - 1
    return share.where(~((after == 0) & (before == 0)), 0.0)


def _flat(trace: Trace) -> dict[str, float | None]:
    found = summarize(trace).to_dict()
    for name, spread in (("latency", "latency"), ("first_selected", "first_selected_wait")):
        for part in ("mean", "p95", "p99"):
            found[f"{name}_{part}"] = found[spread][part] if found[spread] else None
    return {name: found.get(name) for name in WHATIF}


def _plain(table: pd.DataFrame) -> dict[str, dict[str, float | None]]:
    return {
        str(name): {str(k): None if value != value else float(value) for k, value in row.items()}
        for name, row in table.iterrows()
    }

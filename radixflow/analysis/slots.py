"""Each round's S slots, told apart without remainder: S = row visits + resident + avoidable + each other
cause + idle (+ unprobed where the probe was off)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from radixflow.analysis.causes import SLOT_CAUSES, slot_cause
from radixflow.analysis.expand import probes
from radixflow.analysis.periods import periods
from radixflow.analysis.timeline import Timeline

_PROBED = SLOT_CAUSES[SLOT_CAUSES.index("avoidable") : SLOT_CAUSES.index("idle")]


@dataclass(frozen=True, slots=True)
class Slots:
    """The slots of a trace's rounds."""

    rounds: pd.DataFrame
    """Indexed by round; int64 columns: `S`, then each of `SLOT_CAUSES`. A stalled round that came again
    unchanged is one row: multiply by `repeat` for totals. Rounds that were dropped aren't in it."""
    faults: pd.DataFrame
    """Rounds whose sum does not come out, as recorded: `round`, `S`, `sum`, `what` (one sentence). Empty
    in a sound trace."""

    @property
    def totals(self) -> pd.Series:
        """Each of `SLOT_CAUSES` summed over the rounds with at least one token, int64. Together with
        `faults` empty, they add up to S times the number of those rounds."""
        counted = self.rounds[self.rounds["row_visits"] > 0]
        return counted[list(SLOT_CAUSES)].sum().astype(np.int64)


def slots(trace) -> Slots:
    """Account for every slot of every recorded round.

    The probe answers for as many requests as there are free slots, those in the queue first, then those that
    admission holds. So a probed round is idle only where fewer waited than slots were free; that is checked
    against the queue's recorded length. A free slot of a round that wasn't probed is `unprobed`, or `idle`
    where nobody waited.
    """
    rounds = trace.rounds
    s = trace.config.max_num_seqs
    table = pd.DataFrame(0, index=rounds.index, columns=["S", *SLOT_CAUSES], dtype=np.int64)
    table["S"] = s
    table["row_visits"] = rounds["rows"].to_numpy(np.int64)
    table["resident"] = rounds["resident"].to_numpy(np.int64)
    free = s - table["row_visits"].to_numpy() - table["resident"].to_numpy()
    others = np.maximum((rounds["waiting"] - rounds["new"]).to_numpy(np.int64), 0) + _held(trace)
    owed = np.minimum(np.maximum(free, 0), others)
    answers, silent = probed_causes(trace, free, owed)
    for cause, counts in answers.items():
        table[cause] += counts
    named = table[list(_PROBED)].sum(axis=1).to_numpy()
    table["idle"] = np.where(silent, np.maximum(free - owed, 0), np.maximum(free - named, 0))
    table["unprobed"] = np.where(silent, owed, 0)
    return Slots(table, _faults(table, s, silent, owed, named))


def _faults(table, s: int, silent, owed, named) -> pd.DataFrame:
    total = table[list(SLOT_CAUSES)].sum(axis=1).to_numpy()
    rows = []
    for k in np.flatnonzero((total != s) | ~silent & (named != owed)).tolist():
        if total[k] != s:
            what = f"the causes take {total[k]} slots, the row budget is {s}"
        else:
            what = (
                f"the probe owed {owed[k]} answers (free slots that somebody waited for), it gave {named[k]}"
            )
        rows.append((int(table.index[k]), s, int(total[k]), what))
    return pd.DataFrame(rows, columns=["round", "S", "sum", "what"])


def _held(trace) -> np.ndarray:
    """int64[rounds]: how many requests admission still held after each round's release."""
    if not len(trace.holds) and not trace.requests["held"].any():
        return np.zeros(len(trace.rounds), dtype=np.int64)
    line = Timeline.of(trace)
    change = np.zeros(len(line.first) + 1, dtype=np.int64)
    for period in periods(trace, line):
        if period.held is not None:
            change[period.held_from] += 1
            change[period.enter] -= 1
    return np.cumsum(change)[:-1][line.recorded]


def probed_causes(trace, free: np.ndarray, owed: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """What the probe answered, and where it was silent though it owed answers.

    Takes the free slots and the owed answers of each round (int64[rounds]). Returns int64[rounds] for each
    slot cause that the probe can name, and bool[rounds]."""
    rounds = trace.rounds
    counts = {cause: np.zeros(len(rounds), dtype=np.int64) for cause in _PROBED}
    avoidable = rounds["avoidable"].fillna(0).to_numpy(np.int64)
    counts["avoidable"][:] = avoidable
    # Only rounds whose probe has more to say than who was avoidable need expanding.
    known = rounds["avoidable"].notna().to_numpy() & (avoidable == owed)
    known &= rounds["idle"].fillna(0).to_numpy(np.int64) == np.maximum(free - owed, 0)
    silent = ~known
    for k, probe in probes(trace, ~known):
        silent[k] = False
        for _, recorded in probe.others:
            counts[slot_cause(recorded)][k] += 1
    return counts, silent & (owed > 0)

"""What the trajectories' picture shows of a whole run: a strip each, as high as the share of its own that is left.

Pure: traces in, a dict out. A strip is full while a request of the trajectory runs, and steps down as its blocks
are taken: one step under LRU, a staircase under rotating tails.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from radixflow.figures.palette import Colours
from radixflow.figures.trajectory_bars import MAX_ROWS, Contexts, labels_of, rows_of_runs
from radixflow.figures.windows import name_of

MAX_ROUNDS, COLUMNS = 1500, 750
"""A run of up to so many rounds is looked at in each; of a longer one, so many evenly spread rounds."""


def strips(contexts: Sequence[Contexts], colours: Colours | None = None, max_rows: int = MAX_ROWS) -> dict[str, Any]:
    """The strips of one trace or several, in the same rows: `runs` has a column for each.

    A run's `strips` are in the order of `rows` (ids of the trajectories' first requests; None where the trace has no
    such trajectory). `steps` are (first round, state, share): from that round to the next step the trajectory is
    `running`, `idle` (waiting included) or `gone`, and the share of its own tokens is left; None before its first
    request runs. `marks` are (round, `partial` or `whole`): where it came back and missed. `times` are the
    starts of rounds 1, 2, ... and the end, in seconds from the first.
    """
    if colours is None:
        colours = Colours.of(*(one.trace for one in contexts))
    rows, hidden = rows_of_runs(contexts, max_rows)
    return {
        "kind": "strips",
        "rows": rows,
        "labels": labels_of(contexts, rows),
        "hidden": hidden,
        "runs": [
            {
                "trace": one.trace.id,
                "policy": one.trace.header.policy,
                "eviction": one.trace.config.eviction,
                "num_rounds": one.trace.num_rounds,
                "times": _times(one.trace),
                "strips": _strips(one, rows, colours),
            }
            for one in contexts
        ],
    }


def _times(trace: Any) -> list[float]:
    rounds = trace.rounds
    if not len(rounds):
        return [0.0]
    t = rounds["t"].to_numpy(np.int64)
    last = rounds.iloc[-1]
    end = int(t[-1]) + int(last["schedule_ns"]) + (0 if np.isnan(float(last["host_ns"])) else int(last["host_ns"]))
    starts = np.interp(np.arange(1, trace.num_rounds + 1), rounds.index.to_numpy(), t - t[0])
    return [*(starts / 1e9).tolist(), (end - int(t[0])) / 1e9]


def _strips(one: Contexts, rows: Sequence[str], colours: Colours) -> list[dict[str, Any] | None]:
    wanted: dict[int, list[int]] = {}
    last = one.trace.num_rounds
    wide = -(-last // COLUMNS) if last > MAX_ROUNDS else 1
    for row in rows:
        changes = one.changes(one.names[row]) if row in one.names else ()
        for n in sorted({min(last, -(-n // wide) * wide) for n in changes}):
            wanted.setdefault(n, []).append(one.names[row])
    steps: dict[int, list[tuple[int, str, float | None]]] = {one.names[row]: [] for row in rows if row in one.names}
    for n in sorted(wanted):
        tree = one.trace.tree(n)
        for trajectory in wanted[n]:
            step = _step(one, trajectory, tree)
            if not steps[trajectory] or steps[trajectory][-1][1:] != step[1:]:
                steps[trajectory].append(step)
    return [
        {
            "trajectory": name_of(one.trace, one.names[row]),
            "colour": list(colours.of_request(one.trace, one.names[row])),
            "steps": steps[one.names[row]],
            "marks": [(back.round, back.miss) for back in one.of(one.names[row]) if back.missed],
        }
        if row in one.names
        else None
        for row in rows
    ]


def _step(one: Contexts, trajectory: int, tree: Any) -> tuple[int, str, float | None]:
    bar = one.bar(trajectory, tree)
    if bar.state == "running":
        return tree.at_round, "running", 1.0
    return tree.at_round, "gone" if bar.state == "gone" else "idle", one.own(bar)

"""Tokens scheduled again because a preemption threw their state away."""

from __future__ import annotations

import numpy as np

from radixflow.analysis.expand import preemptions


def recomputed_by_request(trace) -> dict[int, int]:
    """Request -> tokens that it computed before a preemption and was scheduled again after it.

    A preempted request loses its blocks and starts again from whatever the prefix cache still holds of it.
    Tokens served from the cache aren't recomputed; tokens scheduled below the position it had reached are.
    With drafts the position after a decode visit isn't recorded (some may have been rejected): one token
    is counted as reached, the least that it can have been.
    """
    visits, requests = trace.visits, trace.requests
    found: dict[int, int] = {}
    lost = preemptions(trace)
    if not lost:
        return found
    chosen = visits[visits["i"].isin(list(lost))]
    drafts = trace.config.spec_tokens > 0
    for i, own in chosen.groupby("i", sort=False):
        start = own["start"].to_numpy(np.int64)
        stop = start + own["tokens"].to_numpy(np.int64)
        if drafts:
            prompt = int(requests.at[i, "prompt"])
            stop = np.where(stop > prompt, np.maximum(np.minimum(stop, start + 1), prompt), stop)
        reached, total, at = 0, 0, 0
        rounds = own["round"].to_numpy()
        for n in [*lost[i], None]:
            until = len(own) if n is None else int(np.searchsorted(rounds, n))
            part = slice(at, until)
            again = np.minimum(stop[part], reached) - start[part]
            total += int(np.maximum(again, 0).sum())
            reached = max(reached, int(stop[part].max(initial=0)))
            at = until
        found[int(i)] = total
    return found


def recomputed_tokens(trace) -> int:
    """The sum of `recomputed_by_request`."""
    return sum(recomputed_by_request(trace).values())

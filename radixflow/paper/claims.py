"""What the experiment has to bear out, judged cell by cell."""

from __future__ import annotations

import pandas as pd

from radixflow.paper.published import CONTROL


def claims(tables: dict[str, pd.DataFrame]) -> list[tuple[str, bool]]:
    """The claims that the experiment has to bear out, as sentences with whether they hold; those it can judge."""
    cells = tables["cells"]
    key = ["model", "stream", "order", "seed"]
    by_policy = {policy: own.set_index(key) for policy, own in cells.groupby("policy")}
    said = [("every question finished", bool((cells["finished"] == cells["questions"]).all()))]
    if {"radix+flex", "radixflow"} <= set(by_policy):
        ours, flex = by_policy["radixflow"], by_policy["radix+flex"]
        both = ours.index.intersection(flex.index)
        cold = [place for place in both if place[1] == "cold" and place[0] != CONTROL]
        for model in dict.fromkeys(place[0] for place in cold):
            own = [place for place in cold if place[0] == model]
            fewer = all(ours.loc[place, "rounds"] < flex.loc[place, "rounds"] for place in own)
            reuse = max(abs(ours.loc[place, "reuse"] - flex.loc[place, "reuse"]) for place in own)
            said.append((f"{model}, cold: fewer rounds under radixflow than radix+flex in every cell", fewer))
            said.append((f"{model}, cold: reuse within 0.1 points ({reuse:.3f})", bool(reuse <= 0.1)))
        control = [place for place in both if place[0] == CONTROL]
        if control:
            same = all(ours.loc[place, "digest"] == flex.loc[place, "digest"] for place in control)
            said.append((f"{CONTROL}: radixflow equals radix+flex round for round", same))
    if len(tables["cost_identity"]):
        said.append(
            ("the cost identity sums to the nanosecond on every pair", bool(tables["cost_identity"]["holds"].all()))
        )
    return said

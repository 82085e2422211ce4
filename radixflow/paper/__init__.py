"""The paper's experiment: six policies on six models, and its tables beside the published ones.

    from radixflow.paper import Plan, run_experiment, results_table
    plan = Plan(models=["Qwen3.5-9B"], policies=["radix", "radixflow"], streams=["cold"], changes={"scale": 0.05})
    results_table(run_experiment(plan.cells(), "out"))

docs/paper.md says what is published, what is fitted and what is assumed.
"""

from __future__ import annotations

from radixflow.paper.experiment import POLICIES, Plan, results_table, run_experiment
from radixflow.paper.published import PUBLISHED, published_table

__all__ = ["POLICIES", "PUBLISHED", "Plan", "published_table", "results_table", "run_experiment"]

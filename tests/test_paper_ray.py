"""The experiment on a Ray cluster: the same cells, the same results."""

from __future__ import annotations

import pytest

pytest.importorskip("vllm")
pytest.importorskip("ray", reason="Ray isn't installed (pip install 'ray>=2.40')")

from radixflow.paper import Plan, run_experiment  # noqa: E402


@pytest.mark.timeout(600)
def test_a_local_ray_cluster_gives_the_same_results(tmp_path):
    plan = Plan(models=["Qwen3.5-9B"], policies=["radix"], streams=["cold"], changes={"scale": 0.02})
    alone = run_experiment(plan.cells(), tmp_path / "alone")
    assert run_experiment(plan.cells(), tmp_path / "ray", ray="local") == alone

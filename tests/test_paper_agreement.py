"""The paper's questions on the real engine: first tokens and rounds under two policies."""

from __future__ import annotations

import pytest

pytest.importorskip("vllm")

from radixflow.paper.agreement import real_agreement  # noqa: E402
from radixflow.trace import open_trace  # noqa: E402


@pytest.mark.timeout(900)
def test_first_tokens_agree_on_a_tiny_hybrid_and_a_cpu_reports_no_speed(tmp_path):
    found = real_agreement("tiny-nemotron-h", tmp_path, scale=0.01, rate=500.0, max_num_seqs=8)
    table = found.table.set_index("policy")
    assert list(table.index) == ["radix", "radixflow"]
    assert (table["end"] == "finished").all() and (table["completed"] == table["requests"]).all()
    assert table["compared"].nunique() == 1 and table["compared"].iloc[0] == table["requests"].iloc[0]
    # float32 weights: no rounding decides between two tokens.
    assert (table["agreement"] == 100).all()
    assert table.loc["radixflow", "rounds"] < table.loc["radix", "rounds"]
    for policy in table.index:
        trace = open_trace(tmp_path / f"tiny-nemotron-h-cold-{policy}.rft.jsonl.zst")
        assert (trace.header.policy, trace.header.engine) == (policy, "vllm")
        assert (trace.rounds["tokens"] > 0).sum() == table.loc[policy, "rounds"]
    if not found.on_gpu:
        assert table[["latency", "wall_seconds"]].isna().all().all()

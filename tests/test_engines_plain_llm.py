"""Any vLLM engine takes the scheduler by its name, in its own engine process, configured by the environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("vllm")

from radixflow.engines.tiny import tiny_model_path  # noqa: E402
from radixflow.trace import open_trace  # noqa: E402

CLIENT = """
import json, sys
from vllm import LLM, SamplingParams

if __name__ == "__main__":
    llm = LLM(
        model=sys.argv[1], scheduler_cls="radixflow.RadixFlowScheduler", load_format="dummy", skip_tokenizer_init=True,
        enforce_eager=True, max_model_len=1024, max_num_seqs=4, max_num_batched_tokens=1024, num_gpu_blocks_override=60,
    )
    shared = list(range(10, 400))
    prompts = [{"prompt_token_ids": shared + [500 + k] * 20} for k in range(6)]
    done = llm.generate(prompts, SamplingParams(max_tokens=3, temperature=0, ignore_eos=True, detokenize=False))
    print(json.dumps([list(made.outputs[0].token_ids) for made in done]))
"""


@pytest.mark.timeout(600)
def test_an_engine_in_its_own_process_writes_a_trace_that_says_what_it_did(tmp_path):
    trace_path = tmp_path / "server.rft.jsonl.zst"
    client = tmp_path / "client.py"
    client.write_text(CLIENT)
    environment = os.environ | {
        "RADIXFLOW_POLICY": "radixflow",
        "RADIXFLOW_TRACE": str(trace_path),
        "RADIXFLOW_PROBE": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    run = subprocess.run(
        [sys.executable, str(client), str(tiny_model_path("tiny-nemotron-h"))],
        capture_output=True,
        text=True,
        env=environment,
        timeout=540,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    outputs = json.loads(run.stdout.splitlines()[-1])
    assert [len(tokens) for tokens in outputs] == [3] * 6

    trace = open_trace(trace_path)
    assert (trace.header.engine, trace.header.policy) == ("vllm", "radixflow")
    assert not trace.header.clock.virtual and not trace.header.tokens_included
    assert len(trace.ids) == 6 and trace.requests["finish_reason"].eq("length").all()
    assert trace.requests["output"].eq(3).all()
    shared = [trace.path_of(i)[0] for i in range(6)]
    assert len({stream for stream, _ in shared}) == 1 and min(n for _, n in shared) == 390
    assert trace.rounds["host_ns"].notna().any()

"""Two real engines feed one index; one of them is killed and comes back, and the index is right all along."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

pytest.importorskip("vllm")

from radixflow.engines.tiny import tiny_model_path  # noqa: E402
from radixflow.index import CacheLayout, Namespace, PrefixIndex  # noqa: E402
from radixflow.index.feed import EngineFeed  # noqa: E402

ENGINE = """
import json, sys
from vllm import LLM, SamplingParams
from vllm.config import KVEventsConfig

llm = LLM(
    model=sys.argv[1], load_format="dummy", skip_tokenizer_init=True, enforce_eager=True, max_model_len=1024,
    max_num_seqs=4, max_num_batched_tokens=1024, num_gpu_blocks_override=60, enable_prefix_caching=True,
    prefix_cache_retention_interval=None,
    kv_events_config=KVEventsConfig(
        enable_kv_cache_events=True, publisher="zmq", endpoint=sys.argv[2], replay_endpoint=sys.argv[3]
    ),
)
managers = llm.llm_engine.engine_core.engine_core.scheduler.kv_cache_manager.coordinator.single_type_managers
groups = [["kv"] if type(m).__name__ == "FullAttentionManager" else ["rec", "conv"] for m in managers]
print(json.dumps({"block_size": managers[0].block_size, "groups": groups}), flush=True)
sampling = SamplingParams(max_tokens=2, temperature=0, ignore_eos=True, detokenize=False)
for line in sys.stdin:
    llm.generate([{"prompt_token_ids": json.loads(line)}], sampling, use_tqdm=False)
    print("done", flush=True)
"""


class Engine:
    """A tiny hybrid in a process of its own."""

    def __init__(self, folder, name):
        self.addresses = (f"ipc://{folder}/{name}", f"ipc://{folder}/{name}-replay")
        self._script = folder / "engine.py"
        self._script.write_text(ENGINE)
        self.start()

    def start(self):
        environment = os.environ | {
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_LOGGING_LEVEL": "ERROR",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, str(self._script), str(tiny_model_path("tiny-nemotron-h")), *self.addresses]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )

    def layout(self):
        return json.loads(self._line("{"))

    def compute(self, tokens):
        self.process.stdin.write(json.dumps(tokens) + "\n")
        self.process.stdin.flush()
        self._line("done")

    def _line(self, begins):
        for line in self.process.stdout:
            if line.startswith(begins):
                return line
        raise AssertionError(self.process.stderr.read()[-2000:])

    def kill(self):
        self.process.kill()
        self.process.wait()


def eventually(holds, what):
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.mark.timeout(900)
def test_two_engines_feed_one_index_and_it_outlives_a_kill(tmp_path):
    engines = {name: Engine(tmp_path, name) for name in ("one", "two")}
    feeds = []
    try:
        described = [engine.layout() for engine in engines.values()]
        assert described[0] == described[1] and len(described[0]["groups"]) > 1, "one layout, and a hybrid's"
        block = described[0]["block_size"]
        index = PrefixIndex()
        index.declare("tiny", CacheLayout(block, tuple(map(tuple, described[0]["groups"]))))
        for name, engine in engines.items():
            index.add_engine(name, "tiny")
            feeds.append(EngineFeed(index, name, *engine.addresses).start())
        prompts = [[100 * k + token % 90 for token in range(3 * block + 20)] for k in range(1, 4)]

        def ready(prompt):
            return {name: match.ready for name, match in index.longest_match(prompt[:-1], Namespace("tiny")).items()}

        engines["one"].compute(prompts[0])
        engines["two"].compute(prompts[1])
        eventually(lambda: ready(prompts[0]) == {"one": 3 * block, "two": 0}, "what engine one computed")
        eventually(lambda: ready(prompts[1]) == {"one": 0, "two": 3 * block}, "what engine two computed")

        engines["one"].kill()
        eventually(lambda: ready(prompts[0]) == {"one": 0, "two": 0}, "a killed engine holds nothing")
        assert ready(prompts[1])["two"] == 3 * block, "the other one is untouched"

        engines["one"].start()
        engines["one"].layout()
        engines["one"].compute(prompts[2])
        eventually(lambda: ready(prompts[2])["one"] == 3 * block, "what the new process computed")
        assert ready(prompts[0])["one"] == 0, "what the old one had is gone"
        engines["two"].compute(prompts[0])
        eventually(lambda: ready(prompts[0])["two"] == 3 * block, "and the other one goes on")
        assert all(feed.state.faults == 0 for feed in feeds)
    finally:
        for feed in feeds:
            feed.close()
        for engine in engines.values():
            engine.kill()

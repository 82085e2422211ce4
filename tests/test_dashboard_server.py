"""A real server, asked over HTTP, and the dashboard beside it: `vllm serve` with our scheduler on a tiny hybrid
model."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from dashboard_server import at_round, cells_drawn, cells_of, drawn, get, opened, serving

from radixflow.analysis.waits import Ledger
from radixflow.trace import open_trace
from radixflow.trace.files import part_path

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="a server needs vLLM"),
    pytest.mark.timeout(900),
]

ROWS = 4
PART_BYTES = 3000
START_SECONDS = 700


@dataclass
class Server:
    """A `vllm serve` process."""

    address: str
    trace: Path
    process: subprocess.Popen

    def complete(self, document: int, count: int = 8) -> None:
        """So many completions at once on one document, each with a question of its own, and wait for them."""

        def ask(k: int) -> None:
            tokens = [10 + document] * 1100 + [500 + k] * 40
            body = {"model": "tiny", "prompt": tokens, "max_tokens": 3, "temperature": 0, "ignore_eos": True}
            request = urllib.request.Request(
                self.address + "/v1/completions",
                json.dumps(body | {"detokenize": False}).encode(),
                {"content-type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=120) as answer:
                assert json.load(answer)["usage"]["completion_tokens"] == 3

        with ThreadPoolExecutor(count) as pool:
            list(pool.map(ask, range(count)))

    def counters(self, name: str) -> float:
        """The sum of one of vLLM's own Prometheus counters."""
        lines = get(self.address + "/metrics")[2].splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.match(rf"vllm:{name}[{{ ]", line))

    def recorded(self):
        """The trace once all that was answered is in it."""
        finished = self.counters("request_success_total")
        trace = open_trace(self.trace)
        for _ in range(200):
            if trace.requests["finish_reason"].notna().sum() == finished:
                return trace
            time.sleep(0.05)
            trace.update()
        raise AssertionError(f"{finished} requests were answered, the trace has {trace.requests['finish_reason']}")


@pytest.fixture(scope="module")
def server(tmp_path_factory, root):
    folder = tmp_path_factory.mktemp("server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    trace = folder / "serve.rft.jsonl.zst"
    environment = os.environ | {
        "RADIXFLOW_POLICY": "radixflow",
        "RADIXFLOW_TRACE": str(trace),
        "RADIXFLOW_PROBE": "1",
        "RADIXFLOW_TRACE_MAX_BYTES": str(PART_BYTES),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_LOGGING_LEVEL": "WARNING",
        "OMP_NUM_THREADS": "1",
        # The engine's process needn't import vLLM again.
        "VLLM_WORKER_MULTIPROC_METHOD": "fork",
    }
    command = [sys.executable, "-m", "radixflow.engines.vllm_command", "serve", "tiny-nemotron-h"]
    command += ["--scheduler-cls", "radixflow.RadixFlowScheduler", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--served-model-name", "tiny"]
    command += ["--max-model-len", "2048", "--max-num-seqs", str(ROWS), "--max-num-batched-tokens", "2048"]
    command += ["--block-size", "512", "--shutdown-timeout", "20", "--distributed-executor-backend", "uni"]
    log = folder / "log"
    with open(log, "wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment, cwd=folder)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(START_SECONDS * 4):
            assert process.poll() is None, log.read_text()[-3000:]
            try:
                if get(address + "/health")[0] == 200:
                    break
            except OSError:
                pass
            time.sleep(0.25)
        yield Server(address, trace, process)
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture
def dashboard(server):
    """Its address. Named before `page`, so that the page goes first."""
    with serving(server.trace) as address:
        yield address


def test_completions_over_http_are_seen_round_by_round(server, dashboard, page):
    opened(page, dashboard)
    page.wait_for_selector("#pause-live")
    assert drawn(page)["lanes"][0]["num_rounds"] == 0
    server.complete(0)
    trace = server.recorded()
    at_round(page, trace.num_rounds)
    page.wait_for_function("(n) => n in radixflow.describe().lanes[0].rounds", arg=trace.num_rounds)
    lane = drawn(page)["lanes"][0]
    for n in range(1, trace.num_rounds + 1):
        assert cells_drawn(lane, n) == cells_of(trace, n)
    text = page.locator("#run-facts").inner_text()
    assert "8 requests" in text and "vLLM engine" in text


def test_the_dashboard_counts_beside_vllm(server, dashboard):
    server.complete(1)
    trace = server.recorded()
    lines = dict(line.rsplit(" ", 1) for line in get(dashboard + "/metrics")[2].splitlines() if line[0] != "#")
    ours = {name: float(value) for name, value in lines.items() if f'trace="{trace.id}"' in name}

    def total(name: str, label: str = "") -> float:
        return sum(value for key, value in ours.items() if key.startswith(name + "{") and label in key)

    assert total("radixflow_slots_total") == ROWS * int((trace.rounds["tokens"] > 0).sum())
    assert total("radixflow_slots_total", 'cause="row_visits"') == len(trace.visits)
    waits = [wait for i in trace.requests.index for wait in Ledger(trace).of(i)]
    assert total("radixflow_wait_rounds_total") == sum(stretch.rounds for wait in waits for stretch in wait) > 0
    # What vLLM counts itself is the same.
    assert total("radixflow_requests", 'state="finished"') == server.counters("request_success_total") >= 8
    assert int(trace.requests["prompt"].sum()) == server.counters("prompt_tokens_total")
    assert int(trace.requests["output"].sum()) == server.counters("generation_tokens_total")


def test_a_rotated_trace_is_followed_from_part_to_part(server, dashboard, page):
    opened(page, dashboard)
    page.wait_for_selector("#pause-live")
    for document in range(2, 60):
        server.complete(document)
        if part_path(server.trace, 2).exists():
            break
    assert part_path(server.trace, 2).exists()
    trace = server.recorded()
    assert not trace.gaps
    at_round(page, trace.num_rounds)
    page.locator("#lane-0 .rf-pane").focus()
    page.keyboard.press("Home")
    at_round(page, 1)
    lane = drawn(page)["lanes"][0]
    assert lane["num_rounds"] == trace.num_rounds
    # Its newest part alone says when it was last written.
    server.complete(60)
    page.wait_for_function("(n) => radixflow.describe().lanes[0].num_rounds > n", arg=trace.num_rounds)
    assert page.evaluate("radixflow.state().round") == 1
    assert page.locator("#live-status").get_attribute("data-state") == "live"


def test_a_server_that_is_shut_down_is_said(server, dashboard, page):
    opened(page, dashboard)
    page.wait_for_selector("#pause-live")
    server.process.send_signal(signal.SIGINT)
    page.wait_for_function("() => document.getElementById('live-status').textContent.includes('Shut down')")
    assert server.process.wait(60) is not None
    assert open_trace(server.trace).complete

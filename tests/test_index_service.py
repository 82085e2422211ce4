"""`radixflow index` follows a publisher and serves what it holds."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import msgspec
import pytest
import zmq

from radixflow.index.service import FollowedEngine, parse_layout


@pytest.fixture
def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_the_command_follows_an_engine_and_serves_metrics_until_interrupted(tmp_path, free_port):
    publisher = zmq.Context.instance().socket(zmq.PUB)
    publisher.bind(f"ipc://{tmp_path}/pub")
    stored = {"type": "BlockStored", "block_hashes": [1, 2], "parent_block_hash": None, "token_ids": list(range(8)),
              "block_size": 4, "lora_id": None, "medium": "GPU", "lora_name": None, "group_idx": 0}  # fmt: skip
    command = [sys.executable, "-m", "radixflow.cli", "index", f"one=ipc://{tmp_path}/pub", "--model", "m",
               "--block-size", "4", "--block-bytes", "10", "--port", str(free_port)]  # fmt: skip
    env = os.environ | {"PYTHONUNBUFFERED": "1"}
    served = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    try:
        said = [served.stdout.readline(), served.stdout.readline()]
        assert "index of one:" in said[0] and said[1] == "one: connected\n"
        publisher.send_multipart((b"", (0).to_bytes(8, "big"), msgspec.msgpack.encode([0.0, [stored], 0])))
        deadline, wanted = time.monotonic() + 20, 'radixflow_index_bytes{engine="one",model="m",tenant=""} 20.0'
        while wanted not in (page := _get(free_port)):
            assert time.monotonic() < deadline, page
            time.sleep(0.05)
        served.send_signal(signal.SIGINT)
        out, err = served.communicate(timeout=20)
        assert out == "interrupted\n" and err == "" and served.returncode == 0
    finally:
        served.kill()
        publisher.close(linger=0)


def _get(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return answer.read().decode().splitlines()


@pytest.mark.parametrize("text", ["one", "=tcp://h:1", "one=http://h:1", "one=tcp://h:1,tcp://h:2,tcp://h:3"])
def test_an_engine_that_cannot_be_read_is_named(text):
    with pytest.raises(ValueError, match="expected NAME=tcp"):
        FollowedEngine.parse(text)


def test_a_layout_is_read_group_by_group():
    assert parse_layout(528, "kv,rec+conv").groups == (("kv",), ("rec", "conv"))
    with pytest.raises(ValueError, match="expected for each group"):
        parse_layout(528, "kv,state")

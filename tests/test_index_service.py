"""`radixflow index` follows a publisher and serves what it holds."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import msgspec
import pytest
import zmq
from dashboard_traces import Growing, long_run, write
from prometheus_client import CollectorRegistry

from radixflow.index import PrefixIndex
from radixflow.index.picture import Snapshot
from radixflow.index.service import FollowedEngine, RecordedEngines, parse_layout, serve
from radixflow.index.snapshot import snapshot
from radixflow.index.web import IndexPage
from radixflow.trace import TraceError


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


def test_traces_are_engines_and_one_that_grows_is_followed(tmp_path, free_port):
    """Layout and model are the trace's own; what is served is the tree as well."""
    growing = Growing(tmp_path / "run.rft.jsonl")
    growing.round()
    write(tmp_path / "done.rft.jsonl", long_run(40))
    command = [sys.executable, "-m", "radixflow.cli", "index", f"one={growing.path}", "--port", str(free_port),
               f"two={tmp_path}/done.rft.jsonl"]  # fmt: skip
    env = os.environ | {"PYTHONUNBUFFERED": "1"}
    served = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    try:
        assert "index of one, two:" in served.stdout.readline()
        before = tree(free_port)
        assert before.engines[1].state == "round 40 of 40" and before.engines[0].state == "round 1 of 1 so far"
        growing.round(10)
        eventually(lambda: tree(free_port).engines[0].blocks > before.engines[0].blocks, "what the run added")
        assert tree(free_port).engines[1] == before.engines[1]
        assert any('radixflow_index_held_blocks{engine="two"' in line for line in _get(free_port))
        served.send_signal(signal.SIGINT)
        out, err = served.communicate(timeout=20)
        assert out == "interrupted\n" and err == "" and served.returncode == 0
    finally:
        served.kill()
        growing.close()


def test_a_trace_whose_file_goes_is_forgotten_and_comes_back(tmp_path):
    path = write(tmp_path / "run.rft.jsonl", long_run(20))
    with RecordedEngines([FollowedEngine("one", trace=path)], reading=_silently) as engines:
        assert list(engines.look()) == [] and engines.picture(None).engines[0].blocks > 0
        path.unlink()
        assert list(engines.look()) == ["one: its file is gone, and its blocks with it"]
        assert engines.picture(None).engines == []
        write(path, long_run(5, id="00000000000000ee"))
        assert list(engines.look()) == ["one: there again"]
        assert engines.picture(None).engines[0].state == "round 5 of 5"


@pytest.mark.parametrize(
    ("engines", "more", "said"),
    [
        (["a=x.rft.jsonl", "b=tcp://h:1"], {}, "expected the one or the other"),
        (["a=x.rft.jsonl"], {"model": "m"}, "a trace says its own"),
        (["b=tcp://h:1"], {}, "live engines need --model"),
        (["a=x.rft.jsonl", "a=y.rft.jsonl"], {}, "two engines of one name"),
        (["a=missing.rft.jsonl"], {}, "missing.rft.jsonl: no such file"),
    ],
)
def test_what_cannot_be_served_is_one_clear_line(engines, more, said):
    with pytest.raises((ValueError, TraceError), match=said):
        serve([FollowedEngine.parse(text) for text in engines], **more, host="127.0.0.1", port=0)


@pytest.mark.parametrize("host", ["203.0.113.9", "no.such.host.invalid", "fe80::1:2:3"])
def test_an_address_of_elsewhere_is_blamed_itself_and_not_its_port(host, free_port):
    with pytest.raises(OSError, match=r"expected an address of this machine \(--host\)"):
        IndexPage(host, free_port, CollectorRegistry(), lambda: None)


def test_a_port_that_is_taken_is_blamed(free_port):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_port))
        taken.listen()
        with pytest.raises(OSError, match=r"expected a free port \(--port\)"):
            IndexPage("127.0.0.1", free_port, CollectorRegistry(), lambda: None)


def test_the_page_answers_to_its_own_name_alone(free_port):
    page = IndexPage("127.0.0.1", free_port, CollectorRegistry(), lambda: snapshot(PrefixIndex()))
    try:
        assert tree(free_port).engines == []
        for path, host, status in (
            ("/tree", "evil.example", 421),
            ("/metrics", "evil.example", 421),
            ("/x", None, 404),
        ):
            request = urllib.request.Request(
                f"http://127.0.0.1:{free_port}{path}", headers={"Host": host} if host else {}
            )
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=5)
            assert refused.value.code == status
        with pytest.raises(OSError, match="expected a free port"):
            IndexPage("127.0.0.1", free_port, CollectorRegistry(), lambda: snapshot(PrefixIndex()))
    finally:
        page.close()


@contextmanager
def _silently(_words):
    yield None


def tree(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/tree", timeout=5) as answer:
        return msgspec.json.decode(answer.read(), type=Snapshot)


def eventually(holds, what):
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.mark.parametrize("text", ["one", "=tcp://h:1", "one=http://h:1", "one=tcp://h:1,tcp://h:2,tcp://h:3"])
def test_an_engine_that_cannot_be_read_is_named(text):
    with pytest.raises(ValueError, match="expected NAME=tcp"):
        FollowedEngine.parse(text)


def test_a_layout_is_read_group_by_group():
    assert parse_layout(528, "kv,rec+conv").groups == (("kv",), ("rec", "conv"))
    with pytest.raises(ValueError, match="groups are 'kv,state', expected for each some of kv, rec, conv"):
        parse_layout(528, "kv,state")

"""Who may ask, what a page may load, and which files can be reached: nothing but the traces named."""

from __future__ import annotations

import json
import os

import pytest
from dashboard_server import ask, get, serving
from dashboard_traces import Growing, header, hostile, long_run, write
from figures_traces import figure1

from radixflow.addresses import is_loopback
from radixflow.trace import TraceError
from radixflow_dashboard.app import create_app


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces")
    write(folder / "figure1.rft.jsonl", figure1("radix"))
    (folder / "deeper").mkdir()
    write(folder / "deeper" / "long.rft.jsonl", long_run(20))
    (folder / "notes.txt").write_text("secret")
    (folder / "broken.rft.jsonl").write_text("not a trace\n")
    outside = tmp_path_factory.mktemp("elsewhere") / "outside.rft.jsonl"
    write(outside, [header("00000000000000ff", workload="outside"), *list(long_run(3))[1:]])
    os.symlink(outside, folder / "link.rft.jsonl")
    return folder


@pytest.fixture(scope="module")
def address(folder):
    with serving(trace_dir=folder) as address:
        yield address


def test_the_health_check_answers(address):
    assert get(address + "/healthz")[0] == 200


def test_only_traces_inside_the_folder_are_offered(address):
    runs = ask(address, "/api/runs")["runs"]
    assert {run["file"] for run in runs} == {"figure1", "long"}
    assert all(set(run) == {"key", "file", "policy", "eviction", "engine", "model", "group", "S", "T"} for run in runs)


@pytest.mark.parametrize(
    "path",
    [
        "/api/overview?trace=../notes.txt",
        "/api/overview?trace=%2Fetc%2Fpasswd",
        "/api/overview?trace=00000000000000ff",
        "/api/window?trace=../../etc/passwd&first=1&last=2",
        "/api/tree?trace=link&round=1",
        "/api/export?traces=..%2Fnotes&what=replay&format=html&first=1&last=2&round=1",
        "/api/live?traces=nothing",
        "/api/poll?traces=../notes",
        "/assets/../app.py",
        "/assets/%2e%2e/app.py",
        "/assets/..%2f..%2fpyproject.toml",
        "/module/../../../etc/passwd",
        "/_dash-component-suites/dash/..%2f..%2fdash.py",
        "/etc/passwd",
        "/docs",
        "/openapi.json",
    ],
)
def test_no_path_from_the_browser_reaches_the_file_system(address, path):
    status, _, text = get(address + path)
    assert status in (400, 404, 409, 500), text
    assert "root:" not in text and "secret" not in text and "import" not in text and str(os.getcwd()) not in text


@pytest.mark.parametrize(
    "path",
    [
        "/api/window?trace=KEY&first=x&last=2",
        "/api/window?trace=KEY&first=1",
        "/api/jump?trace=KEY&what=rm&from=1&direction=1",
        "/api/partings?traces=a.b.c.d.e.f.g",
        "/api/export?traces=KEY&what=timeline&format=exe&first=1&last=2&round=1",
        "/api/overview",
    ],
)
def test_a_question_that_makes_no_sense_gets_one_line(address, path):
    key = ask(address, "/api/runs")["runs"][0]["key"]
    status, _, text = get(address + path.replace("KEY", key))
    assert status == 400 and "expected" in json.loads(text)["error"]


def test_windows_are_clamped_to_the_run_and_bounded(address):
    runs = {run["file"]: run["key"] for run in ask(address, "/api/runs")["runs"]}
    window = ask(address, f"/api/window?trace={runs['long']}&first=-5&last=99999999999999999999")
    assert (window["first"], window["last"]) == (1, 20)


def test_answers_forbid_foreign_content(address):
    for path in ("/", "/healthz", "/api/runs", "/nowhere"):
        headers = get(address + path)[1]
        policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert "unsafe" not in policy["script-src"] and "http" not in policy["script-src"]
        assert policy["connect-src"] == "'self'"
        assert headers["x-content-type-options"] == "nosniff"


def test_the_page_names_nothing_outside_itself(address):
    page = get(address + "/")[2]
    assert "http://" not in page.replace("http://www.w3.org", "") and "https://" not in page


def test_another_name_for_this_machine_is_refused(address):
    port = address.rsplit(":", 1)[1]
    assert get(address + "/", {"Host": f"evil.example:{port}"})[0] == 421
    assert get(address + "/", {"Host": f"localhost:{port}"})[0] == 200


def test_posts_from_other_pages_are_refused(address):
    status, _, _ = get(
        address + "/api/run", {"Origin": "http://evil.example", "Content-Type": "application/json"}, b"{}"
    )
    assert status == 403


def test_bodies_and_addresses_are_bounded(address):
    large = {"Content-Type": "application/json", "Content-Length": str(2**20 + 1)}
    assert get(address + "/_dash-update-component", large, b"{}")[0] == 413
    assert get(address + "/api/runs?" + "x" * 40_000)[0] == 414


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"{",
        b'{"workload": "../../etc/passwd", "policies": ["radix"]}',
        b'{"workload": "figure1", "policies": ["rm -rf"]}',
        b'{"workload": "figure1", "policies": []}',
        b'{"workload": "figure1", "policies": ["radix"], "order": ["P1"]}',
        b'{"workload": "figure1", "policies": ["radix"], "options": {"max_num_seqs": 100000}}',
        b'{"workload": "figure1", "policies": ["radix"], "options": {"max_num_seqs": true}}',
        b'{"workload": "figure1", "policies": ["radix"], "options": {"trace": "/tmp/x"}}',
    ],
)
def test_a_run_that_may_not_be_made_is_refused_in_one_line(address, body):
    status, _, text = get(address + "/api/run", {"Content-Type": "application/json"}, body)
    assert status == 400 and "\n" not in json.loads(text)["error"]


def test_an_open_address_needs_a_token(folder):
    assert is_loopback("127.0.0.1") and is_loopback("::1") and is_loopback("localhost")
    assert not is_loopback("0.0.0.0") and not is_loopback("192.0.2.1") and not is_loopback("example.org")
    with pytest.raises(ValueError, match="expected a token"):
        create_app([], folder, host="0.0.0.0")


def test_with_a_token_nothing_is_answered_without_it(folder):
    with serving(trace_dir=folder, token="open-sesame", host="0.0.0.0") as address:
        assert get(address + "/healthz")[0] == 200
        for path in ("/", "/api/runs", "/metrics", "/assets/dashboard.mjs", "/_dash-layout"):
            assert get(address + path)[0] == 401, path
        assert get(address + "/?token=wrong")[0] == 401
        status, headers, _ = get(address + "/?token=open-sesame&round=3")
        assert status == 303 and headers["location"] == "/?round=3"
        cookie = headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
        assert get(address + "/api/runs", {"Cookie": cookie.split(";")[0]})[0] == 200
        assert get(address + "/metrics", {"Authorization": "Bearer open-sesame"})[0] == 200


def test_a_named_file_that_is_no_trace_is_an_error(folder):
    with pytest.raises(TraceError, match="not a trace"):
        create_app([folder / "broken.rft.jsonl"])
    with pytest.raises(TraceError, match="no such folder"):
        create_app([], folder / "nowhere")


def test_a_hostile_header_id_never_becomes_a_key(tmp_path):
    with serving(write(tmp_path / "h.rft.jsonl", hostile())) as address:
        (run,) = ask(address, "/api/runs")["runs"]
        assert run["key"].isalnum()
        assert ask(address, f"/api/overview?trace={run['key']}")["num_rounds"] == 1


def test_prometheus_counts_slots_and_waits_by_cause(tmp_path):
    growing = Growing(tmp_path / "live.rft.jsonl")
    growing.round(10)
    with serving(growing.path) as address:
        text = get(address + "/metrics")[2]
        lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        slots = {name: float(value) for name, value in lines.items() if name.startswith("radixflow_slots_total")}
        assert sum(slots.values()) == 8 * 10
        growing.round(5)
        again = get(address + "/metrics")[2]
        assert 'radixflow_rounds_total{policy="radix",trace="00000000000000bb"} 15.0' in again
        assert "radixflow_wait_seconds_total" in again
    growing.close()

"""The Chrome trace keeps the format's rules and the trace's counts."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path

import analysis_traces
import figures_traces
import jsonschema
import pytest

from radixflow.analysis import summarize, waits
from radixflow.export import to_chrome
from radixflow.trace import open_trace
from radixflow.trace.schema import Blocked, Probe, Request, Round, Stop

SCHEMA = json.loads((Path(__file__).parent / "trace_event.schema.json").read_text())


@pytest.fixture(scope="module")
def traces(tmp_path_factory, root):
    folder = tmp_path_factory.mktemp("traces")
    found = {
        path.name.split(".")[0]: open_trace(path) for path in sorted((root / "data" / "traces").glob("figure1-*.zst"))
    }
    found["ledger"] = analysis_traces.written(folder / "l.rft.jsonl", analysis_traces.figure1("radixflow+noadmit"))
    found["stream"] = open_trace(figures_traces.write(folder / "s.rft.jsonl", figures_traces.stream(60, rows=8)))
    return found


def exported(trace, folder) -> dict:
    path = to_chrome(trace, folder / "t.json")
    return json.loads(path.read_text())


def complaints(file: dict) -> list[str]:
    """What breaks the format: the schema first, then what a schema can't say."""
    found = [error.message[:200] for error in jsonschema.Draft202012Validator(SCHEMA).iter_errors(file)]
    if found:
        return found
    events = file["traceEvents"]
    named = {kind: Counter() for kind in ("process_name", "thread_name")}
    for event in events:
        if event["ph"] == "M" and event["name"] in named:
            named[event["name"]][event["pid"] if event["name"] == "process_name" else event["tid"]] += 1
    found += [f"named twice: {key}" for names in named.values() for key, n in names.items() if n > 1]
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] == "M":
            continue
        if event["pid"] not in named["process_name"] or event["tid"] not in named["thread_name"]:
            found.append(f"unnamed track: {event}")
        tracks[event["pid"], event["tid"]].append(event)
    ends = {end: Counter(e["id"] for e in events if e["ph"] == end) for end in "sf"}
    if ends["s"] != ends["f"] or any(n > 1 for n in ends["s"].values()):
        found.append("flows that don't match")
    for track in tracks.values():
        times = [event["ts"] for event in track]
        if times != sorted(times):
            found.append(f"a track that goes back in time: {track[0]}")
        found += nested(track)
    starts = {e["id"]: e["ts"] for e in events if e["ph"] == "s"}
    found += [f"an arrow back in time: {e}" for e in events if e["ph"] == "f" and e["ts"] < starts[e["id"]]]
    return found


def nested(track: list[dict]) -> list[str]:
    """Slices of a track lie in or beside one another, and both ends of an arrow in one."""
    found, open_until, slices = [], [], []
    for event in track:
        if event["ph"] == "X":
            while open_until and open_until[-1] <= event["ts"] + 1e-6:
                open_until.pop()
            end = event["ts"] + event["dur"]
            if open_until and end > open_until[-1] + 1e-3:
                found.append(f"slices that overlap: {event}")
            open_until.append(end)
            slices.append((event["ts"], end))
        elif event["ph"] in "sf" and not any(a <= event["ts"] <= b for a, b in slices):
            found.append(f"an arrow from nowhere: {event}")
    return found


@pytest.mark.parametrize("name", ["figure1-radix", "figure1-radixflow", "ledger", "stream"])
def test_the_file_keeps_the_format(traces, name, tmp_path):
    assert complaints(exported(traces[name], tmp_path)) == []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda e: e["traceEvents"].pop(0),
        lambda e: next(x for x in e["traceEvents"] if x["ph"] == "X").pop("dur"),
        lambda e: next(x for x in e["traceEvents"] if x["ph"] == "X").update(ts=-1),
        lambda e: e["traceEvents"].remove(next(x for x in e["traceEvents"] if x["ph"] == "f")),
        lambda e: next(x for x in e["traceEvents"] if x["ph"] == "C").update(args={"used": "many"}),
        lambda e: next(x for x in e["traceEvents"] if x.get("cat") == "wait").update(dur=31e3),
        lambda e: next(x for x in reversed(e["traceEvents"]) if x.get("cat") == "visit").update(ts=0),
    ],
)
def test_a_spoilt_file_is_noticed(traces, spoil, tmp_path):
    file = exported(traces["figure1-radix"], tmp_path)
    spoil(file)
    assert complaints(file)


@pytest.mark.parametrize("name", ["figure1-radix", "figure1-radixflow", "ledger", "stream"])
def test_visits_blocked_visits_rounds_and_requests_are_all_there(traces, name, tmp_path):
    trace = traces[name]
    events = exported(trace, tmp_path)["traceEvents"]
    cats = Counter(event.get("cat") for event in events if event["ph"] in "Xi")
    summary = summarize(trace)
    assert cats["visit"] == len(trace.visits) == summary.row_visits
    assert cats["blocked"] == summary.blocked_visits
    rounds = [event["args"] for event in events if event.get("cat") == "round"]
    assert sum(args["repeat"] for args in rounds) == trace.num_rounds
    assert sum(args["tokens"] > 0 for args in rounds) == summary.rounds
    assert sum(args["tokens"] for args in rounds) == summary.scheduled_tokens
    tracks = [e["args"]["name"] for e in events if e["name"] == "thread_name" and e["args"]["name"] != "rounds"]
    assert tracks == trace.ids
    assert cats["finish"] == int(trace.requests["finish_t"].notna().sum())
    arrows = sum(event["ph"] == "s" for event in events)
    assert arrows == int((trace.refusals["producer"].fillna(-1) >= 0).sum())


@pytest.mark.parametrize("name", ["figure1-radix", "figure1-radixflow", "ledger", "stream"])
def test_the_slices_of_waiting_add_up_to_the_waits(traces, name, tmp_path):
    trace = traces[name]
    shown = defaultdict(float)
    for event in exported(trace, tmp_path)["traceEvents"]:
        if event["ph"] == "X" and event["cat"] in ("wait", "blocked"):
            shown[event["name"]] += event["dur"] * 1000
    known = waits(trace).groupby("cause")["ns"].sum()
    assert {cause: round(ns) for cause, ns in shown.items() if ns} == {k: n for k, n in known.items() if n}


def test_a_blocked_slice_names_boundary_groups_and_producer(traces, tmp_path):
    events = exported(traces["figure1-radix"], tmp_path)["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    blocked = [e for e in events if e.get("cat") == "blocked"]
    assert [(names[e["tid"]], e["args"]["producer"]) for e in blocked] == [(f"A{k}", f"P{k}") for k in range(1, 6)]
    assert {(e["args"]["boundary"], tuple(e["args"]["groups"])) for e in blocked} == {(1024, (1, 2, 3))}
    arrows = {e["id"]: names[e["tid"]] for e in events if e["ph"] == "s"}
    to = {e["id"]: names[e["tid"]] for e in events if e["ph"] == "f"}
    assert {(arrows[k], to[k]) for k in arrows} == {(f"P{k}", f"A{k}") for k in range(1, 6)}


def test_several_runs_stand_beside_one_another(traces, tmp_path):
    both = [traces["figure1-radix"], traces["figure1-radixflow"]]
    file = exported(both, tmp_path)
    assert complaints(file) == []
    assert [about["policy"] for about in file["otherData"]["traces"]] == ["radix", "radixflow"]
    assert sum(e.get("cat") == "visit" for e in file["traceEvents"]) == sum(len(trace.visits) for trace in both)


def test_a_gz_path_gives_the_same_file_packed_and_the_same_bytes_again(traces, tmp_path):
    plain = to_chrome(traces["stream"], tmp_path / "t.json").read_bytes()
    first = to_chrome(traces["stream"], tmp_path / "t.json.gz").read_bytes()
    assert gzip.decompress(first) == plain
    assert to_chrome(traces["stream"], tmp_path / "u.json.gz").read_bytes() == first


def test_a_hostile_id_and_a_request_blocked_twice_in_a_round_keep_the_format(tmp_path):
    records = figures_traces.figure1("radix")
    evil = '"},{"ph":"Z\n\u2028é</script>'
    records[1] = Request(i=0, id=evil, t=0, prompt=1024, path=records[1].path)
    at = next(k for k, record in enumerate(records) if isinstance(record, Round))
    first = records[at]
    twice = [*first.blocked, Blocked(first.blocked[0].i, 0, 1024, [1], False)]
    records[at] = Round(
        n=1, t=0, d=300_000, selected=first.selected, admissions=first.admissions, blocked=twice,
        stop=Stop("blocked", twice[0].i), free=150, probe=Probe(),
    )  # fmt: skip
    trace = open_trace(figures_traces.write(tmp_path / "t.rft.jsonl", records))
    file = exported(trace, tmp_path)
    assert complaints(file) == []
    assert evil in [e["args"]["name"] for e in file["traceEvents"] if e["name"] == "thread_name"]
    assert sum(e.get("cat") == "blocked" for e in file["traceEvents"]) == len(trace.refusals)


def test_a_cut_trace_and_one_without_rounds_are_exported(tmp_path):
    records = figures_traces.figure1("radix")
    for k in (1, 8, len(records) - 5):
        trace = open_trace(figures_traces.write(tmp_path / f"{k}.rft.jsonl", records[:k]))
        assert complaints(exported(trace, tmp_path)) == []


def test_an_interrupted_export_leaves_the_old_file_and_no_other(traces, tmp_path, monkeypatch):
    from radixflow.export import chrome

    path = tmp_path / "t.json"
    path.write_text("old")
    monkeypatch.setattr(chrome, "REPORT_EVERY", 10)

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        to_chrome(traces["stream"], path, progress=stop)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["t.json"]

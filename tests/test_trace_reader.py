"""Opening traces: what is cut, strange, growing or not a trace at all."""

from __future__ import annotations

import gzip
import json
import os
import random

import msgspec
import numpy as np
import pytest
import zstandard
from trace_records import header, small_run, written

from radixflow.trace import TraceError, TraceReplaced, open_trace, open_traces
from radixflow.trace.schema import End, Request, Round

SUFFIXES = [".rft.jsonl", ".rft.jsonl.zst"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_trace_says_what_was_written(tmp_path, suffix):
    trace = open_trace(written(tmp_path / ("a" + suffix), small_run(40)))
    assert trace.header == header()
    assert trace.complete and trace.end.reason == "finished"
    assert trace.num_rounds == 46
    assert trace.ids == [f"r{i}" for i in range(6)]
    assert trace.rounds.loc[1, ["rows", "tokens", "new", "blocked", "other", "waiting", "unexamined"]].tolist() == [
        *(1, 128, 1, 1, 1, 6, 3)
    ]
    assert trace.rounds.loc[1, "host_ns"] == 400 and trace.rounds.loc[1, "avoidable"] == 1
    assert trace.rounds.loc[41, "repeat"] == 4 and trace.rounds.loc[41, "closed"] == "paused"
    assert trace.round(44) == trace.round(41)
    assert trace.visits.start.tolist() == [0, *range(128, 128 + 39)]
    assert trace.refusals.cause.tolist() == ["blocked", "capacity"] and trace.refusals.needed.tolist()[1] == 9
    assert trace.requests.loc[0, ["finish_round", "output", "ready"]].tolist() == [40, 40, 0]
    assert trace.requests.first_selected_round.isna().tolist() == [False, *[True] * 5]
    assert trace.holds.requests.tolist() == [[5]]
    assert trace.cache.event.tolist() == ["published", "published", "evicted"]
    assert trace.mismatches.tokens.tolist() == [64]
    assert trace.name_of("s0") == "doc" and trace.name_of("q3") == "q3"
    assert [gap.rounds for gap in trace.gaps] == [2]


def test_a_round_expands_to_what_its_record_said(tmp_path):
    records = small_run(3)
    trace = open_trace(written(tmp_path / "a.rft.jsonl", records))
    said = next(record for record in records if isinstance(record, Round))
    view = trace.round(1)
    assert (view.blocked, view.other, view.order, view.stop, view.probe) == (
        *(said.blocked, said.other, said.order, said.stop, said.probe),
    )
    assert (view.n, view.t, view.d, view.free, view.admissions) == (
        1,
        said.t,
        said.d,
        said.free,
        said.admissions,
    )
    assert view.selected == [(0, 128)] and view.admitted == [0] and not view.stalled
    assert view.queue == [0, 1, 2, 3, 4, 5] and view.unexamined == [3, 4, 5]
    assert view.released_by == "deadline"
    assert [view.n for view in trace.iter_rounds(2, 3)] == [2, 3]
    assert list(trace.iter_rounds()) == [trace.round(n) for n in (1, 2, 3, 4)]
    with pytest.raises(KeyError, match="gap"):
        trace.round(9)
    with pytest.raises(KeyError, match="1 to 9"):
        trace.round(10)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_cut_anywhere_opens_with_what_it_holds(tmp_path, suffix):
    # Few records, long and hard to compress: opening is quick and the last 4 KiB still hold many of them.
    rng = random.Random(1)
    records = [Request(10 + i, f"{rng.getrandbits(900):x}", 5, 1) for i in range(40)] + small_run(6)
    path = written(tmp_path / ("whole" + suffix), records)
    data = path.read_bytes()
    whole = open_trace(path)._store.rounds.rows()
    head_length = len(msgspec.json.encode(header())) if suffix == ".rft.jsonl" else None
    cut = tmp_path / ("cut" + suffix)
    opened = 0
    last = -1
    for size in range(max(0, len(data) - 4096), len(data)):
        cut.write_bytes(data[:size])
        try:
            trace = open_trace(cut)
        except TraceError as error:
            assert "\n" not in str(error) and opened == 0
            assert head_length is None or size < head_length
            continue
        opened += 1
        rounds = trace._store.rounds.rows()
        held = len(rounds) + len(trace.ids)
        assert held >= last  # never less than a shorter file
        last = held
        assert rounds.tobytes() == whole[: len(rounds)].tobytes()
    assert opened == 4096 and len(rounds) == len(whole)


def test_a_flushed_zstd_file_loses_only_its_last_block(tmp_path):
    path = tmp_path / "blocks.rft.jsonl.zst"
    compressor = zstandard.ZstdCompressor().compressobj()
    sizes = []
    with open(path, "wb") as file:
        for record in [header(), *small_run(20)]:
            file.write(compressor.compress(msgspec.json.encode(record) + b"\n"))
            file.write(compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
            sizes.append(file.tell())
    data = path.read_bytes()
    for size in range(sizes[0], len(data)):
        path.write_bytes(data[:size])
        trace = open_trace(path)
        whole = sum(size >= end for end in sizes) - 1
        store = trace._store
        seen = len(store.rounds) + len(store.steps) + len(store.requests) + len(store.finishes) + len(store.holds)
        seen += len(trace.gaps) + len(store.repeats) + len(np.unique(store.cache.rows()["n"]))
        assert seen == whole


def bad_files(folder):
    def file(name, data):
        path = folder / name
        path.write_bytes(data)
        return path

    line = msgspec.json.encode(header())
    newer = line.replace(b'"schema":"1.0"', b'"schema":"2.0"')
    (folder / "folder.rft.jsonl").mkdir()
    bomb = zstandard.ZstdCompressor(level=1).compress(b"{" + b" " * (70 * 2**20))
    lines = zstandard.ZstdCompressor(level=1).compress(line + b"\n" * (300 * 2**20))
    return [
        (folder / "nowhere.rft.jsonl", "no such file"),
        (folder / "folder.rft.jsonl", "directory"),
        (file("empty.rft.jsonl", b""), "empty"),
        (file("garbage.rft.jsonl", os.urandom(10_000).replace(b"{", b"x") + b"\n"), "not a trace"),
        (file("zeros.rft.jsonl", bytes(10_000)), "not a trace"),
        (file("words.rft.jsonl", b"{hello\nworld}\n"), "not a trace"),
        (file("workload.rft.jsonl", b'{"kind":"workload","schema":"1.0"}\n'), "`workload`"),
        (file("array.rft.jsonl", b"[1,2]\n"), "not a trace"),
        (file("number.rft.jsonl", b'{"kind":1}\n'), "not a trace"),
        (file("newer.rft.jsonl", newer + b"\n"), "newer major"),
        (file("newer.rft.jsonl.zst", zstandard.compress(newer + b"\n")), "newer major"),
        (file("fields.rft.jsonl", b'{"kind":"trace","schema":"1.0"}\n'), "missing required"),
        (file("half.rft.jsonl", line[:100]), "cut after 100 bytes"),
        (file("gzip.rft.jsonl", gzip.compress(line + b"\n" * 2**20)), "gzip"),
        (file("bomb.rft.jsonl.zst", bomb), "longer than 64 MiB"),
        (file("lines.rft.jsonl.zst", lines), "expand"),
        (file("magic.rft.jsonl.zst", zstandard.compress(line)[:3]), "cut after 3 bytes"),
        (file("noise.rft.jsonl.zst", zstandard.compress(line)[:6] + os.urandom(500)), "damaged"),
        (file("deep.rft.jsonl", b'{"a":' * 100_000 + b"\n"), "not a trace"),
        (
            file(
                "back.rft.jsonl",
                line + b'\n\n{"kind":"new"}\n{"kind":"round","n":2,"t":0,"d":0}' * 2 + b"\nnot JSON\n",
            ),
            "line 7: round 2 comes after round 2",
        ),
        (
            file("odd.rft.jsonl", line + b'\n{"kind":"round","n":2,"t":0,"d":0,"selected":[1]}\n'),
            "line 2: round 2: `selected`",
        ),
        (file("type.rft.jsonl", line + b'\n\n{"kind":"round","n":"2"}\n'), "line 3: bad `round`"),
        (
            file("huge.rft.jsonl", line + b'\n{"kind":"finish","i":99999999999,"t":0,"reason":"stop"}\n'),
            "line 2: request number",
        ),
        (
            file("big.rft.jsonl", line + b'\n{"kind":"round","n":1,"t":99999999999999999999,"d":0}\n'),
            "out of range",
        ),
    ]


def test_what_is_not_a_trace_gets_one_clear_line(tmp_path):
    for path, words in bad_files(tmp_path):
        with pytest.raises(TraceError) as caught:
            open_trace(path)
        message = str(caught.value)
        assert words in message and str(path) in message, (path, message)
        assert "\n" not in message


def test_an_unreadable_file_is_named(tmp_path):
    path = written(tmp_path / "a.rft.jsonl", small_run(2))
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user reads everything")
    with pytest.raises(TraceError, match="can't be read"):
        open_trace(path)


def test_unknown_kinds_and_fields_are_ignored(tmp_path):
    path = written(tmp_path / "a.rft.jsonl", small_run(5))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line["later"] = {"a": [1]}
    lines[0]["schema"] = "1.99"
    lines.insert(3, {"kind": "prophecy", "n": "soon"})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert len(open_trace(path).rounds) == 6


def test_a_line_that_is_not_json_is_a_gap(tmp_path):
    path = written(tmp_path / "a.rft.jsonl", small_run(5))
    lines = path.read_bytes().splitlines()
    lines[12] = lines[12][:20]
    path.write_bytes(b"\n".join(lines) + b"\n")
    trace = open_trace(path)
    assert trace.gaps[0].what == "unreadable" and trace.complete
    assert not trace.round(5).certain and trace.round(1).certain


def test_a_last_line_without_newline_counts_if_it_is_whole(tmp_path):
    path = written(tmp_path / "a.rft.jsonl", small_run(5))
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    trace = open_trace(path)
    assert trace.complete
    with open(path, "ab") as file:
        file.write(b"\n")
    trace.update()
    assert trace.complete and len(trace.rounds) == 6


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_growing_file_is_followed(tmp_path, suffix):
    path = written(tmp_path / ("whole" + suffix), small_run(30))
    data = path.read_bytes()
    live = tmp_path / ("live" + suffix)
    start = len(data) // 3
    live.write_bytes(data[:start])
    trace = open_trace(live)
    assert not trace.complete and not trace.update()
    for at in range(start, len(data), 37):
        with open(live, "ab") as file:
            file.write(data[at : at + 37])
        rounds = len(trace.rounds)
        if not trace.update():
            assert len(trace.rounds) == rounds
    whole = open_trace(path)
    assert trace.complete and not trace.update()
    for name in ("rounds", "visits", "requests", "refusals", "cache", "holds", "admissions"):
        assert getattr(trace, name).equals(getattr(whole, name)), name
    assert list(trace.iter_rounds()) == list(whole.iter_rounds())


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_followed_file_that_was_replaced_is_said_so(tmp_path, suffix):
    path = written(tmp_path / ("a" + suffix), small_run(30), end=False)
    trace = open_trace(path)
    written(path, small_run(3), header(id="ffffffffffffffff"))
    with pytest.raises(TraceReplaced):
        trace.update()
    written(path, small_run(400), header(id="ffffffffffffffff"))
    with pytest.raises(TraceReplaced):
        trace.update()
    other = written(tmp_path / ("b" + suffix), small_run(400))
    os.replace(other, path)
    with pytest.raises(TraceReplaced):
        trace.update()
    path.unlink()
    with pytest.raises(TraceReplaced):
        trace.update()


def test_parts_open_together_in_any_order(tmp_path):
    records = small_run(30)
    rotated = [End(0, "rotated", 9)]
    written(tmp_path / "b.rft.jsonl.zst", records[:30] + rotated, end=False)
    written(tmp_path / "a.rft.jsonl", records[30:], header(part=1))
    trace = open_trace([tmp_path / "a.rft.jsonl", tmp_path / "b.rft.jsonl.zst"])
    whole = open_trace(written(tmp_path / "whole.rft.jsonl", records))
    assert trace.rounds.equals(whole.rounds) and trace.complete
    stranger = written(tmp_path / "c.rft.jsonl", records, header(id="ffffffffffffffff"))
    with pytest.raises(TraceError, match="parts of one run"):
        open_trace([tmp_path / "a.rft.jsonl", stranger])


def test_engine_cores_open_as_one_trace_each(tmp_path):
    paths = [written(tmp_path / f"core{x}.rft.jsonl", small_run(3 + x), header(engine_index=x)) for x in (2, 0, 1)]
    with pytest.raises(TraceError, match="open_traces"):
        open_trace(paths)
    assert [(trace.header.engine_index, len(trace.rounds)) for trace in open_traces(paths)] == [
        (0, 4),
        (1, 5),
        (2, 6),
    ]


def test_a_wrong_id_names_near_ones(tmp_path):
    trace = open_trace(written(tmp_path / "a.rft.jsonl", small_run(2)))
    assert trace.index_of("r3") == 3
    with pytest.raises(KeyError, match="near: r"):
        trace.index_of("r33")


def test_progress_reaches_the_end(tmp_path):
    path = written(tmp_path / "a.rft.jsonl.zst", small_run(2000))
    seen = []
    open_trace(path, lambda done, total: seen.append((done, total)))
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)


@pytest.mark.parametrize(
    ("field", "value"), [("max_num_seqs", 0), ("block_size", 0), ("num_blocks", -1), ("groups", [])]
)
def test_a_header_that_cannot_be_true_is_one_clear_line(tmp_path, field, value):
    from trace_records import header as make_header

    path = tmp_path / "t.rft.jsonl"
    record = json.loads(msgspec.json.encode(make_header()))
    record["config"][field] = value
    path.write_text(json.dumps(record) + "\n")
    with pytest.raises(TraceError, match=field) as caught:
        open_trace(path)
    assert "\n" not in str(caught.value)

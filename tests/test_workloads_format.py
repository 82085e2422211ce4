"""Workload files: what loads, what is refused and in which words, and that writing loses nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from radixflow.workloads import (
    EngineOptions,
    Workload,
    WorkloadError,
    WorkloadRequest,
    load_workload,
    save_workload,
)

ROOT = Path(__file__).parent.parent
CORPUS = ROOT / "data" / "corpus"
HEADER = {"kind": "workload", "schema": "1.0", "name": "w"}
ASK = {"kind": "request", "id": "A", "prompt": [["doc", 64]]}


def write(path: Path, *lines: object) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def refusal(path: Path | str) -> str:
    with pytest.raises(WorkloadError) as caught:
        load_workload(path)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.workload.jsonl")), ids=lambda path: path.name)
def test_every_corpus_file_loads_and_survives_writing(path, tmp_path):
    workload = load_workload(path)
    workload.check()
    save_workload(workload, tmp_path / "again.jsonl")
    assert load_workload(tmp_path / "again.jsonl") == workload
    first = json.loads(path.read_text().splitlines()[0])
    assert workload.engine.given() == first["engine"]
    assert len(workload.requests) == len(path.read_text().splitlines()) - 1


def test_the_page_on_workloads_names_every_key_and_its_example_loads(tmp_path):
    page = (ROOT / "docs" / "workloads.md").read_text(encoding="utf-8")
    for key in (*EngineOptions.__struct_fields__, *WorkloadRequest.__struct_fields__):
        assert f"| `{key}` |" in page, key
    example = [line.strip() for line in page.splitlines() if line.startswith('    {"kind"')]
    (tmp_path / "mine.workload.jsonl").write_text("\n".join(example))
    assert [request.id for request in load_workload(tmp_path / "mine.workload.jsonl").requests] == [
        "first",
        "second",
        "later",
    ]


def test_absent_and_null_retention_are_told_apart():
    absent, dense = EngineOptions(), EngineOptions(retention_interval=None)
    assert absent.retention_interval is UNSET
    assert absent.resolved().retention_interval == 0
    assert dense.resolved().retention_interval is None
    assert dense.resolved(retention_interval=UNSET).retention_interval is None
    assert absent.resolved(retention_interval=None).retention_interval is None
    assert dense.given() == {"retention_interval": None}


def test_resolved_lays_overrides_over_what_was_stated_over_the_defaults():
    options = EngineOptions(block_size=128, max_num_seqs=4).resolved(max_num_seqs=2, num_blocks=None)
    assert options.given() == {
        "block_size": 128,
        "hash_block_size": 128,
        "num_blocks": 300,
        "state_groups": 1,
        "max_num_seqs": 2,
        "max_num_batched_tokens": 4096,
        "scheduling_policy": "fcfs",
        "retention_interval": 0,
        "spec_tokens": 0,
        "async_scheduling": False,
        "kv_cache_events": False,
    }
    with pytest.raises(WorkloadError, match="retention_interval 64 isn't a multiple of block_size 128"):
        EngineOptions(retention_interval=64).resolved(block_size=128)
    with pytest.raises(WorkloadError, match='unknown engine option "blocksize"; did you mean "block_size"'):
        EngineOptions().resolved(blocksize=1)


def test_a_clock_is_there_as_soon_as_one_request_has_an_arrival(tmp_path):
    later = {"kind": "request", "id": "B", "prompt": [["doc", 64]]}
    assert not load_workload(write(tmp_path / "a", HEADER, ASK, later)).has_clock
    assert load_workload(write(tmp_path / "b", HEADER, ASK, later | {"arrival": 0})).has_clock


def test_after_may_name_a_later_line(tmp_path):
    path = write(tmp_path / "w", HEADER, ASK | {"after": "B"}, ASK | {"id": "B"})
    assert load_workload(path).requests[0].after == "B"


def test_blank_lines_and_a_byte_order_mark_do_no_harm(tmp_path):
    path = tmp_path / "w"
    path.write_bytes(b"\xef\xbb\xbf" + f"{json.dumps(HEADER)}\r\n\r\n{json.dumps(ASK)}\r\n\n".encode())
    assert len(load_workload(path).requests) == 1


SEGMENTS = '[["label", n], ...] with n from 1 to 10,000,000'

BAD_REQUESTS = [
    ({"id": "A"}, "what it asks is given by none; expected exactly one of prompt, token_ids, text"),
    (
        {"id": "A", "text": "x", "token_ids": [1]},
        "what it asks is given by token_ids and text; expected exactly one of prompt, token_ids, text",
    ),
    ({"prompt": [["a", 1]]}, "a request without id; expected a non-empty string"),
    (ASK | {"id": ""}, 'id is ""; expected id to be a non-empty string'),
    (ASK | {"id": 7}, "id is 7; expected id to be a non-empty string"),
    (ASK | {"prompt": [["doc", 0]]}, f"prompt[0][1] is 0; expected prompt to be {SEGMENTS}"),
    (ASK | {"prompt": [["doc", 64], ["a", -1]]}, f"prompt[1][1] is -1; expected prompt to be {SEGMENTS}"),
    (ASK | {"prompt": [["doc", 1.5]]}, f"prompt[0][1] is 1.5; expected prompt to be {SEGMENTS}"),
    (ASK | {"prompt": [["doc"]]}, f'prompt[0] is ["doc"]; expected prompt to be {SEGMENTS}'),
    (ASK | {"prompt": [[1, 2]]}, f"prompt[0][0] is 1; expected prompt to be {SEGMENTS}"),
    (ASK | {"prompt": "doc"}, f'prompt is "doc"; expected prompt to be {SEGMENTS}'),
    (ASK | {"prompt": []}, f"prompt has 0 tokens; expected {SEGMENTS}"),
    (ASK | {"prompt": [["a", 10**7], ["b", 1]]}, f"prompt has 10,000,001 tokens; expected {SEGMENTS}"),
    (
        {"id": "A", "token_ids": []},
        "token_ids is []; expected token_ids to be a non-empty list of whole numbers",
    ),
    ({"id": "A", "token_ids": [5, -1]}, "token_ids[1] is -1; expected token_ids to be a non-empty list"),
    ({"id": "A", "text": ""}, 'text is ""; expected text to be a non-empty string'),
    ({"id": "A", "text": ["a", "b"]}, 'text is ["a", "b"]; expected a non-empty string'),
    (ASK | {"output_tokens": 0}, "output_tokens is 0; expected output_tokens to be a whole number from 1"),
    (ASK | {"output_tokens": True}, "output_tokens is true; expected output_tokens to be a whole number"),
    (ASK | {"arrival": -1}, "arrival is -1.0; expected seconds, a finite number, 0 or more"),
    (ASK | {"arrival": float("nan")}, "arrival is nan; expected seconds, a finite number, 0 or more"),
    (ASK | {"arrival": float("inf")}, "arrival is inf; expected seconds, a finite number, 0 or more"),
    (ASK | {"arrival": "now"}, 'arrival is "now"; expected arrival to be seconds, a finite number'),
    (
        ASK | {"arrival": None},
        "arrival is null; expected seconds, a finite number, 0 or more, or leave the key out",
    ),
    (
        ASK | {"arrival": 0, "after_round": 1},
        "when it comes is given by arrival and after_round; expected at most one of arrival",
    ),
    (ASK | {"after_round": -1}, "after_round is -1; expected after_round to be a whole number, 0 or more"),
    (
        ASK | {"after_round": 3, "abort_after_round": 2},
        "abort_after_round 2 comes before after_round 3; expected it to be no smaller",
    ),
    (ASK | {"priority": "high"}, 'priority is "high"; expected priority to be a whole number'),
    (ASK | {"salt": ""}, 'salt is ""; expected salt to be a non-empty string'),
    (ASK | {"output_token": 4}, 'unknown key "output_token"; did you mean "output_tokens"?'),
    (
        ASK | {"num_blocks": 4},
        'unknown key "num_blocks"; it is an engine option: it belongs in the header\'s engine',
    ),
    (ASK | {"kind": "reqest"}, 'kind is "reqest"; expected "request"'),
    (HEADER, 'kind is "workload"; expected "request": one header a file'),
]


@pytest.mark.parametrize(("request_", "said"), BAD_REQUESTS, ids=[said[:40] for _, said in BAD_REQUESTS])
def test_a_bad_request_is_refused_with_its_line_and_remedy(tmp_path, request_, said):
    path = write(tmp_path / "w.jsonl", HEADER, ASK | {"id": "fine"}, {"kind": "request"} | request_)
    assert refusal(path).startswith(f"{path}:3: {said}")


BAD_ENGINES = [
    ({"block_size": "64"}, 'engine.block_size is "64"; expected a whole number of tokens, 1 or more'),
    ({"block_size": 0}, "engine.block_size is 0; expected a whole number of tokens, 1 or more"),
    ({"block_size": None}, "engine.block_size is null; expected a whole number of tokens, 1 or more"),
    ({"num_blocks": 1}, "engine.num_blocks is 1; expected a whole number from 2"),
    ({"state_groups": -1}, "engine.state_groups is -1; expected a whole number, 0 or more"),
    ({"scheduling_policy": "lifo"}, 'engine.scheduling_policy is "lifo"; expected "fcfs" or "priority"'),
    ({"async_scheduling": 1}, "engine.async_scheduling is 1; expected true or false"),
    ({"kv_cache_events": "yes"}, 'engine.kv_cache_events is "yes"; expected true or false'),
    ({"blok_size": 64}, 'unknown engine option "blok_size"; did you mean "block_size"'),
    ({"block_size": 64, "hash_block_size": 48}, "engine.hash_block_size 48 doesn't divide block_size 64"),
    ({"hash_block_size": 128}, "engine.hash_block_size 128 doesn't divide block_size 64"),
    (
        {"retention_interval": 100},
        "engine.retention_interval 100 isn't a multiple of block_size 64; expected 0 (sparse), null (dense)",
    ),
    (
        {"retention_interval": 64, "state_groups": 0},
        "engine.retention_interval 64 with state_groups 0; expected 0 or null",
    ),
    (
        {"max_num_seqs": 16, "max_num_batched_tokens": 8},
        "engine.max_num_batched_tokens 8 is less than max_num_seqs 16; expected at least one token a row",
    ),
    ([], "engine is []; expected an object of options"),
]


@pytest.mark.parametrize(("engine", "said"), BAD_ENGINES, ids=[said[:40] for _, said in BAD_ENGINES])
def test_a_bad_engine_option_is_refused_with_what_would_fit(tmp_path, engine, said):
    path = write(tmp_path / "w.jsonl", HEADER | {"engine": engine}, ASK)
    assert refusal(path).startswith(f"{path}:1: {said}")


def test_with_a_model_named_only_stated_options_are_compared(tmp_path):
    header = HEADER | {"engine": {"model": "m", "retention_interval": 1056}}
    assert load_workload(write(tmp_path / "w", header, ASK)).engine.retention_interval == 1056


BAD_HEADERS = [
    (
        HEADER | {"schema": "2.0"},
        "schema 2.0 has another MAJOR than this radixflow reads; expected 1.0: upgrade",
    ),
    (HEADER | {"schema": "0.9"}, "schema 0.9 has another MAJOR than this radixflow reads; expected 1.0"),
    (HEADER | {"schema": 1.0}, 'schema is 1.0; expected "MAJOR.MINOR" such as "1.0"'),
    ({"kind": "workload", "name": "w"}, 'schema is null; expected "MAJOR.MINOR" such as "1.0"'),
    ({"kind": "workload", "schema": "1.0"}, "a header without name; expected a non-empty string"),
    (HEADER | {"name": 3}, "name is 3; expected a string"),
    (HEADER | {"requests": []}, 'unknown header key "requests"; known ones: engine, kind, name, note'),
    (HEADER | {"engin": {}}, 'unknown header key "engin"; did you mean "engine"?'),
    (ASK, 'a request before any header; expected {"kind": "workload"'),
    ({"kind": "trace", "schema": "1.0"}, "a trace, not a workload; expected a workload"),
    ({"kind": "x"}, 'kind is "x"; expected a workload\'s header'),
    ({"hello": 1}, "no kind of workload has the keys hello; looked for a workload's header"),
]


@pytest.mark.parametrize(("header", "said"), BAD_HEADERS, ids=[said[:40] for _, said in BAD_HEADERS])
def test_a_bad_header_is_refused_in_line_one(tmp_path, header, said):
    path = write(tmp_path / "w.jsonl", header, ASK)
    assert refusal(path).startswith(f"{path}:1: {said}")


def test_a_newer_minor_still_loads(tmp_path):
    assert load_workload(write(tmp_path / "w", HEADER | {"schema": "1.9"}, ASK)).name == "w"


def test_ids_and_after_must_name_requests_that_can_come(tmp_path):
    path = tmp_path / "w.jsonl"
    assert refusal(write(path, HEADER, ASK, ASK)) == (
        f'{path}:3: id "A" is already that of {path}:2; expected each id once'
    )
    assert refusal(write(path, HEADER, ASK, ASK | {"id": "B", "after": "a1"})) == (
        f'{path}:3: after "a1", but no request has that id; expected one of: A, B'
    )
    assert "a ring of after (A after A)" in refusal(write(path, HEADER, ASK | {"after": "A"}))
    ring = [ASK | {"id": i, "after": j} for i, j in ("XA", "AB", "BC", "CA")]
    assert f"{path}:3: a ring of after (A after B after C after A)" in refusal(write(path, HEADER, *ring))


RAW = [
    (b"", "{path}: empty; expected in its first line a workload's header"),
    (b"\n\n", "{path}: empty; expected in its first line"),
    (json.dumps(HEADER).encode(), "{path}: no requests; expected a line"),
    (b"hello\n", "{path}:1: not JSON at column 1 (Expecting value); expected one JSON object a line"),
    (b"{\n  1\n}\n", "{path}:1: not JSON at column"),
    (b"[1, 2]\n", "{path}:1: [1, 2] is not an object; expected one JSON object a line"),
    (b"[" * 100_000, "{path}:1: nested too deeply"),
    (b'{"a": ' + b"9" * 5000 + b"}", "{path}:1: not JSON ("),
    (b'{"kind": "w\xff"}', "{path}:1: not UTF-8 at byte 12 (0xff); expected JSON Lines in UTF-8"),
    (
        b'{"kind": "workload", "kind": "x"}',
        '{path}:1: key "kind" stands twice in one object; expected it once',
    ),
    (b"\x1f\x8b\x08\x00", "{path}:1: compressed with gzip; expected JSON Lines: decompress it first"),
    (b"\x28\xb5\x2f\xfd\x04", "{path}:1: compressed with zstd"),
]


@pytest.mark.parametrize(("raw", "said"), RAW, ids=[said[7:40] for _, said in RAW])
def test_a_file_that_is_no_workload_gets_one_line(tmp_path, raw, said):
    path = tmp_path / "w.jsonl"
    path.write_bytes(raw)
    assert refusal(path).startswith(said.format(path=path))


def test_a_line_broken_further_down_is_named_by_its_own_number(tmp_path):
    path = tmp_path / "w.jsonl"
    path.write_text(f"{json.dumps(HEADER)}\n\n{json.dumps(ASK)}\n{{oops\n")
    assert refusal(path).startswith(f"{path}:4: not JSON at column 2")


def test_a_missing_file_a_directory_and_a_near_name_are_told_apart(tmp_path):
    assert refusal(tmp_path) == f"{tmp_path}: a directory; expected a workload file or a built-in name"
    assert refusal("figur1") == (
        'figur1: no such file, and no built-in workload of that name; did you mean "figure1"?'
    )
    assert 'did you mean "d08-small-behind-big"?' in refusal("d08")
    assert "built in: agents, bursty, chat," in refusal("nothing")
    missing = tmp_path / "nothing.jsonl"
    assert refusal(missing) == f"{missing}: no such file; docs/workloads.md says how to write a workload"
    for impossible in ("x\0y", "x" * 5000, ""):
        assert refusal(impossible)


def test_a_workload_made_in_python_is_checked_before_it_is_written(tmp_path):
    good = Workload(name="w", requests=[WorkloadRequest(id="A", text="hello")])
    good.check()
    bad = Workload(name="w", requests=[WorkloadRequest(id="A", prompt=[("doc", 0)])])
    with pytest.raises(WorkloadError, match=r'^workload "w", request 1 \("A"\): prompt\[0\]\[1\] is 0'):
        save_workload(bad, tmp_path / "w.jsonl")
    twins = Workload(name="w", requests=[good.requests[0], good.requests[0]])
    with pytest.raises(WorkloadError, match='request 2: id "A" is already that of workload "w", request 1'):
        twins.check()
    with pytest.raises(WorkloadError, match='workload "w": engine.num_blocks is 1'):
        Workload(name="w", engine=EngineOptions(num_blocks=1), requests=good.requests).check()
    with pytest.raises(WorkloadError, match="has no requests"):
        Workload(name="w").check()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    good = Workload(name="w", requests=[WorkloadRequest(id="A", text="hello")])
    with pytest.raises(WorkloadError, match="expected a place to write to"):
        save_workload(good, tmp_path / "no" / "such" / "w.jsonl")
    assert list(tmp_path.iterdir()) == []


names = st.text(min_size=1, max_size=8)
contents = st.one_of(
    st.fixed_dictionaries(
        {"prompt": st.lists(st.tuples(names, st.integers(1, 5000)), min_size=1, max_size=4)}
    ),
    st.fixed_dictionaries({"token_ids": st.lists(st.integers(0, 200_000), min_size=1, max_size=20)}),
    st.fixed_dictionaries({"text": st.text(min_size=1, max_size=30)}),
)
comings = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"arrival": st.floats(0, 1e9)}),
    st.fixed_dictionaries({"after_round": st.integers(0, 1000)}),
)
extras = st.fixed_dictionaries(
    {},
    optional={
        "output_tokens": st.integers(1, 4000),
        "priority": st.integers(-9, 9),
        "group": names,
        "salt": names,
        "abort_after_round": st.integers(1000, 2000),
        "label": st.text(max_size=8),
    },
)
engines = st.fixed_dictionaries(
    {},
    optional={
        "model": names,
        "block_size": st.just(64),
        "hash_block_size": st.sampled_from([16, 32, 64]),
        "num_blocks": st.integers(2, 5000),
        "state_groups": st.integers(1, 9),
        "max_num_seqs": st.integers(1, 64),
        "max_num_batched_tokens": st.integers(64, 9000),
        "scheduling_policy": st.sampled_from(["fcfs", "priority"]),
        "retention_interval": st.sampled_from([None, 0, 64, 128]),
        "spec_tokens": st.integers(0, 5),
        "async_scheduling": st.booleans(),
        "kv_cache_events": st.booleans(),
    },
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(contents, comings, extras), min_size=1, max_size=5),
    engines,
    names,
    st.text(max_size=9),
)
def test_whatever_is_valid_is_read_back_as_it_was_written(tmp_path_factory, parts, engine, name, note):
    requests = [
        WorkloadRequest(id=f"r{i}", **content, **coming, **extra)
        for i, (content, coming, extra) in enumerate(parts)
    ]
    workload = Workload(name=name, note=note, engine=EngineOptions(**engine), requests=requests)
    path = tmp_path_factory.mktemp("w") / "w.jsonl"
    save_workload(workload, path)
    assert load_workload(path) == workload


def test_a_workload_is_one_line_at_a_prompt_and_a_request_says_only_what_it_was_given():
    ask = WorkloadRequest(id="A", prompt=[("doc", 64)])
    workload = Workload(name="w", note="a note", requests=[ask] * 1_200, engine=EngineOptions(max_num_seqs=4))
    assert repr(workload) == "<Workload w, 1,200 requests: a note>"
    assert repr(Workload(name="w", requests=[ask])) == "<Workload w, 1 request>"
    assert repr(ask) == "WorkloadRequest(id='A', prompt=[('doc', 64)])"
    assert repr(workload.engine) == "EngineOptions(max_num_seqs=4)"

"""Importers: QuALITY, Mooncake and plain files, told apart by their first line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from radixflow.workloads import WorkloadError, load_workload, save_workload
from radixflow.workloads.importers import detect

SHARED = Path(__file__).parent.parent.parent / "shared" / "data"
QUALITY = SHARED / "quality_dev_real.jsonl"
MOONCAKE = SHARED / "mooncake_conversation.jsonl"

ARTICLES = [
    {
        "article_id": "a1",
        "article": "A long time ago a fox met a crow. " * 20,
        "n_words": 180,
        "questions": [
            {"q": "Whom did the fox meet?", "options": ["A crow", "A crane", "Nobody", "A hen"], "src": "x"},
            {"q": "When was it?", "options": ["Today", "Long ago", "Never", "Tomorrow"]},
        ],
    },
    {
        "article_id": "a2",
        "article": "The crane lives by the river. " * 30,
        "questions": [{"question": "Where does it live?", "options": ["River", "Hill", "Sea", "Town"]}],
    },
]
CALLS = [
    {"timestamp": 0, "input_length": 1100, "output_length": 30, "hash_ids": [0, 1, 2]},
    {"timestamp": 500, "input_length": 1024, "output_length": 7, "hash_ids": [0, 1]},
    {"timestamp": 2500, "input_length": 1537, "output_length": 1, "hash_ids": [0, 1, 3, 4]},
]


def write(path: Path, lines: list) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def refusal(path: Path, **options: object) -> str:
    with pytest.raises(WorkloadError) as caught:
        load_workload(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def common(a: list[int], b: list[int]) -> int:
    return len(os.path.commonprefix([a, b]))


def test_the_kind_of_a_file_is_told_by_its_first_line(tmp_path):
    header = {"kind": "workload", "schema": "1.0", "name": "w"}
    for kind, first in [
        ("workload", header),
        ("quality", ARTICLES[0]),
        ("mooncake", CALLS[0]),
        ("plain", {"text": "hello"}),
        ("plain", {"prompt": "hello"}),
        ("plain", {"token_ids": [1]}),
    ]:
        assert detect(write(tmp_path / "f", [first])) == kind


def test_a_first_line_that_fits_two_kinds_or_none_is_refused(tmp_path):
    path = tmp_path / "f"
    both = refusal(write(path, [ARTICLES[0] | {"text": "x"}]))
    assert both.startswith(f"{path}:1: could be quality or plain; expected only one of")
    assert "looked for" in refusal(write(path, [{"a": 1}]))
    assert "looked for" in refusal(write(path, [{}]))


def test_a_question_becomes_four_branches_of_one_token(tmp_path):
    workload = load_workload(write(tmp_path / "q.jsonl", ARTICLES))
    workload.check()
    assert [request.id for request in workload.requests[:5]] == [
        "a1.q0.b0",
        "a1.q0.b1",
        "a1.q0.b2",
        "a1.q0.b3",
        "a1.q1.b0",
    ]
    assert [request.group for request in workload.requests[::4]] == ["a1.q0", "a1.q1", "a2.q0"]
    assert {request.output_tokens for request in workload.requests} == {1}
    assert not workload.has_clock
    text = "".join(workload.requests[4].text)
    assert text == ARTICLES[0]["article"] + "\n\nQuestion: When was it?\nAnswer: Today"


def test_what_two_branches_share_as_text_they_share_as_tokens(tmp_path):
    workload = load_workload(write(tmp_path / "q.jsonl", ARTICLES))
    first, second, *_, third = (workload.token_ids(request) for request in workload.requests[:5])
    article = len(ARTICLES[0]["article"] + "\n\nQuestion: ")
    assert common(first, second) == article + len("Whom did the fox meet?\nAnswer: A cr")
    assert common(first, third) == article + len("Wh")


def test_articles_order_and_rate_are_options(tmp_path):
    path = write(tmp_path / "q.jsonl", ARTICLES)
    assert len(load_workload(path, articles=1).requests) == 8
    mixed = load_workload(path, order="mixed").requests[::4]
    assert [request.group for request in mixed] == ["a1.q0", "a2.q0", "a1.q1"]
    cold = load_workload(path, order="cold").requests
    assert [request.salt for request in cold] == [request.group for request in cold]
    timed = load_workload(path, rate=2.0, branch_spacing=0.01)
    assert timed.has_clock
    assert [request.arrival for request in timed.requests[:4]] == pytest.approx([0, 0.01, 0.02, 0.03])
    assert timed == load_workload(path, rate=2.0, branch_spacing=0.01)


def test_an_article_in_two_lines_goes_on_counting_its_questions(tmp_path):
    again = ARTICLES[0] | {"questions": [{"question": "Why?", "options": ["a", "b"]}]}
    other = again | {"article": "Something else."}
    workload = load_workload(write(tmp_path / "q.jsonl", [*ARTICLES, again, other]))
    workload.check()
    assert [r.id for r in workload.requests[8:]][:2] == ["a1.q2.b0", "a1.q2.b1"]
    assert workload.requests[-1].id == "a1+.q0.b1"


def test_a_broken_article_is_named_with_line_and_question(tmp_path):
    path = tmp_path / "q.jsonl"
    for change, said in [
        ({"article": ""}, '2: article is ""; expected a non-empty text'),
        ({"questions": []}, "2: questions is []; expected a non-empty list"),
        ({"questions": [3]}, "2: questions[0] is 3; expected an object with q and options"),
        (
            {"questions": [{"options": ["a", "b"]}]},
            "2: questions[0]: q or question is null; expected a non-empty",
        ),
        (
            {"questions": [{"q": "a", "options": ["a"]}]},
            '2: questions[0].options is ["a"]; expected a list of 2',
        ),
        (
            {"questions": [{"q": "a", "options": "abcd"}]},
            '2: questions[0].options is "abcd"; expected a list',
        ),
    ]:
        write(path, [ARTICLES[1], ARTICLES[0] | change])
        assert refusal(path).startswith(f"{path}:{said}")
    assert '(read as quality) has no option "artikles"; did you mean "articles"?' in refusal(path, artikles=1)
    assert refusal(path, articles=0) == "articles is 0; expected a whole number, 1 or more"


def test_an_import_survives_being_saved_as_a_workload(tmp_path):
    workload = load_workload(write(tmp_path / "q.jsonl", ARTICLES), rate=5.0)
    save_workload(workload, tmp_path / "w.jsonl")
    again = load_workload(tmp_path / "w.jsonl")
    assert again.simulated_engine == workload.simulated_engine
    for a, b in zip(workload.requests, again.requests, strict=True):
        assert workload.token_ids(a) == again.token_ids(b)
        assert (a.id, a.arrival, a.group) == (b.id, b.arrival, b.group)


def test_mooncake_blocks_become_segments_cut_to_the_prompt(tmp_path):
    workload = load_workload(write(tmp_path / "m.jsonl", CALLS))
    workload.check()
    assert workload.requests[0].prompt == [("b0", 512), ("b1", 512), ("b2", 76)]
    assert [request.arrival for request in workload.requests] == [0, 0.5, 2.5]
    assert [request.output_tokens for request in workload.requests] == [30, 7, 1]
    tokens = [workload.token_ids(request) for request in workload.requests]
    assert list(map(len, tokens)) == [1100, 1024, 1537]
    assert common(tokens[0], tokens[1]) == common(tokens[0], tokens[2]) == 1024
    assert len(load_workload(tmp_path / "m.jsonl", limit=2).requests) == 2
    assert load_workload(tmp_path / "m.jsonl", speed=5).requests[2].arrival == 0.5


def test_a_broken_mooncake_line_is_named(tmp_path):
    path = tmp_path / "m.jsonl"
    for change, said in [
        ({"hash_ids": [0, 1]}, "2: hash_ids names 2 blocks for 1100 tokens; expected 3 blocks of 512"),
        ({"hash_ids": [0, 1, "x"]}, '2: hash_ids is [0, 1, "x"]; expected a list of whole numbers'),
        ({"input_length": 0}, "2: input_length is 0; expected a whole number, 1 or more"),
        ({"output_length": 0}, "2: output_length is 0; expected a whole number, 1 or more"),
        ({"timestamp": -1}, "2: timestamp is -1; expected a number, 0 or more"),
        ({"timestamp": "x"}, '2: timestamp is "x"; expected a number, 0 or more'),
    ]:
        assert refusal(write(path, [CALLS[1], CALLS[0] | change])).startswith(f"{path}:{said}")
    assert "no output_length; expected timestamp" in refusal(
        write(path, [{k: v for k, v in CALLS[0].items() if k != "output_length"}])
    )
    assert refusal(path, speed=0) == "speed is 0; expected a number above 0"


def test_plain_lines_are_texts_or_token_ids(tmp_path):
    lines = [
        {"text": "abc", "url": "x"},
        {"prompt": "abd", "output_tokens": 9, "id": "mine"},
        {"token_ids": [5, 6], "arrival": 1.5},
    ]
    workload = load_workload(write(tmp_path / "p.jsonl", lines), output_tokens=2)
    workload.check()
    assert [request.id for request in workload.requests] == ["r1", "mine", "r3"]
    assert [request.output_tokens for request in workload.requests] == [2, 9, 2]
    assert [workload.token_ids(request) for request in workload.requests] == [
        [100, 101, 102],
        [100, 101, 103],
        [5, 6],
    ]
    assert workload.note == "3 prompts, read by bytes; keys left out: url"
    assert workload.has_clock
    assert len(load_workload(tmp_path / "p.jsonl", limit=1).requests) == 1


def test_a_broken_plain_line_is_named(tmp_path):
    path = tmp_path / "p.jsonl"
    for line, said in [
        ({"prompt": [["doc", 4]]}, "expected a text (segments belong in a workload file, after its header)"),
        ({"prompt": "a", "text": "b"}, "both prompt and text; expected one of them"),
        ({"text": ["a"]}, 'text is ["a"]; expected a non-empty string'),
        ({"text": ""}, 'text is ""; expected text to be a non-empty string'),
        ({"url": "x"}, "what it asks is given by none; expected exactly one of"),
        ({"text": "a", "id": "r1"}, 'id "r1" is already that of'),
    ]:
        message = refusal(write(path, [{"text": "fine"}, line]))
        assert message.startswith(f"{path}:2: ") and said in message


@pytest.mark.skipif(not QUALITY.exists(), reason="the real QuALITY file is not beside this checkout")
def test_the_real_quality_file_becomes_its_branches():
    workload = load_workload(QUALITY)
    workload.check()
    assert len(workload.requests) == 255 * 4
    few = load_workload(QUALITY, articles=2)
    lengths = [len(few.token_ids(request)) for request in few.requests]
    assert min(lengths) > 20_000
    a, b = (few.token_ids(request) for request in few.requests[:2])
    assert common(a, b) > 20_000


@pytest.mark.skipif(not MOONCAKE.exists(), reason="the real Mooncake trace is not beside this checkout")
def test_the_real_mooncake_trace_imports_in_part_and_whole():
    assert len(load_workload(MOONCAKE).requests) == 12_031
    few = load_workload(MOONCAKE, limit=20)
    with MOONCAKE.open() as file:
        lengths = [json.loads(next(file))["input_length"] for _ in range(20)]
    assert [len(few.token_ids(request)) for request in few.requests] == lengths

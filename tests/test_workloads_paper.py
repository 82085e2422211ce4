"""The paper's streams: the published shapes, from a seed."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from radixflow.workloads import WorkloadError, load_workload
from radixflow.workloads.paper import CORPORA, FRESH, STREAMS, generated_articles, paper, paper_stream

SEEDS = range(4)
PUBLISHED = {
    # articles, questions, mean, median, p95, max; question and option tokens
    "quality": (62, 1034, 5755, 6493, 8088, 9765, 14, 12),
    "race": (128, 517, 249, None, 402, 514, 11, 5),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("corpus", CORPORA, ids=lambda corpus: corpus.name)
def test_articles_have_the_published_lengths(corpus, seed):
    articles, questions, mean, median, p95, longest, question, option = PUBLISHED[corpus.name]
    made = generated_articles(seed, corpora=[corpus])
    lengths = np.array([article.tokens for article in made])
    asked = [q for article in made for q in article.questions]
    assert (len(made), len(asked)) == (articles, questions)
    assert lengths.mean() == pytest.approx(mean, rel=0.02)
    assert median is None or np.median(lengths) == pytest.approx(median, rel=0.02)
    assert np.quantile(lengths, 0.95) == pytest.approx(p95, rel=0.02)
    assert 0.93 * longest <= lengths.max() <= longest
    assert np.mean([q.tokens for q in asked]) == pytest.approx(question, rel=0.05)
    assert np.mean([q.options for q in asked]) == pytest.approx(option, rel=0.05)
    assert {len(article.questions) for article in made} <= {questions // articles, questions // articles + 1}


def test_a_stream_has_1551_questions_of_four_branches_that_end_in_their_own_option():
    workload = paper(stream="reuse")
    groups = Counter(request.group for request in workload.requests)
    assert len(groups) == 1551 and set(groups.values()) == {4}
    first = [request for request in workload.requests if request.group == workload.requests[0].group]
    assert len({tuple(request.prompt[:2]) for request in first}) == 1
    assert len({request.prompt[2][0] for request in first}) == 4
    assert all(request.output_tokens == 1 for request in workload.requests)
    workload.check()


def test_streams_differ_in_who_shares_and_in_nothing_else():
    articles = generated_articles(1)
    made = {stream: paper_stream(articles, stream=stream, seed=1).requests for stream in STREAMS}
    plain = {
        stream: [(request.id, request.prompt, request.arrival) for request in requests]
        for stream, requests in made.items()
    }
    assert plain["cold"] == plain["reuse"] == plain["mixed"]
    alone = {s: {r.group for r in requests if r.salt is not None} for s, requests in made.items()}
    assert len(alone["cold"]) == 1551 and not alone["reuse"]
    assert len(alone["mixed"]) / 1551 == pytest.approx(FRESH, abs=0.04)


def test_arrivals_are_poisson_at_the_stated_rate_and_branches_come_spaced():
    workload = paper(rate=5.0, branch_spacing=0.002, seed=3)
    times: dict[str, list[float]] = {}
    for request in workload.requests:
        times.setdefault(request.group, []).append(request.arrival)
    begins = np.array(sorted(branches[0] for branches in times.values()))
    gaps = np.diff(begins)
    assert gaps.mean() == pytest.approx(0.2, rel=0.08)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.1)  # exponential
    assert all(np.diff(branches) == pytest.approx([0.002] * 3, abs=2e-6) for branches in times.values())
    arrivals = [request.arrival for request in workload.requests]
    assert arrivals == sorted(arrivals)


def test_the_same_seed_is_the_same_stream_and_orders_and_seeds_differ():
    small = {"stream": "mixed", "scale": 0.05}
    assert paper(**small) == paper(**small)
    ids = [[r.id for r in paper(**small, **more).requests] for more in ({}, {"order": 2}, {"seed": 1})]
    assert ids[0] != ids[1] and ids[0] != ids[2]


def test_an_unshared_part_keeps_every_length():
    whole, half = paper(scale=0.05), paper(scale=0.05, shared=0.5)
    assert [sum(n for _, n in r.prompt) for r in whole.requests] == [sum(n for _, n in r.prompt) for r in half.requests]
    a, b = half.requests[0], next(r for r in half.requests[1:] if r.group == half.requests[0].group)
    assert a.prompt[0] == b.prompt[0] and a.prompt[1][0] != b.prompt[1][0]


def test_a_slice_by_name_and_wrong_arguments_in_one_line():
    assert len(load_workload("paper", scale=0.02, stream="cold").requests) < 200
    for options, said in [
        ({"stream": "warm"}, 'stream is "warm"; expected one of cold, reuse, mixed'),
        ({"scale": 0}, "scale is 0; expected a number above 0"),
        ({"scale": 2}, "scale is 2; expected a share above 0, at most 1"),
        ({"shared": 1.5}, "shared is 1.5; expected a share, 0 to 1"),
        ({"quality": "x.jsonl"}, "texts without a tokenizer"),
    ]:
        with pytest.raises(WorkloadError, match=said):
            load_workload("paper", **options)


@pytest.fixture
def texts(tmp_path):
    """A QuALITY file with an article in two lines, and a RACE folder."""
    quality = tmp_path / "quality.jsonl"
    line = {"article": "Once upon a time. " * 20, "questions": [{"question": "Who?", "options": list("abcd")}]}
    quality.write_text("".join(json.dumps(value) + "\n" for value in (line, line)))
    race = tmp_path / "race" / "middle"
    race.mkdir(parents=True)
    passage = {"article": "A dog ran.", "questions": ["Why?", "Where?"], "options": [list("abcd"), list("efgh")]}
    (race / "1.txt").write_text(json.dumps(passage | {"answers": ["A", "B"]}))
    return quality, tmp_path / "race"


def test_real_files_bring_their_own_lengths_and_questions(texts):
    quality, race = texts
    workload = paper(quality=str(quality), race=str(race), tokenizer="bytes")
    assert len({request.group for request in workload.requests}) == 4
    prompts = {request.id: dict(request.prompt) for request in workload.requests}
    assert prompts["quality0.q0.b0"]["quality0"] == len("Once upon a time. " * 20) + 2
    assert prompts["race0.q1.b3"]["race0.q1"] == len("Question: Where?\n")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("quality", '{"article": "x"}', "no article with questions"),
        ("quality", '{"article": "x", "questions": [{"question": "q", "options": [1]}]}', "expected a text and texts"),
        ("race", '{"article": "x", "questions": ["q"], "options": []}', "as many options as questions"),
    ],
)
def test_a_file_that_isnt_one_says_so_with_its_place(tmp_path, name, content, said):
    path = tmp_path / "file.jsonl"
    path.write_text(content + "\n")
    with pytest.raises(WorkloadError, match=said) as error:
        paper(tokenizer="bytes", **{name: str(path)})
    assert str(path) in str(error.value)

"""Labels and texts into tokens: the same everywhere, prefixes exact, labels apart."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixflow.workloads import WorkloadError, WorkloadRequest, load_tokenizer, token_ids
from radixflow.workloads.tokens import StreamCache, draw


def tokens_of(label: str, n: int, vocab_size: int | None = None) -> list[int]:
    return token_ids(WorkloadRequest(id="r", prompt=[(label, n)]), vocab_size)


@settings(deadline=None)
@given(st.text(min_size=1), st.integers(1, 3000), st.integers(1, 3000), st.sampled_from([12, 300, 151_936]))
def test_a_shorter_segment_is_a_prefix_of_a_longer_one(label, a, b, vocab_size):
    a, b = sorted((a, b))
    longer = tokens_of(label, b, vocab_size)
    assert tokens_of(label, a, vocab_size) == longer[:a]
    assert len(longer) == b
    assert all(10 <= token < vocab_size for token in longer)


@settings(deadline=None)
@given(st.lists(st.integers(1, 5000), min_size=1, max_size=8))
def test_growth_in_any_steps_gives_the_same_stream(lengths):
    cache = StreamCache()
    for n in lengths:
        assert cache.prefix("doc", n, 32_000).tolist() == draw("doc", 8192, 32_000)[:n].tolist()


@settings(deadline=None)
@given(st.text(min_size=1, max_size=6), st.text(min_size=1, max_size=6))
def test_different_labels_give_different_streams(a, b):
    assert (tokens_of(a, 32) == tokens_of(b, 32)) == (a == b)


def test_labels_that_differ_in_their_number_differ_from_the_first_token_on():
    for stem in ("doc", "d3.q", "", "b"):
        assert len({tokens_of(f"{stem}{i}", 1)[0] for i in range(2000)}) == 2000


def test_a_stream_is_the_same_in_another_process_and_in_every_version():
    program = (
        "from radixflow.workloads import WorkloadRequest, token_ids;"
        "print(token_ids(WorkloadRequest(id='r', prompt=[('doc1', 4), ('a1', 2)])))"
    )
    here = token_ids(WorkloadRequest(id="x", prompt=[("doc1", 4), ("a1", 2)]))
    there = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert there.stdout.strip() == str(here)
    # Recorded traces hold paths of these streams: a change here is a change of every fixture.
    assert here == [24035, 28801, 30226, 18017, 4229, 13053]


def test_segments_follow_one_another():
    request = WorkloadRequest(id="r", prompt=[("doc", 700), ("ask", 30), ("doc", 5)])
    assert token_ids(request) == tokens_of("doc", 700) + tokens_of("ask", 30) + tokens_of("doc", 5)


def test_the_cache_of_streams_stays_bounded():
    cache = StreamCache(limit=4096)
    for i in range(100):
        cache.prefix(f"doc{i}", 600, 32_000)
        assert cache.tokens <= 4096
    assert cache.prefix("big", 10_000, 32_000).shape == (10_000,)
    assert cache.prefix("doc1", 10, 32_000).tolist() == draw("doc1", 10, 32_000).tolist()


def test_text_is_bytes_by_default():
    assert token_ids(WorkloadRequest(id="r", text="aé")) == [97 + 3, 0xC3 + 3, 0xA9 + 3]
    assert token_ids(WorkloadRequest(id="r", text=("a", "é"))) == [97 + 3, 0xC3 + 3, 0xA9 + 3]
    assert len(token_ids(WorkloadRequest(id="r", text="\ud800"))) == 3


def test_ids_outside_a_named_vocabulary_are_refused():
    given_ids = WorkloadRequest(id="r", token_ids=[1, 40_000])
    assert token_ids(given_ids) == [1, 40_000]
    with pytest.raises(WorkloadError, match='request "r" has the token id 40000; expected ids below 32000'):
        token_ids(given_ids, vocab_size=32_000)
    with pytest.raises(WorkloadError, match="has the token id 100; expected ids below 64"):
        token_ids(WorkloadRequest(id="r", text="a"), vocab_size=64)
    with pytest.raises(WorkloadError, match="a vocabulary of 11; expected more than 11 tokens"):
        tokens_of("doc", 3, vocab_size=11)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A byte-pair tokenizer's folder, trained here on a few words."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="?"))
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=60, special_tokens=["?", "<s>"])
    tokenizer.train_from_iterator(["the cat sat on the mat", "the dog and the cat"] * 20, trainer)
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )
    path = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save(str(path / "tokenizer.json"))
    return path


def test_a_hugging_face_folder_tokenises_without_special_tokens(folder):
    tokenizer = load_tokenizer(folder)
    ids = token_ids(WorkloadRequest(id="r", text="the cat"), tokenizer=tokenizer)
    assert 0 < len(ids) < len("the cat")
    assert 1 not in ids
    assert load_tokenizer(folder / "tokenizer.json").encode("the cat") == ids
    assert load_tokenizer("bytes").encode("a") == [100]


def test_pieces_keep_a_shared_prefix_exact_whatever_the_tokenizer(folder):
    tokenizer = load_tokenizer(folder)
    prefix = tokenizer.encode("the c")
    for rest in ("at", "at sat", "mat"):
        ids = token_ids(WorkloadRequest(id="r", text=("the c", rest)), tokenizer=tokenizer)
        assert ids == prefix + tokenizer.encode(rest)


def test_a_folder_without_a_tokenizer_gets_one_line(tmp_path):
    with pytest.raises(WorkloadError, match='no such tokenizer; expected "bytes", a folder'):
        load_tokenizer(tmp_path / "nothing")
    pytest.importorskip("tokenizers")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(WorkloadError, match=r"not a tokenizer \(.*expected a folder with tokenizer.json$"):
        load_tokenizer(tmp_path)

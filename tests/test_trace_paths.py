"""Paths name prompts without their tokens, and lose nothing of what they share."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from radixflow.trace import PromptPaths, common_prefix
from radixflow.trace.paths import join, length

ACTIONS = st.lists(
    st.tuples(
        st.integers(0, 30),
        st.integers(0, 40),
        st.lists(st.integers(0, 2), max_size=25),
        st.sampled_from(["", "lora"]),
    ),
    max_size=30,
)


def shared(a: list[int], b: list[int]) -> int:
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return n


@settings(max_examples=60, deadline=None)
@given(ACTIONS, st.randoms(use_true_random=False))
def test_two_paths_share_exactly_what_their_tokens_share(actions, rng):
    paths = PromptPaths(salt=b"s")
    known: list[tuple[str, list[int], list]] = []
    for which, cut, new, space in actions:
        base = known[which % len(known)] if known else (space, [], [])
        tokens = base[1][:cut] + new
        path = paths.insert(tokens, base[0])
        assert length(path) == len(tokens)
        output = [rng.randrange(3) for _ in range(rng.randrange(6))]
        if path and output and rng.random() < 0.5:
            path = join(path, paths.extend(path, output))
            tokens = tokens + output
            assert length(path) == len(tokens)
        known.append((base[0], tokens, path))
    for space_a, tokens_a, path_a in known:
        for space_b, tokens_b, path_b in known:
            expected = shared(tokens_a, tokens_b) if space_a == space_b else 0
            assert common_prefix(path_a, path_b) == expected
    assert all(paths.insert(tokens, space)[:1] == path[:1] for space, tokens, path in known)


def test_the_page_s_example():
    paths = PromptPaths()
    a = paths.insert(range(100))
    b = paths.insert([*range(60), *range(900, 940)])
    c = paths.insert([*range(60), *range(900, 925), *range(500, 510)])
    assert [n for _, n in a] == [100] and [n for _, n in b] == [60, 40] and [n for _, n in c] == [60, 25, 10]
    assert b[0][0] == a[0][0] and c[1][0] == b[1][0]
    assert paths.insert([*range(120)]) == [(a[0][0], 120)]
    assert common_prefix(a, c) == 60 and common_prefix(b, c) == 85


def test_ids_depend_on_the_salt_and_hold_no_tokens():
    tokens = list(range(50))
    ids = {PromptPaths(salt=salt).insert(tokens)[0][0] for salt in (b"a", b"b")} | {
        PromptPaths().insert(tokens)[0][0]
    }
    assert len(ids) == 3
    assert PromptPaths(salt=b"a").insert(tokens) == PromptPaths(salt=b"a").insert(np.array(tokens))
    assert all(len(id) == 12 and int(id, 16) >= 0 for id in ids)


def test_memory_is_bounded_by_starting_afresh():
    paths = PromptPaths(max_tokens=1000)
    rng = random.Random(1)
    prompts = [[rng.randrange(1000) for _ in range(90)] for _ in range(50)]
    seen = []
    for prompt in prompts:
        seen.append(paths.insert(prompt))
        assert paths.tokens <= 1000
    assert paths.restarts >= 4
    again = paths.insert(prompts[0])
    assert common_prefix(again, seen[0]) == 0 and paths.extend(seen[0], [1, 2]) == []
    assert len({path[0][0] for path in seen}) == 50
    huge = paths.insert(range(5000))
    assert length(huge) == 5000

"""Tokens that are only counted behave as the list they stand for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("vllm")

from radixflow.engines.unread_tokens import UnreadTokens  # noqa: E402

places = st.none() | st.integers(-12, 12)


@given(st.integers(0, 8), st.lists(st.integers(1, 9), max_size=6), places, places, st.sampled_from([None, 1, 2, -1]))
def test_it_reads_as_a_list_of_zeros_and_what_was_generated(length, generated, start, stop, step):
    tokens, plain = UnreadTokens(length), [0] * length
    tokens.extend(generated[:-1])
    for token in generated[-1:]:
        tokens.append(token)
    plain += generated
    assert len(tokens) == len(plain) and list(tokens) == plain
    assert tokens[start:stop:step] == plain[start:stop:step]
    copied = tokens.copy()
    copied.append(7)
    assert list(tokens) == plain and list(copied) == [*plain, 7]
    with pytest.raises(IndexError):
        tokens[len(plain)]

"""Labels into token streams, fast and always the same.

    label "doc"    d0 d1 d2 ............ d639 ............
    ["doc", 500]   |------------------|                      a prefix of
    ["doc", 640]   |---------------------------|             this one

A stream is the output of SHAKE-128 over the label, read as 32-bit words and scaled to the
vocabulary. An extendable-output function has the prefix property by definition and, unlike a
library's random generator, never changes between versions or machines.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from radixflow.workloads.tokenizers import Tokenizer

DEFAULT_VOCAB_SIZE = 32_000
SPECIAL_TOKENS = 10
"""Ids 0..9 are never drawn: real vocabularies keep padding, begin and end of text there."""

_CACHE_TOKENS = 16_000_000
"""Streams are kept up to this many tokens (64 MB), the longest unused going first."""


class StreamCache:
    """The streams of labels, each as long as was ever asked for."""

    def __init__(self, limit: int = _CACHE_TOKENS) -> None:
        self.limit = limit
        self.tokens = 0
        self._streams: OrderedDict[tuple[str, int], np.ndarray] = OrderedDict()

    def prefix(self, label: str, n: int, vocab_size: int) -> np.ndarray:
        """The first n tokens of the label's stream: int32, shape (n,), read-only."""
        key = (label, vocab_size)
        stream = self._streams.pop(key, None)
        if stream is None or len(stream) < n:
            self.tokens -= 0 if stream is None else len(stream)
            # Powers of two, so that a stream asked for in small steps is drawn a few times only.
            stream = draw(label, max(512, 1 << (n - 1).bit_length()), vocab_size)
            self.tokens += len(stream)
        self._streams[key] = stream
        while self.tokens > self.limit and len(self._streams) > 1:
            _, oldest = self._streams.popitem(last=False)
            self.tokens -= len(oldest)
        return stream[:n]


_CACHE = StreamCache()


def draw(label: str, n: int, vocab_size: int) -> np.ndarray:
    """Tokens 0..n-1 of the label's stream, each in SPECIAL_TOKENS..vocab_size-1; int32."""
    span = vocab_size - SPECIAL_TOKENS
    words = np.frombuffer(hashlib.shake_128(_bytes(label)).digest(4 * n), dtype="<u4").astype(np.uint64)
    tokens = (SPECIAL_TOKENS + (words * np.uint64(span) >> np.uint64(32))).astype(np.int32)
    tokens[0] = SPECIAL_TOKENS + _first(label, span)
    tokens.setflags(write=False)
    return tokens


def _bytes(label: str) -> bytes:
    # JSON allows lone surrogates in a string; UTF-8 proper does not.
    return label.encode("utf-8", "surrogatepass")


def _first(label: str, span: int) -> int:
    """A stream's first token, such that labels that differ in their number differ in it.

    Left to chance, 200 questions behind one document would have a pair with the same first token
    more often than not, and the prefix tree would show a shared prefix of one token.
    """
    digits = label[len(label.rstrip("0123456789")) :][-18:]
    stem = label[: len(label) - len(digits)]
    start = int.from_bytes(hashlib.blake2b(_bytes(stem), digest_size=8).digest(), "little")
    return (start + int(digits or 0)) % span


def segment_array(segments: Sequence[tuple[str, int]], vocab_size: int = DEFAULT_VOCAB_SIZE) -> np.ndarray:
    """The segments' streams one after another; int32, read-only where it is one segment."""
    parts = [_CACHE.prefix(label, n, vocab_size) for label, n in segments]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def segment_tokens(segments: Sequence[tuple[str, int]], vocab_size: int) -> list[int]:
    """The same as a list of token ids."""
    return segment_array(segments, vocab_size).tolist()


def text_tokens(text: str | tuple[str, ...] | None, tokenizer: Tokenizer) -> list[int]:
    """Token ids of a text, or of its pieces one after another, each tokenised by itself."""
    pieces = (text or "",) if isinstance(text, str | None) else text
    ids: list[int] = []
    for piece in pieces:
        ids.extend(_encoded(tokenizer, piece))
    return ids


@lru_cache(maxsize=256)
def _encoded(tokenizer: Tokenizer, piece: str) -> list[int]:
    # Branches of one document come one after another: tokenise the document once.
    return tokenizer.encode(piece)

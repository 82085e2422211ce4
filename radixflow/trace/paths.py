"""Paths of prompts in a token-exact radix tree, named by salted hashes.

A stream is a run of tokens that some prompt was the first to bring; a path says how far it goes along each
stream in turn. Here A came first, then B and C:

    s1  |-------- A's 100 tokens --------|          A: [(s1, 100)]
              | leaves s1 after 60
    s2        |---- B's own 40 tokens ---|          B: [(s1, 60), (s2, 40)]
                    | leaves s2 after 25
    s3              |-- C's own 10 --|              C: [(s1, 60), (s2, 25), (s3, 10)]

Two paths share a prefix exactly as far as they name the same streams. A prompt that goes on past a stream's
end makes it longer, so a conversation's turns stay on one stream.
"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Sequence

import numpy as np

Path = list[tuple[str, int]]
"""`[(stream, tokens), ...]`: the first so many tokens of each stream in turn (`schema.Request.path`)."""

_ID_BYTES = 6


class _Stream:
    __slots__ = ("branches", "id", "tokens")

    def __init__(self, id: str, tokens: np.ndarray):
        self.id = id
        self.tokens = tokens
        self.branches: dict[tuple[int, int], _Stream] = {}
        """By (tokens into this stream, the token that leaves it)."""


class PromptPaths:
    """Turns prompts into paths. Holds the tokens; only hashes leave it.

    max_tokens: past so many tokens held it starts afresh: later prompts then share nothing with earlier ones.
    salt: keys the hashes; random by default. Without it, ids tell nothing about tokens.
    """

    def __init__(self, max_tokens: int = 16_000_000, salt: bytes | None = None):
        self.max_tokens = max_tokens
        self.tokens = 0
        """Tokens held."""
        self.restarts = 0
        """How often it started afresh."""
        self._salt = os.urandom(16) if salt is None else salt
        self._roots: dict[tuple[str, int], _Stream] = {}
        self._by_id: dict[str, _Stream] = {}

    def insert(self, token_ids: Sequence[int] | np.ndarray, namespace: str = "") -> Path:
        """The path of a prompt; adds what is new of it.

        namespace: prompts share nothing across namespaces (cache salt, LoRA adapter).
        """
        tokens = _as_array(token_ids)
        if not len(tokens):
            return []
        if self.tokens + len(tokens) > self.max_tokens and self.tokens:
            self._restart()
        key = (namespace, int(tokens[0]))
        root = self._roots.get(key)
        if root is None:
            root = self._roots[key] = self._new(tokens, namespace.encode(), 0)
            return [(root.id, len(tokens))]
        return self._walk(root, 0, tokens)

    def extend(self, path: Path, token_ids: Sequence[int] | np.ndarray) -> Path:
        """How tokens that follow a prompt continue its path (`schema.Finish.path`); adds what is new.

        Where they begin on the path's last stream, the first entry names it again with its new length;
        `join(path, more)` is the whole path. Empty where the path was forgotten by a restart.
        """
        tokens = _as_array(token_ids)
        if not path or not len(tokens):
            return []
        id, used = path[-1]
        stream = self._by_id.get(id)
        if stream is None or self.tokens + len(tokens) > self.max_tokens:
            return []
        more = self._walk(stream, used, tokens)
        return more[1:] if more[0] == (id, used) else more

    def _walk(self, stream: _Stream, used: int, tokens: np.ndarray) -> Path:
        """From `used` tokens into `stream` on along `tokens`; the path begins with that stream."""
        path: Path = []
        while True:
            used_now = used + _common(stream.tokens[used:], tokens)
            tokens = tokens[used_now - used :]
            used = used_now
            if not len(tokens):
                break
            branch = stream.branches.get((used, int(tokens[0])))
            if branch is None and used == len(stream.tokens):
                stream.tokens = np.concatenate((stream.tokens, tokens))
                self.tokens += len(tokens)
                used += len(tokens)
                break
            path.append((stream.id, used))
            if branch is None:
                branch = self._new(tokens, stream.id.encode(), used)
                stream.branches[used, int(tokens[0])] = branch
                stream, used = branch, len(tokens)
                break
            stream, used = branch, 0
        path.append((stream.id, used))
        return path

    def _new(self, tokens: np.ndarray, parent: bytes, offset: int) -> _Stream:
        """A stream is named by what created it: where it leaves which stream, and with which token."""
        seed = b"%b\0%d\0%d\0%d" % (parent, offset, int(tokens[0]), self.restarts)
        turn = 0
        while True:
            id = hashlib.blake2b(b"%b\0%d" % (seed, turn), digest_size=_ID_BYTES, key=self._salt).hexdigest()
            if id not in self._by_id:
                break
            turn += 1
        stream = self._by_id[id] = _Stream(id, tokens.copy())
        self.tokens += len(tokens)
        return stream

    def _restart(self) -> None:
        self._roots.clear()
        self._by_id.clear()
        self.tokens = 0
        self.restarts += 1


def join(path: Path, more: Path) -> Path:
    """A path and its continuation as one path."""
    if path and more and path[-1][0] == more[0][0]:
        return [*path[:-1], *more]
    return [*path, *more]


def common_prefix(a: Path, b: Path) -> int:
    """Tokens that two paths of one trace share."""
    shared = 0
    for (stream_a, n_a), (stream_b, n_b) in zip(a, b, strict=False):
        if stream_a != stream_b:
            break
        shared += min(n_a, n_b)
        if n_a != n_b:
            break
    return shared


def length(path: Path) -> int:
    """Tokens of a path."""
    return sum(n for _, n in path)


def _as_array(token_ids: Sequence[int] | np.ndarray) -> np.ndarray:
    if isinstance(token_ids, np.ndarray):
        return token_ids.astype(np.uint32, copy=False)
    return np.frombuffer(array("I", token_ids), np.uint32)


def _common(a: np.ndarray, b: np.ndarray) -> int:
    """How many leading tokens are equal."""
    n = min(len(a), len(b))
    low = 0
    step = 64
    while low < n:  # gallop: most prompts part early or not at all
        high = min(low + step, n)
        different = a[low:high] != b[low:high]
        first = int(different.argmax())
        if different[first]:
            return low + first
        low = high
        step *= 8
    return n

"""Block hashes of simulated prompts: what vLLM's prefix cache knows a prompt by.

vLLM's scheduler never looks at a token; it compares chained block hashes. A prompt made of labels
has its blocks hashed by what stands in them (label and offset), which is equal exactly where the
tokens are, and costs nothing for the second request on a document. Prompts given as token ids or
text are hashed over their ids, chained in the same way.
"""

from __future__ import annotations

import hashlib
from array import array
from typing import Any

from radixflow.engines.unread_tokens import UnreadTokens
from radixflow.workloads import Workload, WorkloadRequest

_BYTES = 16


class BlockHasher:
    """The `block_hasher` of a simulated run's requests (vLLM's `get_request_block_hasher`)."""

    def __init__(self, workload: Workload, block_size: int) -> None:
        self._workload = workload
        self._size = block_size
        # Labels and ids can't be compared block by block, so one prompt of ids makes all of them ids.
        self._by_label = all(request.prompt is not None for request in workload.requests)
        self._segments = {request.id: request.segments() for request in workload.requests}
        self._runs: dict[tuple[bytes, str, int], list[bytes]] = {}
        """Hashes of successive whole blocks of one label, by (parent hash, label, offset)."""

    def prompt(self, request: WorkloadRequest) -> Any:
        """Token ids for vLLM: the real ones, or, where labels say it all, none but their number."""
        if self._by_label:
            return UnreadTokens(sum(n for _, n in request.segments()))
        return self._workload.token_ids(request)

    def __call__(self, request: Any) -> list[Any]:
        """Hashes of the blocks that are full and have none yet."""
        done, total = len(request.block_hashes), request.num_tokens // self._size
        if done >= total:
            return []
        parent = request.block_hashes[-1] if done else (request.cache_salt or "").encode()
        if self._by_label:
            return self._label_hashes(request, parent, done, total)
        return self._id_hashes(request, parent, done, total)

    def _id_hashes(self, request: Any, parent: bytes, done: int, total: int) -> list[bytes]:
        size = self._size
        ids = memoryview(array("q", request._all_token_ids[done * size : total * size])).cast("B")
        hashes = []
        for k in range(total - done):
            parent = _chain(parent, ids[k * size * 8 : (k + 1) * size * 8])
            hashes.append(parent)
        return hashes

    def _label_hashes(self, request: Any, parent: bytes, done: int, total: int) -> list[bytes]:
        size = self._size
        hashes: list[bytes] = []
        position = done * size
        while len(hashes) < total - done:
            pieces = self._pieces(request, position)
            label, offset, n = pieces[0]
            whole = min(n // size, total - done - len(hashes))
            if whole:
                run = self._run(parent, label, offset, whole)
                hashes += run
            else:
                hashes.append(_chain(parent, repr(_cut(pieces, size)).encode()))
            parent = hashes[-1]
            position += size * max(1, whole)
        return hashes

    def _run(self, parent: bytes, label: str, offset: int, blocks: int) -> list[bytes]:
        """Hashes of whole blocks inside one label's stream."""
        run = self._runs.setdefault((parent, label, offset), [])
        while len(run) < blocks:
            start = offset + len(run) * self._size
            run.append(_chain(run[-1] if run else parent, repr([(label, start, self._size)]).encode()))
        return run[:blocks]

    def _pieces(self, request: Any, position: int) -> list[tuple[Any, int, int]]:
        """What follows `position`: (label, offset in its stream, tokens), the output at the end."""
        pieces: list[tuple[Any, int, int]] = []
        for label, n in self._segments[request.request_id]:
            if position < n:
                pieces.append((label, position, n - position))
            position = max(0, position - n)
        output = request.num_tokens - request.num_prompt_tokens
        if position < output:
            pieces.append((("output", request.request_id), position, output - position))
        return pieces


def _cut(pieces: list[tuple[Any, int, int]], size: int) -> list[tuple[Any, int, int]]:
    """The first `size` tokens of the pieces."""
    kept = []
    for label, offset, n in pieces:
        kept.append((label, offset, min(n, size)))
        size -= n
        if size <= 0:
            break
    return kept


def _chain(parent: bytes, content: Any) -> bytes:
    return hashlib.blake2b(content, digest_size=_BYTES, key=parent[:64]).digest()

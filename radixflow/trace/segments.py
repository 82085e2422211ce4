"""Where requests' tokens lie in the streams of their paths, for all requests at once."""

from __future__ import annotations

import numpy as np

from radixflow.trace.store import Store

WIDE = 1 << 32

MAX_KEPT = 4_000_000
"""Rows in all answers that `prompts_through` keeps."""


class Segments:
    """Paths cut into segments: request row r's tokens begin..end-1 are the first end - begin tokens of a
    stream.

    Rows are those of `Store.requests`, in the order of arrival. A stream begins at the same depth on every
    path.
    """

    def __init__(self, store: Store):
        requests = store.requests.rows()
        flat = store.paths.values().reshape(-1, 2)
        ends = requests["path_end"].astype(np.int64)
        self.prompt = _cut(np.repeat(np.arange(len(requests)), np.diff(ends, prepend=0)), flat)
        """[row, stream, begin, end] columns of the prompts."""
        self.whole = self._with_outputs(store, self.prompt)
        """The same of prompts and recorded outputs together, sorted by row and depth."""

        size = len(store.streams.values)
        self.base = np.zeros(size, np.int64)
        """Depth at which each stream begins, in tokens."""
        self.length = np.zeros(size, np.int64)
        """Tokens of each stream that are on some path."""
        row, stream, begin, end = self.whole
        self.base[stream] = begin
        np.maximum.at(self.length, stream, end - begin)

        self.parent = np.full(size, -1)
        """The stream that each one leaves; -1 for roots. It leaves at depth `base`."""
        follows = np.flatnonzero(row[1:] == row[:-1]) + 1
        self.parent[stream[follows]] = stream[follows - 1]

        keys = self.prompt[1] * WIDE + self.prompt[3]
        by_key = np.argsort(keys, kind="stable")
        self.prompt_keys, self.prompt_rows = keys[by_key], self.prompt[0][by_key]
        """stream * WIDE + depth where each prompt leaves each of its streams, sorted, and its row."""
        self.cuts, self.first_row = np.unique(keys, return_index=True)
        """stream * WIDE + depth of each place where a prompt leaves a stream or ends, and the first row that
        does."""
        self.first_row = self.prompt[0][self.first_row]

        order = np.lexsort((end, stream))
        self._by_stream = stream[order]
        self._rows, self._ends = row[order], end[order]
        self._through: dict[tuple[int, int], np.ndarray] = {}
        self._kept = 0
        self.end_keys = row * WIDE + end
        """For finding the segment that holds a depth of a request: sorted."""

    def reaching(self, stream: int, depth: int) -> np.ndarray:
        """Rows of requests, outputs included, whose path goes along `stream` at least to `depth`."""
        low, high = np.searchsorted(self._by_stream, [stream, stream + 1])
        return self._rows[low + np.searchsorted(self._ends[low:high], depth) : high]

    def prompts_through(self, stream: int, depth: int, prompt: np.ndarray) -> np.ndarray:
        """Of those, the rows whose prompt alone reaches there, ascending; `prompt` has the prompts' lengths.

        Kept, since a picture asks for the same places round after round.
        """
        known = self._through.get((stream, depth))
        if known is None:
            rows = self.reaching(stream, depth)
            known = np.sort(rows[prompt[rows] >= depth])
            self._kept += len(known) + 16
            if self._kept > MAX_KEPT:
                self._through.clear()
                self._kept = len(known)
            self._through[stream, depth] = known
        return known

    def along(self, stream: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows of requests on a stream, outputs included, and the depth at which each leaves it."""
        low, high = np.searchsorted(self._by_stream, [stream, stream + 1])
        return self._rows[low:high], self._ends[low:high]

    def find(self, rows: np.ndarray, depths: np.ndarray) -> np.ndarray:
        """Index into `whole` of the segment that holds the last token before each depth.

        Past the end of a request's known path the index is another request's.
        """
        return np.searchsorted(self.end_keys, rows * WIDE + depths)

    def _with_outputs(self, store: Store, prompt: np.ndarray) -> np.ndarray:
        finishes = store.finishes.rows()
        ends = finishes["path_end"].astype(np.int64)
        counts = np.diff(ends, prepend=0)
        with_path = np.array([i in store.row_of for i in finishes["i"].tolist()], bool) & (counts > 0)
        if not with_path.any():
            return prompt
        rows = np.array([store.row_of[i] for i in finishes["i"][with_path].tolist()])
        flat = store.finish_paths.values().reshape(-1, 2)[np.repeat(with_path, counts)]
        output = _cut(np.repeat(rows, counts[with_path]), flat)

        # An output begins at its prompt's end, or goes on along the stream where the prompt ended.
        last = np.searchsorted(prompt[0], rows, side="right") - 1
        has_prompt = (last >= 0) & (prompt[0][last] == rows)
        firsts = np.concatenate(([0], np.cumsum(counts[with_path])[:-1]))
        goes_on = has_prompt & (prompt[1][last] == output[1][firsts])
        shift = np.where(has_prompt, np.where(goes_on, prompt[2][last], prompt[3][last]), 0)
        output[2:] += np.repeat(shift, counts[with_path])
        kept = np.ones(prompt.shape[1], bool)
        kept[last[goes_on]] = False
        both = np.concatenate((prompt[:, kept], output), axis=1)
        return both[:, np.lexsort((both[2], both[0]))]


def _cut(rows: np.ndarray, flat: np.ndarray) -> np.ndarray:
    """[row, stream, begin, end] from rows (grouped) and (stream, tokens) pairs."""
    tokens = flat[:, 1].astype(np.int64)
    ends = np.cumsum(tokens)
    first = np.concatenate(([True], rows[1:] != rows[:-1])) if len(rows) else np.empty(0, bool)
    origin = (ends - tokens)[np.maximum.accumulate(np.where(first, np.arange(len(rows)), 0))]
    return np.stack((rows, flat[:, 0], ends - tokens - origin, ends - origin)).astype(np.int64)

"""Opens traces: one pass over the records into columns, continued while a run still writes."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from radixflow.trace import frames
from radixflow.trace.boundaries import Boundaries
from radixflow.trace.computed import ComputedTokens
from radixflow.trace.errors import TraceError, TraceReplaced
from radixflow.trace.files import later_parts, part_path
from radixflow.trace.parts import PartReader, Progress, existing, read_header
from radixflow.trace.queues import Queues
from radixflow.trace.rounds import RoundReader, RoundView
from radixflow.trace.schema import Config, End, Gap, Header
from radixflow.trace.segments import Segments
from radixflow.trace.store import BadRecord, Store

if TYPE_CHECKING:
    import pandas as pd

    from radixflow.trace.tree import PrefixTree


def open_trace(
    path: str | os.PathLike | Iterable[str | os.PathLike], progress: Progress | None = None
) -> Trace:
    """Open a trace, with the later parts of a rotated one that lie beside it.

    path: a file (`.rft.jsonl` or `.rft.jsonl.zst`), or the files of one run's parts in any order.
    progress: called with (bytes read, bytes to read) after each piece.

    Raises TraceError, one line, for anything that isn't a trace this version can read.
    """
    paths = [Path(path)] if isinstance(path, str | os.PathLike) else [Path(p) for p in path]
    if not paths:
        raise TraceError("no trace given, expected at least one file")
    if len(paths) > 1:
        headers = [(read_header(p), p) for p in paths]
        first = headers[0][0]
        for header, p in headers:
            if header.id != first.id:
                raise TraceError(
                    f"{p}: belongs to run {header.id}, {paths[0]} to {first.id}: expected parts of one run"
                )
            if header.engine_index != first.engine_index:
                raise TraceError(
                    f"{p}: is another engine core's trace: open cores together with open_traces()"
                )
        paths = [p for _, p in sorted(headers, key=lambda pair: pair[0].part)]
    return Trace(paths, progress)


def open_traces(paths: Iterable[str | os.PathLike], progress: Progress | None = None) -> list[Trace]:
    """Open the traces of a run's engine cores (data parallel), one Trace each, in the order of their ranks.

    Files of one core (parts of a rotated trace) become one Trace. Cores share no rounds and no clock origin,
    so they aren't merged. Raises TraceError as open_trace, and where the files belong to different runs.
    """
    cores: dict[int, list[Path]] = {}
    run = None
    for p in map(Path, paths):
        header = read_header(p)
        if run is not None and header.id != run:
            raise TraceError(f"{p}: belongs to run {header.id}, expected {run} like the others")
        run = header.id
        cores.setdefault(header.engine_index, []).append(p)
    return [open_trace(cores[index], progress) for index in sorted(cores)]


class Trace:
    """A run's record, in columns. Open one with `open_trace`; `docs/structures.md` describes what it
    offers."""

    def __init__(self, paths: list[Path], progress: Progress | None = None):
        self.path = existing(paths[0])
        self._later = paths[1:]
        self._store = Store(read_header(self.path))
        self._queues = Queues(self._store)
        self._reader = RoundReader(self._store, self._queues)
        self._part = PartReader(self.path)
        self._read(progress)

    def __repr__(self) -> str:
        state = self.end.reason if self.complete else "no end yet"
        requests, rounds = len(self.ids), self.num_rounds
        size = f"{requests:,} request{'s' * (requests != 1)}, {rounds:,} round{'s' * (rounds != 1)}"
        return f"<Trace {self.path.name}: {self.header.policy}, {size}, {state}>"

    # What the run was

    @property
    def header(self) -> Header:
        """Of the first part that was opened."""
        return self._store.header

    @property
    def config(self) -> Config:
        return self.header.config

    @property
    def id(self) -> str:
        """The run's id, 16 hex digits."""
        return self.header.id

    @property
    def end(self) -> End | None:
        """How the run ended; None where it was cut or is still being written."""
        return self._store.end

    @property
    def complete(self) -> bool:
        """The run's `end` was read (a rotated file whose next part is missing isn't complete)."""
        return self.end is not None and self.end.reason != "rotated"

    @property
    def gaps(self) -> list[Gap]:
        """Where records are missing."""
        return self._store.gaps

    @property
    def num_rounds(self) -> int:
        """Number of the last round, stalled repetitions included."""
        return self._store.last_round

    # Requests

    @property
    def ids(self) -> list[str | None]:
        """Request ids by number `i`; None where the request's own record is missing."""
        return self._store.ids

    def index_of(self, id: str) -> int:
        """A request's number. KeyError that names close ids where there is none."""
        index = self._index.get(id)
        if index is None:
            known = [x for x in self.ids[:10_000] if x]
            near = [x for x in known if x.lower() == str(id).lower()] or difflib.get_close_matches(str(id), known, 3)
            words = ", ".join(x[:40] for x in near or [*known[:3], "..."])
            hint = f"; {'near' if near else 'there are'}: {words}" if known else ""
            raise KeyError(f"no request {id!r} in {self.path.name}{hint}")
        return index

    @cached_property
    def _index(self) -> dict[str, int]:
        index: dict[str, int] = {}
        for i, id in enumerate(self.ids):
            if id is not None:
                index.setdefault(id, i)
        return index

    def path_of(self, i: int) -> list[tuple[str, int]]:
        """The prompt's way down the prompts' radix tree: [(stream, tokens), ...]."""
        store = self._store
        row = store.row_of.get(i)
        if row is None:
            raise KeyError(f"request {i} has no record in {self.path.name}")
        ends = store.requests.rows()["path_end"]
        return self._path(store.paths.values(), ends[row - 1] if row else 0, ends[row])

    def output_path_of(self, i: int) -> list[tuple[str, int]]:
        """How the output continues that path (`Finish.path`); empty where it isn't recorded."""
        store = self._store
        row = store.finish_row.get(i)
        if row is None:
            return []
        ends = store.finishes.rows()["path_end"]
        return self._path(store.finish_paths.values(), ends[row - 1] if row else 0, ends[row])

    def names_of(self, i: int) -> list[tuple[str, int]]:
        """The workload's labels of the prompt's segments: [(label, tokens), ...]; empty where there were
        none."""
        store = self._store
        row = store.row_of[i]
        ends = store.requests.rows()["names_end"]
        flat = store.prompt_names.values()[
            2 * (int(ends[row - 1]) if row else 0) : 2 * int(ends[row])
        ].tolist()
        return [(store.texts.name(label), n) for label, n in zip(flat[::2], flat[1::2], strict=True)]

    def tokens_of(self, i: int) -> np.ndarray | None:
        """Prompt token ids, where the trace includes them."""
        return self._store.tokens.get(i)

    def output_tokens_of(self, i: int) -> np.ndarray | None:
        """Output token ids, where the trace includes them."""
        return self._store.output_tokens.get(i)

    def name_of(self, stream: str, start: int = 0) -> str:
        """The workload's label at token `start` of a stream, or the stream itself."""
        labels = self.labels_of(stream, start, start + 1)
        return labels[0] if labels else stream

    def labels_of(self, stream: str, start: int, end: int) -> list[str]:
        """The workload's labels of tokens start..end-1 of a stream, in order."""
        return [label for begin, stop, label in self._labels.get(stream, ()) if begin < end and start < stop]

    @cached_property
    def _labels(self) -> dict[str, list[tuple[int, int, str]]]:
        """By stream: (first token, end, label), from the first request that named each stretch."""
        known: dict[str, list[tuple[int, int, str]]] = {}
        if not len(self._store.prompt_names):
            return known
        for i in sorted(self._store.row_of):
            names = self.names_of(i)
            begin = 0
            for stream, n in self.path_of(i) if names else ():
                named = known.setdefault(stream, [])
                covered = named[-1][1] if named else 0
                at = 0
                for label, length in names:
                    low, high = max(at, begin + covered), min(at + length, begin + n)
                    if low < high:
                        named.append((low - begin, high - begin, label))
                    at += length
                begin += n
        return known

    def _path(self, flat: np.ndarray, first: int, last: int) -> list[tuple[str, int]]:
        part = flat[2 * int(first) : 2 * int(last)].tolist()
        return [(self._store.streams.name(s), n) for s, n in zip(part[::2], part[1::2], strict=True)]

    # Tables

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """One row a recorded round."""
        return frames.rounds_frame(self._store, self._queues, self._reader)

    @cached_property
    def visits(self) -> pd.DataFrame:
        """One row a row visit."""
        return frames.visits_frame(self._store, self._visit_columns)

    @cached_property
    def refusals(self) -> pd.DataFrame:
        """One row a visit that was refused."""
        return frames.refusals_frame(self._store)

    @cached_property
    def requests(self) -> pd.DataFrame:
        """One row a request."""
        return frames.requests_frame(self._store, self._visit_columns)

    @cached_property
    def admissions(self) -> pd.DataFrame:
        """One row a request that a round took from the queue."""
        return frames.admissions_frame(self._store)

    @property
    def admitted(self) -> np.ndarray:
        """The request of each row of `admissions`; no table is built for it."""
        return self._store.admissions.rows()["i"]

    @cached_property
    def holds(self) -> pd.DataFrame:
        """One row a time that admission held arrivals."""
        return frames.holds_frame(self._store)

    @cached_property
    def cache(self) -> pd.DataFrame:
        """One row a span of boundaries published or evicted."""
        return frames.cache_frame(self._store)

    @cached_property
    def mismatches(self) -> pd.DataFrame:
        """One row a prefix-cache store event of vLLM's whose tokens and hashes disagree."""
        return frames.mismatches_frame(self._store)

    @cached_property
    def _segments(self) -> Segments:
        return Segments(self._store)

    @cached_property
    def _boundaries(self) -> Boundaries:
        return Boundaries(self._store, self._segments)

    @cached_property
    def _computed(self) -> ComputedTokens:
        return ComputedTokens(self._store, self._visit_columns)

    @cached_property
    def _visit_columns(self) -> dict[str, np.ndarray]:
        return frames.visit_columns(self._store)

    # Rounds

    def round(self, n: int) -> RoundView:
        """Round n, expanded. KeyError where it wasn't recorded."""
        row = self._reader.row(n)
        return next(self._reader.views(row, row + 1))

    def iter_rounds(self, first: int = 1, last: int | None = None) -> Iterator[RoundView]:
        """Recorded rounds from number `first` to `last`, one after another (a stalled one once, with
        `repeat`)."""
        begin = self._reader.first_row_from(first)
        end = len(self._store.rounds) if last is None else self._reader.first_row_from(last + 1)
        if last is not None and end < len(self._store.rounds) and self._store.rounds.rows()["n"][end] <= last:
            end += 1
        return self._reader.views(begin, end) if begin < end else iter(())

    def tree(self, at_round: int) -> PrefixTree:
        """The prompts' prefix tree and what is cached of it, as round `at_round` left it."""
        from radixflow.trace.tree import PrefixTree

        return PrefixTree(self, at_round)

    # Reading

    def update(self, progress: Progress | None = None) -> bool:
        """Read what the run has appended since; True if anything was.

        What stands behind the run's `end` is left alone. Raises TraceReplaced where the file isn't the one that was
        opened any more, TraceError as open_trace.
        """
        return self._read(progress)

    def apart(self) -> Trace:
        """Another reader of the same records, for another thread.

        A trace is for one thread at a time: tables, queues and the tree's states are made when they are first asked
        for, and pandas' own look-ups change what they look at. Apart, the records' columns are shared, which nobody
        changes once the run has ended, and everything made of them is each reader's own. ValueError before the end.
        """
        if not self.complete:
            raise ValueError(f"{self.path.name} has no end yet: only a run that has ended is read apart")
        other = copy(self)
        other._forget()
        other._queues = Queues(self._store)
        other._reader = RoundReader(self._store, other._queues)
        return other

    def _read(self, progress: Progress | None) -> bool:
        try:
            changed = self._read_part(progress)
        except TraceReplaced:  # deleted as one of too many parts?
            if self._part.path.exists() or not self._next_part(lost=True):
                raise
            changed = True
            self._read_part(progress)
        while self._next_part():
            changed = self._read_part(progress) or changed
        if changed:
            self._forget()
        return changed

    def _read_part(self, progress: Progress | None) -> bool:
        part = self._part
        ended, changed = self.complete, False
        for records in part.records(progress):
            if ended:  # others may be reading apart
                continue
            try:
                self._store.add(records)
            except BadRecord as error:
                self._forget()
                where = f"from line {part.line} on" if error.at is None else f"line {part.line_of(error.at)}"
                raise TraceError(f"{part.path}, {where}: {error}") from error
            changed = True
        return changed

    def _next_part(self, lost: bool = False) -> bool:
        """Go on to the next file of a rotated trace, if it is there. lost: this one's rest is gone."""
        if self.complete:
            return False
        path = self._next_path(lost)
        if path is None:
            return False
        try:
            header = read_header(path)
        except TraceError:
            return False  # just being created
        now = self._part.header
        if (header.id, header.engine_index) != (now.id, now.engine_index) or header.part <= now.part:
            return False
        if header.part > now.part + 1 or (lost and self.end is None):
            self._store.add([Gap(rounds=0, records=0, what="part missing")])
        self._store.end = None
        self._part = PartReader(path)
        return True

    def _next_path(self, lost: bool) -> Path | None:
        if self._later:
            return self._later.pop(0)
        try:
            path = part_path(self._part.path, self._part.header.part + 1)
        except TraceError:
            return None
        if path.exists():
            return path
        if self.end is None and not lost:
            return None
        return next(iter(later_parts(self._part.path)), None)

    def _forget(self) -> None:
        """Tables are built again from the grown columns when asked for."""
        for name, kind in vars(type(self)).items():
            if isinstance(kind, cached_property):
                self.__dict__.pop(name, None)

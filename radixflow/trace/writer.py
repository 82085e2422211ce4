"""Writes a trace without ever holding up the scheduler.

`write()` only appends the record to a deque. A daemon thread wakes every 50 ms, encodes what is there, and
hands a finished zstd block to the operating system, so that a kill -9 loses at most 100 ms. Where the thread
can't keep up, `write()` drops whole rounds and puts a `gap` with exact counts in their place.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from pathlib import Path

import msgspec

from radixflow.trace.errors import TraceError
from radixflow.trace.files import part_path, split_name
from radixflow.trace.schema import Cache, End, Gap, Header, Record, Repeat, Request, Round, Step
from radixflow.trace.sink import Sink

logger = logging.getLogger(__name__)

BATCH = 128
"""Records encoded in one go: the interpreter lock is held for well under a millisecond."""

LATE_ROUNDS = 16
"""How many rounds after a gap the answers to dropped rounds may still come in (asynchronous scheduling)."""


class _Rotation(msgspec.Struct):
    """In the queue: end this file here and go on in the next part, which begins with these records."""

    end: End
    header: Header
    repeated: list[Record]


class TraceWriter:
    """Appends records to a trace file; from one thread, usually the scheduler's.

    A record must not be changed after `write()`. Nothing but the constructor raises: where the disk fails,
    the writer logs one line, remembers `error` and ignores what follows.

    path: ends in `.rft.jsonl` or `.rft.jsonl.zst`. An existing file is replaced.
    max_bytes: when a file passes it, the trace goes on in the next part (`NAME.part1.rft.jsonl.zst`, ...).
    max_parts: keep only the newest so many files of this run.
    on_rotate: called inside `write()` just before the round that opens a new part; returns what the part
        repeats: the requests still alive (the writer sets their `part`), and what else a reader needs to
        start there. `queue_wanted` is set beforehand: the part begins with the first round that carries its
        `queue`.
    flush_seconds: how often what was written is handed to the operating system.
    max_pending: records waiting to be encoded at which rounds begin to be dropped.
    synchronous: encode and write in the caller's thread (the simulator: virtual time waits, nothing is
        dropped).

    Raises TraceError where the file can't be created.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        header: Header,
        *,
        max_bytes: int | None = None,
        max_parts: int | None = None,
        on_rotate: Callable[[], list[Record]] | None = None,
        flush_seconds: float = 0.05,
        max_pending: int = 50_000,
        synchronous: bool = False,
        level: int = 3,
    ):
        self.path = Path(path)
        self.header = header
        self.error: BaseException | None = None
        """What made the writer give up, or None."""
        self.queue_wanted = False
        """The next round should carry its `queue`: rounds were dropped, or a new part is due."""
        self.dropped_rounds = 0
        self.dropped_records = 0
        self._max_bytes = max_bytes
        self._max_parts = max_parts
        self._on_rotate = on_rotate
        self._flush_seconds = flush_seconds
        self._max_pending = max_pending
        self._level = level
        self._pending: deque = deque()
        self._encode = msgspec.json.Encoder().encode_lines
        self._closed = False
        self._synchronous = synchronous
        self._careful = synchronous
        """write() must look twice: rounds are being dropped, a part is due, or the writer is done."""
        self._dropping = False
        self._gap = Gap(rounds=0, records=0)
        self._gap_first, self._gap_last = 0, -LATE_ROUNDS
        self._part = header.part
        """Being written; `header` may be one further, where a `_Rotation` is pending."""
        self._full_part = -1
        """That passed `max_bytes`. A number, since the writing thread may say so when its part has just been ended."""
        self._parts = [self.path]

        split_name(self.path)
        try:
            self._sink = Sink(self.path, level)
            self._sink.write(self._encode([header]))
            self._sink.flush()
        except OSError as error:
            raise TraceError(f"{self.path}: can't write a trace here: {error.strerror or error}") from error
        self._flushed = time.monotonic()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="radixflow-trace", daemon=True)
        if not synchronous:
            self._thread.start()
        _open_writers.add(self)

    def write(self, record: Record) -> None:
        """Append a record; costs a fraction of a microsecond and never blocks."""
        if self._careful or len(self._pending) >= self._max_pending:
            self._write_carefully(record)
        else:
            self._pending.append(record)

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until everything written so far can be read by others; True if it can."""
        if self._closed or self.error:
            return self.error is None
        if self._synchronous:
            self._guarded(self._drain)
            return self.error is None
        done = threading.Event()
        self._pending.append(done)
        self._wake.set()
        return done.wait(timeout) and self.error is None

    def close(self, end: End | None = None) -> None:
        """Write the `end` record, flush, and close the file. Later calls do nothing."""
        if self._closed:
            return
        self._careful = True
        _open_writers.discard(self)
        if self.error is None:
            if self._gap.records:
                self._end_gap()
            if end is not None:
                self._pending.append(end)
        self._closed = True
        if self._synchronous:
            self._guarded(self._finish)
            return
        self._wake.set()
        self._thread.join(timeout=10.0)
        if self._thread.is_alive():
            self._give_up(TimeoutError("the disk didn't take the last records within 10 s"))

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(self, *exc_info) -> None:
        self.close()

    # In the caller's thread

    def _write_carefully(self, record: Record) -> None:
        if self._closed or self.error is not None:
            return
        kind = record.__class__
        if kind is Round or kind is Repeat:
            if self._must_drop(repeat=kind is Repeat):
                self._drop(record, rounds=record.count if kind is Repeat else 1)
                return
            if self._dropping:
                self._end_gap()
            if kind is Round:
                self._before_round(record)
        elif (kind is Step or kind is Cache) and self._gap_first <= record.n <= self._gap_last:
            self._drop(record, rounds=0)
            return
        self._pending.append(record)
        if self._synchronous and (
            len(self._pending) >= BATCH or time.monotonic() - self._flushed >= self._flush_seconds
        ):
            self._guarded(self._drain)

    def _must_drop(self, repeat: bool) -> bool:
        if self._synchronous:
            return False
        if self._dropping:  # a repetition of a dropped round means nothing without it
            return repeat or len(self._pending) > self._max_pending // 2
        return len(self._pending) >= self._max_pending

    def _drop(self, record: Round | Repeat | Step | Cache, rounds: int) -> None:
        gap = self._gap
        gap.records += 1
        gap.rounds += rounds
        self.dropped_records += 1
        self.dropped_rounds += rounds
        if rounds:
            if not self._dropping:
                self._dropping = self._careful = self.queue_wanted = True
                gap.first = self._gap_first = record.n - rounds + 1
            gap.last = self._gap_last = record.n

    def _end_gap(self) -> None:
        self._pending.append(self._gap)
        self._gap = Gap(rounds=0, records=0)
        self._dropping = False

    def _before_round(self, record: Round) -> None:
        if self._rotate_due and (record.queue is not None or self._sink.size > 1.25 * (self._max_bytes or 0)):
            self._rotate(record)
        if record.queue is not None:
            self.queue_wanted = self._rotate_due
        if not self.queue_wanted and record.n >= self._gap_last + LATE_ROUNDS:
            self._careful = self._synchronous
            if self._rotate_due or self.error is not None:  # the writing thread came between
                self._careful = True

    @property
    def _rotate_due(self) -> bool:
        return self._full_part == self.header.part

    def _rotate(self, record: Round) -> None:
        part = self.header.part + 1
        try:
            repeated = self._on_rotate() if self._on_rotate else []
        except Exception as error:
            self._give_up(error)
            return
        repeated = [
            msgspec.structs.replace(other, part=part) if isinstance(other, Request) else other
            for other in repeated
        ]
        end = End(t=record.t, reason="rotated", rounds=record.n - 1)
        self.header = msgspec.structs.replace(self.header, part=part)
        self._pending.append(_Rotation(end, self.header, repeated))

    # In the writing thread (or the caller's, where synchronous)

    def _run(self) -> None:
        wait = self._flush_seconds
        while not self._closed and self.error is None:
            self._wake.wait(wait)
            self._wake.clear()
            began = time.monotonic()
            self._guarded(self._drain)
            wait = max(0.005, self._flush_seconds - (time.monotonic() - began))
        self._guarded(self._finish)

    def _drain(self) -> None:
        """Encode and write what is pending, then flush."""
        pending = self._pending
        batch: list[Record] = []
        while pending:
            item = pending.popleft()
            if isinstance(item, Record):
                batch.append(item)
                if len(batch) < BATCH and pending:
                    continue
            if batch:
                self._sink.write(self._encode(batch))
                batch.clear()
            if isinstance(item, _Rotation):
                self._next_part(item)
            elif isinstance(item, threading.Event):
                self._sink.flush()
                item.set()
            elif time.monotonic() - self._flushed >= self._flush_seconds:
                self._flush_sink()
        self._flush_sink()

    def _flush_sink(self) -> None:
        self._sink.flush()
        self._flushed = time.monotonic()
        if self._max_bytes is not None and self._sink.size > self._max_bytes and self._part == self.header.part:
            self._full_part = self._part
            self.queue_wanted = self._careful = True

    def _next_part(self, rotation: _Rotation) -> None:
        self._sink.write(self._encode([rotation.end]))
        self._sink.finish()
        path = part_path(self.path, rotation.header.part)
        self._sink = Sink(path, self._level)
        self._sink.write(self._encode([rotation.header, *rotation.repeated]))
        self._part = rotation.header.part
        self._parts.append(path)
        if self._max_parts is not None:
            while len(self._parts) > max(1, self._max_parts):
                self._parts.pop(0).unlink(missing_ok=True)

    def _finish(self) -> None:
        self._drain()
        self._sink.finish()

    def _guarded(self, step: Callable[[], None]) -> None:
        if self.error is not None:
            return
        try:
            step()
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: BaseException) -> None:
        self.error = error
        self._careful = True
        logger.error("radixflow: tracing to %s ends here: %s", self._sink.path, error)
        for item in list(self._pending):
            if isinstance(item, threading.Event):
                item.set()
        self._pending.clear()
        try:
            self._sink.abandon()
        except OSError:
            pass

    def _forget(self) -> None:
        """In a forked child: the file belongs to the parent."""
        self._closed = self._careful = True
        self._pending.clear()
        self._sink.abandon()


_open_writers: weakref.WeakSet[TraceWriter] = weakref.WeakSet()


def _close_all() -> None:
    for writer in list(_open_writers):
        writer.close()


def _forget_all() -> None:
    for writer in list(_open_writers):
        writer._forget()
    _open_writers.clear()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forget_all)

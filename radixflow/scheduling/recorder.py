"""Builds a trace's records from what the seams observe; knows nothing of vLLM's classes.

The recorder numbers requests and rounds, keeps their paths, coalesces repeated stalls and hands
finished records to the writer, which never blocks. What a field means: `radixflow.trace.schema`.
"""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Any

from radixflow.trace import PromptPaths, TraceWriter
from radixflow.trace.schema import (
    SCHEMA,
    Cache,
    Clock,
    Config,
    End,
    Finish,
    Gap,
    Header,
    Hold,
    Record,
    Repeat,
    Request,
    Round,
    Step,
)

REPEAT_NS = 100_000_000
"""A stall that goes on is reported at least this often."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What the header says of a run besides its configuration."""

    policy: str
    engine: str
    model: str | None
    workload: str | None
    vllm: str
    engine_index: int = 0
    include_tokens: bool = False


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """What the workload knows of a request and the scheduler doesn't."""

    group: str | None = None
    label: str | None = None
    names: tuple[tuple[str, int], ...] = ()
    tokens: Any = None
    """The prompt's token ids as an array, where the engine doesn't hold them itself."""


class Recorder:
    """Writes one engine core's trace."""

    def __init__(
        self,
        path: str,
        run: RunInfo,
        config: Config,
        clock: Clock,
        now: Callable[[], int],
        *,
        synchronous: bool = False,
        max_bytes: int | None = None,
        max_parts: int | None = None,
        describe: Callable[[str], RequestInfo | None] = lambda request_id: None,
    ) -> None:
        self._now = now
        self.clock = clock
        self._describe = describe
        self._include_tokens = run.include_tokens
        # The salt is the trace's own: the same prompt has other names in another trace.
        self.id = os.environ.get("RADIXFLOW_TRACE_ID") or secrets.token_hex(8)
        salt = hashlib.blake2b(self.id.encode() + secrets.token_bytes(16), digest_size=16).digest()
        self._paths = PromptPaths(salt=salt)
        self._forgotten = 0
        """How often the prompts' tree was started afresh to bound its memory."""
        self._index: dict[str, int] = {}
        self._requests: dict[int, Request] = {}
        self._next = 0
        self.round = 0
        self._repeat: Repeat | None = None
        self._repeat_written = 0
        self._stall: tuple[object, ...] | None = None
        self._order_unknown = False
        self.changed = True
        """Something happened since the last round that a stalled round may differ by."""
        header = Header(
            schema=SCHEMA,
            id=self.id,
            policy=run.policy,
            engine=run.engine,
            config=config,
            clock=clock,
            versions={
                "radixflow": _own_version(),
                "vllm": run.vllm,
                "python": platform.python_version(),
            },
            model=run.model,
            workload=run.workload,
            engine_index=run.engine_index,
            tokens_included=run.include_tokens,
        )
        self._writer = TraceWriter(
            path,
            header,
            max_bytes=max_bytes,
            max_parts=max_parts,
            synchronous=synchronous,
            on_rotate=self._carry_over,
        )

    @property
    def queue_wanted(self) -> bool:
        """The next round must spell out the queue: a reader can't know it."""
        return self._order_unknown or self._writer.queue_wanted

    def queue_changed(self) -> None:
        """Requests moved within the queue in a way that no record tells."""
        self._order_unknown = True

    # -- requests ------------------------------------------------------------------------------------

    def index(self, request_id: str) -> int:
        """Number of a live request; -1 for one that the trace has never seen."""
        return self._index.get(request_id, -1)

    def is_live(self, i: int) -> bool:
        return i in self._requests

    def arrived(
        self,
        request_id: str,
        token_ids: Sequence[int] | None,
        *,
        prompt: int,
        namespace: str,
        max_tokens: int,
        priority: int,
        arrival: int | None,
        ordered_at: int | None,
        held: bool,
        deferred: bool,
        salted: bool,
    ) -> int:
        i = self._next
        self._next += 1
        self._index[request_id] = i
        info = self._describe(request_id)
        if info is not None and info.tokens is not None:
            token_ids = info.tokens
        path = self._paths.insert(token_ids, namespace) if token_ids is not None else [(f"r{i}", prompt)]
        if self._paths.restarts > self._forgotten:
            self._forgotten = self._paths.restarts
            self._write(Gap(rounds=0, records=0, what="paths"))
        record = Request(
            i=i,
            id=request_id,
            t=self._now(),
            prompt=prompt,
            path=path,
            arrival=arrival,
            ordered_at=ordered_at,
            max_tokens=max_tokens,
            priority=priority,
            held=held,
            deferred=deferred,
            group=info.group if info else None,
            label=info.label if info else None,
            names=list(info.names) if info else [],
            salted=salted,
            token_ids=[int(token) for token in token_ids]
            if self._include_tokens and token_ids is not None
            else None,
        )
        self._requests[i] = record
        self._write(record)
        return i

    def finished(self, request_id: str, reason: str, output_ids: Sequence[int]) -> None:
        i = self._index.pop(request_id, None)
        if i is None:
            return
        record = self._requests.pop(i)
        self._write(
            Finish(
                i=i,
                t=self._now(),
                reason=reason,
                output=len(output_ids),
                n=self.round,
                path=self._paths.extend(record.path, output_ids) if len(output_ids) > 1 else [],
                token_ids=list(output_ids) if self._include_tokens else None,
            )
        )

    def held(self, begin: int, end: int, reason: str, request_ids: Sequence[str]) -> None:
        self._write(Hold(begin, end, reason, [self.index(request_id) for request_id in request_ids]))

    # -- rounds --------------------------------------------------------------------------------------

    def rounded(self, record: Round, cache: Cache | None) -> None:
        """A round that scheduled tokens, or stalled for the first time."""
        if record.queue is not None:
            self._order_unknown = False
        self._write(record)
        if cache is not None:
            self._write(cache)
        self.changed = False
        self._stall = None

    def stalled(self, record: Round) -> None:
        """A round that scheduled nothing: written once, then counted while it stays the same."""
        look = (tuple(record.order), record.stop and (record.stop.cause, record.stop.i), record.closed)
        if self.changed or look != self._stall or record.preempted or record.queue:
            self.rounded(record, None)
            self._stall = look
            return
        count = self._repeat.count + 1 if self._repeat else 1
        self._repeat = Repeat(n=record.n, count=count, t=record.t)
        if record.t - self._repeat_written > REPEAT_NS:
            self._flush_repeat()

    def stepped(self, n: int, t: int, d: int) -> None:
        self._write(Step(n, t, d))

    def cached(self, record: Cache) -> None:
        self._write(record)

    # -- file ----------------------------------------------------------------------------------------

    def _write(self, record: Record) -> None:
        self.changed = True
        if self._repeat is not None:
            self._flush_repeat()
        self._writer.write(record)

    def _flush_repeat(self) -> None:
        repeat, self._repeat = self._repeat, None
        if repeat is not None:
            self._repeat_written = repeat.t
            self._writer.write(repeat)

    def _carry_over(self) -> list[Record]:
        """What the next part of a rotated trace must know: the requests that are still alive."""
        return list(self._requests.values())

    def close(self, reason: str) -> None:
        self._flush_repeat()
        self._writer.close(End(t=self._now(), reason=reason, rounds=self.round))


@cache
def _own_version() -> str:
    return metadata.version("radixflow")


def wall_clock() -> Clock:
    """Ties this process's monotonic clock to wall time."""
    return Clock(wall_ns=time.time_ns(), monotonic_ns=time.monotonic_ns())

"""A trace as a Trace Event Format file, for Perfetto's UI and chrome://tracing.

    process "... scheduler"   a slice a round, with vLLM's schedule() in it; counters of both budgets,
                              free blocks and the queue
    process "... requests"    a track a request: slices for what it waited for, one for each blocked visit,
                              one for each row visit; an arrow from the producer's visit to the blocked one

Times are microseconds from the run's first moment. The format: "Trace Event Format", Google, 2016.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from radixflow.analysis.timeline import Timeline, last_moment
from radixflow.analysis.waits import Ledger
from radixflow.export.files import Progress, new_file, trace_name, traces_of

Event = dict[str, Any]
REPORT_EVERY = 4096


def to_chrome(traces: Any, path: str | os.PathLike[str], progress: Progress | None = None) -> Path:
    """Write one trace, or several beside one another, as Trace Event JSON; gzip where `path` ends in `.gz`.

    Written as it is made, request by request: memory is the opened trace's. Raises ValueError and OSError
    with one line where `path` can't be written.
    """
    given = traces_of(traces)
    path = Path(path)
    total = sum(len(trace.rounds) + len(trace.visits) for trace in given)
    encode = msgspec.json.Encoder(enc_hook=_plain).encode
    with new_file(path, given) as part, _opened(part, path.suffix.lower() == ".gz") as file:
        file.write(b'{"traceEvents":[')
        done, begin = 0, b"\n"
        for event in _all_events(given):
            file.write(begin)
            file.write(encode(event))
            begin = b",\n"
            if event["ph"] == "X" and event["cat"] in ("round", "visit"):
                done += 1
                if progress is not None and done % REPORT_EVERY == 0:
                    progress(done, total)
        file.write(b'\n],"displayTimeUnit":"ms","otherData":' + encode(_about(given)) + b"}\n")
        if progress is not None:
            progress(total, total)
    return path


@contextmanager
def _opened(path: Path, packed: bool) -> Iterator[Any]:
    with open(path, "wb", buffering=1 << 20) as file:
        if not packed:
            yield file
            return
        # No name and no time in it: the same trace gives the same bytes.
        with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0) as zipped:
            yield zipped


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


def _about(traces: list[Any]) -> dict[str, Any]:
    return {
        "producer": "radixflow",
        "traces": [
            {
                "id": trace_name(trace),
                "policy": trace.header.policy,
                "workload": trace.header.workload,
                "model": trace.header.model,
                "engine": trace.header.engine,
                "max_num_seqs": trace.config.max_num_seqs,
                "max_num_batched_tokens": trace.config.max_num_batched_tokens,
                "first_ns": _origin(trace),
            }
            for trace in traces
        ],
    }


def _origin(trace: Any) -> int:
    """Nanoseconds of the run's first moment, which is 0 in the file."""
    moments = [int(trace.requests["arrival"].min())] if len(trace.requests) else []
    moments += [int(trace.rounds["t"].iloc[0])] if len(trace.rounds) else []
    return min(moments, default=0)


def _all_events(traces: Iterable[Any]) -> Iterator[Event]:
    pid = tid = arrow = 1
    for trace in traces:
        run = _Run(trace, pid, tid, arrow)
        yield from run.events()
        pid, tid, arrow = pid + 2, tid + 1 + len(trace.ids), arrow + len(run.producer)


class _Run:
    """One trace's events. pid is the scheduler's, pid + 1 the requests'; tid the first of its tracks; arrow the
    number of its first arrow: Perfetto takes nothing but numbers."""

    def __init__(self, trace: Any, pid: int, tid: int, arrow: int):
        self.trace, self.pid, self.tid, self.arrow = trace, pid, tid, arrow
        self.line = Timeline.of(trace)
        self.ledger = Ledger(trace)
        self.origin = _origin(trace)
        rounds = trace.rounds
        self.numbers = rounds.index.to_numpy(np.int64)
        self.t = rounds["t"].to_numpy(np.int64)
        self.scheduled = self.t + rounds["schedule_ns"].to_numpy(np.int64)
        following = np.append(self.t[1:], max([last_moment(trace), *self.scheduled[-1:].tolist()]))
        host = rounds["host_ns"].fillna(-1).to_numpy(np.int64)
        answered = np.where(host >= 0, self.scheduled + host, following)
        # Asynchronous rounds overlap: a track shows one until the next begins.
        self.ended = np.maximum(np.minimum(answered, following), self.scheduled)
        # An arrow on the edge between two slices would belong to either.
        inside = np.maximum(self.ended - 1, self.t)
        self.arrows = np.minimum(np.maximum(self.scheduled, self.t + 1), inside)
        self._index_visits(rounds)
        self._index_blocked()

    def _index_visits(self, rounds: Any) -> None:
        visits = self.trace.visits
        order = np.argsort(visits["i"].to_numpy(), kind="stable")
        row = np.searchsorted(rounds.index.to_numpy(), visits["round"].to_numpy())
        waiting = (visits["phase"] == "waiting").to_numpy()
        admission = np.where(waiting, np.cumsum(waiting) - 1, -1)
        columns = (row, visits["tokens"].to_numpy(), visits["start"].to_numpy(), admission)
        self.visits = [column[order] for column in columns]
        self.visits_of = self._offsets(visits["i"].to_numpy()[order])
        admissions = self.trace.admissions
        self.admissions = [admissions[name].to_numpy() for name in ("ready", "matched")]

    def _index_blocked(self) -> None:
        refusals = self.trace.refusals
        blocked = refusals[(refusals["cause"] == "blocked").to_numpy()]
        self.blocked_round = blocked["round"].to_numpy(np.int64)
        self.blocked_i = blocked["i"].to_numpy(np.int64)
        self.producer = blocked["producer"].fillna(-1).to_numpy(np.int64)
        self.boundary = blocked["boundary"].to_numpy(object)
        self.groups = blocked["groups"].tolist()
        self.parked = blocked["parked"].to_numpy(object)
        self.by_waiter = np.argsort(self.blocked_i, kind="stable")
        self.waiter_of = self._offsets(self.blocked_i[self.by_waiter])
        self.by_producer = np.argsort(self.producer, kind="stable")
        self.producer_of = self._offsets(self.producer[self.by_producer])

    def _offsets(self, sorted_i: np.ndarray) -> np.ndarray:
        return np.searchsorted(sorted_i, np.arange(len(self.trace.ids) + 1))

    def events(self) -> Iterator[Event]:
        header = self.trace.header
        what = f"{header.workload or header.model or 'run'}, {header.policy} ({trace_name(self.trace)})"
        for k, name in enumerate(("scheduler", "requests")):
            yield self._named("process_name", self.pid + k, 0, {"name": f"{name}: {what}"})
            yield self._named("process_sort_index", self.pid + k, 0, {"sort_index": self.pid + k})
        yield self._named("thread_name", self.pid, self.tid, {"name": "rounds"})
        yield from self._rounds()
        for i, name in enumerate(self.trace.ids):
            yield from self._request(i, f"?{i}" if name is None else name)

    @staticmethod
    def _named(what: str, pid: int, tid: int, args: dict[str, Any]) -> Event:
        return {"ph": "M", "name": what, "pid": pid, "tid": tid, "ts": 0, "args": args}

    def _us(self, ns: int) -> float:
        return (ns - self.origin) / 1000

    def _slice(self, cat: str, name: str, tid: int, begin: int, end: int, args: dict[str, Any]) -> Event:
        pid = self.pid if tid == self.tid else self.pid + 1
        return {
            "ph": "X",
            "cat": cat,
            "name": name,
            "pid": pid,
            "tid": tid,
            "ts": self._us(begin),
            "dur": max(0, end - begin) / 1000,
            "args": args,
        }

    def _moment(self, cat: str, name: str, tid: int, t: int, args: dict[str, Any]) -> Event:
        where = {"pid": self.pid + 1, "tid": tid, "ts": self._us(t)}
        return {"ph": "i", "s": "t", "cat": cat, "name": name, **where, "args": args}

    # -- the scheduler

    def _rounds(self) -> Iterator[Event]:
        config = self.trace.config
        columns = self.trace.rounds.reset_index()
        names = ("round", "rows", "tokens", "new", "resident", "blocked", "other", "unexamined", "waiting")
        names += ("avoidable", "free_blocks", "preempted", "stop_cause", "stopped_by", "closed", "repeat")
        values = [columns[name].astype(object).where(columns[name].notna(), None).tolist() for name in names]
        times = zip(self.t.tolist(), self.scheduled.tolist(), self.ended.tolist(), strict=True)
        for row, (t, scheduled, ended) in zip(zip(*values, strict=True), times, strict=True):
            args = {name: value for name, value in zip(names, row, strict=True) if value is not None}
            name = f"round {args['round']}" if args["rows"] else f"stalled round {args['round']}"
            yield self._slice("round", name, self.tid, t, ended, args)
            yield self._slice("schedule", "schedule()", self.tid, t, scheduled, {})
            for counter, series in (
                ("tokens", {"used": args["tokens"], "left": config.max_num_batched_tokens - args["tokens"]}),
                ("rows", {"used": args["rows"], "left": config.max_num_seqs - args["rows"]}),
                ("free blocks", {"blocks": args["free_blocks"]}),
                ("queue", {"requests": args["waiting"]}),
            ):
                where = {"pid": self.pid, "tid": self.tid, "ts": self._us(t)}
                yield {"ph": "C", "name": counter, **where, "args": series}

    # -- a request

    def _request(self, i: int, name: str) -> Iterator[Event]:
        tid = self.tid + 1 + i
        yield self._named("thread_name", self.pid + 1, tid, {"name": name})
        yield self._named("thread_sort_index", self.pid + 1, tid, {"sort_index": i})
        found = [*self._waits(i, tid), *self._visits(i, tid), *self._arrows_from(i, tid), *self._finish(i, tid)]
        # On a track by time; a slice before what it encloses.
        yield from sorted(found, key=lambda event: (event["ts"], event["ph"] != "X"))

    def _waits(self, i: int, tid: int) -> Iterator[Event]:
        low, high = self.waiter_of[i], self.waiter_of[i + 1]
        records = self.by_waiter[low:high].tolist()
        standing = {self.line.at_round(int(self.blocked_round[r])): r for r in records}
        shown = set()
        for wait in self.ledger.of(i):
            for part in wait:
                if part.cause != "blocked":
                    args = {"rounds": [part.first_round, part.last_round]} if part.rounds else {}
                    yield self._slice("wait", part.cause, tid, part.begin_ns, part.end_ns, args | part.facts)
                    continue
                first, last = (self.line.at_round(n) for n in (part.first_round, part.last_round))
                for k in range(first, last + 1):
                    begin, end = int(self.line.t[k]), min(int(self.line.t[k + 1]), part.end_ns)
                    r = standing.get(k)
                    if r is None:  # only the stop was recorded
                        args = {"rounds": [int(self.line.first[k]), int(self.line.last[k])]}
                        yield self._slice("wait", "blocked", tid, begin, end, args | part.facts)
                    else:
                        shown.add(r)
                        yield self._slice("blocked", "blocked", tid, begin, end, self._blocked(r))
                        yield from self._arrow(r, tid, "f")
        for r in records:
            if r not in shown:  # asked again in the same round, and refused or selected then
                at = int(self.scheduled[self._row(int(self.blocked_round[r]))])
                yield self._moment("blocked", "blocked, then asked again", tid, at, self._blocked(r))
                yield from self._arrow(r, tid, "f")

    def _blocked(self, r: int) -> dict[str, Any]:
        producer = int(self.producer[r])
        return {
            "reason": "a state at the matched boundary is being written in this round",
            "round": int(self.blocked_round[r]),
            "producer": self.trace.ids[producer] if producer >= 0 else None,
            "boundary": int(self.boundary[r]),
            "groups": self.groups[r],
            "parked": bool(self.parked[r]),
        }

    def _visits(self, i: int, tid: int) -> Iterator[Event]:
        low, high = int(self.visits_of[i]), int(self.visits_of[i + 1])
        if low == high:
            return
        prompt = self.trace.requests["prompt"].get(i)
        columns = (column[low:high].tolist() for column in self.visits)
        for row, tokens, start, admission in zip(*columns, strict=True):
            args = {"round": int(self.numbers[row]), "tokens": tokens, "start": start}
            if admission >= 0:
                args |= {name: int(c[admission]) for name, c in zip(("ready", "matched"), self.admissions, strict=True)}
            name = "run" if prompt is None else "prefill" if start < prompt else "decode"
            yield self._slice("visit", name, tid, int(self.t[row]), int(self.ended[row]), args)

    def _row(self, n: int) -> int:
        return int(np.searchsorted(self.numbers, n))

    def _arrows_from(self, i: int, tid: int) -> Iterator[Event]:
        for r in self.by_producer[self.producer_of[i] : self.producer_of[i + 1]].tolist():
            yield from self._arrow(r, tid, "s")

    def _arrow(self, r: int, tid: int, end: str) -> Iterator[Event]:
        """One end of an arrow, where `schedule()` returned and inside the round; none where the producer ran no row."""
        producer, row = int(self.producer[r]), self._row(int(self.blocked_round[r]))
        if producer < 0:
            return
        rows = self.visits[0][self.visits_of[producer] : self.visits_of[producer + 1]]
        at = np.searchsorted(rows, row)
        if at == len(rows) or rows[at] != row:
            return
        where = {"pid": self.pid + 1, "tid": tid, "ts": self._us(int(self.arrows[row]))}
        bound = {"bp": "e"} if end == "f" else {}
        yield {"ph": end, "cat": "state", "name": "state pending", "id": self.arrow + r, **where, **bound}

    def _finish(self, i: int, tid: int) -> Iterator[Event]:
        if i not in self._finishes:
            return
        t, reason = self._finishes[i]
        yield self._moment("finish", f"finished: {reason}", tid, t, {})

    @cached_property
    def _finishes(self) -> dict[int, tuple[int, str]]:
        done = self.trace.requests.dropna(subset=["finish_t"])
        moments = zip(done["finish_t"].astype(int), done["finish_reason"], strict=True)
        return dict(zip(done.index, moments, strict=True))

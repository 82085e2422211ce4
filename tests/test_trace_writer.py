"""Writing: nothing waits, nothing is lost that needn't be, and what is lost is counted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from trace_records import header, small_run, written

from radixflow.trace import TraceError, TraceWriter, open_trace
from radixflow.trace.schema import Admission, Cache, End, Finish, Hold, Repeat, Request, Round, Step

SUFFIXES = [".rft.jsonl", ".rft.jsonl.zst"]

RECORDING = """
import sys, time
from pathlib import Path
sys.path[:0] = [sys.argv[2], sys.argv[3]]
from trace_records import header
from radixflow.trace import TraceWriter
from radixflow.trace.schema import Round
writer = TraceWriter(sys.argv[1], header())
n = 0
print("ready", flush=True)
while True:
    n += 1
    writer.write(Round(n, time.monotonic_ns(), 0, [1, 1, 2, 1]))
    print(n, time.monotonic_ns(), flush=True)
    time.sleep(0.0005)
"""


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_killed_run_loses_at_most_100_ms(tmp_path, suffix):
    path = tmp_path / ("killed" + suffix)
    tests = Path(__file__).parent
    for _ in range(5):
        command = [sys.executable, "-c", RECORDING, str(path), str(tests), str(tests.parent)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "ready\n"
        lines = [process.stdout.readline() for _ in range(300)]
        os.kill(process.pid, signal.SIGKILL)
        lines += process.stdout.read().splitlines(keepends=True)
        process.wait()
        written_at = dict(map(int, line.split()) for line in lines if line.endswith("\n"))
        trace = open_trace(path)
        assert not trace.complete and trace.num_rounds > 0
        newest = max(written_at)
        lost = written_at[newest] - written_at[min(trace.num_rounds, newest)]
        if lost <= 100_000_000:
            return
    # A machine that leaves a thread without a processor for so long proves nothing; one of five runs must do.
    pytest.fail(f"{lost / 1e6:.0f} ms lost")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_thread_and_caller_write_the_same_records(tmp_path, suffix):
    records = small_run(300)
    one = written(tmp_path / ("a" + suffix), records)
    with TraceWriter(tmp_path / ("b" + suffix), header()) as writer:
        for record in records:
            writer.write(record)
        assert writer.flush()
        assert len(open_trace(writer.path).rounds) == 301
        writer.close(End(10**9, "finished", 40))
        writer.close()
        writer.write(records[-1])
    a, b = open_trace(one), open_trace(writer.path)
    assert list(a.iter_rounds()) == list(b.iter_rounds()) and b.complete
    if suffix == ".rft.jsonl":
        assert one.read_bytes() == writer.path.read_bytes()


def test_overload_drops_whole_rounds_and_counts_them(tmp_path):
    path = tmp_path / "a.rft.jsonl"
    writer = TraceWriter(path, header(), max_pending=40)
    put = writer._sink.write

    def slow(lines):
        time.sleep(0.01)
        put(lines)

    writer._sink.write = slow
    rounds = requests = others = 0
    for n in range(1, 3001):
        if n % 10 == 0:
            writer.write(Request(requests, f"r{requests}", n, 10, [("s", 10)]))
            writer.write(Hold(n, n, "work", [requests]))
            writer.write(Finish(requests, n, "stop"))
            requests += 1
        queue = ([], []) if writer.queue_wanted else None
        writer.write(Round(n, n, 1, queue=queue))
        writer.write(Cache(n, [(0, 0, 0, 64)]))
        if n > 1:
            writer.write(Step(n - 1, n))  # one late, as under asynchronous scheduling
        rounds, others = rounds + 1, others + 2
        if n % 500 == 0:
            time.sleep(0.3)
    others -= 1
    writer.close(End(0, "finished", 3000))
    trace = open_trace(path)
    store = trace._store
    assert writer.dropped_rounds > 100
    assert len(store.rounds) + sum(gap.rounds for gap in trace.gaps) == rounds
    kept = len(store.rounds) + len(store.steps) + len(store.cache)
    assert kept + sum(gap.records for gap in trace.gaps) == rounds + others
    assert sum(gap.records for gap in trace.gaps) == writer.dropped_records
    assert len(store.requests) == len(store.holds) == len(store.finishes) == requests and trace.complete
    there = set(store.rounds.rows()["n"].tolist())
    assert set(store.cache.rows()["n"].tolist()) == there
    assert set(store.steps.rows()["n"].tolist()) <= there
    for gap in trace.gaps:
        assert not any(gap.first <= n <= gap.last for n in there)
    assert all(trace.round(n).certain for n in there)  # the round after a gap states its queue


def test_a_repeat_of_a_dropped_round_is_dropped_too(tmp_path):
    writer = TraceWriter(tmp_path / "a.rft.jsonl", header(), max_pending=4, flush_seconds=5)
    for n in range(1, 10):
        writer.write(Round(n, n, 0))
    writer._max_pending = 1000
    writer.write(Repeat(14, 5, 14))
    writer.write(Round(15, 15, 0))
    writer.close()
    trace = open_trace(writer.path)
    assert [view.n for view in trace.iter_rounds()] == [1, 2, 3, 4, 15]
    assert (trace.gaps[0].rounds, trace.gaps[0].records, trace.gaps[0].first, trace.gaps[0].last) == (
        10,
        6,
        5,
        14,
    )


def server(writer, rounds, live):
    """Rounds of a server with requests coming and going; states the queue where the writer asks."""
    waiting = []
    number = 0
    for n in range(1, rounds + 1):
        if n % 3 == 0:
            live[number] = Request(number, f"r{number}", n, 100, [("doc", 80), (f"q{number}", 20)])
            writer.write(live[number])
            waiting.append(number)
            number += 1
        queue = ([], list(waiting)) if writer.queue_wanted else None
        selected, admissions = [], []
        for i in [i for i in live if i not in waiting]:
            selected += i, 1
        if n % 4 == 0 and waiting:
            i = waiting.pop(0)
            selected += i, 100
            admissions.append(Admission(i, 0, 0))
        writer.write(Round(n, 1000 * n, 10, selected, admissions, queue=queue))
        writer.write(Step(n, 1000 * n + 500))
        running = [i for i in live if i not in waiting]
        if len(running) > 5:
            writer.write(Finish(running[0], 1000 * n + 600, "stop", n=n))
            del live[running[0]]
    writer.close(End(1000 * rounds, "finished", rounds))


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("synchronous", [True, False])
def test_a_rotated_trace_reads_as_one(tmp_path, suffix, synchronous):
    live = {}
    path = tmp_path / ("long" + suffix)
    writer = TraceWriter(
        path,
        header(),
        max_bytes=2000,
        on_rotate=lambda: list(live.values()),
        synchronous=synchronous,
        flush_seconds=0.001,
    )
    writes = writer.write

    class Paced:  # the thread must get its turn for files to grow past their size
        queue_wanted = property(lambda self: writer.queue_wanted)
        close = staticmethod(writer.close)

        @staticmethod
        def write(record):
            writes(record)
            if record.__class__ is Round and record.n % 20 == 0:
                writer.flush()

    server(Paced(), 600, live)
    assert writer.error is None
    parts = sorted(tmp_path.glob("long.part*"), key=lambda p: len(p.name))
    assert len(parts) >= 3
    whole = TraceWriter(tmp_path / "whole.rft.jsonl", header(), synchronous=True)
    server(whole, 600, {})
    a, b = open_trace(path), open_trace(whole.path)
    assert (
        a.complete
        and a.rounds.equals(b.rounds)
        and a.visits.equals(b.visits)
        and a.requests.equals(b.requests)
    )
    assert list(a.iter_rounds()) == list(b.iter_rounds())

    later = open_trace(tmp_path / f"long.part2{suffix}")
    assert later.header.part == 2 and later.id == a.id and later.complete
    for view in later.iter_rounds():
        same = a.round(view.n)
        assert view.certain and (view.queue, view.selected) == (same.queue, same.selected)
    assert later.requests.loc[:, "id"].tolist() == a.requests.loc[later.requests.index, "id"].tolist()


def test_only_the_newest_parts_are_kept_where_asked(tmp_path):
    live = {}
    path = tmp_path / "long.rft.jsonl"
    writer = TraceWriter(
        path, header(), max_bytes=3000, max_parts=2, on_rotate=lambda: list(live.values()), synchronous=True
    )
    server(writer, 600, live)
    left = sorted(p.name for p in tmp_path.iterdir())
    assert len(left) == 2 and path.name not in left
    trace = open_trace(path)  # the oldest part that is left
    assert trace.header.part > 0 and trace.complete and trace.num_rounds == 600


def test_a_follower_goes_on_into_the_next_part(tmp_path):
    live = {}
    path = tmp_path / "long.rft.jsonl.zst"
    writer = TraceWriter(
        path, header(), max_bytes=1500, on_rotate=lambda: list(live.values()), synchronous=True
    )
    seen = []
    writes = writer.write
    trace = open_trace(path)

    class Followed:
        queue_wanted = property(lambda self: writer.queue_wanted)
        close = staticmethod(writer.close)

        @staticmethod
        def write(record):
            writes(record)
            if record.__class__ is Round and record.n % 25 == 0:
                writer.flush()
                trace.update()
                seen.append(trace.num_rounds)

    server(Followed(), 1000, live)
    trace.update()
    assert seen == list(range(25, 1001, 25)) and trace.complete
    assert len(list(tmp_path.iterdir())) > 2
    assert list(trace.iter_rounds()) == list(open_trace(path).iter_rounds())


def test_a_follower_that_lost_a_part_says_so_and_goes_on(tmp_path):
    live = {}
    path = tmp_path / "long.rft.jsonl"
    writer = TraceWriter(
        path, header(), max_bytes=3000, max_parts=1, on_rotate=lambda: list(live.values()), synchronous=True
    )
    writer.flush()
    trace = open_trace(path)
    server(writer, 300, live)
    assert trace.update() and trace.complete and trace.num_rounds == 300
    assert [gap.what for gap in trace.gaps] == ["part missing"]
    assert all(view.certain for view in trace.iter_rounds())


def test_a_failing_disk_ends_the_trace_not_the_scheduler(tmp_path, caplog):
    for synchronous in (True, False):
        writer = TraceWriter(tmp_path / "a.rft.jsonl", header(), synchronous=synchronous, flush_seconds=0.001)

        def full(lines):
            raise OSError(28, "No space left on device")

        writer._sink.write = full
        caplog.clear()
        for n in range(1, 500):
            writer.write(Round(n, n, 0))
        writer.flush()
        for n in range(500, 1000):
            writer.write(Round(n, n, 0))
        writer.close(End(0, "finished", 1000))
        assert isinstance(writer.error, OSError) and len(caplog.records) == 1
        assert not writer._pending


def test_a_failing_callback_ends_the_trace_not_the_scheduler(tmp_path):
    def broken():
        raise RuntimeError("bug")

    writer = TraceWriter(
        tmp_path / "a.rft.jsonl", header(), max_bytes=100, on_rotate=broken, synchronous=True
    )
    for n in range(1, 2000):
        writer.write(Round(n, n, 0, queue=([], [])))
    writer.close()
    assert isinstance(writer.error, RuntimeError)


def test_what_cannot_be_written_is_refused_in_one_line(tmp_path):
    for path, words in [
        (tmp_path / "trace.json", "a trace's name ends in .rft.jsonl"),
        (tmp_path / ".rft.jsonl", "a trace's name ends in .rft.jsonl"),
        (tmp_path / "nowhere" / "a.rft.jsonl", "can't write a trace here"),
    ]:
        with pytest.raises(TraceError, match=words):
            TraceWriter(path, header())


def test_leaving_without_closing_loses_nothing(tmp_path):
    path = tmp_path / "a.rft.jsonl.zst"
    code = RECORDING.split("while True")[0] + "for n in range(1, 1001): writer.write(Round(n, n, 0))"
    tests = Path(__file__).parent
    subprocess.run([sys.executable, "-c", code, str(path), str(tests), str(tests.parent)], check=True)
    assert len(open_trace(path).rounds) == 1000


def test_a_forked_child_leaves_the_file_to_its_parent(tmp_path):
    path = tmp_path / "a.rft.jsonl.zst"
    code = RECORDING.split("while True")[0] + (
        "import os\n"
        "for n in range(1, 101): writer.write(Round(n, n, 0))\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    for n in range(101, 301): writer.write(Round(n, n, 0))\n"
        "    writer.close(); sys.exit()\n"
        "os.waitpid(child, 0)\n"
        "for n in range(101, 201): writer.write(Round(n, n, 0))\n"
    )
    tests = Path(__file__).parent
    subprocess.run([sys.executable, "-c", code, str(path), str(tests), str(tests.parent)], check=True)
    assert open_trace(path).rounds.index.tolist() == list(range(1, 201))


def test_a_part_that_is_found_full_while_it_is_being_ended_is_not_ended_twice(tmp_path):
    class Between(TraceWriter):
        """When its thread is about to say that the part is full, the scheduler's thread opens the next one."""

        armed = False

        def __setattr__(self, name, value):
            if name == "_full_part" and self.armed:
                self.armed = False
                self._rotate(Round(n, n, 0, queue=([], [])))
            super().__setattr__(name, value)

    path = tmp_path / "a.rft.jsonl"
    writer = Between(path, header(), max_bytes=2000, synchronous=True, flush_seconds=3600)
    for n in range(1, 100):  # noqa: B007, the writer's other thread, above, reads it
        writer.write(Round(n, n, 0, queue=([], [])))
    writer.armed = True
    writer.flush()
    assert not writer.armed, "the part was full"
    for n in range(100, 110):
        writer.write(Round(n, n, 0, queue=([], [])))
    writer.close(End(n, "finished", n))
    names = sorted(one.name for one in tmp_path.iterdir())
    assert writer.error is None and names == ["a.part1.rft.jsonl", "a.rft.jsonl"]
    assert open_trace(path).num_rounds == n

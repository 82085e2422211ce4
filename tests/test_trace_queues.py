"""Queues expanded from changes equal vLLM's two queues, simulated step by step."""

from __future__ import annotations

import heapq
import random
import tempfile
from collections import deque
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_records import header, written

from radixflow.trace import open_trace
from radixflow.trace.queues import SNAPSHOT_EVERY
from radixflow.trace.schema import Admission, Finish, Hold, Request, Round, Stop


class FcfsModel:
    """`FCFSRequestQueue` twice, with the calls that `Scheduler` makes on them."""

    def __init__(self, key):
        self.waiting, self.skipped = deque(), deque()

    def add(self, i, deferred):
        (self.skipped if deferred else self.waiting).append(i)

    def select(self):
        return self.skipped or self.waiting

    def peek(self, queue):
        return queue[0]

    def pop(self, queue):
        return queue.popleft()

    def preempt(self, i):
        self.waiting.appendleft(i)

    def put_back(self, step_skipped):
        # Each was prepended to the step's queue, which extendleft then turns around again.
        self.skipped.extendleft(reversed(step_skipped))

    def remove(self, i):
        for queue in (self.waiting, self.skipped):
            if i in queue:
                queue.remove(i)

    def order(self):
        return [*self.skipped, *self.waiting]


class PriorityModel:
    """`PriorityRequestQueue` twice: heaps ordered by `Request.__lt__`."""

    def __init__(self, key):
        self.key = key
        self.waiting, self.skipped = [], []

    def add(self, i, deferred):
        heapq.heappush(self.skipped if deferred else self.waiting, (self.key[i], i))

    def select(self):
        if self.waiting and self.skipped:
            return self.waiting if self.waiting[0] < self.skipped[0] else self.skipped
        return self.waiting or self.skipped

    def peek(self, queue):
        return queue[0][1]

    def pop(self, queue):
        return heapq.heappop(queue)[1]

    def preempt(self, i):
        self.add(i, False)

    def put_back(self, step_skipped):
        for i in step_skipped:
            self.add(i, True)

    def remove(self, i):
        for queue in (self.waiting, self.skipped):
            queue[:] = [entry for entry in queue if entry[1] != i]
            heapq.heapify(queue)

    def order(self):
        return [i for _, i in sorted(self.waiting + self.skipped)]


def random_run(rng: random.Random, policy: str, rounds: int, crowd: int):
    """Records of a random run, and per round what the model's queue was and what the scan didn't reach."""
    key, ids, held, running, finished = {}, {}, [], [], set()
    model = (FcfsModel if policy == "fcfs" else PriorityModel)(key)
    records, expected = [], []
    for n in range(1, rounds + 1):
        for _ in range(rng.randrange(crowd)):
            i = len(ids)
            ids[i] = f"r{rng.randrange(10**6)}-{i}"
            t, early, priority = 10 * n, rng.choice([None, 10 * n - 3]), rng.choice([0, 0, 0, 1, -2])
            odd = rng.choice([None, None, 10 * n - 7])
            key[i] = (priority, next(x for x in (odd, early, t) if x is not None), ids[i])
            what = rng.choice(["waits", "waits", "held", "deferred"])
            request = Request(i, ids[i], t, 9, arrival=early, priority=priority, ordered_at=odd)
            records.append(request)
            if what == "held":
                request.held = True
                held.append(i)
            else:
                request.deferred = what == "deferred"
                model.add(i, request.deferred)
        for i in [i for i in ids if i not in finished and rng.random() < 0.03]:
            finished.add(i)
            model.remove(i)
            running = [r for r in running if r != i]
            records.append(Finish(i, 10 * n + 1, rng.choice(["abort", "stop"]), n=n - 1))
        if held and rng.random() < 0.4:
            records.append(Hold(0, 10 * n, "deadline", list(held)))
            for i in held:
                if i not in finished:
                    model.add(i, False)
            held = []
        preempted = []
        while running and rng.random() < 0.1:
            preempted.append(running.pop(rng.randrange(len(running))))
            model.preempt(preempted[-1])
        closed = "preemption" if preempted else rng.choice([None] * 9 + ["budget"])
        queue = model.order()
        explicit = None
        if policy == "fcfs" and rng.random() < 0.05:
            explicit = (list(model.skipped), list(model.waiting))
        selected, admissions, step_skipped, stop = [], [], [], None
        for i in running:
            if rng.random() < 0.8:
                selected += i, 1
        visited = set()
        while closed is None and (here := model.select()):
            i = model.peek(here)
            visited.add(i)
            fate = rng.random()
            if fate < 0.4:
                step_skipped.append(model.pop(here))
            elif fate < 0.75:
                running.append(model.pop(here))
                admissions.append(Admission(i, 0, 0))
                selected += i, 9
            elif fate < 0.9:
                stop = Stop("capacity", i)
                break
            else:
                visited.discard(i)
                stop = Stop("rows")
                break
        model.put_back(step_skipped)
        records.append(
            Round(
                n,
                10 * n + 5,
                1,
                selected,
                admissions,
                order=step_skipped,
                stop=stop,
                closed=closed,
                preempted=preempted,
                queue=explicit,
            )
        )
        expected.append((queue, [i for i in queue if i not in visited]))
    return records, expected


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), crowd=st.integers(2, 6))
def test_expanded_queues_are_vllms(policy, seed, crowd):
    rng = random.Random(seed)
    records, expected = random_run(rng, policy, 40, crowd)
    with tempfile.TemporaryDirectory() as folder:
        trace = open_trace(written(Path(folder) / "a.rft.jsonl", records, header(policy=policy)))
    views = list(trace.iter_rounds())
    assert [(view.queue, view.unexamined) for view in views] == expected
    assert trace.rounds.waiting.tolist() == [len(queue) for queue, _ in expected]
    assert trace.rounds.unexamined.tolist() == [len(rest) for _, rest in expected]
    n = rng.randrange(1, 41)
    assert trace.round(n) == views[n - 1]
    assert all(view.certain for view in views)


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_any_round_of_a_long_run_is_found_from_a_snapshot(tmp_path, policy):
    rounds = 5 * SNAPSHOT_EVERY
    records, expected = random_run(random.Random(7), policy, rounds, 4)
    path = written(tmp_path / "a.rft.jsonl", records, header(policy=policy))
    trace = open_trace(path)
    for n in random.Random(8).sample(range(1, rounds + 1), 60):
        assert trace.round(n).queue == expected[n - 1][0]
    assert len(trace._queues._snapshots) > 2


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_a_followed_run_expands_like_a_finished_one(tmp_path, policy):
    records, expected = random_run(random.Random(3), policy, 200, 4)
    whole = written(tmp_path / "whole.rft.jsonl", records, header(policy=policy)).read_bytes()
    live = tmp_path / "live.rft.jsonl"
    live.write_bytes(whole[:2000])
    trace = open_trace(live)
    for at in range(2000, len(whole), 1500):
        with open(live, "ab") as file:
            file.write(whole[at : at + 1500])
        trace.update()
        done = len(trace.rounds)
        assert trace.rounds.waiting.tolist() == [len(queue) for queue, _ in expected[:done]]
    assert [view.queue for view in trace.iter_rounds()] == [queue for queue, _ in expected]


def test_a_request_passed_over_and_then_selected_has_left_the_queue(tmp_path):
    records = [Request(i, f"r{i}", 0, 9) for i in range(3)]
    records.append(Round(1, 1, 1, [1, 9, 0, 9], [Admission(1, 0, 0), Admission(0, 0, 0)], order=[0]))
    records.append(Round(2, 2, 1, [0, 1, 1, 1]))
    trace = open_trace(written(tmp_path / "a.rft.jsonl", records))
    assert trace.round(2).queue == [2]


def test_after_a_gap_the_queue_is_uncertain_until_a_round_states_it(tmp_path):
    from radixflow.trace.schema import Gap

    records = [
        Request(0, "r0", 0, 9),
        Round(1, 1, 1),
        Gap(3, 3, 2, 4),
        Round(5, 5, 1),
        Round(6, 6, 1, queue=([], [0])),
    ]
    trace = open_trace(written(tmp_path / "a.rft.jsonl", records))
    assert [view.certain for view in trace.iter_rounds()] == [True, False, True]
    assert trace.rounds.idle.isna().tolist() == [True, True, True]

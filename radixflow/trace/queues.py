"""The waiting queue of every round, replayed from what the records say changed.

A trace stores changes, not queues. vLLM keeps two (`Scheduler.waiting` and `Scheduler.skipped_waiting`); the
scan takes the skipped one first under FCFS, and the smaller head of the two under PRIORITY, which makes one
order by (priority, arrival, id).

    before a round:  arrivals -> end of waiting          deferred arrivals -> end of skipped
                     released by admission -> end of waiting, in the hold's order
                     preempted -> front of waiting, one after another
    the scan:        [ skipped | waiting ]   selected leave; passed over go, in the order visited,
                                             to the front of skipped; the stopper and all behind it stay
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterator

import numpy as np

from radixflow.trace.columns import Flat
from radixflow.trace.store import LEAVES, WAITS_SKIPPED, Store

SNAPSHOT_EVERY = 256
"""Changing rounds between two snapshots; more where the queue is long, so that snapshots stay small."""

_CHUNK = 4096


class FcfsQueue:
    """The skipped and the waiting queue under first come, first served."""

    def __init__(self, skipped=(), waiting=()):
        self.skipped = deque(skipped)
        self.waiting = deque(waiting)
        self.members = {*self.skipped, *self.waiting}

    def __len__(self) -> int:
        return len(self.members)

    def state(self) -> tuple[list[int], list[int]]:
        return list(self.skipped), list(self.waiting)

    def order(self) -> list[int]:
        return [*self.skipped, *self.waiting]

    def enter(self, i: int, skipped: bool = False) -> None:
        if i not in self.members:
            self.members.add(i)
            (self.skipped if skipped else self.waiting).append(i)

    def preempt(self, i: int) -> None:
        if i not in self.members:
            self.members.add(i)
            self.waiting.appendleft(i)

    def leave(self, i: int) -> None:
        if i in self.members:
            self.members.discard(i)
            for queue in (self.skipped, self.waiting):
                if i in queue:
                    queue.remove(i)

    def scan(self, selected: list[int], passed: list[int]) -> None:
        visited = {*selected, *passed}
        for queue in (self.skipped, self.waiting):
            while queue and queue[0] in visited:
                visited.discard(queue[0])
                self.members.discard(queue.popleft())
        for i in visited:
            self.leave(i)
        self.skipped.extendleft(reversed(passed))
        self.members.update(passed)


class PriorityQueue:
    """One order by (priority, arrival, id): vLLM's `Request.__lt__`."""

    def __init__(self, store: Store, members=()):
        self._store = store
        self._sorted: list[tuple] = []
        self.members: dict[int, tuple] = {}
        for i in members:
            self.enter(i)

    def __len__(self) -> int:
        return len(self._sorted)

    def state(self) -> tuple[list[int], list[int]]:
        return [], self.order()

    def order(self) -> list[int]:
        return [key[-1] for key in self._sorted]

    def enter(self, i: int, skipped: bool = False) -> None:
        if i not in self.members:
            self.members[i] = key = self._key(i)
            insort(self._sorted, key)

    preempt = enter

    def leave(self, i: int) -> None:
        key = self.members.pop(i, None)
        if key is not None:
            del self._sorted[bisect_left(self._sorted, key)]

    def scan(self, selected: list[int], passed: list[int]) -> None:
        for i in selected:
            self.leave(i)
        for i in passed:
            self.enter(i)

    def _key(self, i: int) -> tuple:
        row = self._store.row_of.get(i)
        if row is None:
            return (0, 0, "", i)
        request = self._store.requests.rows()[row]
        return (int(request["priority"]), int(request["ordered"]), self._store.ids[i], i)


class _Change:
    """What one round did to the queue."""

    __slots__ = ("events", "passed", "preempted", "row", "selected", "stated")

    def __init__(self, row, events, preempted, stated, selected, passed):
        self.row = row
        self.events = events
        self.preempted = preempted
        self.stated = stated
        self.selected = selected
        self.passed = passed


class Queues:
    """Queues of all rounds read so far; continues where the store has grown."""

    def __init__(self, store: Store):
        self._store = store
        self._priority = store.header.config.scheduling_policy == "priority"
        self._queue = self._new()
        self._done = 0
        self._snapshots: list[tuple[int, tuple[list[int], list[int]]]] = [(0, ([], []))]
        """(row, state before the row's events), rows increasing."""
        self._since = 0
        self._waiting = Flat()
        self._unexamined = Flat()

    def waiting(self) -> np.ndarray:
        """Requests in the queue when each round's scan began."""
        self._advance()
        return self._waiting.values()

    def unexamined(self) -> np.ndarray:
        """Of those, how many each scan didn't reach."""
        self._advance()
        return self._unexamined.values()

    def certain(self, row: int) -> bool:
        """False where a gap, or the missing beginning of a later part, leaves this round's queue unknown."""
        store = self._store
        gaps = store.gap_rows if store.header.part == 0 else [0, *store.gap_rows]
        before = bisect_right(gaps, row)
        return not before or any(gaps[before - 1] <= stated <= row for stated in store.queues)

    def orders(self, first: int, last: int) -> Iterator[list[int]]:
        """The native order of the queue when the scans of rows first..last-1 began.

        Lists are shared between rounds in which nothing changed: leave them as they are.
        """
        self._advance()
        at = bisect_right(self._snapshots, first, key=lambda snapshot: snapshot[0]) - 1
        row, state = self._snapshots[at]
        queue = self._new(state)
        order = None
        for change in self._changes(row, last):
            while row < change.row:
                if row >= first:
                    order = queue.order() if order is None else order
                    yield order
                row += 1
            self._begin(queue, change)
            if row >= first:
                yield queue.order()
            queue.scan(change.selected, change.passed)
            order = None
            row += 1
        for _ in range(max(row, first), last):
            order = queue.order() if order is None else order
            yield order

    def _new(self, state=((), ())):
        return PriorityQueue(self._store, [*state[0], *state[1]]) if self._priority else FcfsQueue(*state)

    def _advance(self) -> None:
        rounds = self._store.rounds.rows()
        first, last = self._done, len(rounds)
        if first == last:
            return
        queue = self._queue
        begin = np.empty(last - first, np.int32)
        after = np.zeros(last - first, np.int32)
        examined = np.zeros(last - first, np.int32)
        filled, length = first, len(queue)
        for change in self._changes(first, last):
            row = change.row
            begin[filled - first : row - first] = length
            if self._since >= max(SNAPSHOT_EVERY, length // 8):
                self._snapshots.append((row, queue.state()))
                self._since = 0
            self._since += 1
            self._begin(queue, change)
            begin[row - first] = len(queue)
            members = queue.members
            examined[row - first] = sum(i in members for i in {*change.selected, *change.passed})
            queue.scan(change.selected, change.passed)
            after[row - first] = 1
            length = len(queue)
            filled = row + 1
        begin[filled - first :] = length
        new = rounds[first:last]
        stopped = (new["stopped_by"] >= 0) & (begin > 0)
        unexamined = np.where(new["closed"] >= 0, begin, np.maximum(begin - examined - stopped, 0))
        self._waiting.extend(begin.tolist())
        self._unexamined.extend(unexamined.tolist())
        self._waiting.fold()
        self._unexamined.fold()
        self._done = last

    def _begin(self, queue, change: _Change) -> None:
        """Everything that happens to the queue before the scan."""
        for code in change.events:
            i, kind = code >> 2, code & 3
            if kind == LEAVES:
                queue.leave(i)
            else:
                queue.enter(i, kind == WAITS_SKIPPED)
        if change.stated is not None:
            for i in queue.order():
                queue.leave(i)
            for i in change.stated[0]:
                queue.enter(i, True)
            for i in change.stated[1]:
                queue.enter(i)
        for i in change.preempted:
            queue.preempt(i)

    def _changes(self, first: int, last: int) -> Iterator[_Change]:
        """The rounds of rows first..last-1 that touched the queue."""
        store = self._store
        rounds = store.rounds.rows()
        events, preempted = store.events.values(), store.preempted.values()
        visits, passed = store.visits.values()[::2], store.passed.values()
        for low in range(first, last, _CHUNK):
            high = min(low + _CHUNK, last)
            chunk = rounds[low:high]
            starts = {}
            for name in ("event", "preempted", "passed"):
                ends = chunk[name + "_end"]
                before = rounds[name + "_end"][low - 1] if low else 0
                starts[name] = np.concatenate(([before], ends[:-1]))
            active = (chunk["new"] > 0) | (chunk["passed"] > 0) | (chunk["preempted"] > 0)
            active |= chunk["event_end"] != starts["event"]
            for row in store.queues:
                if low <= row < high:
                    active[row - low] = True
            which = np.flatnonzero(active)
            columns = [which.tolist()]
            for name in ("event", "preempted", "passed"):
                columns += [starts[name][which].tolist(), chunk[name + "_end"][which].tolist()]
            columns += [
                (chunk["visit_end"][which] - chunk["new"][which]).tolist(),
                chunk["visit_end"][which].tolist(),
            ]
            for at, e0, e1, m0, m1, p0, p1, v0, v1 in zip(*columns, strict=True):
                selected = visits[v0:v1].tolist() if v1 > v0 else []
                over = passed[p0:p1].tolist() if p1 > p0 else []
                if over and selected:
                    over = [i for i in over if i not in selected]
                yield _Change(
                    low + at,
                    events[e0:e1].tolist() if e1 > e0 else [],
                    preempted[m0:m1].tolist() if m1 > m0 else [],
                    store.queues.get(low + at),
                    selected,
                    over,
                )

"""When requests waited: from arrival to first selection, and again after each preemption."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from radixflow.analysis.expand import preemptions
from radixflow.analysis.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Period:
    """One wait of one request.

        begin        queued                        t[enter]                      end
          |-- in_step --|-- admission --|-- in_step --|-- round by round ----------|
        arrival    add_request       released      schedule()       schedule() that selected it

    A wait after a preemption begins with the preempting round's `schedule()` and has the last part only.
    """

    i: int
    again: bool
    """False for the wait from arrival, True for one after a preemption."""
    begin: int
    """Nanoseconds: arrival, or `schedule()` of the round that preempted it."""
    held: tuple[int, int] | None
    """Nanoseconds between which admission held it, clipped to the round that released it."""
    held_from: int
    """First stretch of the timeline that began while it was held (= `enter` where none did)."""
    enter: int
    """First stretch whose scan could have reached it."""
    leave: int
    """The stretch that selected it, or one past the last that it waited through."""
    end: int
    """Nanoseconds: `schedule()` of the selecting round; the finish of a request that left while it
    waited; the end of the trace for one that still waits."""
    through: int
    """Number of the last round that it waited through, where `leave` is beyond `enter`: a request can leave
    amid the rounds of the last stretch."""
    outcome: str
    """`selected`, `finished` or `waiting`."""


def periods(trace, timeline: Timeline) -> list[Period]:
    """Every wait in the trace: each request's first, then those after its preemptions, by request."""
    requests = trace.requests
    released = _releases(trace)
    preempted = preemptions(trace)
    readmitted = _readmissions(trace)
    names = ("t", "arrival", "held", "first_selected_round", "finish_round", "finish_t")
    columns = [requests.index.tolist(), *(_plain(requests[name]) for name in names)]
    found: list[Period] = []
    for i, t, arrival, held, selected, finished, finish_t in zip(*columns, strict=True):
        end = _End(timeline, finished, finish_t)
        hold = (t, released.get(i)) if held or i in released else None
        found.append(_first(timeline, i, t, arrival, hold, selected, end))
        again = readmitted.get(i, [])
        for n in preempted.get(i, []):
            back = next((m for m in again if m >= n), None)  # in n itself: a call that preempted was no round
            begin = timeline.at_round(n)
            found.append(Period(i, True, int(timeline.t[begin]), None, begin, begin, *end.of(back)))
    return found


@dataclass(frozen=True, slots=True)
class _End:
    """How a request's waits can end: by selection, or else with the request or the trace."""

    timeline: Timeline
    finish_round: int | None
    finish_t: int | None

    def of(self, selected: int | None) -> tuple[int, int, int, str]:
        """`(leave, end, through, outcome)` of a wait that round `selected` ended (None: no round did)."""
        line = self.timeline
        if selected is not None:
            k = line.at_round(selected)
            return k, int(line.t[k]), int(selected) - 1, "selected"
        size = len(line.first)
        if self.finish_t is not None:
            through = self.finish_round or 0
            return min(line.at_round(through) + 1, size) if through else 0, self.finish_t, through, "finished"
        return size, int(line.t[-1]), int(line.last[-1]) if size else 0, "waiting"


def _first(timeline: Timeline, i, t, arrival, hold, selected, ends: _End) -> Period:
    leave, end, through, outcome = ends.of(selected)
    # The scheduler got it before the round at the same instant, unless that round is past its end.
    queued = min(int(np.searchsorted(timeline.t[:-1], t)), leave)
    if hold is None:
        return Period(i, False, arrival, None, queued, queued, leave, end, through, outcome)
    released = hold[1]
    enter = leave if released is None else max(queued, min(timeline.released(released), leave))
    until = int(timeline.t[enter]) if enter < leave else end
    if released is not None:
        until = min(until, released)
    return Period(i, False, arrival, (t, max(t, until)), queued, enter, leave, end, through, outcome)


def _plain(column) -> list:
    """A column's values as Python objects, None for missing."""
    return column.astype(object).where(column.notna(), None).tolist()


def _releases(trace) -> dict[int, int]:
    holds = trace.holds
    return {i: end for end, held in zip(holds["end"].tolist(), holds["requests"], strict=True) for i in held}


def _readmissions(trace) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    admissions = trace.admissions
    again = admissions[admissions["again"].astype(bool)]
    for n, i in zip(again["round"].tolist(), again["i"].tolist(), strict=True):
        found[i].append(n)
    return found

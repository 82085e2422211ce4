"""The tidy tables, column by column: name, type and meaning. `docs/exporting.md` repeats them, and a test
holds the two together."""

from __future__ import annotations

from dataclasses import dataclass

from radixflow.analysis.causes import SLOT_CAUSES


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    name: str
    type: str
    """`text`, `int64`, `float64`, `bool`, `list<int64>` or `list<text>`."""
    meaning: str
    """One sentence, with the unit."""


def _columns(text: str) -> tuple[Column, ...]:
    parts = (line.strip().split(" ", 2) for line in text.strip().splitlines())
    return tuple(Column(name, kind, meaning) for name, kind, meaning in parts)


SLOT_MEANINGS = {
    "row_visits": "Requests scheduled in the round.",
    "resident": "Held by a running request that got no tokens.",
    "avoidable": "The native check would have accepted one more waiting request.",
    "idle": "Nobody else was waiting.",
    "unprobed": "Empty while somebody waited, in a round that wasn't probed.",
}

TABLES: dict[str, tuple[Column, ...]] = {
    "runs": _columns("""
        trace text Id of the run: the key that joins the tables of several runs.
        policy text Scheduling policy.
        engine text `sim` or `vllm`.
        model text Model profile or checkpoint.
        workload text Name of the workload.
        max_num_seqs int64 The row budget S.
        max_num_batched_tokens int64 The token budget T.
        block_size int64 Tokens a block.
        num_blocks int64 Blocks in the pool, the null block included.
        clock bool Whether arrivals have times; without, latencies mean nothing.
        origin_ns int64 The run's clock at its first moment, ns.
        wall_ns int64 Wall time (Unix) of that clock's 0, ns; virtual in the simulator.
        complete bool The run's end was recorded.
        dropped_rounds int64 Rounds missing from the trace.
    """),
    "rounds": _columns("""
        trace text Id of the run.
        round int64 Number of the round, from 1.
        t int64 Entry of `schedule()`, ns on the run's clock.
        schedule_ns int64 Time inside `schedule()`, ns.
        host_ns int64 From its return to `update_from_output()`'s entry, ns; null where no answer was recorded.
        rows int64 Row visits.
        tokens int64 Tokens scheduled.
        new int64 Requests selected from the waiting queue.
        resident int64 Running requests that got no tokens.
        blocked int64 Visits refused because a state was being written in this round.
        other int64 Visits refused for another reason.
        unexamined int64 Waiting requests that the scan didn't reach.
        waiting int64 Requests in the queue when the scan began.
        avoidable int64 Slots that a waiting request could have had; null where not probed.
        idle int64 Slots that nobody waited for; null where not probed.
        free_blocks int64 Free blocks when `schedule()` returned.
        preempted int64 Requests preempted.
        stop_cause text Why the scan ended before the end of the queue.
        stopped_by text The request that ended it.
        closed text Why the queue wasn't entered at all.
        stalled bool No token was scheduled.
        repeat int64 How many identical stalled rounds this row stands for; 1 otherwise.
        released_by text Why admission released held arrivals just before.
    """),
    "visits": _columns("""
        trace text Id of the run.
        round int64 Round of the visit.
        request text Id of the request.
        i int64 Number of the request: the key that joins tables of one run.
        tokens int64 Tokens it got.
        start int64 Tokens computed before.
        phase text `waiting`: selected from the queue; `running`: it had a row already.
    """),
    "refusals": _columns("""
        trace text Id of the run.
        round int64 Round of the visit.
        request text Id of the request.
        i int64 Number of the request.
        cause text Why it was refused; `blocked` and the others of docs/causes.md, as recorded.
        producer int64 Number of the request that writes the missing state; -1 where unknown.
        boundary int64 The matched boundary whose state is missing, tokens.
        groups list<int64> Cache groups whose state is in flight.
        parked bool True: put aside, the scan went on; false: the scan ended here.
        gate text The check that refused it: `full_sequence` or `chunk`.
        needed int64 Blocks it asked for.
        free int64 Blocks free at that moment.
        reserved int64 Blocks reserved for others.
        watermark int64 Blocks kept free.
        total int64 Usable blocks of the whole pool.
        tokens_left int64 Of the budget, when it was visited.
        block int64 Tokens a block.
        status text What a deferred request waits for.
        ready int64 h, tokens of its prefix that could be resumed.
        matched int64 h^, tokens that some group matched.
        also list<text> Causes that would have refused it too.
    """),
    "requests": _columns("""
        trace text Id of the run.
        i int64 Number of the request, in the order in which the scheduler saw them.
        request text Its id.
        arrival int64 When the client sent it, ns on the run's clock.
        t int64 When the scheduler got it, ns.
        prompt int64 Prompt tokens.
        max_tokens int64 Output limit, tokens.
        priority int64 Smaller is served first.
        group text The logical request it is a branch of.
        label text The workload's own label.
        held bool Admission held it.
        first_selected_round int64 First round that selected it; null where none did.
        first_selected_t int64 That round's `schedule()`, ns.
        finish_round int64 Last round begun before it left.
        finish_t int64 When it left, ns.
        finish_reason text `length`, `stop`, `abort`, `error` or `repetition`.
        output int64 Output tokens.
        preemptions int64 How often it was preempted.
        reused int64 Prompt tokens served from the cache at first admission; null where never admitted.
        external int64 Those of `reused` that a KV connector brought.
        forgone int64 Prompt tokens matched but not ready, computed anyway.
        fresh int64 Prompt tokens that no group had: prompt = reused + forgone + fresh.
        recomputed int64 Tokens computed again after preemptions, apart from that sum.
    """),
    "admissions": _columns("""
        trace text Id of the run.
        round int64 Round that took it from the queue.
        i int64 Number of the request.
        request text Its id.
        ready int64 h, tokens resumed from the cache.
        matched int64 h^, tokens that some group matched.
        external int64 Tokens from a KV connector.
        again bool After a preemption.
    """),
    "holds": _columns("""
        trace text Id of the run.
        hold int64 Number of the hold, from 1; one row for each request held.
        begin int64 When it began, ns.
        end int64 When all of it were released, ns.
        reason text `deadline`, `work`, `rows`, `tokens`, `abort` or `fault`.
        position int64 Place in which the request entered the queue, from 1.
        i int64 Number of the request.
        request text Its id.
    """),
    "cache": _columns("""
        trace text Id of the run.
        round int64 Round whose allocations did it; 0 before the first.
        event text `published`, `evicted` or `cleared`.
        i int64 Number of the request whose tokens the span counts; -1 for `cleared`.
        group int64 Cache group; -1 for `cleared`.
        start int64 The span's boundaries are start + block, ..., end, tokens.
        end int64 Last boundary, tokens.
        by int64 Number of the request whose allocation evicted it; -1 for nobody's.
    """),
    "waits": _columns("""
        trace text Id of the run.
        i int64 Number of the request.
        request text Its id.
        again bool False: from arrival to first selection; true: after a preemption.
        cause text One of the closed list in docs/causes.md.
        rounds int64 Rounds waited for that cause.
        ns int64 Time waited for that cause, ns; a wait is the sum over its causes, exactly.
        culprit text The request named longest: the producer of a state, or the one that stopped the scan.
        outcome text How the whole wait ended: `selected`, `finished` or `waiting`.
    """),
    "slots": (
        *_columns("""
            trace text Id of the run.
            round int64 Number of the round.
            repeat int64 How many identical stalled rounds this row stands for; 1 otherwise.
            S int64 The row budget: the sum of all columns after this one, exactly.
        """),
        *(
            Column(cause, "int64", SLOT_MEANINGS.get(cause, f"Empty: the next one waiting was refused, `{cause}`."))
            for cause in SLOT_CAUSES
        ),
    ),
}

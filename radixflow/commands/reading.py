"""`rounds`, `compare`, `explain`, `check`, `evictions`: what a trace says."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from radixflow.commands.shared import Json, TraceFile, TraceFiles, app


@app.command()
def rounds(
    trace: TraceFile,
    first: Annotated[int, typer.Option(min=1, help="First round.")] = 1,
    last: Annotated[int | None, typer.Option(help="Last round.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON Lines, one object a round.")] = False,
) -> None:
    """One record a round: who was selected, who wasn't, and why."""
    from radixflow.analysis.round_record import round_record
    from radixflow.printing import emit, opening, show_rounds

    opened = opening(trace)
    if first > max(1, opened.num_rounds) or (last is not None and last < first):
        wanted = f"{first} to {last}" if last is not None else f"{first} on"
        raise ValueError(f"no rounds {wanted}: the trace has rounds 1 to {opened.num_rounds}")
    records = (round_record(opened, view) for view in opened.iter_rounds(first, last))
    if json:
        for record in records:
            emit(record)
    else:
        show_rounds(records)


@app.command()
def compare(traces: TraceFiles, json: Json = False) -> None:
    """Metrics side by side, with the cost identity."""
    from radixflow.analysis import compare as compare_traces
    from radixflow.printing import emit, opening, show_comparison, working

    opened = [opening(path) for path in traces]
    with working("comparing"):
        comparison = compare_traces(*opened)
    emit(comparison.to_dict()) if json else show_comparison(comparison)


@app.command()
def explain(
    trace: TraceFile,
    request: Annotated[str | None, typer.Argument(help="A request's id; the whole trace without one.")] = None,
    round: Annotated[int | None, typer.Option(help="Explain this round instead.")] = None,
    json: Json = False,
) -> None:
    """Why a request waited, what a round did, what held a run up."""
    from radixflow import analysis
    from radixflow.printing import emit, opening, show_text, working

    if request is not None and round is not None:
        raise ValueError("explain takes a request or --round, not both")
    opened = opening(trace)
    with working("adding up the waits"):
        if request is not None:
            why: Any = analysis.explain(opened, request)
        elif round is not None:
            why = analysis.explain_round(opened, round)
        else:
            why = analysis.explain_trace(opened)
    emit(why.to_dict()) if json else show_text(why.text)


@app.command()
def check(trace: TraceFile, json: Json = False) -> None:
    """What is wrong with a run, by name, and what it keeps to."""
    from radixflow.analysis.check import check as check_trace
    from radixflow.printing import emit, opening, show_check, working

    opened = opening(trace)
    with working(f"checking {trace.name}") as progress:
        report = check_trace(opened, progress)
    emit(report.to_dict()) if json else show_check(report)


@app.command()
def evictions(traces: TraceFiles, json: Json = False) -> None:
    """Who evicted whose prefix, and what that cost on return."""
    from radixflow.analysis import evictors, summarize_evictions
    from radixflow.printing import emit, opening, show_evictions

    opened = [opening(path) for path in traces]
    found = [summarize_evictions(trace) for trace in opened]
    who = [evictors(trace) for trace in opened]
    if json:
        rows = zip(opened, found, who, strict=True)
        emit({"traces": [{"trace": t.id, **f.to_dict(), "evicted": w.to_dict("records")} for t, f, w in rows]})
        return
    show_evictions([path.name for path in traces], found, who)

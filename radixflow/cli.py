"""The `radixflow` command: parse, call, print. What a command means is CONTRACT 3's.

Exit codes: 0 done; 2 bad input, one line on stderr; 3 the run stalled; 130 interrupted, trace kept.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    name="radixflow",
    help="See what an LLM serving scheduler does, round by round, and why.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else there.")]
TraceFile = Annotated[
    Path, typer.Argument(help="A trace: *.rft.jsonl or *.rft.jsonl.zst.", show_default=False)
]
TraceFiles = Annotated[list[Path], typer.Argument(help="Traces, the baseline first.", show_default=False)]
DENSE = "dense"


def main() -> None:
    """Entry point: bad input becomes one line and exit 2, never a traceback."""
    from radixflow.printing import complain

    try:
        code = app(standalone_mode=False)
    except KeyboardInterrupt:
        complain("interrupted")
        sys.exit(130)
    except BrokenPipeError:  # `radixflow rounds ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if not _is_bad_input(error):
            raise
        complain(_line(error))
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)


def _is_bad_input(error: Exception) -> bool:
    # Click's own usage errors, and ours; each knows what, where and what was expected.
    if isinstance(error, KeyError):  # ours are sentences; any other is a fault of ours and shows its traceback
        return bool(error.args) and isinstance(error.args[0], str) and " " in error.args[0]
    return (
        hasattr(error, "format_message")
        or isinstance(error, ValueError | OSError | ImportError)
        or (type(error).__name__ in ("TraceError", "WorkloadError", "EngineError"))
    )


def _line(error: Exception) -> str:
    if hasattr(error, "format_message"):
        return error.format_message().replace("\n", " ")
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return (
        str(error.args[0] if isinstance(error, KeyError) and error.args else error).strip().replace("\n", " ")
    )


@app.command()
def run(
    workload: Annotated[
        str, typer.Argument(help="A built-in's name, or a file in any format that `workloads` lists.")
    ],
    policy: Annotated[
        str, typer.Option(help="A policy; several (a,b or all) are run and compared.")
    ] = "radixflow",
    engine: Annotated[
        str, typer.Option(help="sim (modelled worker, virtual time) or vllm (the real engine).")
    ] = "sim",
    model: Annotated[
        str | None, typer.Option(help="Profile (sim), or tiny model, folder or hub id (vllm).")
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Trace to write.")] = None,
    max_num_seqs: Annotated[int | None, typer.Option(help="S, rows a round.")] = None,
    max_num_batched_tokens: Annotated[int | None, typer.Option(help="T, tokens a round.")] = None,
    block_size: Annotated[int | None, typer.Option()] = None,
    hash_block_size: Annotated[int | None, typer.Option()] = None,
    num_blocks: Annotated[int | None, typer.Option(help="Pool, the null block included.")] = None,
    state_groups: Annotated[
        int | None, typer.Option(help="Recurrent cache groups; 0 = full attention.")
    ] = None,
    retention_interval: Annotated[
        str | None, typer.Option(help="Tokens between kept states; 0 = sparse, 'dense' = every boundary.")
    ] = None,
    scheduling_policy: Annotated[str | None, typer.Option(help="fcfs or priority.")] = None,
    spec_tokens: Annotated[int | None, typer.Option(help="EAGLE-style drafts a step.")] = None,
    async_scheduling: Annotated[bool | None, typer.Option("--async-scheduling/--sync-scheduling")] = None,
    kv_cache_events: Annotated[bool | None, typer.Option("--kv-cache-events/--no-kv-cache-events")] = None,
    given: Annotated[
        list[str] | None,
        typer.Option("--with", help="KEY=VALUE for the importer or builder: articles=3, seed=7."),
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="Tokenizer folder for texts; bytes by default.")
    ] = None,
    probe: Annotated[
        int, typer.Option(min=0, help="Ask after avoidable slots every n-th round; 0 never.")
    ] = 1,
    include_tokens: Annotated[
        bool, typer.Option("--include-tokens", help="Put token ids into the trace.")
    ] = False,
    json: Json = False,
) -> None:
    """Run a workload under a policy and write its trace."""
    from radixflow.analysis import compare as compare_traces
    from radixflow.analysis import summarize
    from radixflow.engines.run import agreements, run_workload
    from radixflow.printing import (
        complain,
        emit,
        quiet_engine,
        show_agreement,
        show_comparison,
        show_summary,
        working,
    )
    from radixflow.trace import open_trace
    from radixflow.workloads import load_workload

    options = {
        name: value
        for name, value in {
            "max_num_seqs": max_num_seqs,
            "max_num_batched_tokens": max_num_batched_tokens,
            "block_size": block_size,
            "hash_block_size": hash_block_size,
            "num_blocks": num_blocks,
            "state_groups": state_groups,
            "scheduling_policy": scheduling_policy,
            "spec_tokens": spec_tokens,
            "async_scheduling": async_scheduling,
            "kv_cache_events": kv_cache_events,
        }.items()
        if value is not None
    }
    if retention_interval is not None:
        options["retention_interval"] = _retention(retention_interval)
    loaded = load_workload(workload, tokenizer=tokenizer, **_key_values(given or []))
    policies = _policies(policy)
    done = []
    for name in policies:
        path = _trace_path(output, f"{loaded.name}-{name}", alone=len(policies) == 1)
        with quiet_engine(), working(f"{loaded.name} under {name}") as progress:
            done.append(
                run_workload(
                    loaded,
                    name,
                    engine=engine,
                    model=model,
                    trace=path,
                    probe=probe,
                    include_tokens=include_tokens,
                    progress=progress,
                    **options,
                )
            )
        if done[-1].end == "interrupted":
            break
    traces = [open_trace(run.trace_path) for run in done]
    if len(done) > 1:
        comparison, agreement = compare_traces(*traces), agreements(done)
        if json:
            emit(comparison.to_dict() | {"agreement": agreement})
        else:
            show_comparison(comparison)
            show_agreement(comparison.labels, agreement)
    else:
        summary = summarize(traces[0])
        emit(summary.to_dict()) if json else show_summary(summary, done[0])
    for run, trace in zip(done, traces, strict=True):
        if run.end == "stalled":
            complain(_stall(trace))
    ends = {run.end for run in done}
    if "interrupted" in ends:
        complain(f"interrupted; {done[-1].trace_path} holds what ran")
        raise typer.Exit(130)
    if "stalled" in ends:
        raise typer.Exit(3)


def _policies(text: str) -> list[str]:
    """`a,b` or `all`: each is run in turn, and the runs are compared with the first."""
    from radixflow.scheduling import POLICIES, get_policy

    if text == "all":
        return [name for name in POLICIES if name != "radixflow+noadmit"]
    names = [name.strip() for name in text.split(",")]
    if len(set(names)) < len(names):
        raise ValueError(f"--policy {text}: expected each policy once")
    return [get_policy(name).name for name in names]


def _trace_path(output: Path | None, name: str, alone: bool) -> Path:
    if alone:
        return output or Path(f"{name}.rft.jsonl.zst")
    folder = output or Path()
    if folder.suffix in (".jsonl", ".zst"):
        raise ValueError(f"-o {output}: several policies write several traces; expected a folder")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.rft.jsonl.zst"


def _key_values(given: list[str]) -> dict[str, Any]:
    import json

    values = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.isidentifier():
            raise ValueError(f"--with {text}: expected KEY=VALUE, such as articles=3")
        try:
            values[key] = json.loads(value)
        except json.JSONDecodeError:
            values[key] = value
    return values


def _retention(text: str) -> int | None:
    if text == DENSE:
        return None
    try:
        return int(text)
    except ValueError:
        raise ValueError(
            f"--retention-interval is {text!r}: expected tokens (0 = sparse) or {DENSE!r}"
        ) from None


def _stall(trace: Any) -> str:
    """Who holds the run up, by name."""
    view = trace.round(trace.num_rounds)
    if not view.stalled or view.preempted:
        lost = trace.rounds["preempted"].to_numpy().nonzero()[0]
        again = trace.ids[trace.round(int(trace.rounds.index[lost[-1]])).preempted[0]]
        return f"the run stalled in round {view.n}: {again} is admitted and preempted again and again, nothing is gained"
    if view.stop is None or view.stop.i is None:
        return f"the run stalled in round {view.n}: nothing can be scheduled any more"
    facts = next((entry for entry in view.other if entry.i == view.stop.i), None)
    why = f" ({facts.needed} blocks needed, {facts.total} in all)" if facts and facts.needed else ""
    culprit = trace.ids[view.stop.i]
    return f"the run stalled in round {view.n}: request {culprit} is refused: {view.stop.cause}{why}"


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
    request: Annotated[
        str | None, typer.Argument(help="A request's id; the whole trace without one.")
    ] = None,
    round: Annotated[int | None, typer.Option(help="Explain this round instead.")] = None,
    json: Json = False,
) -> None:
    """Why a request waited, what a round did, or what held a whole trace up."""
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
    """Properties that must hold, and findings: what is wrong, by name."""
    from radixflow.analysis.check import check as check_trace
    from radixflow.printing import emit, opening, show_check, working

    opened = opening(trace)
    with working(f"checking {trace.name}") as progress:
        report = check_trace(opened, progress)
    emit(report.to_dict()) if json else show_check(report)


@app.command()
def dash(
    traces: Annotated[
        list[Path] | None, typer.Argument(help="Traces; one still being written is followed.")
    ] = None,
    trace_dir: Annotated[Path | None, typer.Option(help="Offer every trace in this folder.")] = None,
    host: Annotated[
        str, typer.Option(help="Another address than this machine's needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8050,
    token: Annotated[
        str | None, typer.Option(envvar="RADIXFLOW_TOKEN", help="Who knows it may look.")
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a page on this machine.")] = True,
) -> None:
    """The dashboard: rounds, bubbles and the prefix tree, replayed and live."""
    from radixflow_dashboard import serve

    serve(traces or [], trace_dir=trace_dir, host=host, port=port, token=token, browser=browser)


@app.command()
def models(json: Json = False) -> None:
    """Model profiles for the simulated engine, and tiny models for the real one."""
    from radixflow.engines.profiles import list_profiles
    from radixflow.engines.tiny import list_tiny_models
    from radixflow.printing import emit, show_models

    profiles = [{"name": p.name, "note": p.note, **p.engine_options()} for p in list_profiles()]
    tiny = list_tiny_models()
    emit({"profiles": profiles, "tiny": tiny}) if json else show_models(profiles, tiny)


@app.command()
def workloads(json: Json = False) -> None:
    """Built-in workloads, and the formats that `run` takes."""
    from radixflow.printing import emit, show_workloads
    from radixflow.workloads import list_builtin

    listed = list_builtin()
    emit({"workloads": listed}) if json else show_workloads(listed)


@app.command()
def demo(
    engine: Annotated[
        str | None, typer.Option(help="vllm or sim; the real engine where vLLM is installed.")
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8050,
) -> None:
    """The five-minute tour: Figure 1 under native and RadixFlow scheduling, then the dashboard."""
    from radixflow.demo import tour

    tour(engine, port, stay=os.environ.get("DEMO_EXIT") != "1")


if __name__ == "__main__":
    main()

"""`run`: a workload under a policy, recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from radixflow.commands.shared import Interrupted, Json, app, key_values, retention
from radixflow.scheduling.policies import POLICIES


@app.command()
def run(
    workload: Annotated[str, typer.Argument(help="A built-in's name, or a file in any format that `workloads` lists.")],
    policy: Annotated[str, typer.Option(help=f"{', '.join(POLICIES)}; a,b or all compares.")] = "radixflow",
    engine: Annotated[str, typer.Option(help="sim (modelled worker, virtual time) or vllm (the real engine).")] = "sim",
    model: Annotated[str | None, typer.Option(help="Profile (sim), or tiny model, folder or hub id (vllm).")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Trace to write.")] = None,
    max_num_seqs: Annotated[int | None, typer.Option(help="S, rows a round.")] = None,
    max_num_batched_tokens: Annotated[int | None, typer.Option(help="T, tokens a round.")] = None,
    block_size: Annotated[int | None, typer.Option()] = None,
    hash_block_size: Annotated[int | None, typer.Option()] = None,
    num_blocks: Annotated[int | None, typer.Option(help="Pool, the null block included.")] = None,
    state_groups: Annotated[int | None, typer.Option(help="Recurrent cache groups; 0 = full attention.")] = None,
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
    tokenizer: Annotated[str | None, typer.Option(help="Tokenizer folder for texts; bytes by default.")] = None,
    probe: Annotated[int, typer.Option(min=0, help="Ask after avoidable slots every n-th round; 0 never.")] = 1,
    eviction: Annotated[
        str, typer.Option(help="lru (vLLM's own) or rr (rotating tails): which free blocks go first.")
    ] = "lru",
    include_tokens: Annotated[bool, typer.Option("--include-tokens", help="Put token ids into the trace.")] = False,
    json: Json = False,
) -> None:
    """Run a workload under a policy and write its trace."""
    from radixflow.analysis import compare as compare_traces
    from radixflow.analysis import summarize
    from radixflow.analysis.run_labels import as_file_name
    from radixflow.engines.run import agreements, run_workload
    from radixflow.printing import (
        complain,
        emit,
        note,
        quiet_engine,
        show_agreement,
        show_comparison,
        show_summary,
        working,
    )
    from radixflow.trace import open_trace
    from radixflow.trace.files import split_name
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
        options["retention_interval"] = retention(retention_interval)
    loaded = load_workload(workload, tokenizer=tokenizer, **key_values(given or []))
    policies = _policies(policy)
    evicted = "" if eviction == "lru" else f"-{eviction}"
    stem = as_file_name(loaded.name)
    if engine == "vllm":  # beside a simulated run of the same workload, not over it
        stem += "-vllm"
    paths = [_trace_path(output, f"{stem}-{name}{evicted}", alone=len(policies) == 1) for name in policies]
    replaced = [path for path in paths if path != output and path.exists()]
    for path in paths:
        split_name(path)  # a wrong name is refused before an engine starts
    done = []
    for name, path in zip(policies, paths, strict=True):
        with quiet_engine(), working(f"{loaded.name} under {name}", "vllm") as progress:
            done.append(
                run_workload(
                    loaded,
                    name,
                    engine=engine,
                    model=model,
                    trace=path,
                    probe=probe,
                    eviction=eviction,
                    include_tokens=include_tokens,
                    progress=progress,
                    **options,
                )
            )
        if done[-1].end == "interrupted":
            break
    for path in replaced[: len(done)]:
        note(f"{path.name} held an earlier run and holds this one now; -o names another file")
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
        raise Interrupted(f"{done[-1].trace_path} holds what ran")
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


def _stall(trace: Any) -> str:
    """Who holds the run up, by name."""
    view = trace.round(trace.num_rounds)
    if not view.stalled or view.preempted:
        lost = trace.rounds["preempted"].to_numpy().nonzero()[0]
        again = trace.ids[trace.round(int(trace.rounds.index[lost[-1]])).preempted[0]]
        return f"the run stalled in round {view.n}: {again} is admitted and preempted again and again, in vain"
    if view.stop is None or view.stop.i is None:
        return f"the run stalled in round {view.n}: nothing can be scheduled any more"
    facts = next((entry for entry in view.other if entry.i == view.stop.i), None)
    why = f" ({facts.needed:,} blocks needed, {facts.total:,} in all)" if facts and facts.needed else ""
    culprit = trace.ids[view.stop.i]
    return f"the run stalled in round {view.n}: request {culprit} is refused: {view.stop.cause}{why}"

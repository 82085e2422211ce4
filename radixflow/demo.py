"""The five-minute tour: Figure 1 on the real engine under both policies, compared, then the dashboard."""

from __future__ import annotations

from importlib import util
from pathlib import Path

from radixflow.consoles import out
from radixflow.engines.run import Run, agreements, run_workload
from radixflow.printing import QUIET, Text, ends_by_interrupt, quiet_engine, show_agreement, show_comparison, working
from radixflow.trace import Trace, open_trace

POLICIES = ("radix", "radixflow")
FOLDER = Path("runs") / "demo"


def tour(engine: str | None, port: int, stay: bool) -> None:
    """Run, compare and, with `stay`, serve the dashboard until interrupted."""
    if engine is None:
        engine = "vllm" if util.find_spec("vllm") else "recorded"
    if engine == "recorded":
        traces = _recorded()
        _tell(traces)
    else:
        runs = [_record(engine, policy) for policy in POLICIES]
        traces = [open_trace(run.trace_path) for run in runs]
        _tell(traces)
        show_agreement(list(POLICIES), agreements(runs))
    out.print(Text(f"traces  {' '.join(str(trace.path) for trace in traces)}", style=QUIET))
    out.print(Text(f"next    radixflow explain {traces[0].path}", style=QUIET))
    if not stay:
        return
    from radixflow_dashboard import serve

    with ends_by_interrupt():
        serve([trace.path for trace in traces], port=port)


def _record(engine: str, policy: str) -> Run:
    path = FOLDER / f"figure1-{policy}-{engine}.rft.jsonl.zst"
    path.parent.mkdir(parents=True, exist_ok=True)
    model = "tiny-nemotron-h" if engine == "vllm" else None
    where = (
        f"a tiny Nemotron-H on vLLM {_version()}"
        if model
        else f"vLLM {_version()}'s scheduler, simulated worker"
    )
    out.print(Text(f"running Figure 1 under {policy}: {where}"))
    with quiet_engine(), working(policy, "vllm") as progress:
        return run_workload("figure1", policy, engine=engine, model=model, trace=path, progress=progress)


def _version() -> str:
    from radixflow.scheduling.versions import installed_vllm

    return installed_vllm()


def _recorded() -> list[Trace]:
    """Without vLLM there is still what the repository recorded."""
    folder = Path(__file__).resolve().parent.parent / "data" / "traces"
    paths = [folder / f"figure1-{policy}.rft.jsonl.zst" for policy in POLICIES]
    if not all(path.exists() for path in paths):
        raise ValueError(
            "vLLM is not installed, and no recorded traces lie here: run `make demo` in the repository"
        )
    out.print(Text("vLLM is not installed: showing recorded runs of Figure 1"))
    return [open_trace(path) for path in paths]


def _tell(traces: list[Trace]) -> None:
    from radixflow.analysis import compare

    native, flow = traces
    out.print()
    show_comparison(compare(native, flow))
    first = native.round(1)
    if first.stop is not None and first.stop.i is not None:
        names = ", ".join(str(native.ids[i]) for i in first.unexamined[:3])
        more = len(first.unexamined) - 3
        out.print(
            Text(
                f"Round 1, native: the scan stopped at {native.ids[first.stop.i]}, so {names} and {more} more "
                "were never looked at. RadixFlow parks it and goes on."
            )
        )

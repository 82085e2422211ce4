"""What the commands print: JSON for programs on stdout, tables for people, one line for a fault."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
from rich import box
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text as RichText

from radixflow.consoles import err, out

LINE_SECONDS = 30.0
"""Between two lines that say how far a long piece of work is, where there is no terminal for a bar."""
BLOCKED, GOOD, QUIET = "magenta", "green", "dim"


def visible(text: str) -> str:
    """Control characters spelled out: ids come from a server's clients and must not drive the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


class Text(RichText):
    """Text whose every part is `visible`."""

    def __init__(self, text: str = "", style: str = "", **more: Any) -> None:
        super().__init__(visible(text), style, **more)

    def append(self, text: Any, style: Any = None) -> Text:
        super().append(visible(text) if isinstance(text, str) else text, style)
        return self


def emit(value: Any) -> None:
    """One JSON object on one line of stdout."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


def complain(line: str) -> None:
    """One line on stderr."""
    sys.stderr.write(f"radixflow: {visible(line)}\n")


@contextmanager
def quiet_engine() -> Iterator[None]:
    """vLLM's log goes to stderr and is kept to errors (VLLM_LOGGING_LEVEL asks for more).

    Its native code prints to file descriptor 1 by itself, which would spoil `--json`, so that
    descriptor points to stderr meanwhile.
    """
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # torch's native code warns of the machine's NUMA nodes
    if not err.is_terminal and "vllm" not in sys.modules and find_spec("vllm"):
        note("loading vLLM")  # ten seconds and more, and no spinner to be seen
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


@contextmanager
def ends_by_interrupt() -> Iterator[None]:
    """For what runs until somebody stops it: Ctrl-C is its end, not a failure."""
    try:
        yield
    except KeyboardInterrupt:
        err.print("\nended")


@contextmanager
def working(what: str, loads: str | None = None) -> Iterator[Callable[[int, int], None]]:
    """Progress on stderr: a bar on a terminal, elsewhere (a log, a pipe) a line every `LINE_SECONDS`.

    loads: a package that the work imports first, which takes a while; the bar says so until there is progress.
    """
    if not err.is_terminal:
        yield _in_lines(what)
        return
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        console=err,
        transient=True,
    )
    with progress:
        first = f"{what}: loading {loads}" if loads and loads not in sys.modules else what
        task = progress.add_task(first, total=None, count="")
        yield lambda done, total: progress.update(
            task, description=what, completed=done, total=total, count=f"{done:,} of {total:,}"
        )


def _in_lines(what: str) -> Callable[[int, int], None]:
    last = time.monotonic()

    def say(done: int, total: int) -> None:
        nonlocal last
        if (now := time.monotonic()) - last >= LINE_SECONDS:
            last = now
            note(f"{what}: {done:,} of {total:,}")

    return say


def opening(path: Path) -> Any:
    """Open a trace with a progress bar; what it lacks is said on stderr."""
    from radixflow.analysis.prose import counted
    from radixflow.trace import open_trace

    with working(f"reading {path.name}") as progress:
        trace = open_trace(path, progress)
    if not trace.complete:
        note(f"{path.name} has no end yet, or was cut off: it holds {counted(trace.num_rounds, 'round')}")
    if unreadable := sum(gap.records for gap in trace.gaps if gap.what == "unreadable"):
        note(f"lines of {path.name} that aren't JSON and were passed over: {unreadable:,}")
    return trace


def note(words: str) -> None:
    """One line on stderr that isn't a fault."""
    err.print(f"note: {visible(words)}", markup=False, highlight=False, soft_wrap=True)


# -- tables --------------------------------------------------------------------------------------------


def _table(*columns: str | Text, title: str | None = None) -> Table:
    # Names of workloads, models and files come from outside: text, not rich's markup.
    shown = Text(title, style="bold") if title else None
    table = Table(box=box.SIMPLE_HEAD, title=shown, title_justify="left", pad_edge=False)
    for k, column in enumerate(columns):
        # The first column holds what one types or looks for: never cut.
        table.add_column(
            Text(column) if isinstance(column, str) else column, justify="left" if k == 0 else "right", no_wrap=k == 0
        )
    return table


def _number(value: Any, digits: int = 3) -> str:
    if value is None or value != value:
        return "-"
    if isinstance(value, float) and not value.is_integer():
        return f"{value:,.{digits}f}"
    return f"{int(value):,}"


def show_summary(summary: Any, run: Any) -> None:
    """A run's metrics, and what to do next."""
    table = _table("", "", title=f"{summary.workload} under {summary.policy}")
    table.show_header = False
    table.add_row("requests", f"{summary.completed} of {summary.requests} completed")
    table.add_row("rounds", f"{_number(summary.rounds)} (at least {_number(summary.lower_bound_rounds)})")
    table.add_row(
        "row visits", f"{_number(summary.row_visits)}, {_number(summary.rows_per_round, 2)} a round"
    )
    table.add_row(
        "empty slots", f"{_number(summary.empty_slots)}, {_number(summary.avoidable_slots)} avoidable"
    )
    table.add_row("scheduled tokens", _number(summary.scheduled_tokens))
    if summary.reuse_rate is not None:
        table.add_row("reuse", f"{summary.reuse_rate:.1%} of prompt tokens")
    if summary.latency:
        table.add_row("latency", f"mean {summary.latency['mean']:.3f} s, p99 {summary.latency['p99']:.3f} s")
    if summary.stalled_rounds:
        table.add_row("stalled rounds", _number(summary.stalled_rounds))
    out.print(table)
    for note in run.notes:
        out.print(Text(f"note   {note}", style="yellow"))
    out.print(Text(f"trace  {summary.trace}", style=QUIET))
    out.print(Text(f"next   radixflow explain {summary.trace}", style=QUIET))


def show_rounds(records: Iterable[dict[str, Any]]) -> None:
    """One line a round, as it comes."""
    for record in records:
        line = Text(f"{record['round']:>6}  ", style=QUIET)
        rows = record["rows_used"]
        line.append(f"{rows:>5,} row{'s' if rows != 1 else ' '} {record['tokens_used']:>7,} tokens  ", style="default")
        line.append("  ".join(f"{request}:{tokens}" for request, tokens in record["selected"]))
        for entry in record["blocked"]:
            line.append(f"  {entry['id']} waits for {entry['producer']}@{entry['boundary']:,}", style=BLOCKED)
        for entry in record["other"]:
            line.append(f"  {entry['id']} {entry['cause']}", style="yellow")
        if record["preempted"]:
            line.append(f"  {', '.join(record['preempted'])} preempted", style="magenta")
        if record["unexamined"]:
            line.append(f"  {len(record['unexamined']):,} unexamined", style="red")
        if record["avoidable_slots"]:
            line.append(f"  {record['avoidable_slots']:,} avoidable", style="bold red")
        out.print(line, soft_wrap=True)


def show_comparison(comparison: Any) -> None:
    """Metrics, the cost identity, and where the runs part."""
    labels = comparison.labels
    for warning in comparison.warnings:  # before the numbers that they put in doubt
        err.print(Text(f"note: {warning}", style="yellow"))
    table = _table("", *labels, *(f"{label} / {labels[0]}" for label in labels[1:]))
    for metric, row in comparison.metrics.iterrows():
        if not row[labels].notna().any():
            continue
        cells = [_number(row[label]) for label in labels]
        ratios = [row.get(f"{label} / {labels[0]}") for label in labels[1:]]
        table.add_row(str(metric).replace("_", " "), *cells, *(_ratio(ratio) for ratio in ratios))
    out.print(table)
    for label, cost, refused in zip(labels[1:], comparison.costs, comparison.refusals, strict=True):
        if cost is None:
            out.print(Text(f"{label} against {labels[0]}: no cost identity: {refused}", style=QUIET))
        else:
            out.print(Text(f"{label} against {labels[0]}: {cost.text}"))
    for label, part in zip(labels[1:], comparison.divergences, strict=True):
        if part is not None:
            words = f"{label} and {labels[0]} part in round {part.round:,}: {part.said(label, labels[0])}"
            out.print(Text(words, style=QUIET))


def show_evictions(names: list[str], found: list[Any], who: list[Any]) -> None:
    """What eviction cost, a column a trace; below, for each, whether it could matter and who took most."""
    from radixflow.analysis.run_labels import distinct

    table = _table("", *map(Text, distinct(names)))
    rows: dict[str, list[str]] = {
        "eviction": [one.eviction for one in found],
        "trajectories n": [_number(one.trajectories) for one in found],
        "active on average n_a": [_number(one.active, 2) for one in found],
        "whole prefixes that fit m": [_number(one.capacity, 2) for one in found],
        "idle share s": [_share(one.idle_share) for one in found],
        "kept h": [_share((one.measured or {}).get("kept")) for one in found],
        "  in theory": [_share((one.theory or {}).get("kept")) for one in found],
        "recomputed q": [_share((one.measured or {}).get("recomputed")) for one in found],
        "  in theory ": [_share((one.theory or {}).get("recomputed")) for one in found],
        "returns": [_number(one.returns) for one in found],
        "  missed all": [_number(one.whole_misses) for one in found],
        "  missed a part": [_number(one.partial_misses) for one in found],
    }
    for words, name in (("tokens missed a return", "missed"), ("seconds to first token", "ttft")):
        spreads = [getattr(one, name) or {} for one in found]
        if any(spreads):
            for measure in ("mean", "p50", "p95", "p99"):
                digits = 1 if name == "missed" else 3
                rows[f"{words}, {measure}"] = [_number(spread.get(measure), digits) for spread in spreads]
    rows["blocks evicted"] = [_number(one.evicted_blocks) for one in found]
    for words, cells in rows.items():
        table.add_row(words.rstrip(), *cells)
    out.print(table)
    for name, one, pairs in zip(names, found, who, strict=True):
        out.print(Text(f"{name}: {one.verdict}"), soft_wrap=True)
        if len(pairs):
            taken = _table("evictor", "victim", "blocks", "requests that took some", title="most blocks taken")
            for pair in pairs.head(5).itertuples():
                who_and_whom = (pair.evictor_trajectory, pair.victim_trajectory)  # None, or NaN: nobody's
                cells = [Text(id if isinstance(id, str) else "-") for id in who_and_whom]
                taken.add_row(*cells, _number(pair.blocks), _number(pair.times))
            out.print(taken)
    out.print(Text("docs/eviction.md says what these are, and how the theory goes", style=QUIET))


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def show_fleet(workload: str, replicas: int, routings: Any) -> None:
    """A column a routing, and whether readiness paid."""
    table = _table("", *routings.index, title=f"{workload} over {replicas} engines, routed by")
    words = {
        "requests": "requests",
        "completed": "completed",
        "latency_mean": "latency, s: mean",
        "latency_p50": "  p50",
        "latency_p95": "  p95",
        "latency_p99": "  p99",
        "first_selected_wait_mean": "wait for the first round, s: mean",
        "rounds": "rounds",
    }
    for name, row in words.items():
        table.add_row(row, *(_number(value) for value in routings[name]))
    table.add_row("reuse", *map(_share, routings["reuse_rate"]))
    table.add_row("fullest engine's share of the requests", *map(_share, routings["fullest_share"]))
    out.print(table)
    others = [name for name in routings.index if name != "ready"]
    if "ready" in routings.index and others:
        latency = routings["latency_mean"]
        changes = [f"{latency['ready'] / latency[name] - 1:+.1%} beside {name}" for name in others]
        out.print(Text("mean latency under ready: " + ", ".join(changes)), soft_wrap=True)


def show_agreement(labels: list[str], agreement: list[dict[str, int]]) -> None:
    """Whether the runs generated the same tokens."""
    for label, said in zip(labels[1:], agreement, strict=True):
        same, all_ = said["same"], said["requests"]
        style = GOOD if same == all_ else "yellow"
        out.print(
            Text(
                f"output tokens: {same} of {all_} requests the same under {label} as under {labels[0]}", style
            )
        )


def _ratio(value: Any) -> Text:
    if value is None or value != value:
        return Text("-", style=QUIET)
    return Text(f"{value:.3f}", style=QUIET if abs(value - 1) < 5e-4 else "default")


def show_text(text: str) -> None:
    out.print(Text(text), soft_wrap=False)


def show_check(report: Any) -> None:
    """Findings first, since they are what one came for."""
    from radixflow.analysis.properties import PROMISES

    found = report.to_dict()
    for finding in found["findings"]:
        style = {"error": "bold red", "warning": "yellow"}.get(finding["severity"], "cyan")
        line = Text(f"{finding['code']}  ", style=style)
        line.append(finding["message"], style="default")
        out.print(line)
    if not any(entry["checked"] for entry in found["properties"]):
        out.print(Text("nothing to check: no round was recorded", style="yellow"))
    elif not found["findings"]:
        out.print(Text("no findings", style=GOOD))
    table = _table("property", "holds", "checked")
    for entry in found["properties"]:
        holds = Text("yes", style=GOOD) if entry["holds"] else Text("no", style="bold red")
        if entry["holds"] and not entry["checked"]:
            holds = Text("-")  # there was nothing to hold
        table.add_row(entry["name"].replace("_", " "), holds, _number(entry["checked"]))
        table.add_row(Padding(Text(PROMISES[entry["name"]], style=QUIET), (0, 0, 0, 2)))
    table.columns[0].no_wrap = False
    out.print(table)
    for entry in found["properties"]:
        if not entry["holds"]:
            words = f"{entry['name'].replace('_', ' ')}: {entry['counterexample']['what']}"
            out.print(Text(words, style="red"), soft_wrap=True)
    if found["findings"]:
        out.print(Text("docs/findings.md says what each finding means and what to do", style=QUIET))


def show_models(profiles: list[dict[str, Any]], tiny: list[str]) -> None:
    table = _table("profile", "layers", "block", "state groups", "pool", "S", "T")
    table.columns[1].justify = "left"
    for p in profiles:
        budgets = (p["max_num_seqs"], p["max_num_batched_tokens"])
        cells = (p["block_size"], p["state_groups"], p["num_blocks"], *budgets)
        table.add_row(p["name"], p["note"], *(_number(cell) for cell in cells))
    out.print(table)
    out.print(Text("on the real engine, random weights, no download: " + ", ".join(tiny)))


def show_workloads(listed: dict[str, str]) -> None:
    table = _table("workload", "")
    table.columns[1].justify = "left"
    for name, note in listed.items():
        table.add_row(name, note)
    out.print(table)
    out.print(
        Text(
            "or a file: workload JSON Lines, QuALITY articles, a Mooncake trace, or texts or token ids",
            style=QUIET,
        )
    )

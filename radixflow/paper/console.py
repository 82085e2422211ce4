"""What `radixflow paper` and `radixflow whatif` print."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pandas as pd
from rich import box
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from radixflow.consoles import err, out
from radixflow.paper.experiment import Progress


@contextmanager
def cells_bar(what: str) -> Iterator[Callable[[Progress], None]]:
    """A progress bar with an estimate on stderr; one line every tenth where stderr is no terminal."""
    if not err.is_terminal:
        yield _line_every_tenth(what)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=32),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Bar(*columns, console=err, transient=True) as bar:
        task = bar.add_task(what, total=None, left="")
        yield lambda p: bar.update(task, completed=p.done, total=p.total, left=_left(p))


def _line_every_tenth(what: str) -> Callable[[Progress], None]:
    told = -1

    def tell(p: Progress) -> None:
        nonlocal told
        tenth = 10 * p.done // max(1, p.total)
        if tenth > told:
            told = tenth
            err.print(f"{what}: {p.done} of {p.total} {_left(p)}")

    return tell


def _left(p: Progress) -> str:
    if p.seconds_left is None:
        return f"({p.resumed} were there already)" if p.resumed else ""
    minutes, seconds = divmod(round(p.seconds_left), 60)
    return f"about {minutes}:{seconds:02d} left"


def show_frame(frame: pd.DataFrame, title: str, digits: int = 2) -> None:
    """A DataFrame as a table; two levels of columns become two lines of heading."""
    table = Table(box=box.SIMPLE_HEAD, title=Text(title), title_justify="left", title_style="bold", pad_edge=False)
    flat = frame.reset_index() if frame.index.name or frame.columns.nlevels > 1 else frame
    for column in flat.columns:
        heading = "\n".join(part for part in column if part) if isinstance(column, tuple) else str(column)
        text = not pd.api.types.is_numeric_dtype(flat[column])
        table.add_column(heading.replace("_", " "), justify="left" if text else "right")
    for row in flat.itertuples(index=False):
        table.add_row(*(Text(cell_text(value, digits)) for value in row))
    # As wide as it is: a narrow terminal breaks its lines, and loses nothing of them.
    whole = Measurement.get(out, out.options.update(max_width=10_000), table).maximum
    out.print(table, width=max(whole, out.width), crop=False)


def cell_text(value: Any, digits: int = 2) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() or abs(value) >= 1_000 else f"{value:,.{digits}f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def show_report(tables: dict[str, pd.DataFrame]) -> None:
    """Tables 1 and 2, the ablation, the cost identity, tails, and ours beside the paper's."""
    show_frame(tables["table1"], "Table 1: latency, rounds, reuse", 3)
    show_frame(tables["table2"], "Table 2: rows a round, first selection", 3)
    rounds = tables["ablation"][tables["ablation"]["metric"] == "rounds"] if len(tables["ablation"]) else pd.DataFrame()
    if len(rounds):
        rounds = rounds[rounds["part"].isin(["admission", "traversal", "both", "fragmentation"])]
        wide = rounds.assign(cell=[_spread(row) for row in rounds.itertuples()]).pivot(
            index=["model", "stream"], columns="part", values="cell"
        )
        show_frame(wide.reset_index(), "Ablation: change of rounds in percent, [interval]")
    cost = tables["cost_identity"]
    if len(cost):
        worst = float(cost["residual"].abs().max())
        out.print(
            f"cost identity: {int(cost['holds'].sum())} of {len(cost)} pairs hold; largest residual {worst:g} ns\n"
        )
    show_frame(tables["tails"], "Tails of latency, seconds", 3)
    beside = tables["side_by_side"]
    if len(beside):
        told = beside.assign(
            ours=[_spread(row._replace(change=row.ours)) for row in _with_change(beside)],
            inside=[verdict(row.inside) for row in beside.itertuples()],
        )[["model", "stream", "metric", "policy", "against", "ours", "published", "unit", "inside"]]
        show_frame(told, "Ours beside the paper's: change, [interval]")
    if len(tables["round_cost"]):
        show_frame(tables["round_cost"], "Round cost a + b * tokens, fitted to Radix alone", 3)
    out.print(
        Text("fitted: Radix's latency and rounds (two parameters a model). predicted: everything else.", style="dim")
    )


def _with_change(frame: pd.DataFrame) -> list[Any]:
    return list(frame.assign(change=frame["ours"]).itertuples())


def _spread(row: Any) -> str:
    if math.isnan(row.low):
        return f"{row.change:+.2f}"
    return f"{row.change:+.2f} [{row.low:+.2f}, {row.high:+.2f}]"


def verdict(inside: Any) -> str:
    """Whether the published change lies in our interval."""
    return "one replicate" if inside is None else "inside the interval" if inside else "outside"


def show_claims(claims: Sequence[tuple[str, bool]]) -> None:
    for sentence, holds in claims:
        out.print(Text(f"{'yes' if holds else 'NO '}  {sentence}", style="green" if holds else "bold red"))


def show_whatif(found: Any) -> None:
    """The recorded run, its own prediction with the error, and the prediction asked for."""
    told = ", ".join(f"{name} {value}" for name, value in found.changes.items())
    table = found.table.dropna(how="all").reset_index(names="metric")
    for name in ("error", "change"):
        table[name] = ["-" if value != value else f"{100 * value:+.2f}%" for value in table[name]]
    show_frame(table, f"what if: {found.policy}{', ' + told if told else ''}", 3)
    used = found.slots[(found.slots != 0).any(axis=1)].reset_index(names="cause")
    show_frame(used, "slots by cause")
    if found.exact:
        out.print("the replay of the recorded policy equals the recorded run round for round")
    else:
        out.print(f"the replay of the recorded policy parts from the recorded run in round {found.parts_in_round}")
    a, b = found.cost
    cost = f"{1e3 * a:.3f} ms + {1e6 * b:.3f} us a token"
    out.print(f"round cost from the trace: {cost}, off by {found.cost_error:.1%} on average")
    for note in found.notes:
        err.print(Text(f"note: {note}", style="yellow"))
    if found.trace is not None:
        out.print(f"trace: {found.trace}")

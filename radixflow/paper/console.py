"""What `radixflow paper` and `radixflow whatif` print."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pandas as pd
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from radixflow.consoles import err, out
from radixflow.paper.experiment import Progress
from radixflow.paper.frames import show_frame
from radixflow.paper.page import POINTS, costs_frame, part_of_the_whole, spread, tables_own
from radixflow.paper.tables import ablation_wide
from radixflow.paper.words import WHATIF, number, words


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


def show_report(tables: dict[str, pd.DataFrame]) -> None:
    """Tables 1 and 2, the ablation, the cost identity, tails, and ours beside the paper's."""
    if missing := part_of_the_whole(tables["cells"]):
        out.print(Text(missing + "\n", style="yellow"))
    show_frame(tables["table1"], "Table 1")
    show_frame(tables["table2"], "Table 2")
    wide = ablation_wide(tables["ablation"])
    if len(wide):
        for part in wide.columns[2:]:
            wide[part] = [None if found is None else spread(*found[:3], 1) for found in wide[part]]
        show_frame(wide, "Ablation: change of rounds in percent [95% interval]", labels=2)
    cost = tables["cost_identity"]
    if len(cost):
        worst = float(cost["residual"].abs().max())
        out.print(
            f"cost identity: {int(cost['holds'].sum())} of {len(cost)} pairs hold; largest residual {worst:g} ns\n"
        )
    show_frame(tables["tails"], "Tails of latency", labels=2)
    show_beside(tables["side_by_side"])
    if len(tables["round_cost"]):
        show_frame(costs_frame(tables["round_cost"]), "Round cost a + b * tokens, fitted to Radix alone")
    out.print(
        Text(
            "Fitted to Radix's published latency and rounds: a round's cost, two parameters a model. All else of ours "
            "is predicted.\n",
            style="dim",
        )
    )


def show_beside(beside: pd.DataFrame) -> None:
    """Ours beside the paper's, a table for what is compared with what."""
    if beside.empty:
        return
    own = tables_own(beside)
    for text, rows in (("", beside[own]), (", from its text", beside[~own])):
        for against, policy in dict.fromkeys(zip(rows["against"], rows["policy"], strict=True)):
            pair = rows[(rows["against"] == against) & (rows["policy"] == policy)]
            digits = [1 if text else POINTS if row.unit == "points" else 2 for row in pair.itertuples()]
            told = pd.DataFrame(
                {
                    "model": pair["model"],
                    "metric": [_what(row) for row in pair.itertuples()],
                    "ours [95% interval]": [
                        spread(row.ours, row.low, row.high, n) for row, n in zip(pair.itertuples(), digits, strict=True)
                    ],
                    "paper": [
                        number(row.published, n, signed=True) for row, n in zip(pair.itertuples(), digits, strict=True)
                    ],
                    "verdict": [verdict(row.inside) for row in pair.itertuples()],
                }
            )
            show_frame(told, f"Ours beside the paper's{text}: {against} to {policy}, percent", labels=2)


def _what(row: Any) -> str:
    stream = "" if row.stream == "all" else f", {row.stream}"
    return words(row.metric) + stream + (" (points)" if row.unit == "points" else "")


def verdict(inside: Any) -> str:
    """Whether the published change, as far as its digits tell, lies in our interval."""
    return "(one replicate)" if inside is None else "inside" if inside else "outside"


def show_claims(claims: Sequence[tuple[str, bool]]) -> None:
    for sentence, holds in claims:
        out.print(Text(f"{'yes' if holds else 'NO '}  {sentence}", style="green" if holds else "bold red"))


def show_whatif(found: Any) -> None:
    """The recorded run, its own prediction with the error, and the prediction asked for."""
    told = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in found.changes.items())
    show_frame(whatif_frame(found.table), f"what if: {found.policy}{', ' + told if told else ''}")
    used = found.slots[(found.slots != 0).any(axis=1)].reset_index(names="cause")
    used["cause"] = [str(cause).replace("_", " ") for cause in used["cause"]]
    show_frame(used, "slots by cause")
    if found.exact:
        out.print("the replay of the recorded policy equals the recorded run round for round")
    else:
        out.print(f"the replay of the recorded policy parts from the recorded run in round {found.parts_in_round}")
    a, b = found.cost
    cost = f"{1e3 * a:.3f} ms + {1e6 * b:.3f} us a token"
    out.print(f"round cost from the trace: {cost}, off by {found.cost_error:.1%} on average")
    for note in found.notes:
        err.print(Text(f"note: {note}", style="yellow"), soft_wrap=True)
    if found.trace is not None:
        out.print(Text(f"trace: {found.trace}"), soft_wrap=True)


def whatif_frame(table: pd.DataFrame) -> pd.DataFrame:
    """`WhatIf.table` in words: a row a metric that is known, each with its own number of decimals."""
    rows = []
    for name, row in table.dropna(how="all").iterrows():
        metric = WHATIF[str(name)]
        scale = 100 if metric.unit == "%" else 1
        told = {"metric": metric.head}
        for column, value in row.items():
            share = column in ("error", "change")
            places = 2 if share else metric.decimals
            text = "-" if value != value else number((100 if share else scale) * value, places, signed=share)
            told[str(column)] = text + "%" if share and text != "-" else text
        rows.append(told)
    return pd.DataFrame(rows)

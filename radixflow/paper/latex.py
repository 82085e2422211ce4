"""The paper's Tables 1 and 2 as LaTeX that fits a page.

A tabular with a column a policy and metric is wider than any page, so a metric is a block of rows here: then both
tables fit an article's lines, and `table*` sets them over both columns where there are two.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from radixflow.paper.page import papers_own, part_of_the_whole
from radixflow.paper.published import PUBLISHED_HERE
from radixflow.paper.words import METRIC

OURS, THEIRS = "ours", "paper"
_CAPTIONS = {"table1": "Latency, rounds and reuse", "table2": "Rows a round and time until first selected"}
_MADE = (
    "Simulated: vLLM's own scheduler, and a modelled worker in virtual time. The cost of a model's round has two "
    "parameters, fitted to two published figures of Radix alone, its mean latency and its number of rounds; every "
    "other number of ours is a prediction.",
    "Published latencies have three significant digits.",
)


def write_latex(tables: dict[str, pd.DataFrame], folder: Path) -> None:
    """`table1.tex` and `table2.tex` with the policies of the paper's own tables, `*-all.tex` with all."""
    from radixflow.export import latex_table

    digits = {metric.head: metric.decimals for metric in METRIC.values()}
    missing = part_of_the_whole(tables["cells"])
    for name, caption in _CAPTIONS.items():
        notes = [*(_MADE if name == "table1" else _MADE[:1]), *([missing] if missing else [])]
        for suffix, table, size in (("", papers_own(tables[name]), ""), ("-all", tables[name], "scriptsize")):
            text = latex_table(
                in_blocks(table),
                f"{caption}: ours beside the published",
                f"tab:{name}{suffix}",
                notes,
                digits=digits,
                blocks=True,
                environment="table*",
                size=size,
            )
            (folder / f"{name}{suffix}.tex").write_text(text, encoding="utf-8")


def in_blocks(table: pd.DataFrame) -> pd.DataFrame:
    """`beside_published` with the metrics as blocks of rows: index (metric, model); columns (base, what is added to
    it), such as ("radix", "ours"), ("radix", "paper"), ("radix", "+flex")."""
    columns = list(dict.fromkeys(column[1] for column in table.columns))
    named = {column: _short(column) for column in columns}
    columns.sort(key=lambda column: list(dict.fromkeys(base for base, _ in named.values())).index(named[column][0]))
    metrics = list(dict.fromkeys(column[0] for column in table.columns))
    rows = [[table.loc[model, (metric, column)] for column in columns] for metric in metrics for model in table.index]
    return pd.DataFrame(
        rows,
        index=pd.MultiIndex.from_product([metrics, table.index], names=["", "model"]),
        columns=pd.MultiIndex.from_tuples([named[column] for column in columns]),
        dtype=float,
    )


def _short(column: str) -> tuple[str, str]:
    policy = column.removesuffix(PUBLISHED_HERE)
    base, plus, rest = policy.partition("+")
    return base, THEIRS if column != policy else plus + rest or OURS

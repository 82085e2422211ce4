"""Runs for other tools and for papers, without vLLM.

    to_chrome(trace, "run.json.gz")       Perfetto's UI and chrome://tracing
    to_parquet(trace, "tables/")          tidy tables; `docs/exporting.md` describes each column
    to_csv(trace, "tables/")              the same as CSV; `read_csv` reads them back
    requests_csv(a, b)                    all requests side by side, as one CSV's bytes
    to_latex([a, b], "tables/")           booktabs tables; `latex_table` makes one of any DataFrame
    to_figures([a, b], "figures/")        the figures of a paper, as PDF and SVG

Each takes a trace, or several. What it writes appears whole or not at all.
"""

from __future__ import annotations

from radixflow.export.chrome import to_chrome
from radixflow.export.figures import run_figures, to_figures
from radixflow.export.latex import escape, latex_document, latex_table
from radixflow.export.latex_runs import TABLE1, TABLE2, by_model, to_latex
from radixflow.export.requests import requests_csv
from radixflow.export.tables import read_csv, tables, to_csv, to_parquet

__all__ = [
    "TABLE1",
    "TABLE2",
    "by_model",
    "escape",
    "latex_document",
    "latex_table",
    "read_csv",
    "requests_csv",
    "run_figures",
    "tables",
    "to_chrome",
    "to_csv",
    "to_figures",
    "to_latex",
    "to_parquet",
]

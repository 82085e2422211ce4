"""The requests of several runs side by side, as one CSV."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pandas as pd

from radixflow.analysis.compare import request_rows
from radixflow.analysis.run_labels import run_labels
from radixflow.analysis.waits import Ledger
from radixflow.export.tables import FORMULA, guarded


def requests_csv(*traces: Any, ledgers: Sequence[Ledger] | None = None) -> bytes:
    """A line a request in order of arrival, and of each run the columns of `Comparison.requests`, as
    `<label> <field>`: rounds, seconds, and the cause that it waited for longest.

    UTF-8 with a header line, quoted and guarded as `to_csv`'s tables. ledgers: of the traces, if there already.
    """
    import pyarrow as pa
    import pyarrow.csv

    parts = [request_rows(ledger) for ledger in ledgers or [Ledger(trace) for trace in traces]]
    table = pd.concat(parts, axis=1, keys=run_labels(traces))
    columns: dict[str, pa.Array] = {"request": pa.array([str(id) for id in table.index], pa.string())}
    for label, name in table.columns:
        column = table[label, name]
        texts = [cause if isinstance(cause, str) else None for cause in column] if name == "cause" else None
        kind = pa.float64() if name in ("wait_seconds", "latency") else pa.int64()
        values = pa.array(texts, pa.string()) if texts is not None else _numbers(column, kind)
        columns[f"{'_' if label.startswith(FORMULA) else ''}{label} {name}"] = values
    out = io.BytesIO()
    pyarrow.csv.write_csv(guarded(pa.table(columns)), out)
    return out.getvalue()


def _numbers(column: pd.Series, kind: Any) -> Any:
    import pyarrow as pa

    values = pd.to_numeric(column, errors="coerce").astype("Float64")
    return pa.array(values.to_numpy(float, na_value=float("nan")), from_pandas=True).cast(kind)

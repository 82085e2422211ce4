"""Tidy tables of runs, as Parquet files or CSV files in a folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from radixflow.analysis import reuse, slots, waits
from radixflow.export.columns import TABLES, Column
from radixflow.export.files import Progress, new_folder, trace_name, traces_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

ROWS_AT_ONCE = 1 << 18
FORMULA = ("=", "+", "-", "@", "'", "\t", "\r")
"""A text that begins so gets an apostrophe in front in CSV, since a spreadsheet would run it (OWASP, "CSV
Injection"). The apostrophe itself is among them, so that dropping the first one gives every text back."""


def tables(trace: Any) -> Iterator[tuple[str, pd.DataFrame]]:
    """Each table of `columns.TABLES` with its DataFrame, made as it is asked for."""
    for name, make in _MAKERS.items():
        frame = make(trace)
        frame.insert(0, "trace", trace_name(trace))
        yield name, frame.loc[:, [column.name for column in TABLES[name]]]


def to_parquet(traces: Any, path: str | os.PathLike[str], progress: Progress | None = None) -> Path:
    """Write `rounds.parquet`, `visits.parquet`, ... into the folder `path`, zstd, each column with its meaning
    in the field's metadata. Several runs share the files: `trace` tells them apart.

    Raises ValueError and OSError with one line where `path` can't be written.
    """
    import pyarrow.parquet as pq

    def open_table(file: Path, schema: pa.Schema) -> Any:
        return pq.ParquetWriter(file, schema, compression="zstd")

    return _write(traces, Path(path), ".parquet", _schema, open_table, lambda table: table, progress)


def to_csv(traces: Any, path: str | os.PathLike[str], progress: Progress | None = None) -> Path:
    """Write `rounds.csv`, `visits.csv`, ... into the folder `path`: UTF-8, a header line, texts quoted, missing
    values empty, lists as JSON, and an apostrophe before what a spreadsheet would take for a formula.

    Raises ValueError and OSError with one line where `path` can't be written.
    """
    import pyarrow.csv

    return _write(traces, Path(path), ".csv", _text_schema, pyarrow.csv.CSVWriter, guarded, progress)


def read_csv(folder: str | os.PathLike[str]) -> dict[str, pd.DataFrame]:
    """The tables that `to_csv` wrote, by name, with the types of `to_parquet` and the texts as they were."""
    import pyarrow as pa
    import pyarrow.csv

    found = {}
    for name in TABLES:
        table = pyarrow.csv.read_csv(
            Path(folder) / f"{name}.csv",
            parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=_text_schema(name), strings_can_be_null=True, quoted_strings_can_be_null=False
            ),
        )
        columns = [_unguarded(table[field.name].to_pylist(), field) for field in _schema(name)]
        found[name] = _frame(pa.Table.from_arrays(columns, schema=_schema(name)))
    return found


def _frame(table: pa.Table) -> pd.DataFrame:
    import pandas as pd

    kinds = {"int64": pd.Int64Dtype(), "bool": pd.BooleanDtype(), "double": pd.Float64Dtype()}
    return table.to_pandas(types_mapper=lambda kind: kinds.get(str(kind)))


def _write(
    traces: Any,
    path: Path,
    suffix: str,
    schema_of: Callable[[str], pa.Schema],
    open_table: Callable[[Path, pa.Schema], Any],
    convert: Callable[[pa.Table], pa.Table],
    progress: Progress | None,
) -> Path:
    given = traces_of(traces)
    with new_folder(path, (".parquet", ".csv")) as folder:
        writers: dict[str, Any] = {}
        try:
            for k, trace in enumerate(given):
                for at, (name, frame) in enumerate(tables(trace)):
                    if name not in writers:
                        writers[name] = open_table(folder / f"{name}{suffix}", schema_of(name))
                    for begin in range(0, len(frame), ROWS_AT_ONCE):
                        part = _table(name, frame.iloc[begin : begin + ROWS_AT_ONCE])
                        writers[name].write_table(convert(part))
                    if progress is not None:
                        progress(k * len(TABLES) + at + 1, len(given) * len(TABLES))
        finally:
            for writer in writers.values():
                writer.close()
    return path


# -- Arrow


def _schema(name: str) -> pa.Schema:
    return _arrow(name, lambda column: _kind(column.type))


def _text_schema(name: str) -> pa.Schema:
    """CSV has no lists: they are JSON texts."""
    return _arrow(name, lambda column: _kind("text" if column.type.startswith("list") else column.type))


def _arrow(name: str, kind: Callable[[Column], pa.DataType]) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([pa.field(c.name, kind(c), metadata={"meaning": c.meaning}) for c in TABLES[name]])


def _kind(name: str) -> pa.DataType:
    import pyarrow as pa

    kinds = {"text": pa.string(), "int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_()}
    return pa.list_(kinds[name[5:-1]]) if name.startswith("list<") else kinds[name]


def _table(name: str, frame: pd.DataFrame) -> pa.Table:
    import pyarrow as pa

    schema = _schema(name)
    columns = []
    for field in schema:
        column = frame[field.name]
        if str(column.dtype) == "category":
            column = column.astype(object)
        columns.append(pa.Array.from_pandas(column, type=field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def guarded(table: pa.Table) -> pa.Table:
    """For CSV: lists as JSON, and texts that a spreadsheet would run disarmed."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = []
    for field in table.schema:
        column = table[field.name]
        if pa.types.is_list(field.type):
            texts = [None if value is None else json.dumps(value) for value in column.to_pylist()]
            column = pa.chunked_array([pa.array(texts, pa.string())])
        elif pa.types.is_string(field.type):
            risky = pc.is_in(pc.utf8_slice_codeunits(column, 0, 1), pa.array(FORMULA))
            column = pc.if_else(risky, pc.binary_join_element_wise("'", column, ""), column)
        columns.append(column)
    return pa.Table.from_arrays(columns, names=table.column_names)


def _unguarded(values: list[Any], field: pa.Field) -> pa.Array:
    import pyarrow as pa

    if pa.types.is_list(field.type):
        values = [None if value is None else json.loads(value) for value in values]
    elif pa.types.is_string(field.type):
        values = [value[1:] if value and value[0] == "'" else value for value in values]
    return pa.array(values, field.type)


# -- the tables


def _runs(trace: Any) -> pd.DataFrame:
    import pandas as pd

    header, config = trace.header, trace.config
    moments = [*trace.requests["arrival"].tolist(), *trace.rounds["t"].iloc[:1].tolist()]
    row = {
        "policy": header.policy,
        "engine": header.engine,
        "model": header.model,
        "workload": header.workload,
        "max_num_seqs": config.max_num_seqs,
        "max_num_batched_tokens": config.max_num_batched_tokens,
        "block_size": config.block_size,
        "num_blocks": config.num_blocks,
        "clock": header.clock.arrivals,
        "origin_ns": min(moments, default=0),
        "wall_ns": header.clock.wall_ns - header.clock.monotonic_ns,
        "complete": trace.complete,
        "dropped_rounds": sum(gap.rounds for gap in trace.gaps),
    }
    return pd.DataFrame([row], dtype=object)


def _requests(trace: Any) -> pd.DataFrame:
    parts = ("reused", "external", "forgone", "fresh", "recomputed")
    found = reuse(trace).set_index("i")[list(parts)].astype("Int64")
    table = trace.requests.join(found, how="left")
    return table.rename(columns={"id": "request"}).reset_index(names="i")


def _admissions(trace: Any) -> pd.DataFrame:
    return _with_ids(trace, trace.admissions.copy())


def _holds(trace: Any) -> pd.DataFrame:
    table = trace.holds.copy()
    table["hold"] = np.arange(1, len(table) + 1)
    table = table.explode("requests").dropna(subset=["requests"]).rename(columns={"requests": "i"})
    table["i"] = table["i"].astype(np.int64)
    table["position"] = table.groupby("hold").cumcount() + 1
    return _with_ids(trace, table)


def _with_ids(trace: Any, table: pd.DataFrame) -> pd.DataFrame:
    table["request"] = np.array([*trace.ids, None], dtype=object)[table["i"].to_numpy(np.int64)]
    return table


def _slots(trace: Any) -> pd.DataFrame:
    table = slots(trace).rounds.copy()
    table["repeat"] = trace.rounds["repeat"]
    return table.reset_index(names="round")


_MAKERS: dict[str, Callable[[Any], pd.DataFrame]] = {
    "runs": _runs,
    "rounds": lambda trace: trace.rounds.reset_index(names="round"),
    "visits": lambda trace: trace.visits.copy(),
    "refusals": lambda trace: trace.refusals.copy(),
    "requests": _requests,
    "admissions": _admissions,
    "holds": _holds,
    "cache": lambda trace: trace.cache.copy(),
    "waits": waits,
    "slots": _slots,
}

"""The tidy tables come back from pandas, polars and DuckDB with every sum intact."""

from __future__ import annotations

import csv
import re

import analysis_traces
import figures_traces
import pandas as pd
import pytest

from radixflow.analysis import SLOT_CAUSES, summarize
from radixflow.analysis.slots import slots
from radixflow.analysis.waits import waits_by_cause
from radixflow.export import read_csv, to_csv, to_parquet
from radixflow.export.columns import TABLES
from radixflow.export.tables import tables
from radixflow.trace import open_trace
from radixflow.trace.schema import Request

HOSTILE = (
    "=cmd|' /C calc'!A0",
    '+1,"two"\nthree',
    "-2\r\n",
    "@SUM(A1)",
    "'quoted",
    "\ttab",
    "",
    "a,b;c\"'",
    "é中😀 _%&#$^~\\{}",
    "nan",
    "NULL",
)


def read_pandas(folder):
    return {name: pd.read_parquet(folder / f"{name}.parquet") for name in TABLES}


def read_polars(folder):
    polars = pytest.importorskip("polars")
    return {name: polars.read_parquet(folder / f"{name}.parquet").to_pandas() for name in TABLES}


def read_duckdb(folder):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as db:
        return {name: db.read_parquet(str(folder / f"{name}.parquet")).df() for name in TABLES}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    records = figures_traces.figure1("radix")
    requests = [k for k, record in enumerate(records) if isinstance(record, Request)]
    for k, name in zip(requests, HOSTILE, strict=False):
        old = records[k]
        records[k] = Request(i=old.i, id=name, t=0, prompt=old.prompt, path=old.path, label=name, group=name)
    return open_trace(figures_traces.write(tmp_path_factory.mktemp("hostile") / "t.rft.jsonl", records))


@pytest.fixture(scope="module")
def traces(tmp_path_factory, root, hostile):
    folder = tmp_path_factory.mktemp("traces")
    found = [open_trace(path) for path in sorted((root / "data" / "traces").glob("figure1-*.zst"))]
    found.append(open_trace(figures_traces.write(folder / "s.rft.jsonl", figures_traces.stream(80, rows=8))))
    found.append(analysis_traces.written(folder / "l.rft.jsonl", analysis_traces.figure1("radix")))
    return [*found, hostile]


@pytest.fixture(scope="module")
def parquet(traces, tmp_path_factory):
    return to_parquet(traces, tmp_path_factory.mktemp("parquet"))


@pytest.fixture(scope="module")
def csvs(traces, tmp_path_factory):
    return to_csv(traces, tmp_path_factory.mktemp("csv"))


READERS = {
    "pandas": (read_pandas, "parquet"),
    "polars": (read_polars, "parquet"),
    "duckdb": (read_duckdb, "parquet"),
    "csv": (read_csv, "csvs"),
}


@pytest.mark.parametrize("reader", READERS)
def test_the_sums_come_back_intact(traces, reader, request):
    read, folder = READERS[reader]
    found = read(request.getfixturevalue(folder))
    for trace in traces:
        own = {name: table[table["trace"] == trace.id] for name, table in found.items()}
        summary = summarize(trace)
        s = own["slots"]
        assert (s[list(SLOT_CAUSES)].sum(axis=1) == s["S"]).all()
        assert (s["S"] == trace.config.max_num_seqs).all() and len(s) == len(trace.rounds)
        counted = s[s["row_visits"] > 0][list(SLOT_CAUSES)].sum()
        assert counted.astype(int).to_dict() == slots(trace).totals.to_dict()

        waited = own["waits"].groupby("cause")[["rounds", "ns"]].sum()
        expected = waits_by_cause(trace)
        expected = expected[(expected["rounds"] > 0) | (expected["ns"] > 0)]
        assert waited.astype(int).sort_index().equals(expected[["rounds", "ns"]].astype(int).sort_index())
        first = own["waits"][~own["waits"]["again"].astype(bool)].groupby("i")["ns"].sum()
        chosen = own["requests"].dropna(subset=["first_selected_t"]).set_index("i")
        spans = (chosen["first_selected_t"] - chosen["arrival"]).astype(int)
        assert first.reindex(spans.index).fillna(0).astype(int).to_dict() == spans.to_dict()

        admitted = own["requests"].dropna(subset=["reused"])
        parts = admitted[["reused", "forgone", "fresh"]].sum(axis=1)
        assert len(admitted) and (parts == admitted["prompt"]).all()
        assert admitted["reused"].sum() / admitted["prompt"].sum() == summary.reuse_rate

        assert len(own["visits"]) == own["rounds"]["rows"].sum() == summary.row_visits
        assert own["visits"]["tokens"].sum() == own["rounds"]["tokens"].sum() == summary.scheduled_tokens
        assert (own["refusals"]["cause"] == "blocked").sum() == summary.blocked_visits
        assert own["requests"]["request"].tolist() == trace.ids


@pytest.mark.parametrize("reader", READERS)
def test_every_table_has_its_columns_and_all_its_rows(traces, reader, request):
    read, folder = READERS[reader]
    found = read(request.getfixturevalue(folder))
    lengths = dict.fromkeys(TABLES, 0)
    for trace in traces:
        for name, made in tables(trace):
            lengths[name] += len(made)
    assert {name: len(table) for name, table in found.items()} == lengths
    for name, table in found.items():
        assert list(table.columns) == [column.name for column in TABLES[name]]


def test_csv_and_parquet_hold_the_same(parquet, csvs):
    import pyarrow.parquet as pq

    for name, table in read_csv(csvs).items():
        other = pq.read_table(parquet / f"{name}.parquet")
        kinds = {"int64": pd.Int64Dtype(), "bool": pd.BooleanDtype(), "double": pd.Float64Dtype()}
        expected = other.to_pandas(types_mapper=lambda kind, kinds=kinds: kinds.get(str(kind)))
        pd.testing.assert_frame_equal(table, expected)


def test_hostile_ids_survive_csv_and_start_no_formula(hostile, csvs):
    back = read_csv(csvs)["requests"]
    back = back[back["trace"] == hostile.id]
    assert back["request"].tolist() == hostile.ids
    assert back["label"].tolist()[: len(HOSTILE)] == list(HOSTILE)
    assert back["label"].iloc[len(HOSTILE) :].isna().all()
    for path in csvs.glob("*.csv"):
        with open(path, newline="", encoding="utf-8") as file:
            header, *rows = csv.reader(file)
        texts = {c.name for c in TABLES[path.stem] if c.type == "text"}
        assert all(len(row) == len(header) for row in rows)
        for row in rows:
            cells = [cell for name, cell in zip(header, row, strict=True) if name in texts]
            assert not [cell for cell in cells if cell[:1] in ("=", "+", "-", "@", "\t", "\r")]


def test_held_arrivals_are_one_row_each(tmp_path):
    from radixflow.trace.schema import Hold

    records = figures_traces.figure1("radix")
    for k in (1, 2, 3):
        old = records[k]
        records[k] = Request(i=old.i, id=old.id, t=0, prompt=old.prompt, path=old.path, held=True)
    last = max(k for k, record in enumerate(records) if isinstance(record, Request))
    records.insert(last + 1, Hold(0, 0, "work", [0, 2, 1]))
    trace = open_trace(figures_traces.write(tmp_path / "t.rft.jsonl", records))
    holds = dict(tables(trace))["holds"]
    columns = ["hold", "reason", "position", "request"]
    assert holds[columns].values.tolist() == [[1, "work", 1, "P1"], [1, "work", 2, "D1"], [1, "work", 3, "A1"]]


def test_the_page_describes_every_column(root):
    page = (root / "docs" / "exporting.md").read_text()
    described = {}
    for name, body in re.findall(r"^### `(\w+)`\n(.*?)(?=^##|\Z)", page, re.S | re.M):
        described[name] = re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|$", body, re.M)
    expected = {name: [(c.name, c.type, c.meaning) for c in columns] for name, columns in TABLES.items()}
    assert described == expected


def test_an_export_again_replaces_its_files_and_leaves_others(traces, tmp_path):
    folder = tmp_path / "out"
    to_parquet(traces[0], folder)
    (folder / "notes.txt").write_text("mine")
    first = (folder / "rounds.parquet").read_bytes()
    to_parquet(traces[0], folder)
    assert (folder / "rounds.parquet").read_bytes() == first
    assert sorted(p.name for p in folder.iterdir()) == sorted([f"{name}.parquet" for name in TABLES] + ["notes.txt"])
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("write", [to_parquet, to_csv])
def test_an_interrupted_export_leaves_nothing(traces, tmp_path, write):
    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(traces[0], tmp_path / "out", progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_place_gets_one_clear_line(traces, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError) as error:
        to_parquet(traces[0], tmp_path / "file")
    assert (error.value.filename, error.value.strerror) == (
        str(tmp_path / "file"),
        "is a file, expected a folder to write into",
    )
    with pytest.raises(NotADirectoryError):
        to_csv(traces[0], tmp_path / "file" / "sub")
    with pytest.raises(ValueError, match="a single .parquet file, expected a folder: this writes several files"):
        to_parquet(traces[0], tmp_path / "rounds.parquet")
    with pytest.raises(ValueError, match="is given twice, expected each run once"):
        to_csv([traces[0], traces[0]], tmp_path / "out")
    with pytest.raises(ValueError, match="no trace given"):
        to_csv([], tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]

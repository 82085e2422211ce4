"""What people read of the paper's experiment: whole tables, words, numbers that can be compared, files that stay."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
from types import SimpleNamespace

import pandas as pd
import pytest

pytest.importorskip("vllm")

from rich.console import Console  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from radixflow.commands import app  # noqa: E402
from radixflow.commands.shared import Interrupted  # noqa: E402
from radixflow.paper import POLICIES, PUBLISHED, Plan, console, experiment, frames  # noqa: E402
from radixflow.paper.cell import CellResult, read_result, run_cell, standard_cell, write_result  # noqa: E402
from radixflow.paper.latex import write_latex  # noqa: E402
from radixflow.paper.made import about_to_replace, remember  # noqa: E402
from radixflow.paper.page import results_page  # noqa: E402
from radixflow.paper.published import FURTHER, Change  # noqa: E402
from radixflow.paper.report import paper_tables  # noqa: E402
from radixflow.paper.words import METRIC, WHATIF, number  # noqa: E402

RAW = re.compile(r"\b(rows_per_round|first_selected|latency_p\d\d|tokens_per_round|host_seconds|reuse_rate)\b")


@pytest.fixture(scope="module")
def tables():
    """The tables of the whole experiment with made-up results."""
    results = []
    for k, cell in enumerate(Plan().cells()):
        fields = {name: getattr(cell, name) for name in ("model", "policy", "stream", "order", "seed")}
        latency = [1_000_000 * (1 + k % 7), 162_411_000 + 1_000 * k]
        results.append(
            CellResult(
                cell=fields, end="finished", rounds=8_035 + 11 * k, row_visits=40_000, scheduled_tokens=7_000_000,
                prompt_tokens=9_000_000, reused_tokens=6_000_000 + k, preemptions=0, host_ns=10**12, questions=1551,
                finished=1551, span=10**9, latency=latency, first_selected=latency, branch_latency=1.0, digest="d",
            )
        )  # fmt: skip
    return paper_tables(results)


def printed(monkeypatch, width, show, *args, **more) -> str:
    file = io.StringIO()
    to = Console(file=file, width=width, highlight=False, force_terminal=width < 1000, color_system=None)
    monkeypatch.setattr(frames, "out", to)
    monkeypatch.setattr(console, "out", to)
    show(*args, **more)
    return re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue())


# -- tables in a terminal ------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [80, 100, 120, 150, 200, 10_000])
def test_no_table_of_the_report_is_cut_at_any_width(tables, monkeypatch, width):
    text = printed(monkeypatch, width, console.show_report, tables)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    assert not RAW.search(text)
    told = set(text.split())
    table1 = tables["table1"]
    for head, policy in table1.columns:
        for value in table1[head, policy]:
            assert number(value, 0 if head == "rounds" else 3 if head == "latency (s)" else 2) in told
        assert set(policy.split()) <= told, "a heading was broken inside a word"
    assert set(PUBLISHED) <= told


@pytest.mark.parametrize("width", [10, 25, 40])
def test_a_terminal_too_narrow_for_one_column_still_gets_every_digit(tables, monkeypatch, width):
    text = printed(monkeypatch, width, frames.show_frame, tables["table1"], "Table 1")
    assert "…" not in text
    assert set(PUBLISHED) <= set(text.split())
    for value in tables["table1"]["rounds", "radixflow"]:
        assert number(value, 0) in text.split()


def test_each_part_of_a_split_table_names_its_rows_and_what_it_is_of(tables, monkeypatch):
    text = printed(monkeypatch, 80, frames.show_frame, tables["table1"], "Table 1")
    parts = re.split(r"^(?=Table 1)", text, flags=re.M)[1:]
    assert len(parts) > 3 and all(set(PUBLISHED) <= set(part.split()) for part in parts)
    assert [part.splitlines()[0] for part in parts[:2]] == ["Table 1: latency (s)", "Table 1: latency (s), continued"]
    # The first part is what the paper's own table has: ours, and the published numbers beside ours.
    heads = parts[0][: parts[0].index("─")].split()
    assert heads.count("published") == 2 and {"radix", "radixflow", "radix+flex"} <= set(heads)


def test_without_a_terminal_a_table_is_one(tables, monkeypatch):
    text = printed(monkeypatch, 10_000, frames.show_frame, tables["table1"], "Table 1")
    assert text.splitlines()[0] == "Table 1: latency (s), rounds, reuse (%)"
    assert text.count("Nemotron-Nano-9B-v2") == 1


def test_a_column_has_one_number_of_decimals():
    frame = pd.DataFrame({"latency": [13.1, 10.0, 162.411, 1234.5], "rounds": [13_668.0, 2.0, 3.0, 4.0]})
    columns = frames._columns(frame, 2)
    assert columns[0].cells == ("13.100", "10.000", "162.411", "1,234.500") and columns[0].head == "latency (s)"
    assert columns[1].cells == ("13,668", "2", "3", "4")


def test_numbers_stand_to_the_right_also_with_sign_unit_and_interval():
    frame = pd.DataFrame(
        {"a": ["+0.00%", "-33.33%"], "b": ["-5.3 [-9.0, -1.6]", "-"], "c": ["radix", "5"], "d": ["-", "-"], "e": [1, 2]}
    )
    assert [column.right for column in frames._columns(frame, 2)] == [True, True, False, False, True]


def test_what_rounds_to_nothing_has_no_minus():
    assert (number(-0.0001, 2), number(-0.0001, 2, signed=True), number(-1.5, 1)) == ("0.00", "+0.00", "-1.5")


def test_models_stand_in_one_order_and_parts_in_the_order_of_the_text(tables):
    page = results_page(tables)
    for section in page.split("\n### ")[1:]:
        if section.startswith("What the text"):
            continue
        seen = list(dict.fromkeys(re.findall(r"^\| (Q[\w.-]+|Nem[\w.-]+) ", section, flags=re.M)))
        assert seen == list(PUBLISHED), section[:40]
    assert "| model | stream | admission | traversal | both | fragmentation |" in page
    assert not RAW.search(page)


def test_a_part_of_the_experiment_says_that_its_rounds_dont_compare(tables):
    assert "don't compare" not in results_page(tables)
    few = tables | {"cells": tables["cells"].assign(questions=74)}
    assert "Not the paper's whole experiment (444 of its 9,306 questions)" in results_page(few)


def test_whatif_says_its_metrics_in_words():
    row = {"recorded": 6.0, "replayed": 6.0, "error": 0.0, "predicted": 4.0, "change": -1 / 3}
    table = pd.DataFrame([row, row], index=["rounds", "reuse_rate"])
    told = console.whatif_frame(table).set_index("metric")
    assert list(told.loc["rounds"]) == ["6", "6", "+0.00%", "4", "-33.33%"]
    assert told.loc["reuse (%)", "recorded"] == "600.00"
    assert all(column.right for column in frames._columns(told.reset_index(), 2)[1:])
    assert not any("_" in metric.head for metric in (*WHATIF.values(), *METRIC.values()))


# -- published numbers ---------------------------------------------------------------------------------


def test_a_published_number_is_known_to_its_printed_digits():
    reuse = PUBLISHED["Qwen3.5-0.8B"].change("reuse")
    assert (reuse.low, reuse.value, reuse.high) == pytest.approx((0.003, 0.004, 0.005))
    latency = PUBLISHED["Qwen3.5-27B"].change("latency")
    assert latency.low == pytest.approx(100 * (158.5 / 164.5 - 1))
    assert latency.high == pytest.approx(100 * (159.5 / 163.5 - 1))
    rounds = PUBLISHED["Qwen3.5-27B"].change("rounds")
    assert rounds.low == rounds.high == pytest.approx(100 * (6529 / 11748 - 1))
    for row in PUBLISHED.values():
        for metric in ("latency", "reuse", "rows_per_round", "first_selected"):
            change = row.change(metric)
            assert change.low < change.value < change.high, (row.model, metric)
    assert all(isinstance(row[-1], Change) for row in FURTHER)


def test_a_verdict_doesnt_hang_on_digits_that_werent_printed():
    same = Change.between(16.4, 16.4)
    assert same.may_be(0.1, 0.2) and same.may_be(0.0, 0.0) and not same.may_be(0.7, 0.8)
    assert Change.between(81.362, 81.366, points=True).may_be(0.005, 0.1)
    assert not Change.between(81.362, 81.366, points=True).may_be(-0.0001, 0.0001)


# -- LaTeX ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", ["", "[twocolumn]"])
def test_the_latex_tables_fit_a_page(tables, tmp_path, options):
    if shutil.which("pdflatex") is None:
        pytest.skip("no pdflatex on this machine (scripts/latex.sh)")
    write_latex(tables, tmp_path)
    names = ("table1", "table2", "table1-all", "table2-all")
    body = "".join(rf"\input{{{name}}}" for name in names)
    head = rf"\documentclass{options}{{article}}\usepackage{{booktabs}}"
    (tmp_path / "page.tex").write_text(rf"{head}\begin{{document}}{body}\end{{document}}")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout


def test_the_latex_tables_have_the_papers_policies_and_all_of_them_beside(tables, tmp_path):
    write_latex(tables, tmp_path)
    own, whole = (tmp_path / "table1.tex").read_text(), (tmp_path / "table1-all.tex").read_text()
    assert own.startswith(r"\begin{table*}") and r"model & ours & paper & +flex & ours & paper \\" in own
    assert r"model & ours & paper & +flex & +timer5 & +timer10 & ours & paper & +frag \\" in whole
    reuse = own[own.index(r"\textit{reuse (\%)}") :]
    assert re.search(r"Qwen3\.5-0\.8B & \d\d\.\d\d & 81\.36 & \d\d\.\d\d & \d\d\.\d\d & 81\.37 ", reuse)
    assert "fitted to two published figures of Radix alone" in own and own.isascii()


def test_policies_that_the_paper_hasnt_are_shown_where_there_are_no_others(tables):
    from radixflow.paper.page import papers_own

    table = tables["table1"]
    other = table[[column for column in table.columns if column[1] == "radix+timer5" or "published" in column[1]]]
    assert list(papers_own(other).columns) == list(other.columns)
    assert {policy for _, policy in papers_own(table).columns} < {policy for _, policy in table.columns}


# -- a folder, and Ctrl-C ------------------------------------------------------------------------------


def test_a_report_is_replaced_by_one_that_holds_it_and_by_no_other(tmp_path):
    assert about_to_replace(tmp_path, "report.md", "report.md", ["a"]) == ""
    (tmp_path / "report.md").write_text("mine")
    with pytest.raises(ValueError, match="an experiment that isn't noted there: give another folder with -o, or --rep"):
        about_to_replace(tmp_path, "report.md", "report.md", ["a"])
    remember(tmp_path, "report.md", ["a", "b"], "radixflow paper -o here")
    assert about_to_replace(tmp_path, "report.md", "report.md", ["b", "a"]) == ""
    assert about_to_replace(tmp_path, "report.md", "report.md", ["a", "b", "c"]) == ""
    with pytest.raises(ValueError, match=r"another experiment \(`radixflow paper -o here`\)"):
        about_to_replace(tmp_path, "report.md", "report.md", ["a"])
    assert "will be replaced" in about_to_replace(tmp_path, "report.md", "report.md", ["a"], replace=True)
    (tmp_path / "costs.json").write_text("[]")
    remember(tmp_path, "costs.json", ["m"], "")
    assert about_to_replace(tmp_path, "report.md", "report.md", ["a", "b"]) == "", "one note doesn't lose another"


def test_another_experiment_is_refused_before_anything_runs_and_loses_nothing(tmp_path, monkeypatch):
    options = ["--models", "Qwen3-8B", "--policies", "radix,radixflow", "--streams", "cold", "--orders", "1"]

    def paper(*more):
        return CliRunner().invoke(app, ["paper", "-o", str(tmp_path), *options, *more], catch_exceptions=False)

    told = paper("--scale", "0.02").stdout.splitlines()
    assert told[0] == told[-1] and "report.md" in told[0], "where to read, before and after the long tables"
    kept = (tmp_path / "report.md").read_bytes()
    ran = []
    monkeypatch.setattr(experiment, "run_cell", lambda cell: ran.append(cell))
    with pytest.raises(ValueError, match="of another experiment"):
        paper("--scale", "0.03")
    assert not ran and (tmp_path / "report.md").read_bytes() == kept
    assert json.loads(paper("--scale", "0.02", "--json").stdout)["cells"] == 2
    monkeypatch.undo()
    assert json.loads(paper("--scale", "0.03", "--json", "--replace").stdout)["cells"] == 2


def test_an_interrupt_says_how_many_cells_are_kept(tmp_path, monkeypatch):
    real, ran = experiment.run_cell, []

    def interrupted_in_the_second(cell):
        ran.append(cell)
        if len(ran) == 2:
            raise KeyboardInterrupt
        return real(cell)

    monkeypatch.setattr(experiment, "run_cell", interrupted_in_the_second)
    options = ["--models", "Qwen3-8B", "--policies", "radix", "--streams", "cold", "--scale", "0.02"]
    with pytest.raises(Interrupted, match="1 of 2 cells are kept in .*cells, and the same command goes on from there"):
        CliRunner().invoke(app, ["paper", "-o", str(tmp_path), *options], catch_exceptions=False)
    assert len(list((tmp_path / "cells").iterdir())) == 1


def test_a_cell_that_was_interrupted_is_no_result(tmp_path, monkeypatch):
    cell = standard_cell("Qwen3-8B", "radix", "cold", scale=0.02)
    whole = run_cell(cell)
    path = tmp_path / "cell.json"
    write_result(path, whole)
    assert read_result(path, cell) == whole
    whole.end = "interrupted"
    write_result(path, whole)
    assert read_result(path, cell) is None
    # The engine ends such a run by itself, with what came until then.
    monkeypatch.setattr("radixflow.engines.tally.tally_run", lambda *_: SimpleNamespace(end="interrupted"))
    with pytest.raises(KeyboardInterrupt):
        run_cell(cell)


def test_all_six_policies_are_in_the_tables(tables):
    assert set(POLICIES) <= {policy for _, policy in tables["table1"].columns}

"""Tables are booktabs, say what the runs did, and compile with any text in them."""

from __future__ import annotations

import re
import shutil
import subprocess

import figures_traces
import pandas as pd
import pytest

from radixflow.analysis import compare, summarize
from radixflow.export import TABLE1, TABLE2, by_model, escape, latex_document, latex_table, to_latex
from radixflow.trace import open_trace
from radixflow.trace.schema import Request

HOSTILE = "_ % & # $ ^ ~ \\ { } [x] *y* <|> `\"' -- é ñ ž ş ő ß ł ø œ µ ² 中 😀 → λ \x07\n\u202e"


@pytest.fixture(scope="module")
def traces(root):
    return [open_trace(path) for path in sorted((root / "data" / "traces").glob("figure1-*.zst"))]


@pytest.fixture(scope="module")
def latex():
    """Compile a document and return its text; skips where there is no LaTeX."""
    needed = {"pdflatex": "texlive-latex-recommended", "pdftotext": "poppler-utils"}
    for program, package in needed.items():
        if shutil.which(program) is None:
            pytest.skip(f"no {program} on this machine (Debian: apt-get install {package})")

    def text(path, wide: bool = False) -> str:
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", path.name]
        done = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, errors="replace", timeout=120)
        assert done.returncode == 0, done.stdout[-2000:]
        assert wide or "Overfull" not in done.stdout
        assert "mktexpk" not in done.stderr, "a font that the small texlive lacks"
        pdf = path.with_suffix(".pdf")
        return subprocess.run(["pdftotext", "-layout", pdf, "-"], capture_output=True, text=True, check=True).stdout

    return text


def test_the_tables_of_runs_compile_and_say_what_the_runs_did(traces, tmp_path, latex):
    folder = to_latex(traces, tmp_path / "tables")
    made = ["cost.tex", "document.tex", "metrics.tex", "slots.tex", "waits.tex"]
    assert sorted(p.name for p in folder.iterdir()) == made
    text = latex(folder / "document.tex")
    words = [" ".join(line.split()) for line in text.splitlines()]
    summaries = [summarize(trace) for trace in traces]
    assert f"rounds {summaries[0].rounds} {summaries[1].rounds} 0.667" in words
    assert f"empty slots {summaries[0].empty_slots} {summaries[1].empty_slots} 0.111" in words
    assert "scheduled tokens 12,970 12,970 1.000" in words
    slots = compare(*traces).slots
    assert f"in all {slots['radix'].sum()} {slots['radixflow'].sum()}" in words
    assert "avoidable 7 0" in words


def test_a_single_run_as_one_file_compiles(traces, tmp_path, latex):
    path = to_latex(traces[0], tmp_path / "one.tex", command="radixflow export x --to latex")
    assert "empty slots" in latex(path)
    first = path.read_text().splitlines()[0]
    assert first == f"% radixflow: radixflow export x --to latex; traces {traces[0].id}"


def test_any_text_compiles_and_comes_out(tmp_path, latex):
    frame = pd.DataFrame(
        {"text": ["中😀[x]<|>\n", "[first]", "*star", "", None], "n": [1.5, -2000.25, None, float("nan"), 7]},
        index=pd.Index(["a_b\u202e", "50%", "#1", "{x}", "~^"], name="id_&"),
    )
    path = tmp_path / "t.tex"
    table = latex_table(frame, f"Caption {HOSTILE}", "tab:x", [f"Note {HOSTILE}"], digits={"n": 2})
    path.write_text(latex_document([table]))
    assert path.read_text().isascii()
    text = " ".join(latex(path, wide=True).split())
    parts = ["a b", "50%", "#1", "{x}", "[first]", "*star", "1.50", "2,000.25", "7.00", "<U+4E2D>", "<U+1F600>", "[x]"]
    for part in parts:
        assert part in text.replace("_", " "), part
    assert "<U+000A>" in text


def test_hostile_labels_of_runs_compile(tmp_path, latex):
    records = figures_traces.figure1("radix")
    import msgspec

    records[0] = msgspec.structs.replace(records[0], workload=HOSTILE, policy="rad_ix & 100%\\")
    at = next(k for k, record in enumerate(records) if isinstance(record, Request))
    records[at] = msgspec.structs.replace(records[at], id=HOSTILE)
    trace = open_trace(figures_traces.write(tmp_path / "t.rft.jsonl", records))
    assert "100%" in latex(to_latex(trace, tmp_path / "t.tex", command="a\nb\\end{document} %"))


@pytest.mark.parametrize(
    ("text", "latex_text"),
    [
        ("a_b", r"a\_b"),
        ("\\", r"\textbackslash{}"),
        ("^~", r"\textasciicircum{}\textasciitilde{}"),
        ("é", r"\'{e}"),
        ("e\u0301", r"\'{e}"),
        ("中", r"\textless{}U+4E2D\textgreater{}"),
        ("λ", r"\ensuremath{\lambda}"),
    ],
)
def test_signs_are_escaped_to_ascii(text, latex_text):
    assert escape(text) == latex_text


def test_a_table_has_booktabs_rules_spanners_groups_and_totals():
    index = pd.MultiIndex.from_tuples([("m1", "a"), ("m1", "b"), ("m2", "a"), ("all", "")], names=["model", "policy"])
    columns = pd.MultiIndex.from_tuples([("latency", "mean"), ("latency", "p95"), ("", "n")])
    frame = pd.DataFrame([[1.0, 2.0, 3], [4.0, 5.0, 6], [7.0, 8.0, 9], [1.0, 1.0, 1]], index=index, columns=columns)
    lines = latex_table(frame, "C", "tab:c", digits={"latency": 1}, totals=1).splitlines()
    assert lines == [
        r"\begin{table}[tb]",
        r"\centering",
        r"\setlength{\belowcaptionskip}{4pt}",
        r"\caption{C}",
        r"\label{tab:c}",
        r"\begin{tabular}{@{}llrrr@{}}",
        r"\toprule",
        r" &  & \multicolumn{2}{c}{latency} & \multicolumn{1}{c}{} \\",
        r"\cmidrule(lr){3-4}",
        r"model & policy & mean & p95 & n \\",
        r"\midrule",
        r"m1 & a & 1.0 & 2.0 & 3 \\",
        r" & b & 4.0 & 5.0 & 6 \\",
        r"\addlinespace",
        r"m2 & a & 7.0 & 8.0 & 9 \\",
        r"\midrule",
        r"all &  & 1.0 & 1.0 & 1 \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


def test_the_papers_tables_have_a_row_a_model_and_a_column_a_policy_and_metric(tmp_path, latex):
    rows = []
    for model, scale in (("Qwen3.5-27B", 164), ("Qwen3.5-0.8B", 0.256)):
        for policy, gain in (("radix", 1), ("radixflow", 0.9)):
            own = {"latency_mean": scale * gain, "rounds": int(11_748 * gain), "reuse_rate": 0.68497}
            own |= {"rows_per_round": 6.51 / gain, "first_selected_wait_mean": scale * gain}
            rows.append({"model": model, "policy": policy, **own})
    runs = pd.DataFrame(rows)
    first = by_model(runs, TABLE1)
    assert list(first.index) == ["Qwen3.5-27B", "Qwen3.5-0.8B"]
    expected = [(heading, policy) for heading in TABLE1.values() for policy in ("radix", "radixflow")]
    assert list(first.columns) == expected
    assert first.loc["Qwen3.5-27B", ("reuse (%)", "radix")] == pytest.approx(68.497)
    path = tmp_path / "paper.tex"
    tables = [latex_table(first, "One."), latex_table(by_model(runs, TABLE2), "Two.")]
    path.write_text(latex_document(tables))
    words = re.sub(r"\s+", " ", latex(path))
    assert "Qwen3.5-27B 164.000 147.600 11,748 10,573 68.497 68.497" in words


def test_a_wrong_place_gets_one_clear_line(traces, tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        to_latex(traces, tmp_path / "no" / "t.tex")
    assert error.value.strerror == "no such folder to write into"
    with pytest.raises(ValueError, match="a single .pdf file, expected a folder"):
        to_latex(traces, tmp_path / "t.pdf")
    (tmp_path / "d.tex").mkdir()
    with pytest.raises(IsADirectoryError):
        to_latex(traces, tmp_path / "d.tex")
    assert [p.name for p in tmp_path.iterdir()] == ["d.tex"]

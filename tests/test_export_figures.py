"""A folder of figures from some runs, and the command around all exports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import figures_traces
import pytest

from radixflow.cli import main
from radixflow.export import run_figures, to_figures
from radixflow.trace import open_trace


@pytest.fixture(scope="module")
def paths(root):
    return sorted((root / "data" / "traces").glob("figure1-*.zst"))


@pytest.fixture(scope="module")
def traces(paths):
    return [open_trace(path) for path in paths]


@pytest.fixture(scope="module")
def clocked(tmp_path_factory):
    import msgspec

    records = figures_traces.stream(40, rows=8)
    folder, found = tmp_path_factory.mktemp("clocked"), []
    for k, policy in enumerate(("radix", "radixflow")):
        clock = msgspec.structs.replace(records[0].clock, arrivals=True)
        records[0] = msgspec.structs.replace(records[0], policy=policy, clock=clock, id=f"{k:016x}", model="m")
        found.append(open_trace(figures_traces.write(folder / f"{policy}.rft.jsonl", records)))
    return found


@pytest.fixture
def command(monkeypatch, capfd, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["radixflow", "export", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capfd.readouterr()
        return ended.value.code or 0, said.out, said.err

    return run


def test_the_figures_are_those_that_the_runs_give(traces, clocked):
    own = ("timeline", "tree", "round")
    totals = ["slots", "waits", "rows", "requests"]
    assert list(run_figures(traces[:1])) == [*(f"{name}-radix" for name in own), *totals]
    asked = run_figures(traces[:1], request="A1")
    assert list(asked) == [*(f"{name}-radix" for name in (*own, "request")), *totals]
    both = [*(f"{name}-{policy}" for policy in ("radix", "radixflow") for name in own), "figure1-timelines"]
    assert list(run_figures(traces)) == [*both, *totals, "cost", "figure4-rounds"]
    assert list(run_figures(clocked)) == [*both, *totals, "latency", "cost", "figure3-latency", "figure4-rounds"]


def test_a_folder_holds_each_figure_as_pdf_and_svg_at_both_widths(traces, tmp_path, monkeypatch):
    from radixflow.export import figures

    some = {name: figure for name, figure in run_figures(traces).items() if name in ("slots", "rows")}
    monkeypatch.setattr(figures, "run_figures", lambda *given: some)
    said = []
    folder = to_figures(traces[0], tmp_path / "f", progress=lambda done, total: said.append((done, total)))
    names = [f"{name}{suffix}" for name in some for suffix in (".pdf", ".svg")]
    for width in ("column", "text"):
        assert sorted(p.name for p in (folder / width).iterdir()) == sorted(names)
    assert said[-1] == (8, 8)


def test_an_interrupted_export_leaves_the_folder_as_it_was(traces, tmp_path):
    def stop(done, total):
        raise KeyboardInterrupt

    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "mine.txt").write_text("mine")
    with pytest.raises(KeyboardInterrupt):
        to_figures(traces[0], tmp_path / "f", progress=stop)
    assert [p.name for p in tmp_path.rglob("*")] == ["f", "mine.txt"]


def test_the_command_writes_each_kind_and_says_where(command, paths, tmp_path):
    assert command(paths[0], "--to", "perfetto", "-o", "t.json")[0] == 0, "Perfetto opens the same file"
    for to, output in (("chrome", "t.json"), ("parquet", "p"), ("csv", "c"), ("latex", "l")):
        code, out, _ = command(paths[0], "--to", to, "-o", output)
        files = sum(one.is_file() for one in Path(output).rglob("*"))
        opened = ": open it in ui.perfetto.dev or chrome://tracing" if to == "chrome" else ""
        assert (code, out) == (0, f"{files} files in {output}\n" if files else f"{output}{opened}\n")
    code, out, err = command(*paths, "--to", "figures", "-o", "f.svg", "--width", "column", "--no-source", "--json")
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert (said["to"], said["path"], len(said["traces"])) == ("figures", "f.svg", 2)
    assert f"radixflow export {paths[0].name} {paths[1].name} --to figures" in (tmp_path / "f.svg").read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c", "f.svg", "l", "p", "t.json"]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--to", "pdf", "-o", "x"], "--to pdf: unknown, expected one of chrome, parquet, csv, latex, figures"),
        (["--to", "chrome", "-o", "."], ".: is a folder, expected a file to write"),
        (["--to", "chrome", "-o", "no/t.json"], "no: no such folder to write into"),
        (["--to", "csv", "-o", "x", "--first", "2"], "--first goes with --to figures, not with --to csv"),
        (["--to", "figures", "-o", "x", "--width", "0.1"], "width '0.1': expected 1 to 60 inches, or one of"),
        (["--to", "figures", "-o", "x.jpg"], "x.jpg: unknown figure format, expected .pdf, .svg, .png, or a folder"),
        (["--to", "figures", "-o", "x", "--round", "9"], "no round 9: "),
        (["--to", "figures", "-o", "x", "--first", "9"], "rounds 9 on: none of them is in the trace, expected 1 to 6"),
        (["--to", "figures", "-o", "x", "--first", "3", "--last", "2"], "no rounds 3 to 2: expected --last"),
        (["--to", "figures", "-o", "x", "--style", "nope"], "nope: no such style file"),
        (["--to", "parquet", "-o", "x.parquet"], "x.parquet: a single .parquet file, expected a folder"),
    ],
)
def test_bad_input_is_one_clear_line_and_writes_nothing(command, paths, tmp_path, args, says):
    code, out, err = command(paths[0], *args)
    assert (code, out) == (2, "")
    assert err.startswith(f"radixflow: {says}") and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_trace_is_never_written_over(command, paths, tmp_path):
    path = tmp_path / "t.rft.jsonl.zst"
    path.write_bytes(paths[0].read_bytes())
    code, _, err = command(path, "--to", "chrome", "-o", path)
    assert code == 2 and "is the trace itself" in err
    assert path.read_bytes() == paths[0].read_bytes()


def test_exports_need_neither_vllm_nor_torch(paths, tmp_path):
    code = (
        "import sys\n"
        "sys.modules['vllm'] = sys.modules['torch'] = None\n"
        "import radixflow as rf\n"
        "from radixflow import export\n"
        "trace = rf.open_trace(sys.argv[1])\n"
        "export.to_chrome(trace, 't.json'), export.to_parquet(trace, 'p'), export.to_csv(trace, 'c')\n"
        "export.to_latex(trace, 'l'), export.to_figures(trace, 'f.pdf')\n"
    )
    subprocess.run([sys.executable, "-c", code, str(paths[0])], check=True, cwd=tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c", "f.pdf", "l", "p", "t.json"]

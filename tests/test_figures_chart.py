from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

import pandas as pd
import pytest
from figures_traces import figure1, stream, write

from radixflow import figures
from radixflow.figures import charts
from radixflow.trace import open_trace
from radixflow.trace.schema import Request


def opened(records):
    with TemporaryDirectory() as folder:
        return open_trace(write(Path(folder) / "t.rft.jsonl", records))


@pytest.fixture(scope="module")
def radix():
    return opened(figure1("radix"))


@pytest.fixture(scope="module")
def flow():
    return opened(figure1("radixflow+noadmit"))


def test_a_saved_svg_is_the_same_bytes_in_every_process(radix, tmp_path):
    figure = figures.timeline(radix)
    first = figure.save(tmp_path / "a.svg").read_bytes()
    assert figures.timeline(radix).render("svg") == first
    ElementTree.fromstring(first)
    assert b"<dc:date>" not in first
    trace = write(tmp_path / "t.rft.jsonl", figure1("radix"))
    code = (
        "import sys, radixflow as rf\n"
        "trace = rf.open_trace(sys.argv[1])\n"
        "rf.figures.timeline(trace).save(sys.argv[2])\n"
    )
    subprocess.run([sys.executable, "-c", code, str(trace), str(tmp_path / "b.svg")], check=True)
    other = (tmp_path / "b.svg").read_bytes()
    ours = figures.timeline(open_trace(trace)).render("svg")
    assert other == ours


def test_a_saved_pdf_embeds_its_fonts_and_says_which_trace_made_it(radix, tmp_path):
    data = figures.timeline(radix).save(tmp_path / "f.pdf", "column").read_bytes()
    assert data.startswith(b"%PDF")
    assert b"/FontFile2" in data
    assert b"/Type3" not in data
    assert radix.id.encode() in data
    assert b"CreationDate" not in data


def test_a_figure_displays_in_a_notebook_without_any_script(flow):
    bundle = figures.tree(flow, 1)._repr_mimebundle_()
    assert bundle["image/png"].startswith(b"\x89PNG")
    assert "<svg" in bundle["image/svg+xml"]
    assert "<script" not in bundle["image/svg+xml"]


def test_the_printed_timeline_names_who_waits_for_whom(radix):
    # Text as text, to read it back.
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(7, 3))
    figure = figures.timeline(radix)
    figure.draw(canvas, "light")
    words = [text.get_text() for axes in canvas.axes for text in axes.texts]
    assert [word for word in words if "←" in word] == [f"■ A{n} ← P{n}" for n in range(1, 6)]
    hatched = [patch for patch in canvas.axes[0].patches if patch.get_hatch() and "/" in patch.get_hatch()]
    assert len(hatched) == 7, "one hatched cell for each avoidable slot"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_short_long_and_compared_runs_all_print(radix, flow, theme):
    long = opened(stream(300, rows=16, tokens=2048))
    for figure in (
        figures.timeline(long),
        figures.timeline(long, 20, 60),
        figures.compare(radix, flow),
        figures.tree(long, 50),
    ):
        assert figure.render("png", 5.0, theme).startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (
            lambda t: figures.timeline(t).save("f.jpg"),
            "f.jpg: unknown figure format, expected one of .pdf, .svg, .png",
        ),
        (
            lambda t: figures.timeline(t).render("svg", "wide"),
            "width 'wide': expected 1 to 60 inches, or one of column, text, slide",
        ),
        (
            lambda t: figures.timeline(t).render("svg", theme="sepia"),
            "theme 'sepia': unknown, expected one of light, dark",
        ),
        (lambda t: figures.compare(t), "compare: 1 traces given, expected 2 to 6"),
        (
            lambda t: figures.timeline(t, 50, 60),
            "rounds 50 to 60: none of them is in the trace, expected 1 to 6",
        ),
    ],
)
def test_a_wrong_wish_gets_one_clear_line(radix, act, says):
    with pytest.raises(ValueError) as error:
        act(radix)
    assert str(error.value) == says


def test_an_exported_page_holds_everything_and_nothing_from_outside(flow, tmp_path):
    text = figures.export_html(flow, tmp_path / "f.html").read_text(encoding="utf-8")
    assert not re.findall(r"""(?:src|href)\s*=\s*["']?https?:""", text)
    assert "default-src 'none'" in text
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S).group(1))
    assert data["labels"] == ["radixflow+noadmit"]
    assert sorted(map(int, data["runs"][0]["trees"])) == [1, 2, 3, 4]


def test_an_exported_page_cannot_be_broken_out_of_by_an_id(tmp_path):
    records = figure1("radix")
    evil = "</script><script>alert(1)</script>"
    records[1] = Request(i=0, id=evil, t=0, prompt=1024, path=records[1].path)
    text = figures.export_html(opened(records), tmp_path / "f.html", title="<b>x").read_text(encoding="utf-8")
    assert evil not in text
    assert "<title>&lt;b&gt;x</title>" in text


def test_a_run_too_long_for_one_file_is_refused_with_the_way_out(monkeypatch, radix, tmp_path):
    from radixflow.figures.offline import page

    monkeypatch.setattr(page, "MAX_ROUNDS", 5)
    with pytest.raises(ValueError, match="6 rounds, expected at most 5 in one file; name a range"):
        figures.export_html(radix, tmp_path / "f.html")
    assert figures.export_html(radix, tmp_path / "f.html", first=2, last=6).exists()


def test_the_charts_hold_the_numbers_they_were_given():
    rows = charts.rows_a_round({"radix": [1, 1, 3, 3], "flow": [4]}, 4)
    assert [list(bar.x) for bar in rows.data] == [["1", "2", "3", "4"]] * 2
    assert [list(bar.y) for bar in rows.data] == [[0.5, 0, 0.5, 0], [0, 0, 0, 1]]
    assert list(rows.data[0].marker.line.width) == [1, 0, 1, 0], "a bar of nothing leaves no line"
    ecdf = charts.latency_ecdf({"radix": [3.0, 1.0, None, 2.0, 4.0]})
    assert list(ecdf.data[0].x) == [1, 2, 3, 4]
    assert list(ecdf.data[0].y) == [0.25, 0.5, 0.75, 1]
    assert list(ecdf.data[1].y) == [0.75, 0.5, 0.25]
    cost = {"saved_seconds": 3.0, "fewer_rounds_seconds": 4.5, "dearer_rounds_seconds": 1.5}
    bars = charts.cost_identity({"flow": cost, "async": None})
    assert [list(bar.x) for bar in bars.data] == [[4.5], [-1.5], [3.0]]
    table = pd.DataFrame({"a": [3, 0, 5], "b": [1, 0, 2]}, index=["avoidable", "capacity", "idle"])
    stacked = charts.slots_by_cause(table)
    assert [(bar.name, list(bar.x)) for bar in stacked.data] == [("avoidable", [3, 1]), ("idle", [5, 2])]


def test_causes_in_one_chart_are_told_apart_without_colour():
    from radixflow.analysis.causes import SLOT_CAUSES, WAIT_CAUSES

    for causes, chart in ((SLOT_CAUSES, charts.slots_by_cause), (WAIT_CAUSES, charts.waits_by_cause)):
        drawn = chart(pd.DataFrame({"a": [1.0] * len(causes)}, index=list(causes)))
        looks = [(bar.marker.pattern.shape, bar.marker.pattern.size) for bar in drawn.data]
        assert len(set(looks)) == len(causes)


def test_screen_and_paper_show_runs_and_causes_alike():
    from radixflow.analysis.causes import SLOT_CAUSES, WAIT_CAUSES
    from radixflow.figures.palette import fill
    from radixflow.figures.patterns import RUN_HUES, of_cause
    from radixflow.figures.printed import comparison as printed
    from radixflow.figures.wording import CAUSE_WORDS

    runs = [f"run {k}" for k in range(len(RUN_HUES))]
    for k, bar in enumerate(charts.rows_a_round({run: [1] for run in runs}, 4).data):
        look = printed._run_look(k, "light")
        assert bar.marker.color == look["fc"] == fill(RUN_HUES[k], 0)
        assert set(look["hatch"] or "") == set(bar.marker.pattern.shape)
    for causes, chart in ((SLOT_CAUSES, charts.slots_by_cause), (WAIT_CAUSES, charts.waits_by_cause)):
        table = pd.DataFrame({"a": [1.0] * len(causes)}, index=list(causes))
        labels = [handle.get_label() for handle in printed._Stacked(table, "slots").handles("light")]
        bars = chart(table).data
        assert [bar.name for bar in bars] == labels == [CAUSE_WORDS[cause] for cause in causes]
        assert not any("_" in label for label in labels)
        for cause, bar in zip(causes[1:], bars[1:], strict=True):
            look = printed.cause_look(cause, "light")
            assert bar.marker.color == look["fc"]
            assert set(look["hatch"] or "") == set(bar.marker.pattern.shape) == set(of_cause(cause).shape)


def test_labels_from_outside_are_text_in_charts():
    chart = charts.rows_a_round({"<b>x</b>": [1]}, 2)
    assert chart.data[0].name == "&lt;b&gt;x&lt;/b&gt;"


def test_importing_figures_brings_in_no_plotting_library():
    code = (
        "import sys, radixflow.figures\nprint(sorted({'matplotlib', 'plotly', 'vllm', 'torch'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"

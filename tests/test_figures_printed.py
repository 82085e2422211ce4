"""Printed figures: embedded fonts, readable type, nothing on top of anything, and the numbers they were given."""

from __future__ import annotations

import io
from xml.etree import ElementTree

import figures_traces
import numpy as np
import pandas as pd
import pytest

from radixflow import figures
from radixflow.analysis.run_labels import run_labels
from radixflow.export import run_figures
from radixflow.figures.figure import WIDTHS, styled
from radixflow.figures.patterns import of_cause
from radixflow.figures.printed.runs import by_policy, ratios
from radixflow.trace import open_trace

MODELS = ("Qwen3.5-0.8B", "Qwen3.5-27B", "Nemotron-9B")
POLICIES = ("radix", "radix+timer5", "radix+timer10", "radix+flex", "radixflow", "radixflow+frag")


@pytest.fixture(scope="module")
def traces(root):
    return [open_trace(path) for path in sorted((root / "data" / "traces").glob("figure1-*.zst"))]


@pytest.fixture(scope="module")
def runs():
    rng = np.random.default_rng(0)
    rows = []
    for model, seconds, rounds in zip(MODELS, (0.256, 164.0, 2.44), (19_803, 11_748, 14_338), strict=True):
        for k, policy in enumerate(POLICIES):
            for stream in ("cold", "reuse", "mixed"):
                for order in (0, 1):
                    gain = 1.0 if policy == "radix" else 1 - 0.05 * k + 0.02 * rng.standard_normal()
                    own = {"model": model, "policy": policy, "stream": stream, "order": order, "requests": 1551}
                    own |= {f"latency_{part}": seconds * gain * m for part, m in (("mean", 1), ("p95", 2), ("p99", 3))}
                    rows.append(own | {"rounds": int(rounds / 6 * gain), "row_visits": rounds})
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def every(traces, runs):
    """Every figure there is, by name."""
    found = run_figures(traces)
    found["figure3"], found["figure4"] = figures.latency_by_model(runs), figures.rounds_by_model(runs)
    return found


def drawn(figure, width: str):
    """The figure on an Agg canvas, so that its texts can be measured."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    inches = WIDTHS[width]
    canvas = Canvas(figsize=(inches, figure.height(inches)), dpi=100)
    FigureCanvasAgg(canvas)
    figure.draw(canvas, "light")
    canvas.canvas.draw()
    return canvas


def texts(canvas):
    from matplotlib.text import Text

    hidden = set()
    for axes in canvas.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not low <= tick.get_loc() <= high:  # made, and not drawn
                    hidden |= {id(tick.label1), id(tick.label2)}
    found = canvas.findobj(Text)
    return [t for t in found if t.get_visible() and t.get_text().strip() and id(t) not in hidden]


@pytest.mark.parametrize("width", ["column", "text"])
def test_type_is_readable_inside_the_page_and_on_top_of_nothing(every, width):
    for name, figure in every.items():
        with styled():
            canvas = drawn(figure, width)
            high, wide = canvas.bbox.height, canvas.bbox.width
            boxes = []
            for text in texts(canvas):
                box = text.get_window_extent()
                assert text.get_fontsize() >= 7, (name, text.get_text())
                assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= wide + 1 and box.y1 <= high + 1, (name, text)
                boxes.append((text.get_text(), box))
            for k, (one, a) in enumerate(boxes):
                for other, b in boxes[k + 1 :]:
                    across = min(a.x1, b.x1) - max(a.x0, b.x0)
                    along = min(a.y1, b.y1) - max(a.y0, b.y0)
                    assert across <= 1 or along <= 2, f"{name}, {width}: {one!r} on {other!r}"


def test_every_font_in_every_pdf_is_embedded_truetype(every):
    pypdf = pytest.importorskip("pypdf")
    for name in ("timeline-radix", "tree-radix", "waits", "figure3", "figure4"):
        figure = every[name]
        reader = pypdf.PdfReader(io.BytesIO(figure.render("pdf", "column")))
        fonts = [font.get_object() for page in reader.pages for font in page["/Resources"]["/Font"].values()]
        assert fonts, name
        for font in fonts:
            assert font["/Subtype"] == "/Type0", "type 42: outlines as they are, not Type 3 drawings"
            for inner in font["/DescendantFonts"]:
                assert "/FontFile2" in inner.get_object()["/FontDescriptor"]


def test_a_file_says_what_made_it_and_is_the_same_bytes_again(traces, every):
    pypdf = pytest.importorskip("pypdf")
    command = "radixflow export a b --to figures -o figures"
    ids = ", ".join(trace.id for trace in traces)
    figure = every["figure1-timelines"]
    again = figures.compare(*traces, beside=True)
    first = figure.render("pdf", command=command)
    assert again.render("pdf", command=command) == first
    page = pypdf.PdfReader(io.BytesIO(first))
    assert page.metadata.subject == f"{command}; timelines of traces {ids}"
    assert ids in " ".join(page.pages[0].extract_text().split())
    quiet = pypdf.PdfReader(io.BytesIO(figure.render("pdf", command=command, source_line=False)))
    assert quiet.metadata.subject == page.metadata.subject
    assert traces[0].id not in quiet.pages[0].extract_text()
    assert quiet.pages[0].mediabox.height < page.pages[0].mediabox.height
    tree = ElementTree.fromstring(figure.render("svg", command=command))
    said = [e.text for e in tree.iter("{http://purl.org/dc/elements/1.1/}description")]
    assert said == [f"{command}; timelines of traces {ids}"]
    assert "radixflow.figures.timeline(trace, first=2)" in figures.timeline(traces[0], 2).render("svg").decode()


@pytest.mark.parametrize(("width", "inches"), [("column", 3.33), ("text", 7.0), (4.5, 4.5)])
def test_a_page_is_as_wide_as_was_asked(traces, width, inches):
    pypdf = pytest.importorskip("pypdf")
    page = pypdf.PdfReader(io.BytesIO(figures.rows_a_round(*traces).render("pdf", width))).pages[0]
    assert float(page.mediabox.width) / 72 == pytest.approx(inches, abs=0.01)


def test_policies_stand_beside_one_another_where_there_is_room(traces):
    figure = figures.compare(*traces, beside=True)
    with styled():
        for width, across in (("column", 1), ("text", 2)):
            lefts = {round(axes.get_position().x0, 3) for axes in drawn(figure, width).axes}
            assert len(lefts) == across


def test_a_style_file_changes_the_figure_and_a_wrong_one_is_refused(traces, tmp_path):
    style = tmp_path / "mine.mplstyle"
    style.write_text('# mine\nfont.family: STIXGeneral\naxes.edgecolor: "#ff0000"\n')
    figure = figures.rows_a_round(*traces)
    data = figure.render("pdf", style=style)
    assert b"STIX" in data and b"DejaVu" not in data
    for text, says in (
        ("font.sise: 9", "font.sise"),
        ("font.size: many", "Bad value"),
        ("no colon", "Missing colon"),
    ):
        style.write_text(text)
        with pytest.raises(ValueError, match=says) as error:
            figure.render("pdf", style=style)
        assert str(style) in str(error.value) and "\n" not in str(error.value)


def test_saving_again_replaces_the_file_whole(traces, tmp_path):
    path = figures.timeline(traces[0]).save(tmp_path / "f.svg")
    path.write_text("old")
    assert figures.timeline(traces[0]).save(path).read_bytes().startswith(b"<?xml")
    assert [p.name for p in tmp_path.iterdir()] == ["f.svg"]
    with pytest.raises(OSError) as error:
        figures.timeline(traces[0]).save(tmp_path / "no" / "f.svg")
    assert error.value.filename == str(tmp_path / "no" / "f.svg")


def test_runs_are_summed_and_averaged_over_streams(runs):
    whole = by_policy(runs).set_index(["model", "policy"])
    own = runs[(runs["model"] == MODELS[1]) & (runs["policy"] == "radixflow")]
    row = whole.loc[MODELS[1], "radixflow"]
    assert row["rounds"] == own["rounds"].sum()
    assert row["latency_mean"] == pytest.approx(own["latency_mean"].mean())
    assert row["rows_per_round"] == pytest.approx(own["row_visits"].sum() / own["rounds"].sum())
    table = ratios(runs, "latency_mean").set_index(["model", "policy"])
    assert (table.xs("radix", level="policy")["ratio"] == 1).all()
    shown = table.loc[MODELS[1], "radixflow"]
    base = runs[(runs["model"] == MODELS[1]) & (runs["policy"] == "radix")]
    each = own["latency_mean"].to_numpy() / base["latency_mean"].to_numpy()
    assert (shown["low"], shown["high"]) == (pytest.approx(each.min()), pytest.approx(each.max()))
    assert shown["base"] == pytest.approx(164.0)


def test_figures_3_and_4_show_each_model_and_policy(runs):
    with styled():
        for figure, panels in ((figures.latency_by_model(runs), 1), (figures.rounds_by_model(runs), 4)):
            canvas = drawn(figure, "text")
            assert len(canvas.axes) == panels
            for axes in canvas.axes:
                markers = [line for line in axes.lines if line.get_marker() not in ("None", None, "")]
                assert len(markers) == len(MODELS) * len(POLICIES)
                assert len({line.get_marker() for line in markers}) == len(POLICIES)
            assert {text.get_text() for text in texts(canvas)} >= {*MODELS, *POLICIES}


def test_runs_without_what_a_figure_shows_are_refused_in_one_line(runs):
    with pytest.raises(ValueError, match="no column policy, expected model, policy and rounds"):
        figures.rounds_by_model(runs.drop(columns="policy"))
    with pytest.raises(ValueError, match="no run has latency_mean: the workload has no clock"):
        figures.latency_by_model(runs.assign(latency_mean=None))


def test_bars_hold_the_slots_and_waits_of_each_run(traces):
    from radixflow.analysis import compare

    comparison = compare(*traces)
    with styled():
        axes = drawn(figures.slots_by_cause(*traces), "column").axes[0]
    widths = [[patch.get_width() for patch in bars] for bars in axes.containers]
    kept = comparison.slots[(comparison.slots != 0).any(axis=1)]
    assert widths == kept.to_numpy().tolist()
    with styled():
        axes = drawn(figures.waits_by_cause(*traces), "column").axes[0]
    kept = comparison.wait_rounds[(comparison.wait_rounds != 0).any(axis=1)]
    assert [[patch.get_width() for patch in bars] for bars in axes.containers] == kept.to_numpy().tolist()


def test_causes_are_told_apart_by_their_hatch():
    from radixflow.analysis import SLOT_CAUSES, WAIT_CAUSES

    for causes in (SLOT_CAUSES[1:], WAIT_CAUSES):
        looks = [of_cause(cause).hatch for cause in causes]
        assert len(set(looks)) == len(causes)


def test_runs_get_different_names(traces, tmp_path):
    assert run_labels(traces) == ["radix", "radixflow"]
    assert run_labels([traces[0], traces[0]]) == ["radix #1", "radix #2"]
    long = open_trace(figures_traces.write(tmp_path / "t.rft.jsonl", figures_traces.stream(30, rows=8)))
    assert run_labels([traces[0], long]) == ["figure1 radix", "stream0 radix"]

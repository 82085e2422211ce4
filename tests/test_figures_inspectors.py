"""The inspectors and the table of requests, printed: what the page says, in whole, on paper."""

from __future__ import annotations

import csv
import html
import io
import json
import re

import pytest
from dashboard_traces import header, hostile, long_run, write

from radixflow import figures
from radixflow.analysis import compare, explain
from radixflow.export import requests_csv
from radixflow.figures.cards import Words
from radixflow.figures.figure import styled
from radixflow.figures.palette import Colours
from radixflow.figures.printed.card import wrapped
from radixflow.figures.request_card import HELPED, request_card
from radixflow.figures.round_card import round_card
from radixflow.trace import open_trace
from radixflow.trace.schema import End, Request

pypdf = pytest.importorskip("pypdf")


@pytest.fixture(scope="module")
def traces(root):
    return [open_trace(path) for path in sorted((root / "data" / "traces").glob("figure1-*.zst"))]


def said(figure, width="column") -> str:
    """The text of a figure's PDF, words apart by one space."""
    page = pypdf.PdfReader(io.BytesIO(figure.render("pdf", width))).pages[0]
    return " ".join(page.extract_text().split())


@pytest.mark.parametrize("width", ["column", "text"])
def test_a_printed_round_says_what_the_page_says(traces, width):
    text = said(figures.round(traces[0], 1), width)
    for words in ("Round 1 radix", "4 rows =", "1 selected", "3 avoidable", "1,024 of 4,096 tokens", "scan stopped",
                  "stopped at A1, which could reuse a prefix", "195 of 199 KV blocks were free"):  # fmt: skip
        assert words in text
    queue = text[text.index("Waiting queue 15") :]
    places = [queue.index(name) for name in ("P1", "A1", "D1", "P2", "A2", "D2", "P3")]
    assert places == sorted(places)
    assert f"radixflow.figures.round(trace, 1); round 1 of trace {traces[0].id}" in text


@pytest.mark.parametrize("width", ["column", "text"])
def test_a_printed_request_has_every_word_of_its_explanation(traces, width):
    for trace in traces:
        for request in ("A1", "D5"):
            why = explain(trace, request)
            text = said(figures.request(trace, request), width)
            for line in why.text.split("\n"):
                assert " ".join(line.removeprefix("- ").removeprefix(HELPED).split()) in text
            assert f"Most that a look-up may match {why.prefix['lookup_cap']:,}" in text


def test_a_card_names_each_cause_with_its_own_pattern(traces):
    card = request_card(traces[0], "A2", Colours.of(*traces))
    [causes] = [block for block in card.blocks if getattr(block, "title", "") == "Why it waited"]
    for look, line in causes.blocks[0].lines:
        assert f"({look}" in line  # both causes of A2 have a pattern of their own
    assert {look for look, _ in causes.blocks[0].lines} == {"blocked", "unexamined"}


def test_a_round_adds_up_on_its_card(traces):
    for trace in traces:
        for n in range(1, trace.num_rounds + 1):
            slots = round_card(trace, n, Colours.of(*traces))[0].blocks[0]
            assert sum(part.amount for part in slots.parts) == trace.config.max_num_seqs


def test_the_table_holds_the_numbers_of_the_comparison(traces):
    table = compare(*traces).requests
    text = said(figures.requests(*traces), "text")
    assert text.startswith("15 requests, in order of arrival")
    for id, row in table.iterrows():
        numbers = [int(row[label, name]) for label in ("radix", "radixflow") for name in
                   ("first_selected_round", "wait_rounds")]  # fmt: skip
        assert id in text and all(str(number) in text for number in numbers)
    longest = said(figures.requests(*traces, sort="wait_rounds", most=2))
    assert "The first 2 of 15 requests, most rounds waited first" in longest
    assert "A5" in longest and "D5" in longest and "P1" not in longest


def test_the_table_keeps_inside_the_page_however_many_runs(traces):
    from test_figures_printed import drawn, texts

    with styled():
        for given in (traces, [*traces, *traces, *traces]):
            for width in ("column", "text"):
                canvas = drawn(figures.requests(*given), width)
                edges = [text.get_window_extent().x1 for text in texts(canvas)]
                assert max(edges) <= canvas.bbox.width + 1, (len(given), width)


def test_what_is_asked_for_in_vain_is_said_in_one_line(traces):
    for make, says in (
        (lambda: figures.round(traces[0], 7), "no round 7.*rounds 1 to 6"),
        (lambda: figures.request(traces[0], "A11"), "A11"),
        (lambda: figures.requests(*traces, sort="colour"), "sort 'colour': unknown, expected one of first_selected"),
        (lambda: figures.requests(*traces, most=0), "most 0: expected 1 to 200"),
        (lambda: figures.requests(), "0 traces given, expected 1 to 6"),
    ):
        with pytest.raises(ValueError, match=says) as error:
            make()
        assert "\n" not in str(error.value)


def test_a_word_longer_than_the_line_is_cut_and_nothing_else_is():
    with styled():
        lines = wrapped(Words((("stopped at ", False), ("x" * 500, True), (", which went on", False))), 2.0)
        text = "".join(piece for line in lines for piece, _ in line)
    assert text.startswith("stopped at") and "…xxx" in text and text.endswith(", which went on")


def test_ids_of_any_kind_are_printed(tmp_path):
    ids = ["x" * 10_000, "שלום-1", "=1+1", "a\nb\tc", "$x^2$", "<script>alert(1)</script>"]
    records = [header("00000000000000ee"), *(Request(i, id, 0, 100, [(f"s{i}", 100)]) for i, id in enumerate(ids))]
    trace = open_trace(write(tmp_path / "odd.rft.jsonl", [*records, End(10, "interrupted", 0)]))
    table = said(figures.requests(trace), "text")
    assert "=1+1" in table and "a b c" in table and "$x^2$" in table and "<script>" in table
    for id in ids:
        assert figures.request(trace, id).render("svg", "column").startswith(b"<?xml")


def test_hostile_rounds_are_printed(tmp_path):
    trace = open_trace(write(tmp_path / "h.rft.jsonl", [*hostile(), End(2_000_000, "finished", 1)]))
    assert "<script>" in said(figures.round(trace, 1))


def test_the_csv_has_all_requests_and_no_formula(traces, tmp_path):
    lines = list(csv.reader(io.StringIO(requests_csv(*traces).decode())))
    assert lines[0][:3] == ["request", "radix first_selected_round", "radix wait_rounds"]
    table = compare(*traces).requests
    assert [line[0] for line in lines[1:]] == list(table.index)
    assert [int(line[2]) for line in lines[1:]] == table["radix", "wait_rounds"].tolist()
    records = [header("00000000000000ed", policy="=run"), Request(0, "=1+1", 0, 100, [("s", 100)])]
    trace = open_trace(write(tmp_path / "f.rft.jsonl", [*records, End(10, "interrupted", 0)]))
    head, line = csv.reader(io.StringIO(requests_csv(trace).decode()))
    assert line[0] == "'=1+1" and not any(name.startswith("=") for name in head)


def test_a_round_of_a_long_queue_counts_what_it_leaves_out(tmp_path):
    trace = open_trace(write(tmp_path / "long.rft.jsonl", long_run(30)))
    card, queue = round_card(trace, 30, Colours.of(trace))
    assert len(queue.chips) + queue.more == len(trace.round(30).queue)
    assert card.title == "Round 30"


def test_the_offline_page_carries_the_words_of_each_round_and_request(traces, tmp_path):
    text = figures.export_html(traces, tmp_path / "f.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])
    for trace, run in zip(traces, data["runs"], strict=True):
        assert list(map(int, run["words"]["rounds"])) == list(range(1, trace.num_rounds + 1))
        assert list(run["words"]["requests"]) == trace.ids
        said = html.unescape(re.sub(r"<[^>]+>", "", run["words"]["requests"]["A2"]))
        assert explain(trace, "A2").text.split("\n")[0] in said
    assert "stopped at A1, which could reuse" in data["runs"][0]["words"]["rounds"]["1"][0]
    assert "<h2>Compare</h2>" in text and text.count("data:image/png") == 4
    assert "<h2>Compare</h2>" not in figures.export_html(traces[0], tmp_path / "one.html").read_text(encoding="utf-8")


def test_nothing_of_a_trace_is_markup_in_the_offline_page(tmp_path):
    trace = open_trace(write(tmp_path / "h.rft.jsonl", [*hostile(), End(2_000_000, "finished", 1)]))
    text = figures.export_html([trace, trace], tmp_path / "f.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])
    made = [part for run in data["runs"] for round in run["words"]["rounds"].values() for part in round]
    made += [card for run in data["runs"] for card in run["words"]["requests"].values()]
    for part in [*made, text[text.index('<div class="words">') : text.index('<script type="application/json"')]]:
        assert "<script" not in part and "<img src=x" not in part and "<b>.." not in part


def test_colours_of_requests_whose_files_are_gone_are_forgotten(traces):
    colours = Colours.of(traces[0])
    before = colours.fill("A2")
    colours.keep(["A2", "D1", None, "unknown"])
    assert "A2" in colours and colours.fill("A2") == before and "P1" not in colours and "unknown" not in colours

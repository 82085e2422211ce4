from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from figures_traces import figure1, header, stream, write
from hypothesis import given, settings
from hypothesis import strategies as st

from radixflow.analysis import slots
from radixflow.analysis.causes import SLOT_CAUSES
from radixflow.figures import levels, windows
from radixflow.figures.palette import Colours
from radixflow.trace import open_trace
from radixflow.trace.schema import Admission, End, Finish, Gap, Probe, Repeat, Request, Round, Stop


def opened(records):
    with TemporaryDirectory() as folder:
        return open_trace(write(Path(folder) / "t.rft.jsonl", records))


@pytest.fixture(scope="module")
def long():
    return opened(stream(400, rows=16, tokens=2048, seed=5))


def cells(window) -> dict[int, list[tuple[int, str, str | None, int]]]:
    """Per round (row, kind, request id, tokens), sorted by row."""
    rounds: dict[int, list] = {n: [] for n in range(window["first"], window["last"] + 1)}
    for row, first, span, kind, request, tokens in windows.unpack(window["cells"], "<i4").reshape(-1, 6).tolist():
        who = window["requests"][request]["id"] if request >= 0 else None
        for n in range(first, first + span):
            rounds[n].append((row, window["kinds"][kind], who, tokens))
    return {n: sorted(here) for n, here in rounds.items()}


def check_against(trace, window):
    size = trace.config.max_num_seqs
    table = slots(trace).rounds
    for n, here in cells(window).items():
        assert [row for row, *_ in here] == list(range(size)), f"round {n} has other rows than 0..S-1"
        view = trace.round(n)
        drawn = Counter((who, tokens) for _, kind, who, tokens in here if kind in ("running", "waiting"))
        assert drawn == Counter((trace.ids[i], tokens) for i, tokens in view.selected)
        admitted = {who for _, kind, who, _ in here if kind == "waiting"}
        assert admitted == {trace.ids[i] for i in view.admitted}
        counts = Counter("row_visits" if kind in ("running", "waiting") else kind for _, kind, _, _ in here)
        # A stalled round's row in the accounting stands for its repetitions.
        accounted = table.loc[view.n]
        assert {cause: counts[cause] for cause in SLOT_CAUSES} == {
            cause: int(accounted[cause]) for cause in SLOT_CAUSES
        }


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), rows=st.sampled_from([1, 3, 8, 16]), probe=st.booleans())
def test_a_windows_cells_are_the_row_visits_and_the_slot_accounting(seed, rows, probe):
    trace = opened(stream(40, rows=rows, tokens=1024, seed=seed, probe=probe))
    check_against(trace, windows.window(trace, 1, trace.num_rounds))


@pytest.mark.parametrize("policy", ["radix", "radixflow+noadmit"])
def test_figure1_shows_the_papers_bubbles(policy):
    trace = opened(figure1(policy))
    window = windows.window(trace, 1, 99)
    check_against(trace, window)
    kinds = [Counter(kind for _, kind, _, _ in here) for here in cells(window).values()]
    if policy == "radix":
        assert [k["avoidable"] for k in kinds] == [3, 1, 1, 1, 1, 0]
        assert kinds[-1]["idle"] == 2
    else:
        assert [k["avoidable"] + k["idle"] for k in kinds] == [0, 0, 0, 1]


def test_figure1_marks_where_the_scan_stopped_and_who_waits_for_whom():
    radix = windows.window(opened(figure1("radix")), 1, 6)
    names = [request["id"] for request in radix["requests"]]
    stops = windows.unpack(radix["stops"], "<i4").reshape(-1, 3).tolist()
    assert [(n, names[r], radix["kinds"][cause]) for n, r, cause in stops] == [
        (n, f"A{n}", "blocked") for n in range(1, 6)
    ]
    flow = windows.window(opened(figure1("radixflow+noadmit")), 1, 4)
    names = [request["id"] for request in flow["requests"]]
    parked = windows.unpack(flow["parked"], "<i4").reshape(-1, 5).tolist()
    assert [(n, names[r], names[p], b, k) for n, r, p, b, k in parked] == [
        (1, "A1", "P1", 1024, 1), (1, "A2", "P2", 1024, 1),
        (2, "A3", "P3", 1024, 1), (3, "A4", "P4", 1024, 1),
    ]  # fmt: skip


def test_a_request_stays_in_its_row_until_it_finishes_or_is_preempted(long):
    rows: dict[str, int] = {}
    preempted = {n: {long.ids[i] for i in long.round(n).preempted} for n in range(1, long.num_rounds + 1)}
    moved = 0
    for n, here in cells(windows.window(long, 1, long.num_rounds)).items():
        for who in preempted[n]:
            rows.pop(who, None)
            moved += 1
        for row, kind, who, _ in here:
            if kind in ("running", "waiting", "resident"):
                assert rows.setdefault(who, row) == row, f"{who} moved in round {n}"
    assert moved, "the fixture no longer preempts: the test would prove nothing"


def test_cutting_a_window_elsewhere_changes_no_cell(long):
    colours = Colours.of(long)
    whole = cells(windows.window(long, 1, long.num_rounds, colours))
    for first, last in ((1, 1), (50, 120), (333, 400)):
        part = cells(windows.window(long, first, last, colours))
        assert part == {n: whole[n] for n in range(first, last + 1)}


def test_equal_cells_of_successive_rounds_travel_as_one_run(long):
    window = windows.window(long, 1, long.num_rounds)
    runs = windows.unpack(window["cells"], "<i4").reshape(-1, 6)
    assert len(runs) < 0.6 * 16 * long.num_rounds
    assert len(json.dumps(window)) < 250_000


def test_the_bins_of_the_overview_add_up_to_the_row_budget(long):
    overview = windows.overview(long)
    for level in overview["levels"]:
        values = dict(
            zip(
                overview["fields"],
                windows.unpack(level["values"], "<f4").reshape(len(overview["fields"]), -1),
                strict=True,
            )
        )
        parts = sum(values[name] for name in ("rows", "resident", "avoidable", "refused", "idle", "unprobed"))
        np.testing.assert_allclose(parts, 16, atol=1e-4)
    finest = overview["levels"][0]
    assert finest["bin"] == 1
    values = windows.unpack(finest["values"], "<f4").reshape(len(overview["fields"]), -1)
    np.testing.assert_array_equal(values[0], long.rounds["rows"].to_numpy())
    np.testing.assert_array_equal(values[6], long.rounds["tokens"].to_numpy())


def test_a_long_range_comes_as_bins_and_a_wrong_one_as_nothing(monkeypatch, long):
    monkeypatch.setattr(windows, "MAX_CELL_ROUNDS", 100)
    window = windows.window(long, 1, 400)
    assert window["mode"] == "bins"
    assert "cells" not in window
    assert windows.window(long, 901, 999)["mode"] == "empty"
    clamped = windows.window(long, -5, 10**9)
    assert (clamped["first"], clamped["last"]) == (1, 400)


def run(records):
    return opened(
        [
            header(2, 100, "radix", "t", 10),
            Request(i=0, id="a", t=0, prompt=10),
            Request(i=1, id="b", t=0, prompt=10),
            *records,
        ]
    )


def test_every_repetition_of_a_stalled_round_is_drawn():
    trace = run([
        Round(n=1, t=0, d=1, stop=Stop("capacity", 0), probe=Probe([], [(0, "capacity"), (1, "capacity")])),
        Repeat(n=5, count=4, t=50),
        Round(n=6, t=60, d=1, selected=[0, 10], admissions=[Admission(0, 0, 0)], probe=Probe([1])),
        Finish(0, 70, "length", 1, 6),
        End(80, "finished", 6),
    ])  # fmt: skip
    drawn = cells(windows.window(trace, 1, 6))
    assert [[kind for _, kind, _, _ in drawn[n]] for n in (1, 3, 5)] == [["capacity", "capacity"]] * 3
    assert [kind for _, kind, _, _ in drawn[6]] == ["waiting", "avoidable"]
    assert cells(windows.window(trace, 4, 4))[4] == drawn[4]


def test_rounds_that_were_not_recorded_say_so_in_every_row():
    trace = run([
        Round(n=1, t=0, d=1, selected=[0, 10], admissions=[Admission(0, 0, 0)]),
        Gap(rounds=2, records=5, first=2, last=3),
        Round(n=4, t=60, d=1, selected=[0, 1, 1, 10], queue=([], [])),
    ])  # fmt: skip
    drawn = cells(windows.window(trace, 1, 4))
    assert [kind for _, kind, _, _ in drawn[2]] == ["unrecorded"] * 2
    assert Counter((who, tokens) for _, _, who, tokens in drawn[4]) == Counter([("a", 1), ("b", 10)])
    level = windows.overview(trace)["levels"][0]
    assert level["count"] == 4


def test_an_unprobed_round_is_idle_only_where_nobody_waited():
    trace = run([
        Round(n=1, t=0, d=1, selected=[0, 10], admissions=[Admission(0, 0, 0)], stop=Stop("blocked", 1)),
        Finish(0, 50, "length", 1, 1),
        Round(n=2, t=60, d=1, selected=[1, 10], admissions=[Admission(1, 0, 0)]),
        End(80, "finished", 2),
    ])  # fmt: skip
    drawn = cells(windows.window(trace, 1, 2))
    assert [kind for _, kind, _, _ in drawn[1]] == ["waiting", "unprobed"]
    assert [kind for _, kind, _, _ in drawn[2]] == ["waiting", "idle"]


def test_a_run_without_rounds_has_an_empty_overview():
    trace = run([])
    assert windows.overview(trace)["levels"] == []
    assert windows.window(trace, 1, 10)["mode"] == "empty"


@pytest.mark.parametrize("seed", range(3))
def test_a_run_that_grows_is_drawn_as_one_that_was_read_at_once(tmp_path, seed):
    records = list(stream(300, rows=8, tokens=1024, seed=seed, probe=seed != 2))
    path = write(tmp_path / "whole.rft.jsonl", records)
    lines = path.read_bytes().splitlines(keepends=True)
    grown = tmp_path / "grown.rft.jsonl"
    grown.write_bytes(b"".join(lines[:3]))
    trace, at, step = open_trace(grown), 3, 1
    colours = Colours.of(trace)
    while at < len(lines):
        step = step % 97 + 7
        with open(grown, "ab") as file:
            file.writelines(lines[at : at + step])
        at += step
        trace.update()
        colours.extend(trace)
        shown = windows.window(trace, max(1, trace.num_rounds - 3), trace.num_rounds, colours)
        if shown["mode"] == "cells":
            check_against(trace, shown)
        overview = windows.overview(trace)
    whole = open_trace(path)
    assert overview == windows.overview(whole)
    assert windows.window(trace, 1, 999, colours) == windows.window(whole, 1, 999, Colours.of(whole))


def test_the_bins_of_a_run_that_grows_past_what_a_level_holds_are_right(monkeypatch, tmp_path):
    monkeypatch.setattr(levels, "MAX_BINS", 32)
    path = write(tmp_path / "whole.rft.jsonl", stream(300, rows=8, tokens=1024, seed=1))
    lines = path.read_bytes().splitlines(keepends=True)
    grown = tmp_path / "grown.rft.jsonl"
    grown.write_bytes(b"".join(lines[:200]))
    trace = open_trace(grown)
    for at in range(200, len(lines), 50):
        windows.overview(trace)
        with open(grown, "ab") as file:
            file.writelines(lines[at : at + 50])
        trace.update()
    found = windows.overview(trace)["levels"]
    assert [level["bin"] for level in found] == [16] and found[0]["count"] == 19
    assert found == windows.overview(open_trace(path))["levels"]

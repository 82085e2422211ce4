"""The trajectories' pictures: a bar is what the tree and the returns say, and a strip is its bars."""

from __future__ import annotations

import pytest
from dashboard_traces import write
from figures_traces import figure1
from trajectory_traces import BLOCK, agents

import radixflow as rf
from radixflow.analysis import evictions, returns, summarize_evictions
from radixflow.analysis.trajectories import Trajectories
from radixflow.export import run_figures
from radixflow.figures.trajectory_bars import Contexts, bars
from radixflow.figures.trajectory_strips import strips
from radixflow.trace import open_trace
from radixflow.trace.schema import Request

KINDS = [("lru", 0), ("rr", 0), ("lru", 1), ("rr", 1)]


def trace_of(folder, eviction, states=0, **more):
    path = folder / f"{eviction}-{states}.rft.jsonl"
    return open_trace(write(path, agents(eviction, states, id=f"{len(eviction)}{states}" * 8, **more)))


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trajectories")
    return {kind: trace_of(folder, *kind) for kind in KINDS}


@pytest.fixture(scope="module")
def contexts(traces):
    return {kind: Contexts(trace) for kind, trace in traces.items()}


# --- Bars


@pytest.mark.parametrize("kind", KINDS)
def test_the_bar_of_a_return_is_what_its_look_up_found(kind, traces, contexts):
    table = returns(traces[kind])
    assert set(table["miss"]) >= {"none", "whole"}
    for back in table.itertuples():
        bar = contexts[kind].bar(contexts[kind].names[back.trajectory], traces[kind].tree(back.round))
        assert (bar.state, bar.i, bar.miss) == ("running", back.i, back.miss)
        assert (bar.ready, bar.expected, bar.lost) == (back.reused, back.expected, back.missed)
        assert bar.shared == back.shared == BLOCK
        evictor = traces[kind].ids[bar.evictor] if bar.evictor is not None else None
        assert evictor == (back.evictor if isinstance(back.evictor, str) else None)


@pytest.mark.parametrize("kind", KINDS)
def test_an_idle_one_could_go_on_from_what_the_tree_has(kind, traces, contexts):
    trace, one = traces[kind], contexts[kind]
    taken = evictions(trace)
    idle = 0
    for n in range(1, trace.num_rounds + 1):
        tree = trace.tree(n)
        for first in one.names.values():
            bar = one.bar(first, tree)
            if bar.state not in ("idle", "gone"):
                continue
            idle += 1
            assert bar.full == tree.prompt(bar.i) and bar.full % BLOCK
            assert bar.ready == tree.ready(bar.i)
            assert bar.matched == max(bar.ready, tree.matched(bar.i)[0])
            assert bar.lost == bar.full // BLOCK * BLOCK - bar.ready
            assert bar.vanished == (bar.lost > 0 and bar.ready <= BLOCK)
            own = taken[(taken["victim_trajectory"] == trace.ids[first]) & (taken["round"] <= n)]
            own = own[(own["start"] < bar.expected) & (own["end"] > bar.ready)]
            evictor = own["evictor"].iloc[-1] if bar.lost and len(own) else None
            assert (trace.ids[bar.evictor] if bar.evictor is not None else None) == evictor
    assert idle > 50


def test_a_trajectory_comes_waits_runs_rests_and_is_done(traces, contexts):
    trace, one = traces["lru", 0], contexts["lru", 0]
    requests = trace.requests
    for first in one.names.values():
        states = [one.bar(first, trace.tree(n)) for n in range(1, trace.num_rounds + 1)]
        own = [i for i in requests.index if requests["group"][i] == requests["group"][first]]
        running = {n for i in own for n in range(requests["first_selected_round"][i], requests["finish_round"][i] + 1)}
        assert {n for n, bar in enumerate(states, 1) if bar.state == "running"} == running
        done = requests["finish_round"][own[-1]]
        for n, bar in enumerate(states, 1):
            if bar.state == "waiting":
                assert requests["first_selected_round"][bar.i] > n
            elif bar.state == "gone":
                assert n > done and bar.since == done
            elif bar.state == "idle":
                assert bar.since == requests["finish_round"][bar.i] < n <= done
            elif bar.state == "absent":
                assert not trace.tree(n).knows(first) and bar.full == 0
    seen = {one.bar(first, trace.tree(n)).state for first in one.names.values() for n in range(1, trace.num_rounds)}
    assert seen == {"absent", "waiting", "running", "idle", "gone"}


def test_of_a_run_without_an_end_nobody_is_known_to_be_done(tmp_path):
    trace = trace_of(tmp_path, "lru", end=False)
    one = Contexts(trace)
    states = {one.bar(first, trace.tree(trace.num_rounds)).state for first in one.names.values()}
    assert states == {"running", "idle"}


def test_lru_empties_one_after_another_and_rotation_takes_a_little_from_each(traces, contexts):
    for n in range(14, traces["lru", 0].num_rounds + 1):
        shares = {}
        for kind in KINDS[:2]:
            one, tree = contexts[kind], traces[kind].tree(n)
            found = [one.bar(first, tree) for first in one.names.values()]
            shares[kind[0]] = [one.own(bar) for bar in found if bar.state in ("idle", "gone")]
        assert sum(0 < share < 1 for share in shares["lru"]) <= 1
    assert sum(0 < share < 1 for share in shares["rr"]) >= 3


def test_key_values_without_a_state_are_told_from_those_that_serve(traces, contexts):
    kinds = {}
    for kind in KINDS:
        one = contexts[kind]
        trees = [traces[kind].tree(n) for n in range(1, traces[kind].num_rounds + 1)]
        kinds[kind] = sum(
            bar.matched > bar.ready
            for tree in trees
            for bar in (one.bar(first, tree) for first in one.names.values())
            if bar.state == "idle"
        )
        assert one.has_states == bool(kind[1])
    assert kinds["lru", 0] == kinds["rr", 0] == 0
    assert kinds["lru", 1] > 0


def test_columns_share_rows_and_scale(traces, contexts):
    pair = [contexts["lru", 0], contexts["rr", 0]]
    drawn = bars(pair, 20)
    assert drawn["rows"] == [f"a{k}.t0" for k in range(6)] and drawn["labels"] == [f"a{k}" for k in range(6)]
    assert drawn["hidden"] == 0
    assert drawn["extent"] == max(traces["lru", 0].requests["prompt"])
    assert [len(run["bars"]) for run in drawn["runs"]] == [6, 6]
    assert [run["eviction"] for run in drawn["runs"]] == ["lru", "rr"]
    for run, trace in zip(drawn["runs"], (traces["lru", 0], traces["rr", 0]), strict=True):
        for bar in run["bars"]:
            if bar["next"]:
                table = returns(trace).set_index("round")
                assert table.loc[bar["next"]["round"], "missed"] == bar["next"]["missed"]
                assert not ((table.index > 20) & (table.index < bar["next"]["round"])
                            & (table["trajectory"] == table.loc[bar["next"]["round"], "trajectory"])).any()  # fmt: skip


def test_too_many_rows_are_folded_and_counted_and_those_that_are_over_make_room(contexts):
    one = contexts["lru", 0]
    early, late = bars([one], 1, max_rows=3), bars([one], one.trace.num_rounds, max_rows=3)
    assert early["rows"] == ["a0.t0", "a1.t0", "a2.t0"]
    assert [len(drawn["rows"]) + drawn["hidden"] for drawn in (early, late)] == [6, 6]
    # a5 came once only: nobody comes back to it.
    assert "a5.t0" not in late["rows"] and late["rows"] != early["rows"] and late["rows"] == sorted(late["rows"])


def test_a_round_beyond_the_run_is_its_last(contexts):
    one = contexts["lru", 0]
    far, last = bars([one], 10**9), bars([one], one.trace.num_rounds)
    assert far["runs"] == last["runs"]


def test_a_trace_that_grows_has_the_same_trajectories_as_one_read_at_once(tmp_path):
    records = list(agents("rr"))
    path = write(tmp_path / "growing.rft.jsonl", records[: len(records) // 2])
    trace = open_trace(path)
    half = len(Trajectories.of_trace(trace).of)
    with open(path, "ab") as file:
        file.write(write(tmp_path / "rest", records[len(records) // 2 :]).read_bytes())
    assert trace.update()
    fresh = open_trace(path)
    grown, whole = Trajectories.of_trace(trace), Trajectories(fresh)
    assert (grown.of, grown.parent, grown.members) == (whole.of, whole.parent, whole.members)
    assert [grown.shared(i) for i in grown.of] == [whole.shared(i) for i in whole.of]
    assert half < len(grown.of)
    assert bars([Contexts(trace)], 30) == bars([Contexts(fresh)], 30)


def test_a_request_whose_record_is_missing_leaves_the_others_as_they_are(tmp_path):
    records = [record for record in agents("lru") if not (isinstance(record, Request) and record.i == 3)]
    trace = open_trace(write(tmp_path / "gap.rft.jsonl", records))
    assert trace.ids[3] is None
    whole = returns(trace_of(tmp_path, "lru"))
    found = returns(trace)
    # What came next is now the first of its trajectory, and comes back to nothing.
    assert found["request"].tolist() == [id for id in whole["request"] if id != "a3.t1"]
    assert summarize_evictions(trace).trajectories == 6
    assert all(bar is not None for bar in bars([Contexts(trace)], 40)["runs"][0]["bars"])


# --- Strips


@pytest.mark.parametrize("kind", KINDS)
def test_a_strip_says_at_every_round_what_the_bar_says(kind, traces, contexts):
    trace, one = traces[kind], contexts[kind]
    drawn = strips([one])["runs"][0]["strips"]
    for n in range(1, trace.num_rounds + 1):
        tree = trace.tree(n)
        for strip in drawn:
            bar = one.bar(one.names[strip["trajectory"]], tree)
            want = (
                ("running", 1.0)
                if bar.state == "running"
                else ("gone" if bar.state == "gone" else "idle", one.own(bar))
            )
            got = [step for step in strip["steps"] if step[0] <= n]
            assert (got[-1][1:] if got else ("idle", None)) == want, (n, strip["trajectory"])


def test_every_return_that_missed_is_marked_once(traces, contexts):
    for kind, trace in traces.items():
        drawn = strips([contexts[kind]])["runs"][0]["strips"]
        marks = sorted((n, miss) for strip in drawn for n, miss in strip["marks"])
        table = returns(trace)
        table = table[table["miss"] != "none"]
        assert marks == sorted(zip(table["round"], table["miss"], strict=True))


def test_seconds_are_those_of_the_rounds(traces, contexts):
    times = strips([contexts["rr", 0]])["runs"][0]["times"]
    starts = traces["rr", 0].rounds["t"]
    assert times[:-1] == pytest.approx(((starts - starts.iloc[0]) / 1e9).tolist())
    assert times[-1] > times[-2]


# --- On paper


@pytest.mark.parametrize(
    ("options", "theme"), [({}, "light"), ({"axis": "time"}, "dark"), ({"at_round": 30}, "light")], ids=str
)
def test_a_figure_says_what_made_it_and_gives_the_same_bytes(options, theme, traces):
    pair = [traces["lru", 1], traces["rr", 1]]
    first = rf.figures.trajectories(*pair, **options).render("svg", theme=theme)
    assert first == rf.figures.trajectories(*pair, **options).render("svg", theme=theme)
    said = ", ".join(["t1", "t2", *(f"{name}={value!r}" for name, value in options.items())])
    assert f"radixflow.figures.trajectories({said})" in first.decode()
    for trace in pair:
        assert trace.id in first.decode()


def test_narrow_paper_puts_runs_under_one_another(traces):
    figure = rf.figures.trajectories(traces["lru", 0], traces["rr", 0])
    assert figure.height(3.33) > 1.7 * figure.height(7.0)
    assert figure.render("pdf", "column").startswith(b"%PDF")


def test_what_is_drawn_of_a_strip_is_its_share(traces, contexts):
    from matplotlib.figure import Figure

    from radixflow.figures.figure import styled
    from radixflow.figures.printed.trajectories import HIGH, _Strips

    one = contexts["rr", 0]
    drawn = strips([one])
    page = _Strips(drawn, "round", [one])
    with styled():
        figure = Figure(figsize=(7, page.height(7)))
        page.draw(figure, "light")
    (axes,) = figure.axes
    corners = axes.collections[0].get_paths()[1].vertices  # after the first row's ground, its idle part
    steps = drawn["runs"][0]["strips"][0]["steps"]
    for n, state, share in steps:
        if state == "gone":
            break
        heights = {round((0.94 - y) / HIGH, 6) for x, y in corners if x == n}
        assert round(share or 0.0, 6) in heights


def test_wrong_wishes_are_refused_in_one_line(traces, tmp_path):
    nobody = open_trace(write(tmp_path / "once.rft.jsonl", agents("lru", turns=1)))
    trace = traces["lru", 0]
    for given, options, says in (
        ([nobody], {}, "nobody comes back to a context"),
        ([], {}, "0 traces given, expected 1 to 6"),
        ([trace], {"axis": "days"}, "axis 'days': unknown, expected one of round, time"),
        ([trace], {"at_round": 49}, "no round 49: expected 1 to 48"),
    ):
        with pytest.raises(ValueError, match=says) as error:
            rf.figures.trajectories(*given, **options)
        assert "\n" not in str(error.value)


def test_exported_figures_have_trajectories_where_they_tell_something(traces, tmp_path):
    documents = open_trace(write(tmp_path / "documents.rft.jsonl", figure1("radix")))
    assert Contexts(documents).returns and not Contexts(documents).tell
    assert "trajectories" not in run_figures([documents])
    assert "trajectories" in run_figures([traces["lru", 0], traces["rr", 0]])

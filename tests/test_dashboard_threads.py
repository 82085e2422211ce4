"""Several people look at one run at the same time: what they see is what one alone sees."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import figures_traces
import pytest
from dash._utils import to_json
from dashboard_traces import long_run, write

from radixflow import figures
from radixflow.figures.palette import Colours
from radixflow.trace import TraceReplaced, open_trace
from radixflow_dashboard import api, compare, exports, request_inspector, round_inspector
from radixflow_dashboard.library import Library


@pytest.fixture
def switching():
    """Threads take turns as often as can be."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return [write(folder / f"{k}.rft.jsonl", long_run(120, id=f"{k:016x}")) for k in (1, 2, 3)]


def looks(library: Library) -> list:
    """What several pages ask of the same runs at once, each as a function."""
    keys = [described["key"] for described in library.list()]
    request = library.open(keys[0]).trace.ids[0]
    return [
        lambda: to_json(compare.body(library, keys, True, "light")),
        lambda: to_json(compare.body(library, keys, False, "dark")),
        lambda: to_json(request_inspector.request_view(library, keys[0], request, keys)),
        lambda: to_json(round_inspector.round_view(library, keys[0], 3, keys)),
        lambda: [api.overview_of(library, key)["num_rounds"] for key in keys],
        lambda: [api.window_of(library, key, 1, 20, keys) for key in keys],
        lambda: [api.tree_of(library, key, 5, keys) for key in keys],
        lambda: api.partings_of(library, keys),
    ]


def test_pages_that_ask_at_the_same_time_get_the_same_answers(paths, switching):
    alone = [look() for look in looks(Library(paths))]
    together = threading.Barrier(len(alone))

    def asking(look):
        together.wait()
        return look()

    for _ in range(10):
        library = Library(paths)
        asked = looks(library)
        for described in library.list():
            library.open(described["key"])  # read, and nothing made of it yet: all begin with the same tables
        with ThreadPoolExecutor(len(asked)) as threads:
            assert list(threads.map(asking, asked)) == alone


def test_a_run_that_has_ended_is_read_apart_and_says_the_same(paths, tmp_path):
    trace = open_trace(paths[0])
    trace.rounds  # noqa: B018 - made before, and not shared
    other = trace.apart()
    assert other.rounds is not trace.rounds and other.rounds.equals(trace.rounds)
    assert [view.queue for view in other.iter_rounds()] == [view.queue for view in trace.iter_rounds()]
    assert api.icicle.layout(other, 7) == api.icicle.layout(trace, 7)
    whole = paths[0].read_bytes()
    cut = tmp_path / "cut.rft.jsonl"
    cut.write_bytes(whole[: whole.rindex(b'{"kind":"end"')])
    with pytest.raises(ValueError, match="has no end yet"):
        open_trace(cut).apart()


def test_colours_are_the_same_whoever_asks_at_the_same_time(tmp_path, switching):
    records = {"figure1": figures_traces.figure1("radix"), "stream": figures_traces.stream(60, rows=8)}
    traces = [open_trace(figures_traces.write(tmp_path / f"{name}.rft.jsonl", of)) for name, of in records.items()]
    alone = [[Colours.of(trace)[id] for id in trace.ids] for trace in traces]
    for _ in range(20):
        own = [Colours() for _ in traces]
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda pair: pair[0].extend(pair[1]), list(zip(own, traces, strict=True)) * 4))
        assert [[colours[id] for id in t.ids] for colours, t in zip(own, traces, strict=True)] == alone


def test_nobody_asks_for_other_traces_colours_with_a_traces_lock_held(paths, monkeypatch):
    library = Library(paths)
    keys = [described["key"] for described in library.list()]
    request = library.open(keys[0]).trace.ids[0]
    wish = {"traces": ".".join(keys), "first": "1", "last": "9", "round": "3", "request": request}
    plain, held = library.colours, []

    def colours(names):
        opened = [one for known in library._open.values() for one in (known, known._apart) if one is not None]
        held.extend(one.key for one in opened if one.lock._is_owned())
        return plain(names)

    monkeypatch.setattr(library, "colours", colours)
    api.growth_of(library, keys[0], 100, keys)
    api.trajectories_of(library, keys, 5)
    for look in looks(library):
        look()
    for what in ("timeline", "tree", "round", "request"):
        exports.made(library, exports.wish_of(Request(wish | {"what": what, "format": "svg"})))
    assert held == []


class Request:
    def __init__(self, query):
        self.query_params = query


def test_pictures_drawn_at_the_same_time_are_those_drawn_alone(paths):
    trace = open_trace(paths[0])
    made = [figures.timeline(trace, 1, 12), figures.tree(trace, 5), figures.timeline(trace, 3, 20)] * 3
    alone = [one.render("svg", theme=theme) for one in made for theme in ("light", "dark")]
    together = threading.Barrier(6)

    def draw(wish):
        together.wait()
        return wish[0].render("svg", theme=wish[1])

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(draw, [(one, theme) for one in made for theme in ("light", "dark")])) == alone


def test_colours_are_kept_while_others_come(tmp_path, switching):
    records = {"figure1": figures_traces.figure1("radix"), "stream": figures_traces.stream(60, rows=8)}
    one, two = (open_trace(figures_traces.write(tmp_path / f"{name}.rft.jsonl", of)) for name, of in records.items())
    ids = [*one.ids, *two.ids]
    for _ in range(20):
        colours = Colours()
        colours.extend(one)
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda act, colours=colours: act(colours), [
                lambda colours: colours.extend(two), lambda colours: colours.keep(ids)
            ] * 4))  # fmt: skip
        assert all(id in colours for id in ids)


def test_what_stands_behind_a_runs_end_is_left_alone(tmp_path):
    path = write(tmp_path / "run.rft.jsonl", long_run(20))
    trace = open_trace(path)
    rounds = trace.rounds
    with path.open("a") as file:
        file.write('{"kind":"round","n":21,"t":999999999999,"d":1,"selected":[0,1],"free":5}\n')
    assert trace.update() is False and trace.num_rounds == 20 and trace.rounds is rounds
    path.unlink()
    with pytest.raises(TraceReplaced):
        trace.update()

"""The notebook player answers what the canvas module asks for, and degrades to a picture."""

from __future__ import annotations

import json

import pytest
from figures_traces import figure1, stream, write

import radixflow as rf
from radixflow.figures import windows


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("player")
    policies = ("radix", "radixflow+noadmit")
    return [rf.open_trace(write(folder / f"{policy}.rft.jsonl", figure1(policy))) for policy in policies]


def test_it_begins_with_the_first_rounds_of_each_run(traces):
    player = rf.player(*traces)
    assert player.label == ["radix", "radixflow+noadmit"] and len(player.overview) == 2
    assert [(w["run"], w["first"]) for w in player.window] == [(0, 1), (1, 1)]
    assert player.round == 1 and player.selected is None


def test_it_answers_for_a_window_and_a_tree(traces):
    player = rf.player(*traces)
    player.wanted = {"run": 1, "first": 2, "last": 3}
    expected = windows.window(traces[1], 2, 3, player._colours)
    assert player.window == {"run": 1, **expected}
    before = player.tree
    player.wanted_tree = {"run": 0, "round": 4}
    assert player.tree != before


def test_round_and_selection_are_observable_and_stay_within_the_run(traces):
    player, seen = rf.player(traces[0]), []
    player.observe(lambda change: seen.append(change["new"]), "round")
    player.round = 3
    player.round = 99
    player.round = -1
    assert seen == [3, 6, 1]
    player.selected = "A1"
    assert player.selected == "A1"


def test_where_no_widget_runs_there_is_a_picture(traces):
    data, _ = rf.player(traces[0])._repr_mimebundle_()
    assert data["image/png"][:8] == b"\x89PNG\r\n\x1a\n"
    assert "application/vnd.jupyter.widget-view+json" in data


def test_the_picture_has_the_players_own_labels(traces):
    plain = rf.player(*traces).still()
    assert rf.player(*traces, labels=["sparse", "dense"]).still() != plain
    assert rf.player(*traces, labels=["radix", "radixflow+noadmit"]).still() == plain
    svg = rf.figures.compare(*traces, labels=["sparse", "dense"])
    assert "labels=['sparse', 'dense']" in svg.render("svg").decode()
    with pytest.raises(ValueError, match="1 labels given, expected 2"):
        rf.figures.compare(*traces, labels=["sparse"])


def test_a_player_of_nothing_says_what_it_wants():
    with pytest.raises(ValueError, match="needs a trace"):
        rf.player()


def test_other_runs_can_take_the_place_of_those_on_show(traces):
    player = rf.player(traces[0])
    player.round, player.selected = 6, "A1"
    player.wanted_tree = {"run": 0, "round": 6}
    player.show(traces[1])
    assert player.overview[0]["trace"] == traces[1].id and player.traces == (traces[1],)
    assert player.round == traces[1].num_rounds < 6 and player.selected == "A1"
    with pytest.raises(ValueError, match="2 traces given, expected 1"):
        player.show(*traces)


def test_what_travels_is_bounded_by_the_window_not_by_the_run(tmp_path):
    sent = []
    for rounds in (400, 4000):
        trace = rf.open_trace(write(tmp_path / f"{rounds}.rft.jsonl", stream(rounds)))
        player = rf.player(trace)
        assert player.window[0]["last"] < rounds
        sent.append(len(json.dumps(player.get_state(["overview", "window", "tree"]))))
    assert sent[1] < 3 * sent[0] < 900_000, sent  # ten times the rounds

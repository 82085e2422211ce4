"""Figure 1 comes out as worked out by hand, slot by slot and wait by wait."""

from __future__ import annotations

from dataclasses import replace

import pytest
from analysis_traces import LEDGER, figure1, written

from radixflow.analysis import (
    CostIdentity,
    HostCost,
    compare,
    diverge,
    explain,
    explain_round,
    explain_trace,
    lower_bound,
    reuse,
    slots,
    summarize,
    waits,
)

POLICIES = list(LEDGER["policies"])


@pytest.fixture(params=POLICIES)
def run(request, tmp_path):
    return written(tmp_path / "f.rft.jsonl", figure1(request.param)), LEDGER["policies"][request.param]


def test_every_slot_is_what_the_hand_worked_ledger_says(run):
    trace, ledger = run
    accounted = slots(trace)
    assert accounted.faults.empty
    assert {cause: n for cause, n in accounted.totals.items() if n} == ledger["totals"]
    for n, row in enumerate(ledger["rounds"], 1):
        own = accounted.rounds.loc[n]
        causes = [cause for cause, _ in row["empty"]]
        assert own["row_visits"] == len(row["row_visits"])
        assert {cause: own[cause] for cause in set(causes)} == {
            cause: causes.count(cause) for cause in set(causes)
        }
        assert explain_round(trace, n).avoidable == [
            who for cause, who in row["empty"] if cause == "avoidable"
        ]


def test_every_wait_is_what_the_hand_worked_ledger_says(run):
    trace, ledger = run
    for name, expected in ledger["waits"].items():
        told = explain(trace, name)
        causes = [{key: value for key, value in cause.items() if key != "seconds"} for cause in told.causes]
        assert causes == [cause | {"rounds": [cause["rounds"]]} for cause in expected], name
        assert told.wait_rounds == sum(
            last - first + 1 for first, last in (cause["rounds"] for cause in expected)
        )
        assert told.first_selected_round == told.wait_rounds + 1


def test_the_summary_has_the_numbers_of_the_paper(run):
    trace, ledger = run
    summary = summarize(trace)
    assert summary.rounds == len(ledger["rounds"])
    assert summary.row_visits == LEDGER["row_visits"]
    assert summary.scheduled_tokens == LEDGER["scheduled_tokens"]
    assert summary.empty_slots == sum(len(row["empty"]) for row in ledger["rounds"])
    assert summary.avoidable_slots == ledger["totals"].get("avoidable", 0)
    assert summary.reuse_rate == LEDGER["reused_tokens"] / LEDGER["prompt_tokens"]
    assert summary.latency is None and summary.first_selected_wait is None


def test_the_lower_bound_is_four_and_says_of_what(run):
    trace, _ = run
    bound = lower_bound(trace)
    expected = LEDGER["bound"]
    assert (bound.by_tokens, bound.by_rows, bound.depth, bound.rounds) == tuple(
        expected[key] for key in ("by_tokens", "by_rows", "depth", "rounds")
    )
    assert [name[0] for name in bound.chain] == ["P", "A"]


def test_each_consumer_reuses_its_document(run):
    trace, _ = run
    table = reuse(trace).set_index("request")
    assert table["reused"].to_dict() == LEDGER["reused"]
    assert table["forgone"].sum() == 0
    assert (table["reused"] + table["fresh"]).to_dict() == LEDGER["prompts"]


def test_the_two_runs_part_in_round_one_where_prefix_stop_ends_the_scan(tmp_path):
    a, b = (written(tmp_path / f"{k}.rft.jsonl", figure1(policy)) for k, policy in enumerate(POLICIES))
    part = diverge(a, b)
    assert part.round == 1
    assert part.only_second == ["D1", "P2", "D2"]
    assert part.stopped == (("A1", "blocked"), (None, "rows"))
    assert diverge(a, a) is None


def test_the_comparison_splits_the_saving_into_fewer_and_dearer_rounds(tmp_path):
    a, b = (written(tmp_path / f"{k}.rft.jsonl", figure1(policy)) for k, policy in enumerate(POLICIES))
    told = compare(a, b)
    cost = told.costs[0].to_dict()
    assert cost["rounds"] == [6, 4]
    assert cost["saved_seconds"] == cost["fewer_rounds_seconds"] == pytest.approx(2 * 0.0009)
    assert cost["dearer_rounds_seconds"] == 0
    assert told.metrics.loc["rounds", "radixflow+noadmit vs radix"] == -2
    assert told.slots["radix"].sum() == 24 and told.slots["radixflow+noadmit"].sum() == 16
    assert told.requests.loc["D5", ("radix", "cause")] == "unexamined"
    assert told.requests.loc["D5", ("radixflow+noadmit", "cause")] == "rows"
    assert told.warnings == []


def test_the_table_of_waits_names_the_culprits(tmp_path):
    trace = written(tmp_path / "f.rft.jsonl", figure1("radix"))
    table = waits(trace).set_index(["request", "cause"])
    assert table.loc[("A5", "blocked"), "culprit"] == "P5"
    assert table.loc[("A5", "unexamined"), "rounds"] == 4
    assert table["rounds"].sum() == 40


def test_the_text_names_who_stood_in_the_way_and_what_would_have_helped(tmp_path):
    trace = written(tmp_path / "f.rft.jsonl", figure1("radix"))
    text = explain(trace, "D5").text
    assert "waited 5 rounds" in text and "A1, A2, A3 and 2 others" in text
    assert "1 of the 5 rounds" in text and "`radixflow`" in text
    assert "P1" in explain(trace, "A1").text
    assert "did not wait" in explain(trace, "P1").text
    traversal = written(tmp_path / "g.rft.jsonl", figure1("radixflow+noadmit"))
    assert "`radixflow`" not in explain(traversal, "D5").text


def test_an_explanation_reads_as_words_in_print_and_in_a_notebook(run):
    told = explain(run[0], "D3")
    assert str(told) == told.text
    told = replace(told, text="A<script>1 waited.\n- Round 1 & on.\n- Round 2.\nSet `max_num_seqs`.")
    assert told._repr_html_() == (
        "<p><strong>A&lt;script&gt;1 waited.</strong></p><ul><li>Round 1 &amp; on.</li><li>Round 2.</li></ul>"
        "<p>Set <code>max_num_seqs</code>.</p>"
    )
    from IPython.lib.pretty import pretty

    assert pretty(told) == told.text
    for other in (explain_round(run[0], 1), explain_trace(run[0])):
        assert str(other) == other.text and other._repr_html_().startswith("<p><strong>")


def test_a_summary_and_a_comparison_read_as_a_table_at_a_prompt_and_in_a_notebook(tmp_path):
    a, b = (written(tmp_path / f"{k}.rft.jsonl", figure1(policy)) for k, policy in enumerate(POLICIES))
    one, both = summarize(a), compare(a, b)
    lines = repr(one).splitlines()
    assert lines[0].endswith("under radix") and ["Scheduled", "tokens", "12,970"] in [line.split() for line in lines]
    lines = [line.split() for line in repr(both).splitlines()]
    assert lines[0] == ["radixflow+noadmit", "against", "radix"]
    assert ["Rounds", "6", "4", "(×", "0.67)"] in lines and ["Avoidable", "slots", "7", "0"] in lines
    saved = "1.8 ms of host time saved: 2 rounds fewer save 1.8 ms (900 us each), and the others cost the same."
    assert repr(both).endswith(
        "radixflow+noadmit and radix part in round 1: radixflow+noadmit also selected D1, P2 and D2.\n"
        "radixflow+noadmit: " + saved
    )
    assert repr(both.costs[0]) == saved
    assert "<td>4 (× 0.67)</td>" in both._repr_html_() and "<p>radixflow+noadmit and radix part" in both._repr_html_()
    assert both.table("empty_slots", "rounds").index.tolist() == ["Empty slots", "Rounds"]
    with pytest.raises(ValueError, match="metric 'round': unknown, expected one of rounds, "):
        both.table("round")
    hostile = replace(one, workload="<script>")
    assert "&lt;script&gt;" in hostile._repr_html_() and "<script>" not in hostile._repr_html_()


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ((6, 600), (4, 480), "120 ns of host time saved: 2 rounds fewer save 200 ns (100 ns each), "
         "4 dearer rounds cost 80 ns (20 ns each)."),
        ((4, 480), (6, 600), "120 ns more host time: 2 rounds more cost 240 ns (120 ns each), "
         "6 cheaper rounds save 120 ns (20 ns each)."),
        ((4, 400), (4, 440), "40 ns more host time: 4 dearer rounds cost 40 ns (10 ns each)."),
        ((4, 400), (3, 450), "50 ns more host time: 1 round fewer saves 100 ns (100 ns each), "
         "3 dearer rounds cost 150 ns (50 ns each)."),
        ((4, 400), (4, 400), "the same host time, in as many rounds."),
    ],
)  # fmt: skip
def test_the_cost_identity_is_said_with_the_right_sign(first, second, said):
    cost = CostIdentity(*(HostCost(rounds, ns, 0) for rounds, ns in (first, second)))
    assert cost.holds and cost.text == said

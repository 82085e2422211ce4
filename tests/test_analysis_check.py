"""`check`: its shape, and that every property can fail."""

from __future__ import annotations

import json

import pytest
from analysis_traces import Toy, figure1, header, written

from radixflow.analysis.check import check
from radixflow.analysis.findings.finding import MOST, joined, ranges
from radixflow.analysis.properties import NAMES
from radixflow.trace.schema import (
    Admission,
    Blocked,
    Cache,
    End,
    Finish,
    Other,
    Probe,
    Request,
    Round,
    Stop,
)

BLOCK = 64


def request(i: int, path: list[tuple[str, int]], **more) -> Request:
    return Request(i=i, id=f"r{i}", t=0, prompt=sum(n for _, n in path), path=path, **more)


def one_round(n: int, selected: list[int] = (), admissions: list[Admission] = (), **more) -> Round:
    return Round(n=n, t=n * 1000, d=1, selected=list(selected), admissions=list(admissions), free=10, **more)


def report_of(tmp_path, *records, **config):
    head = header(t=256, block=BLOCK, states=config.pop("states", 1), **config)
    last = max((record.n for record in records if isinstance(record, Round)), default=0)
    return check(
        written(tmp_path / "t.rft.jsonl", [head, *records, End((last + 1) * 1000, "finished", last)])
    )


def properties(report) -> dict:
    return {one.name: one for one in report.properties}


def codes(report) -> list[str]:
    return [finding.code for finding in report.findings]


TWO = [request(0, [("s", 100)]), request(1, [("u", 100)])]


# --- The report


@pytest.mark.parametrize("policy", ["radix", "radixflow+noadmit"])
def test_a_report_is_json_in_a_fixed_order(tmp_path, policy):
    trace = written(tmp_path / "f.rft.jsonl", figure1(policy))
    first, again = check(trace), check(trace)
    assert json.dumps(first.to_dict()) == json.dumps(again.to_dict())
    assert [one.name for one in first.properties] == list(NAMES)
    for one in first.to_dict()["findings"]:
        assert list(one) == ["code", "severity", "requests", "rounds", "message", "facts"]
        assert one["severity"] in ("error", "warning", "note") and one["message"].endswith(".")
    for one in first.to_dict()["properties"]:
        assert list(one) == ["name", "holds", "checked", "counterexample"]
        assert one["holds"] == (one["counterexample"] is None)


def test_progress_grows_to_its_total(tmp_path):
    trace = written(tmp_path / "f.rft.jsonl", figure1("radix"))
    told: list[tuple[int, int]] = []
    check(trace, lambda done, total: told.append((done, total)))
    done = [d for d, _ in told]
    assert done == sorted(done) and told[-1][0] == told[-1][1]
    assert len({total for _, total in told}) == 1


def test_a_trace_without_rounds_has_nothing_to_say(tmp_path):
    report = report_of(tmp_path)
    assert report.findings == [] and all(one.holds for one in report.properties)
    report = report_of(tmp_path, *TWO)
    assert report.findings == []


@pytest.mark.parametrize("seed", range(12))
def test_random_runs_are_checked_to_the_end(tmp_path, seed):
    trace = written(tmp_path / "toy.rft.jsonl", Toy(seed, gaps=seed % 3 == 0).run(150))
    report = check(trace)
    assert properties(report)["sums"].holds
    json.dumps(report.to_dict())


def test_many_findings_of_a_kind_become_one_that_counts_the_rest(tmp_path):
    never = [Other(i, "never_fits", gate="full_sequence", needed=900, total=199) for i in range(MOST + 5)]
    rounds = [one_round(n + 1, other=[never[n]], stop=Stop("never_fits", n)) for n in range(len(never))]
    requests = [request(i, [(f"s{i}", 100)]) for i in range(len(never))]
    report = report_of(tmp_path, *requests, *rounds)
    found = [finding for finding in report.findings if finding.code == "never_fits"]
    assert len(found) == MOST
    assert found[-1].facts == {"more": 6} and len(found[-1].requests) == 6


def test_rounds_are_given_as_ranges():
    assert ranges([5, 3, 4, 9, 9]) == [[3, 5], [9, 9]]
    assert joined([(7, 8), (1, 3), (2, 4), (5, 5)]) == [[1, 5], [7, 8]]


# --- Each property can fail


def test_a_batch_beyond_a_budget_is_not_feasible(tmp_path):
    report = report_of(
        tmp_path, *TWO, one_round(1, [0, 100, 1, 200], [Admission(0, 0, 0), Admission(1, 0, 0)])
    )
    assert properties(report)["feasible"].counterexample["value"] == 300


def test_a_request_twice_in_a_round_is_not_feasible(tmp_path):
    report = report_of(tmp_path, *TWO, one_round(1, [0, 50, 0, 50], [Admission(0, 0, 0)]))
    assert properties(report)["feasible"].counterexample["request"] == "r0"


def test_leaving_out_the_head_of_the_queue_breaks_containment_and_order(tmp_path):
    report = report_of(tmp_path, *TWO, one_round(1, [1, 100], [Admission(1, 0, 0)]))
    assert properties(report)["contains_native"].counterexample["request"] == "r0"
    assert not properties(report)["native_order"].holds


def test_a_parked_request_in_front_keeps_containment_and_order(tmp_path):
    parked = Blocked(0, 1, 64, [1], True)
    report = report_of(
        tmp_path, *TWO, one_round(1, [1, 100], [Admission(1, 0, 0)], blocked=[parked], order=[0])
    )
    assert properties(report)["contains_native"].holds and properties(report)["contains_native"].checked == 1
    assert properties(report)["native_order"].holds


def test_an_avoidable_slot_without_an_other_breaks_the_bubble_property(tmp_path):
    stopped = one_round(1, [0, 100], [Admission(0, 0, 0)], probe=Probe([1]))
    assert properties(report_of(tmp_path, *TWO, stopped))["no_avoidable_bubble_without_other"].counterexample[
        "avoidable"
    ] == ["r1"]


def test_a_slot_behind_an_other_does_not(tmp_path):
    three = [*TWO, request(2, [("v", 20)])]
    other = Other(1, "capacity", gate="chunk", needed=9, free=1)
    stopped = one_round(
        1,
        [0, 100],
        [Admission(0, 0, 0)],
        other=[other],
        stop=Stop("capacity", 1),
        probe=Probe([2], [(1, "capacity")]),
    )
    report = report_of(tmp_path, *three, stopped)
    assert properties(report)["no_avoidable_bubble_without_other"].checked == 0
    assert codes(report) == ["head_of_line"]


def test_a_refused_request_that_is_ready_later_breaks_monotonicity(tmp_path):
    other = Other(1, "capacity", gate="chunk", needed=9, free=1)
    stopped = one_round(
        1, [0, 100], [Admission(0, 0, 0)], other=[other], stop=Stop("capacity", 1), probe=Probe([1])
    )
    assert (
        properties(report_of(tmp_path, *TWO, stopped))["monotonicity"].counterexample["cause"] == "capacity"
    )


def test_a_state_read_in_the_round_that_publishes_it_is_not_committed(tmp_path):
    shared = [request(0, [("s", 100)]), request(1, [("s", 80), ("u", 20)])]
    both = one_round(1, [0, 100, 1, 36], [Admission(0, 0, 0), Admission(1, 64, 64)])
    published = Cache(1, [(0, 0, 0, 64), (0, 1, 0, 64)])
    counterexample = properties(report_of(tmp_path, *shared, both, published))[
        "committed_before_read"
    ].counterexample
    assert (counterexample["request"], counterexample["group"]) == ("r1", 1)


def test_an_attention_block_may_be_read_in_the_round_that_publishes_it(tmp_path):
    shared = [request(0, [("s", 100)]), request(1, [("s", 80), ("u", 20)])]
    both = one_round(1, [0, 100, 1, 36], [Admission(0, 0, 0), Admission(1, 64, 64)])
    report = report_of(tmp_path, *shared, both, Cache(1, [(0, 0, 0, 64)]), states=0)
    assert properties(report)["committed_before_read"].holds
    assert properties(report)["committed_before_read"].checked == 1


def test_slots_that_do_not_add_up_break_the_sums(tmp_path):
    silent = one_round(1, [0, 100], [Admission(0, 0, 0)], stop=Stop("capacity", 1), probe=Probe())
    assert "owed" in properties(report_of(tmp_path, *TWO, silent))["sums"].counterexample["what"]


# --- Published, and never computed


def preempted_after_publishing(ran: bool, reread: bool = True) -> list:
    """Request 0 publishes 64 tokens in round 2, is preempted in it, and request 1 resumes from them."""
    shared = [request(0, [("s", 130)], max_tokens=4), request(1, [("s", 100), ("u", 30)])]
    first = one_round(1, [0, 10], [Admission(0, 0, 0)])
    second = one_round(
        2, [0, 54] if ran else [], preempted=[] if ran else [0], closed=None if ran else "preemption"
    )
    gone = [Finish(0, 2500, "abort", n=2)]
    hit = 64 if reread else 0
    third = one_round(3, [1, 130 - hit], [Admission(1, hit, hit)])
    return [*shared, first, second, Cache(2, [(0, 0, 0, 64), (0, 1, 0, 64)]), *gone, third]


def test_entries_of_a_preempted_request_that_another_read_are_found(tmp_path):
    report = report_of(tmp_path, *preempted_after_publishing(ran=False))
    (found,) = (finding for finding in report.findings if finding.code == "published_uncommitted")
    assert (found.severity, found.requests, found.rounds) == ("error", ["r1"], [[2, 3]])
    assert found.facts["publisher"] == "r0" and found.facts["preempted"]
    broken = properties(report)["committed_before_read"].counterexample
    assert (broken["request"], broken["publisher"], broken["boundary"]) == ("r1", "r0", 64)


@pytest.mark.parametrize("ran, reread", [(True, True), (False, False)])
def test_entries_that_were_computed_or_never_read_are_not(tmp_path, ran, reread):
    report = report_of(tmp_path, *preempted_after_publishing(ran, reread))
    assert "published_uncommitted" not in codes(report)
    assert properties(report)["committed_before_read"].holds


def test_what_another_request_computed_meanwhile_is_committed(tmp_path):
    records = preempted_after_publishing(ran=False)
    last = records.pop()
    again = [
        request(2, [("s", 90), ("w", 40)]),
        one_round(3, [2, 130], [Admission(2, 0, 0)]),
        Cache(3, [(2, 0, 0, 128), (2, 1, 0, 64)], [(0, 0, 0, 64, 2), (0, 1, 0, 64, 2)]),
        Finish(2, 3500, "length", n=3),
    ]
    last.n, last.t = 4, 4000
    report = report_of(tmp_path, *records, *again, last)
    assert "published_uncommitted" not in codes(report)


def test_a_damaged_trace_is_checked_and_explained_as_far_as_it_goes(tmp_path):
    from figures_traces import figure1 as figure1_records
    from figures_traces import write

    from radixflow.analysis import explain_trace
    from radixflow.trace import open_trace

    whole = write(tmp_path / "whole.rft.jsonl", figure1_records("radix")).read_text().splitlines()
    rounds = [k for k, line in enumerate(whole) if line.startswith('{"kind":"round"')]
    strange = whole[rounds[2]].replace('"selected":[4,', '"selected":[99,')
    assert strange != whole[rounds[2]]
    for name, line in (("gap", "{bad"), ("list", "[1,2]"), ("other", strange)):
        path = tmp_path / f"{name}.rft.jsonl"
        path.write_text("\n".join([*whole[: rounds[2]], line, *whole[rounds[2] + 1 :]]) + "\n")
        trace = open_trace(path)
        assert not [f for f in check(trace).findings if f.code == "published_uncommitted"] or name == "other"
        assert "stopped the scan" in explain_trace(trace).text


def test_a_report_reads_as_words_in_print_and_in_a_notebook(tmp_path):
    native = check(written(tmp_path / "f.rft.jsonl", figure1("radix")))
    first, *points = str(native).splitlines()
    assert first == "2 findings; 1 of 6 properties broken."
    assert points[0].startswith("- `head_of_line` (warning): In rounds 1 to 5")
    assert points[-1].startswith("- Broken: no avoidable bubble without other: round 1")
    assert "<li><code>head_of_line</code> (warning): In rounds" in native._repr_html_()
    sound = check(written(tmp_path / "g.rft.jsonl", figure1("radixflow+noadmit")))
    assert all(one.holds for one in sound.properties) and "all 6 properties hold" in str(sound)
    empty = check(written(tmp_path / "h.rft.jsonl", figure1("radix")[:1]))
    assert str(empty) == "Nothing to check: no round was recorded."

"""Every finding by its mechanism: the corpus, and pairs with the same symptom and another cause."""

from __future__ import annotations

import re

import pytest

from radixflow.analysis.check import check
from radixflow.analysis.findings import CODES
from radixflow.analysis.properties import NAMES
from radixflow.trace import open_trace

CONSEQUENCES = {"head_of_line", "state_missing_at_match", "starvation"}

CORPUS = {
    "figure1": {"same_round_dependency", "head_of_line"},
    "d01-same-round-producer": {"same_round_dependency", "head_of_line"},
    "d01b-three-documents": {"same_round_dependency", "head_of_line"},
    "d02-checkpoint-in-unique-tokens-1500-700": {
        "checkpoint_in_unique_tokens",
        "state_missing_at_match",
        "sparse_retention",
    },
    "d02-checkpoint-in-unique-tokens-1600-600": {
        "checkpoint_in_unique_tokens",
        "state_missing_at_match",
        "sparse_retention",
    },
    "d03-dense-retention": set(),
    "d04-prefix-shorter-than-block": {"prefix_shorter_than_block"},
    "d05-draft-backoff-2048": {"draft_backoff"},
    "d06-budget-below-block": {"budget_below_block"},
    "d07-block-larger-than-budget": {"reuse_forgone"},
    "d08-small-behind-big": {"head_of_line"},
    "d09-priority-at-row-cap": {"rows_held_by_lower_priority"},
    "d10-hog-spends-budget": set(),
    "d11-never-fits": {"never_fits", "no_progress"},
    "d12-cache-events": {"cache_event_mismatch"},
    "n01-many-state-groups": set(),
}
"""Root causes that the corpus names, and the consequences that it names."""

PAIRS = {
    "zero-prefix-shorter-than-block": {"prefix_shorter_than_block"},
    "zero-checkpoint-in-unique-tokens": {"checkpoint_in_unique_tokens", "state_missing_at_match"},
    "zero-sparse-retention": {"sparse_retention", "state_missing_at_match"},
    "zero-state-evicted": {"state_evicted"},
    "zero-decayed-while-waiting": {"cache_decayed_while_waiting"},
    "zero-block-aligned-prompt": {"block_aligned_prompt", "state_missing_at_match"},
    "zero-block-aligned-one-block": {"block_aligned_prompt"},
    "zero-draft-backoff": {"draft_backoff", "state_missing_at_match"},
    "zero-draft-one-block": {"draft_backoff"},
    "zero-reuse-forgone": {"reuse_forgone", "state_missing_at_match"},
    "zero-nothing-shared": set(),
    "hit-long-prefix": set(),
    "part-hit-evicted": {"state_evicted"},
    "stall-never-fits": {"no_progress", "never_fits"},
    "wait-for-memory": set(),
    "stop-blocked": {"same_round_dependency", "head_of_line"},
    "stop-capacity": {"head_of_line"},
    "stop-capacity-all": set(),
    "cut-alignment": {"budget_below_block"},
    "cut-spent": set(),
    "rows-lower-priority": {"rows_held_by_lower_priority"},
    "rows-equal-priority": set(),
    "starved-by-priority": {"starvation"},
    "queued-in-turn": set(),
    "preemption-storm": {"preemption_storm", "head_of_line"},
    "preempted-once": set(),
    "preempted-for-ever": {"no_progress"},
    "events-sparse-states": {"cache_event_mismatch"},
    "events-attention-only": set(),
}
"""Under native scheduling. Names that begin alike show the same symptom."""


@pytest.fixture(scope="session")
def reports(corpus, root, tmp_path_factory):
    """`(name, policy) -> (Trace, CheckReport)`: each workload is run once and checked once."""
    pytest.importorskip("vllm")
    from radixflow.engines.run import run_workload

    folder, known = tmp_path_factory.mktemp("check"), {}

    def report(name: str, policy: str = "radix"):
        if (name, policy) not in known:
            where = corpus if name in CORPUS else root / "data" / "pairs"
            path = folder / f"{name}.{policy}.rft.jsonl"
            run_workload(where / f"{name}.workload.jsonl", policy, trace=path)
            trace = open_trace(path)
            known[name, policy] = trace, check(trace)
        return known[name, policy]

    return report


def codes(report) -> set[str]:
    return {finding.code for finding in report.findings}


def finding(report, code: str):
    found = [finding for finding in report.findings if finding.code == code]
    assert len(found) == 1, f"{code}: {found}"
    return found[0]


@pytest.mark.parametrize("name", CORPUS)
def test_a_corpus_case_has_its_findings_and_no_other_root_cause(reports, name):
    _, report = reports(name)
    assert codes(report) >= CORPUS[name]
    assert codes(report) - CONSEQUENCES == CORPUS[name] - CONSEQUENCES


@pytest.mark.parametrize("name", ["d01-same-round-producer", "d01b-three-documents", "figure1"])
def test_traversal_parks_the_dependency_and_nobody_waits_behind_it(reports, name):
    _, report = reports(name, "radixflow+noadmit")
    assert codes(report) == {"same_round_dependency"}
    assert finding(report, "same_round_dependency").severity == "note"


@pytest.mark.parametrize("name", PAIRS)
def test_the_same_symptom_from_another_mechanism_is_another_finding(reports, name):
    _, report = reports(name)
    assert codes(report) == PAIRS[name]


def test_each_pair_is_used(root):
    files = {path.name.split(".")[0] for path in (root / "data" / "pairs").iterdir()}
    assert files == {*PAIRS, "uncommitted-unread"}


def test_each_code_has_a_case_that_shows_it():
    shown = set().union(*CORPUS.values(), *PAIRS.values()) | {"published_uncommitted"}
    assert shown == set(CODES)


def test_hits_of_zero_have_as_many_findings_as_mechanisms(reports):
    roots = {name: codes(reports(name)[1]) - CONSEQUENCES for name in PAIRS if name.startswith("zero-")}
    for name in roots:
        trace, _ = reports(name)
        second = trace.requests.set_index("id").loc["second"]
        assert second["ready"] == 0, name
    assert len(set(map(frozenset, roots.values()))) == 9


def test_findings_carry_the_numbers_of_the_reports(reports):
    short = finding(reports("d04-prefix-shorter-than-block")[1], "prefix_shorter_than_block")
    assert (short.facts["shared"], short.facts["short_of_block"]) == (500, 28)
    assert short.requests == ["r1", "r2", "r3", "r4"]
    forgone = finding(reports("d07-block-larger-than-budget")[1], "reuse_forgone")
    assert (forgone.facts["tokens"], forgone.facts["producer"], forgone.requests) == (1600, "X", ["Y"])
    for case, match in (("1500-700", 1056), ("1600-600", 1584)):
        unique = finding(reports(f"d02-checkpoint-in-unique-tokens-{case}")[1], "checkpoint_in_unique_tokens")
        assert (unique.facts["matched"], unique.facts["states_at"], unique.requests) == (
            match,
            [2112],
            ["r1"],
        )
    aligned = finding(reports("d06-budget-below-block")[1], "budget_below_block")
    assert (aligned.facts["tokens_left"], aligned.facts["block"], aligned.rounds) == (
        [992, 992],
        1056,
        [[1, 4]],
    )
    never = finding(reports("d11-never-fits")[1], "never_fits")
    assert (never.facts["needed"], never.facts["total"]) == (17, 10)
    rows = finding(reports("d09-priority-at-row-cap")[1], "rows_held_by_lower_priority")
    assert (rows.requests, rows.facts["held_by"]) == (["hi"], ["lo1", "lo2"])
    behind = finding(reports("d08-small-behind-big")[1], "head_of_line")
    assert (behind.requests, behind.facts["culprits"][0]["request"]) == (["s1", "s2"], "big")


def test_dense_retention_is_advised_only_where_it_would_have_helped(reports):
    helps = finding(reports("d02-checkpoint-in-unique-tokens-1600-600")[1], "sparse_retention")
    assert (helps.severity, helps.facts["dense_would_give"]) == ("warning", 1584)
    not_alone = finding(reports("d02-checkpoint-in-unique-tokens-1500-700")[1], "sparse_retention")
    assert (not_alone.severity, not_alone.facts["dense_would_give"]) == ("note", 0)


def test_what_was_published_and_never_read_is_no_finding(reports):
    trace, report = reports("uncommitted-unread")
    assert trace.rounds["preempted"].sum() == 1
    assert "published_uncommitted" not in codes(report)


EVERY = [(name, "radix") for name in [*CORPUS, *PAIRS]]
EVERY += [(name, "radixflow+noadmit") for name, _ in EVERY if name != "n01-many-state-groups"]
"""n01 has nothing to traverse, and its 64 requests over 23 groups make it the slowest."""


@pytest.mark.parametrize("name, policy", EVERY)
def test_the_properties_hold_but_for_native_bubbles(reports, name, policy):
    _, report = reports(name, policy)
    broken = {one.name for one in report.properties if not one.holds}
    if policy == "radix":
        broken -= {"no_avoidable_bubble_without_other"}
    assert broken == set(), [one for one in report.properties if not one.holds]


def test_figure_1_breaks_the_bubble_property_under_native_scheduling_alone(reports):
    for policy, broken in (("radix", [1, ["D1", "P2", "D2"]]), ("radixflow+noadmit", None)):
        _, report = reports("figure1", policy)
        (bubble,) = (one for one in report.properties if one.name == "no_avoidable_bubble_without_other")
        case = bubble.counterexample
        assert (case and [case["round"], case["avoidable"]]) == broken


def test_the_page_documents_every_code_and_property(root):
    page = (root / "docs" / "findings.md").read_text()
    findings, properties = page.split("## Properties")
    documented = re.findall(r"^### `(\w+)`$", findings, re.MULTILINE)
    assert sorted(documented) == sorted(CODES)
    assert re.findall(r"^### `(\w+)`$", properties, re.MULTILINE) == list(NAMES)
    for section in re.split(r"^### ", findings, flags=re.MULTILINE)[1:]:
        for part in ("**Means.**", "**Recognised.**", "**Do.**", "**Report.**"):
            assert section.count(part) == 1, (section[:40], part)

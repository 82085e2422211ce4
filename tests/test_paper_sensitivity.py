"""Sensitivity and calibration: one thing varied at a time, held-out questions for budgets."""

from __future__ import annotations

import pytest

pytest.importorskip("vllm")

from radixflow.engines.profiles import get_profile  # noqa: E402
from radixflow.paper.calibrate import HELD_OUT_SEED, calibrate, calibration_cells  # noqa: E402
from radixflow.paper.cell import run_cell, standard_cell  # noqa: E402
from radixflow.paper.fit import one_by_one  # noqa: E402
from radixflow.paper.sensitivity import KNOBS, sensitivity, sensitivity_cells  # noqa: E402
from radixflow.paper.sensitivity_figure import changes, sensitivity_figure  # noqa: E402
from radixflow.workloads.paper import paper  # noqa: E402


@pytest.mark.parametrize("knob", list(KNOBS))
def test_each_knob_changes_its_cell_and_nothing_else(knob):
    plain = standard_cell("Qwen3.5-9B", "radix", "mixed", **({"scale": 0.25} | KNOBS[knob].given))
    told = {cell for value, cell in sensitivity_cells(knob, policies=["radix"])}
    assert len(told) == len(KNOBS[knob].values)
    for cell in told:
        changed = {name for name in cell.__slots__ if getattr(cell, name) != getattr(plain, name)}
        assert len(changed) <= 1, changed


def test_the_table_has_a_row_a_value_and_policy_and_a_plot(tmp_path):
    table = sensitivity("branch_spacing", one_by_one, scale=0.02, policies=("radix", "radixflow"))
    assert len(table) == 2 * len(KNOBS["branch_spacing"].values)
    assert (table["end"] == "finished").all() and (table["longest_wait"] >= table["first_selected"]).all()
    told = changes(table)
    first, base = table[table["policy"] == "radixflow"].iloc[0], table[table["policy"] == "radix"].iloc[0]
    assert told["rounds"].iloc[0] == pytest.approx(100 * (first["rounds"] / base["rounds"] - 1))
    assert set(told["policy"]) == {"radixflow"} and len(told) == len(KNOBS["branch_spacing"].values)
    one = sensitivity_figure({"branch_spacing": table})
    assert one.save(tmp_path / "one.svg").stat().st_size > 5000
    both = sensitivity_figure({"branch_spacing": table, "rate": table.assign(preemptions=[0, 3] * (len(table) // 2))})
    assert both.height(7.0) > 1.5 * one.height(7.0)
    assert "Qwen3.5-9B, mixed stream" in both.made_from and both.save(tmp_path / "both.pdf").exists()


def test_long_decodes_in_a_small_pool_preempt():
    cell = standard_cell(
        *("Qwen3.5-27B", "radixflow", "reuse"), scale=0.02, rate=20.0, output_tokens=900, options=(("num_blocks", 90),)
    )
    assert run_cell(cell).preemptions > 0


def test_an_unknown_knob_is_named():
    with pytest.raises(ValueError, match="unknown sensitivity 'speed': expected one of rate, S, T"):
        sensitivity_cells("speed")


def test_budgets_are_looked_for_on_64_held_out_questions_with_radix_alone():
    cells = calibration_cells("Qwen3.5-9B")
    assert {cell.policy for cell in cells} == {"radix"} and {cell.seed for cell in cells} == {HELD_OUT_SEED}
    held = paper(stream="mixed", seed=HELD_OUT_SEED, questions=64)
    assert len({request.group for request in held.requests}) == 64
    assert not {r.arrival for r in held.requests[4:]} & {r.arrival for r in paper(stream="mixed").requests[4:]}


def test_the_best_budgets_are_the_smallest_of_those_as_quick():
    class Result:
        def __init__(self, cell):
            budgets = dict(cell.options)
            s, t = budgets["max_num_seqs"], budgets["max_num_batched_tokens"]
            self.cell = {"options": [list(pair) for pair in cell.options]}
            self.latency = self.first_selected = [1_000_000 if s >= 32 and t >= 4096 else 2_000_000]
            self.rounds = self.row_visits = self.scheduled_tokens = self.prompt_tokens = self.host_ns = 1
            self.reused_tokens = self.finished = self.span = self.preemptions = 1

    table = calibrate(["Qwen3.5-9B"], lambda cells: [Result(cell) for cell in cells])
    best, frozen = table[table["best"]].iloc[0], table[table["frozen"]].iloc[0]
    assert (best["S"], best["T"]) == (32, 4096)
    profile = get_profile("Qwen3.5-9B")
    assert (frozen["S"], frozen["T"]) == (profile.max_num_seqs, profile.max_num_batched_tokens)

"""The paper's propositions and our promises, over random workloads on vLLM's own scheduler."""

from __future__ import annotations

import copy

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

pytest.importorskip("vllm")

from scheduling_cases import watch, workloads  # noqa: E402

from radixflow.scheduling import POLICIES  # noqa: E402
from radixflow.trace import open_trace  # noqa: E402
from radixflow.workloads import EngineOptions, Workload, WorkloadRequest  # noqa: E402

quick = settings(max_examples=25, suppress_health_check=list(HealthCheck))


def native_copy(scheduler):
    """The same state and order under native scheduling, to be scheduled once and thrown away."""
    schedule = scheduler.__dict__.pop("schedule")
    try:
        twin = copy.deepcopy(scheduler)
    finally:
        scheduler.schedule = schedule
    twin.traversal = twin.observer = twin.admission = None
    return twin


@quick
@given(workloads(), st.sampled_from(sorted(POLICIES)))
def test_every_batch_is_feasible_and_every_request_ends_or_is_reported(workload, policy):
    options = workload.simulated_engine.resolved()

    def after(scheduler, batch, seen):
        assert sum(batch.values()) <= options.max_num_batched_tokens
        assert len(batch) <= options.max_num_seqs
        assert all(tokens > 0 for tokens in batch.values())

    run = watch(workload, policy, after=after)
    aborted = {request.id for request in workload.requests if request.abort_after_round is not None}
    if run.outcome.end == "finished":
        for request in workload.requests:
            made = run.outcome.outputs.get(request.id, [])
            assert len(made) == request.output_tokens or request.id in aborted
    else:
        assert run.outcome.end == "stalled"
        assert run.scheduler.running or run.scheduler.waiting or run.scheduler.skipped_waiting


@quick
@given(workloads(), st.sampled_from(sorted(POLICIES)))
def test_nothing_leaks_once_every_request_is_gone(workload, policy):
    run = watch(workload, policy)
    if run.outcome.end == "finished":
        manager = run.scheduler.kv_cache_manager
        assert manager.block_pool.get_num_free_blocks() == workload.simulated_engine.resolved().num_blocks - 1
        assert not run.scheduler.requests
        assert not run.scheduler.waiting and not run.scheduler.skipped_waiting
        for group in manager.coordinator.single_type_managers:
            assert not group.num_cached_block


@quick
@given(workloads(state_groups=st.integers(1, 3)))
def test_the_traversals_batch_contains_the_native_one_at_the_same_state_and_order(workload):
    def after(scheduler, batch, twin):
        native = dict(twin.schedule().num_scheduled_tokens)
        assert native.items() <= batch.items()

    watch(workload, "radixflow+noadmit", before=native_copy, after=after)


@quick
@given(workloads(state_groups=st.just(0)))
def test_full_attention_is_scheduled_round_for_round_as_natively(workload):
    assert watch(workload, "radix").batches == watch(workload, "radixflow+noadmit").batches


@quick
@given(workloads(state_groups=st.integers(1, 3)))
def test_no_avoidable_bubble_is_left_where_no_other_stopped_the_scan(tmp_path_factory, workload):
    path = tmp_path_factory.mktemp("bubbles") / "run.rft.jsonl"
    watch(workload, "radixflow+noadmit", trace=str(path))
    for view in open_trace(path).iter_rounds():
        if view.stop is None and view.closed is None and not view.other:
            assert view.probe is not None and not view.probe.avoidable, view


@quick
@given(workloads(state_groups=st.integers(1, 3)))
def test_parked_requests_come_first_in_the_next_round_in_native_order(tmp_path_factory, workload):
    path = tmp_path_factory.mktemp("parked") / "run.rft.jsonl"
    watch(workload, "radixflow+noadmit", trace=str(path))
    trace = open_trace(path)
    fcfs = trace.config.scheduling_policy == "fcfs"
    views = list(trace.iter_rounds())
    for view, later in zip(views, views[1:], strict=False):
        parked = [entry.i for entry in view.blocked if entry.parked and entry.i in later.queue]
        order = [i for i in later.queue if i in parked]
        if fcfs:
            assert later.queue[: len(parked)] == parked
        else:
            assert order == [i for i in view.queue if i in parked]


def _tail_inside_a_block() -> Workload:
    """q7 ends its chunk at its prompt's last hash boundary, inside a block: q0, which shares it, must wait for that."""
    prompts = {
        "q1": [("u", 1)],
        "q4": [("A", 128), ("u", 1)],
        "q5": [("A", 1), ("A", 165), ("u", 1)],
        "q7": [("w", 50)],
        "q8": [("A", 65), ("u", 1)],
        "q0": [("w", 35)],
    }
    engine = EngineOptions(
        block_size=64, hash_block_size=32, num_blocks=9, state_groups=1, max_num_seqs=6, max_num_batched_tokens=40
    )
    late, long = {"q0": 3}, {"q4": 12}
    requests = [
        WorkloadRequest(id=id, prompt=prompt, after_round=late.get(id, 0), output_tokens=long.get(id, 1))
        for id, prompt in prompts.items()
    ]
    return Workload(name="tail", engine=engine, requests=requests)


def _goes_on_inside_a_block() -> Workload:
    """q4 goes on inside the block of its hit: it takes fewer blocks than it must ask for, and leaves more to others."""
    prompts = {"q4": [("w", 12)], "q5": [("A", 32), ("C", 32), ("v", 40)], "q6": [("v", 62)]}
    engine = EngineOptions(
        block_size=32, hash_block_size=8, num_blocks=16, state_groups=3, max_num_seqs=6, max_num_batched_tokens=128,
        scheduling_policy="priority", async_scheduling=True,
    )  # fmt: skip
    requests = [
        WorkloadRequest(id=id, prompt=prompt, after_round=0, output_tokens={"q5": 11}.get(id, 1))
        for id, prompt in prompts.items()
    ]
    return Workload(name="inside", engine=engine, requests=requests)


def _output_to_compute_again() -> Workload:
    """q3 comes back with output: its prefill is one token shorter than what it computes, and so fits what is left."""
    requests = [
        WorkloadRequest(id="q0", prompt=[("B", 166), ("v", 40)], after_round=1, output_tokens=12),
        WorkloadRequest(id="q1", prompt=[("C", 7), ("B", 26), ("v", 40)], after_round=0, output_tokens=3),
        WorkloadRequest(id="q2", prompt=[("A", 29), ("C", 84), ("w", 3)], after_round=0, output_tokens=9),
        WorkloadRequest(id="q3", prompt=[("v", 19)], after_round=3, output_tokens=11),
    ]
    engine = EngineOptions(
        block_size=32, hash_block_size=32, num_blocks=21, state_groups=3, max_num_seqs=5, max_num_batched_tokens=53
    )
    return Workload(name="again", engine=engine, requests=requests)


@quick
@example(_tail_inside_a_block(), "radix")
@example(_output_to_compute_again(), "radixflow")
@example(_goes_on_inside_a_block(), "radix")
@given(workloads(), st.sampled_from(["radix", "radixflow+noadmit", "radixflow"]))
def test_the_probe_counts_what_a_copy_of_the_scheduler_would_really_add(tmp_path_factory, workload, policy):
    from radixflow.scheduling.v0_29.overlay import Overlay
    from radixflow.scheduling.v0_29.probe import probe_free_slots

    def after(scheduler, batch, seen):
        if not (scheduler.waiting or scheduler.skipped_waiting):
            return
        probe = probe_free_slots(scheduler, lambda request_id: request_id)
        with pytest.MonkeyPatch.context() as slow:
            slow.setattr(Overlay, "refusal", lambda overlay, request: None)
            assert probe == probe_free_slots(scheduler, lambda request_id: request_id)
        assert probe.avoidable == _really_added(native_copy(scheduler), scheduler.budget)

    path = tmp_path_factory.mktemp("probe") / "run.rft.jsonl"
    watch(workload, policy, trace=str(path), after=after)


def _really_added(twin, budget):
    """Allocate for real, one waiting request after another, as the native loop would."""
    from radixflow.scheduling.v0_29.probe import _passed_over_natively, _waiting

    added = []
    left = copy.copy(budget)
    for request in list(_waiting(twin)):
        if len(twin.running) + len(added) >= twin.max_num_running_reqs or left.spent:
            break
        if _passed_over_natively(request):
            continue
        blocks, hit, request.shared_prefix_boundary, _ = twin._get_local_prefix_cache_hit(request)
        tokens, padded = request.num_tokens - hit, 0
        if tokens == 1 and twin.num_spec_tokens and left.decodes_only:  # padded to a decode with its drafts
            rows = 1 + twin.num_spec_tokens
            if hit + rows + twin.num_sampled_tokens_per_step <= twin.max_model_len:
                if rows > left.for_request:
                    continue
                tokens = padded = rows
        tokens = min(tokens, left.for_request)
        if twin.need_mamba_block_aligned_split:
            tokens = twin._mamba_block_aligned_split(request, tokens, hit)
            if padded and 0 < tokens != padded:
                tokens = 1
        tokens = twin._reserve_prefill_lookahead(request, hit, tokens)
        if tokens and twin.kv_cache_manager.allocate_slots(
            request,
            tokens,
            num_new_computed_tokens=hit,
            new_computed_blocks=blocks,
            num_lookahead_tokens=twin.num_lookahead_tokens,
            full_sequence_must_fit=twin.scheduler_reserve_full_isl,
            has_scheduled_reqs=bool(twin.running or added),
        ):
            added.append(request.request_id)
            left.take(tokens)
    return added


@quick
@given(workloads(), st.sampled_from(["radix", "radixflow", "radixflow+frag"]))
def test_recorder_and_probe_change_nothing(tmp_path_factory, workload, policy):
    folder = tmp_path_factory.mktemp("neutral")
    plain = watch(workload, policy)
    for probe in (0, 1):
        traced = watch(workload, policy, trace=str(folder / f"{probe}.rft.jsonl"), probe=probe)
        assert traced.batches == plain.batches
        assert traced.outcome == plain.outcome


@quick
@given(workloads(clock=True), st.sampled_from(sorted(POLICIES)))
def test_the_trace_says_what_was_scheduled_and_in_which_order_requests_stood(
    tmp_path_factory, workload, policy
):
    path = tmp_path_factory.mktemp("truth") / "run.rft.jsonl"
    queues = []

    def before(scheduler):
        if scheduler.policy.value == "priority":
            return [r.request_id for r in sorted([*scheduler.skipped_waiting, *scheduler.waiting])]
        return [r.request_id for queue in (scheduler.skipped_waiting, scheduler.waiting) for r in queue]

    def after(scheduler, batch, queue):
        if batch:
            queues.append((queue, batch))

    watch(workload, policy, trace=str(path), before=before, after=after)
    trace = open_trace(path)
    views = [view for view in trace.iter_rounds() if view.selected]
    assert [{trace.ids[i]: tokens for i, tokens in view.selected} for view in views] == [b for _, b in queues]
    released = {i for hold in trace.holds.itertuples() for i in hold.requests}
    for view, (queue, _) in zip(views, queues, strict=True):
        seen = [
            trace.ids[i]
            for i in view.queue
            if trace.ids[i] in queue or (i not in released and i not in view.preempted)
        ]
        assert seen == queue


@quick
@given(workloads(clock=True), st.sampled_from(sorted(POLICIES)))
def test_the_four_sums_come_out_exactly(tmp_path_factory, workload, policy):
    from radixflow.analysis import CostRefused, cost_identity, reuse, slots, waits_by_cause

    folder = tmp_path_factory.mktemp("sums")
    for name in ("radix", policy):
        watch(workload, name, trace=str(folder / f"{name}.rft.jsonl"))
    native, trace = (open_trace(folder / f"{name}.rft.jsonl") for name in ("radix", policy))
    assert slots(trace).faults.empty
    assert waits_by_cause(trace).loc["unrecorded", ["rounds", "ns"]].tolist() == [0, 0]
    table = reuse(trace)
    assert (table["prompt"] == table["reused"] + table["forgone"] + table["fresh"]).all()
    try:
        assert cost_identity(native, trace).holds
    except CostRefused as refused:
        assert workload.simulated_engine.resolved().async_scheduling or "no round" in str(refused)

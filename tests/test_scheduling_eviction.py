"""Rotating tails: whom the rotation cuts, and what it may never do on vLLM's own block pool."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from itertools import islice

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from radixflow.scheduling.eviction import EVICTIONS, Rotation, get_eviction


@dataclass(eq=False)
class Block:
    """What the rotation knows of a block."""

    name: str
    ref_cnt: int = 0


def path(rotation: Rotation, nodes: str, group: int = 0, parent: str | None = None) -> dict[str, Block]:
    """Cache the prefixes named by `nodes` one after another, each with a free block of `group`."""
    blocks = {}
    for key in nodes:
        blocks[key] = Block(f"{key}{group}")
        rotation.add(key, parent, group, blocks[key])
        parent = key
    for key in reversed(nodes):
        rotation.settle(key)
    return blocks


def taken(rotation: Rotation, n: int) -> list[str]:
    """The next n victims' names, without taking them."""
    return [block.name for block in islice(rotation.victims(), n)]


def take(rotation: Rotation, keys: dict[Block, str], n: int, group: int = 0) -> list[str]:
    """Take n victims for good."""
    victims = list(islice(rotation.victims(), n))
    for block in victims:
        rotation.remove(keys[block], group, block)
    return [block.name for block in victims]


def test_each_idle_tail_gives_one_chunk_in_turn():
    rotation = Rotation(frozenset({0}))
    for nodes in ("abc", "de", "fghi"):
        path(rotation, nodes)
    assert taken(rotation, 9) == ["c0", "e0", "i0", "b0", "d0", "h0", "a0", "g0", "f0"]


def test_taking_a_few_at_a_time_goes_on_where_the_rotation_stood():
    whole, steps = Rotation(frozenset({0})), Rotation(frozenset({0}))
    for nodes in ("abc", "de", "fghi"):
        path(whole, nodes)
    keys = {block: key for nodes in ("abc", "de", "fghi") for key, block in path(steps, nodes).items()}
    assert [name for n in (1, 3, 2, 1, 2) for name in take(steps, keys, n)] == taken(whole, 9)


def test_a_shared_prefix_is_cut_only_once_nothing_hangs_from_it():
    rotation = Rotation(frozenset({0}))
    path(rotation, "ab")
    path(rotation, "c", parent="b")
    path(rotation, "de", parent="b")
    assert taken(rotation, 5) == ["c0", "e0", "d0", "b0", "a0"]


def test_a_trajectory_in_use_is_never_cut_and_nothing_above_it_is():
    rotation = Rotation(frozenset({0}))
    path(rotation, "ab")
    path(rotation, "c", parent="b")
    held = path(rotation, "d", parent="b")["d"]
    held.ref_cnt = 1
    rotation.hold("d")
    assert taken(rotation, 9) == ["c0"]
    held.ref_cnt = 0
    rotation.settle("d")
    assert taken(rotation, 9) == ["c0", "d0", "b0", "a0"]


def test_whoever_was_used_last_is_cut_last():
    rotation = Rotation(frozenset({0}))
    first = path(rotation, "a")["a"]
    path(rotation, "b")
    first.ref_cnt = 1
    rotation.hold("a")
    first.ref_cnt = 0
    rotation.settle("a")
    assert taken(rotation, 2) == ["b0", "a0"]


def test_a_copy_goes_before_anything_that_is_cached_once():
    rotation = Rotation(frozenset({0}))
    path(rotation, "ab")
    again = Block("copy")
    rotation.add("a", None, 0, again)
    rotation.settle("a")
    assert taken(rotation, 1) == ["a0"]  # `copy` still holds it
    again.ref_cnt = 1
    rotation.hold("a")
    assert taken(rotation, 1) == ["a0"]
    assert taken(rotation, 9) == ["a0", "b0"]  # above a block in use nothing is cut


def test_a_hybrids_cut_goes_on_to_the_boundary_whose_state_exists():
    rotation = Rotation(frozenset({0, 1}))
    path(rotation, "abcd")
    path(rotation, "b", group=1)  # states at b and d
    path(rotation, "d", group=1)
    path(rotation, "xy")
    path(rotation, "y", group=1)
    assert taken(rotation, 3) == ["d0", "d1", "c0"]  # nothing between b's state and d's is of use
    assert taken(rotation, 9)[3:] == ["y0", "y1", "x0", "b0", "b1", "a0"]


def test_key_values_past_the_last_state_go_first():
    rotation = Rotation(frozenset({0, 1}))
    path(rotation, "ab")
    path(rotation, "b", group=1)
    path(rotation, "uvw")
    path(rotation, "u", group=1)
    assert taken(rotation, 2) == ["w0", "v0"]


def test_a_cut_goes_on_to_the_boundary_whose_whole_window_exists():
    rotation = Rotation(frozenset({0, 1}), {1: (2, 1)})  # two blocks back
    path(rotation, "abcde")
    path(rotation, "b", group=1, parent="a")
    path(rotation, "c", group=1, parent="b")
    path(rotation, "e", group=1, parent="d")  # d's is gone: nobody resumes at e
    path(rotation, "xy")
    path(rotation, "x", group=1)
    path(rotation, "y", group=1, parent="x")
    assert taken(rotation, 3) == ["e0", "e1", "d0"]
    # c has b's block behind it, b has none: with c gone the rest of that path serves nobody.
    assert taken(rotation, 12)[3:] == ["y0", "y1", "c0", "c1", "b0", "b1", "a0", "x0", "x1"]


def test_a_prefix_inside_a_block_is_cut_before_the_block_that_serves_it():
    rotation = Rotation(frozenset({0, 1}))
    blocks = path(rotation, "ab")
    path(rotation, "b", group=1)
    path(rotation, "p", group=1, parent="a")  # the state in the middle of b's block
    rotation.lend("p", "b", 0, blocks["b"])
    for key in "pba":
        rotation.settle(key)
    assert taken(rotation, 9) == ["p1", "b0", "b1", "a0"]


def test_an_unknown_eviction_is_named_beside_the_known_ones():
    assert list(EVICTIONS) == ["lru", "rr"]
    with pytest.raises(ValueError, match="unknown eviction 'rrr': expected one of lru, rr; did you mean 'rr'"):
        get_eviction("rrr")


pytest.importorskip("vllm")

from scheduling_cases import watch, workloads  # noqa: E402
from vllm.v1.core.block_pool import BlockPool  # noqa: E402

from radixflow.engines.groups import CacheGroup  # noqa: E402
from radixflow.engines.run import run  # noqa: E402
from radixflow.scheduling import POLICIES  # noqa: E402
from radixflow.scheduling.settings import read_settings  # noqa: E402

quick = settings(max_examples=20, suppress_health_check=list(HealthCheck))


class Oracle:
    """The cache of one scheduler as a tree, read off its requests and its pool alone."""

    def __init__(self, scheduler):
        self.pool = scheduler.kv_cache_manager.block_pool
        self.managers = scheduler.kv_cache_manager.coordinator.single_type_managers
        self.above: dict[bytes, bytes | None] = {}
        """Prefix at a block boundary -> the one a block before."""
        self.inner: set[bytes] = set()
        """Prefixes that end inside a block."""
        step = self.managers[0].block_size // self.pool.hash_block_size
        add, get_new = scheduler.add_request, self.pool.get_new_blocks
        requests = []

        def added(request):
            requests.append(request)
            add(request)

        def read():
            for request in requests:
                hashes = request.block_hashes
                for k, key in enumerate(hashes, 1):
                    if k % step == 0:
                        self.above[key] = hashes[k - step - 1] if k > step else None
                    else:
                        self.inner.add(key)

        def watched(n):
            read()
            before = self.useless() if n else set()
            cached = {b.block_id for b in self.pool.blocks if b.block_hash is not None and b.ref_cnt == 0}
            spare = self.spare()
            blocks = get_new(n)
            ids = {block.block_id for block in blocks}
            assert len(ids) == n
            if ids & cached:
                hashless = [b for b in self.pool.free_block_queue.get_all_free_blocks() if b.block_hash is None]
                assert not hashless, "blocks without a hash come first"
            if not self.inner and ids & cached - before - spare:
                assert before <= ids, "a boundary was cut while useless blocks were left"
            self.contiguous()
            return blocks

        scheduler.add_request = added
        self.pool.get_new_blocks = watched

    def cached(self):
        return self.pool.cached_block_hash_to_block._cache

    def entries(self, key, group):
        found = self.cached().get(key + group.to_bytes(4, "big"))
        return [] if found is None else list(found.values()) if isinstance(found, dict) else [found]

    def contiguous(self):
        """Whatever key-values stay, those of every shorter prefix stay as well."""
        for key, above in self.above.items():
            if above is not None and self.entries(key, 0):
                assert self.entries(above, 0), "a kept prefix has a hole"

    def spare(self):
        """Free blocks of which another block holds a copy."""
        return {
            block_id
            for found in self.cached().values()
            if isinstance(found, dict) and len(found) > 1
            for block_id, block in found.items()
            if block.ref_cnt == 0
        }

    def useless(self):
        """Free blocks from which nobody could resume: no complete boundary and no user at or below."""
        useful: set[bytes] = set()
        groups = range(len(self.managers))
        for key in self.above:
            entries = [self.entries(key, group) for group in groups]
            if all(entries) or any(block.ref_cnt for found in entries for block in found):
                while key is not None and key not in useful:
                    useful.add(key)
                    key = self.above[key]
        return {
            block.block_id
            for key in self.above.keys() - useful
            for group in groups
            for block in self.entries(key, group)
        }


@quick
@given(workloads(), st.sampled_from(sorted(POLICIES)))
def test_what_is_kept_is_contiguous_and_can_be_resumed_under_every_policy(workload, policy):
    watch(workload, policy, eviction="rr", prepare=Oracle)


@quick
@given(workloads(), st.sampled_from([2, 17, 100]))
def test_vllm_can_resume_wherever_the_rotation_says_also_with_sliding_windows(workload, window):
    def prepare(scheduler):
        pool, coordinator = scheduler.kv_cache_manager.block_pool, scheduler.kv_cache_manager.coordinator
        add, get_new, requests = scheduler.add_request, pool.get_new_blocks, []

        def added(request):
            requests.append(request)
            add(request)

        def watched(n):
            blocks = get_new(n)
            tails = {key: pool.rotation._resumable(pool.rotation._nodes[key]) for key in pool.rotation._tails}
            for request in requests:
                for k, key in enumerate(request.block_hashes, 1):
                    if key in tails:
                        length = k * pool.hash_block_size
                        _, found, _ = coordinator.find_longest_cache_hit(request.block_hashes[:k], length)
                        assert (found == length) == tails[key]
            return blocks

        scheduler.add_request, pool.get_new_blocks = added, watched

    # Drafts make vLLM drop the last block that it found.
    assume(not workload.simulated_engine.resolved().spec_tokens)
    groups = [CacheGroup(("kv",)), CacheGroup(("kv",), window=window)]
    done = watch(workload, "radixflow", eviction="rr", groups=groups, prepare=prepare)
    assert done.scheduler.kv_cache_manager.block_pool.rotation is not None, "the rotation failed and fell back"


@quick
@given(workloads(), st.sampled_from(sorted(POLICIES)))
def test_no_block_in_use_is_ever_taken_and_nothing_leaks(workload, policy):
    def after(scheduler, batch, seen):
        manager = scheduler.kv_cache_manager
        free = {block.block_id for block in manager.block_pool.free_block_queue.get_all_free_blocks()}
        assert len(free) == manager.block_pool.get_num_free_blocks()
        for group in manager.coordinator.single_type_managers:
            for blocks in group.req_to_blocks.values():
                assert not free & {block.block_id for block in blocks}
                assert all(block.ref_cnt > 0 for block in blocks if not block.is_null)

    done = watch(workload, policy, eviction="rr", after=after)
    pool = done.scheduler.kv_cache_manager.block_pool
    assert pool.rotation is not None, "the rotation failed and fell back"
    if done.outcome.end == "finished":
        assert pool.get_num_free_blocks() == workload.simulated_engine.resolved().num_blocks - 1
        for request in workload.requests:
            if request.abort_after_round is None:
                assert len(done.outcome.outputs[request.id]) == request.output_tokens


@quick
@given(workloads(), st.sampled_from(sorted(POLICIES)))
def test_the_order_asked_for_is_the_order_in_which_blocks_are_taken(workload, policy):
    def prepare(scheduler):
        pool = scheduler.kv_cache_manager.block_pool
        get_new = pool.get_new_blocks

        def watched(n):
            order = [block.block_id for block in pool.eviction_order()]
            assert sorted(order) == sorted(b.block_id for b in pool.free_block_queue.get_all_free_blocks())
            blocks = get_new(n)
            assert [block.block_id for block in blocks] == order[:n]
            # What was cut may have ended another tail first, so the rest may change places.
            assert {block.block_id for block in pool.eviction_order()} == set(order[n:])
            return blocks

        pool.get_new_blocks = watched

    watch(workload, policy, eviction="rr", prepare=prepare)


@quick
@given(workloads(), st.sampled_from(["radix", "radixflow+noadmit", "radixflow"]))
def test_the_probe_sees_the_pool_that_rotation_would_leave(tmp_path_factory, workload, policy):
    from test_scheduling_properties import _really_added, native_copy

    from radixflow.scheduling.v0_29.probe import probe_free_slots

    def after(scheduler, batch, seen):
        if scheduler.waiting or scheduler.skipped_waiting:
            probe = probe_free_slots(scheduler, lambda request_id: request_id)
            assert probe.avoidable == _really_added(native_copy(scheduler), scheduler.budget)

    trace = tmp_path_factory.mktemp("probe") / "run.rft.jsonl"
    watch(workload, policy, trace=str(trace), eviction="rr", after=after)


@quick
@given(workloads(), st.sampled_from(["radix", "radixflow+frag"]))
def test_recorder_and_probe_change_nothing_under_rotation(tmp_path_factory, workload, policy):
    plain = watch(workload, policy, eviction="rr")
    trace = tmp_path_factory.mktemp("neutral") / "run.rft.jsonl"
    traced = watch(workload, policy, trace=str(trace), eviction="rr")
    assert (traced.batches, traced.outcome) == (plain.batches, plain.outcome)


@quick
@given(workloads())
def test_lru_leaves_vllms_own_pool_untouched(workload):
    done = watch(workload, "radixflow", prepare=lambda s: _only_vllms(s.kv_cache_manager.block_pool))
    _only_vllms(done.scheduler.kv_cache_manager.block_pool)


def _only_vllms(pool):
    assert type(pool) is BlockPool
    assert not {"rotation", "watch", "fault"} & vars(pool).keys()


@quick
@given(workloads())
def test_where_memory_never_runs_short_rotation_changes_nothing(workload):
    roomy = copy.copy(workload)
    roomy.engine = type(workload.engine)(**(workload.engine.given() | {"num_blocks": 2000}))
    assert watch(roomy, "radixflow").batches == watch(roomy, "radixflow", eviction="rr").batches


def test_a_fault_in_the_rotation_goes_back_to_vllms_order(monkeypatch, tmp_path):
    from radixflow.trace import open_trace

    def broken(rotation, in_use=None):
        raise RuntimeError("no idea whom to cut")

    plain = run("chat", "radix", num_blocks=180)
    monkeypatch.setattr(Rotation, "victims", broken)
    path = tmp_path / "run.rft.jsonl"
    run("chat", "radix", num_blocks=180, eviction="rr", trace=path)
    trace = open_trace(path)
    assert trace.end.reason == "fault"
    assert trace.config.eviction == "rr"
    assert plain.config.eviction == "lru"


def test_settings_name_the_eviction_and_refuse_an_unknown_one():
    assert read_settings(None, {}).eviction == "lru"
    assert read_settings(None, {"RADIXFLOW_EVICTION": "rr"}).eviction == "rr"
    assert read_settings({"radixflow": {"eviction": "lru"}}, {"RADIXFLOW_EVICTION": "rr"}).eviction == "lru"
    with pytest.raises(ValueError, match="unknown eviction"):
        read_settings(None, {"RADIXFLOW_EVICTION": "mru"})


@pytest.mark.xdist_group("engine")
def test_the_real_engine_generates_the_same_tokens_whatever_is_evicted(tmp_path):
    from radixflow.analysis import summarize_evictions
    from radixflow.engines.real import run_real
    from radixflow.trace import open_trace
    from radixflow.workloads import load_workload

    workload = load_workload("agents", agents=6, active=0.3, turns=4, context=600, growth=40, shared=128, answer=4)
    outputs, found = [], []
    for eviction in ("lru", "rr"):
        path = tmp_path / f"{eviction}.rft.jsonl"
        done = run_real(
            workload, policy="radix", model="tiny-qwen3", trace_path=path, eviction=eviction,
            options={"num_blocks": 45, "block_size": 64},
        )  # fmt: skip
        assert done.end == "finished"
        outputs.append(done.outputs)
        found.append(summarize_evictions(open_trace(path)))
    assert outputs[0] == outputs[1]
    lru, rr = found
    assert (lru.eviction, rr.eviction) == ("lru", "rr")
    assert lru.evicted_blocks and rr.evicted_blocks
    assert rr.partial_misses > lru.partial_misses

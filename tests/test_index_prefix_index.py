"""The index equals a naive dictionary of prefixes, and no namespace learns of another."""

from __future__ import annotations

import statistics
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixflow.index import CacheLayout, Namespace, PrefixIndex, Scope

HYBRID = CacheLayout(4, (("kv",), ("rec", "conv")))
A, B = Namespace("m", tenant="a"), Namespace("m", tenant="b")


def index(*engines, layout=HYBRID):
    made = PrefixIndex()
    made.declare("m", layout)
    for engine in engines or ("e",):
        made.add_engine(engine, "m")
    return made


class Naive:
    """What the index must equal: every prefix held, written out."""

    def __init__(self, layout):
        self.layout = layout
        self.held = set()  # (namespace, engine, group, tokens of the whole prefix)

    def change(self, add, tokens, namespace, engine, groups, boundaries):
        ends = boundaries or range(self.layout.block_size, len(tokens) + 1, self.layout.block_size)
        cells = {(namespace, engine, group, tuple(tokens[:end])) for end in ends for group in groups}
        self.held = self.held | cells if add else self.held - cells

    def match(self, tokens, namespace, engine):
        size = self.layout.block_size
        ends = range(size, len(tokens) + 1, size)

        def has(group, end):
            return (namespace, engine, group, tuple(tokens[:end])) in self.held

        kv = 0
        for end in ends:
            if not has(0, end):
                break
            kv = end
        state = max((end for end in ends if has(1, end)), default=0)
        ready = max((end for end in ends if end <= kv and has(1, end)), default=0)
        return max(kv, state), ready, {"kv": kv, "rec": state, "conv": state}


sequences = st.lists(st.integers(0, 1), max_size=18)
steps = st.tuples(
    st.booleans() | st.just(True),
    sequences,
    st.sampled_from([A, B]),
    st.sampled_from(["x", "y"]),
    st.sampled_from([[0], [1], [0, 1]]),
    st.none() | st.integers(1, 4),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(steps, max_size=12), sequences, st.none() | st.sampled_from(["engine", "tenant"]))
def test_after_any_operations_it_equals_a_naive_dictionary_of_prefixes(operations, asked, forgotten):
    made, naive = index("x", "y"), Naive(HYBRID)
    for add, tokens, namespace, engine, groups, block in operations:
        ends = [block * 4] if block is not None and block * 4 <= len(tokens) else None
        (made.insert if add else made.evict)(tokens, namespace, engine, groups, ends)
        naive.change(add, tokens, namespace, engine, groups, ends)
    if forgotten == "engine":
        made.invalidate(Scope(engine="x"))
        naive.held = {cell for cell in naive.held if cell[1] != "x"}
    elif forgotten == "tenant":
        made.invalidate(Scope(tenant="a"))
        naive.held = {cell for cell in naive.held if cell[0] != A}
    for tokens in [asked, *(operation[1] for operation in operations)]:
        for namespace in (A, B):
            for engine, match in made.longest_match(tokens, namespace).items():
                assert (match.matched, match.ready, match.components) == naive.match(tokens, namespace, engine)
    prefixes = {(cell[0], cell[3][: 4 * k]) for cell in naive.held for k in range(1, len(cell[3]) // 4 + 1)}
    assert sum(size.nodes for size in made.sizes().values()) == len(prefixes), "nothing is kept that nobody holds"


def test_ready_needs_every_component_at_one_boundary_and_matched_only_one():
    made = index()
    tokens = list(range(12))
    made.insert(tokens, A, "e", groups=[0])
    made.insert(tokens, A, "e", groups=[1], boundaries=[8])
    match = made.longest_match(tokens, A)["e"]
    assert (match.matched, match.ready) == (12, 8)
    assert match.components == {"kv": 12, "rec": 8, "conv": 8}
    made.evict(tokens, A, "e", groups=[0], boundaries=[4])
    assert made.longest_match(tokens, A)["e"].ready == 0


def test_a_sessions_own_blocks_are_forgotten_and_shared_ones_stay():
    made = index(layout=CacheLayout(4))
    made.insert(range(8), A, "e", session="one")
    made.insert([*range(4), 9, 9, 9, 9], A, "e", session="two")
    assert made.invalidate(Scope(session="one")) == 1
    assert made.longest_match(range(8), A)["e"].ready == 4
    made.invalidate(Scope(session="two"))
    assert made.longest_match(range(8), A)["e"].ready == 0 and made.sizes()[A].nodes == 0


def test_nothing_is_shared_unless_it_was_declared():
    made = index("x", "y")
    made.declare("other", HYBRID)
    made.add_engine("z", "other")
    tokens = list(range(8))
    made.insert(tokens, A, "x")
    assert set(made.longest_match(tokens, A)) == {"x", "y"}
    for namespace in (
        B,
        Namespace("other", tenant="a"),
        Namespace("m", revision="2", tenant="a"),
        Namespace("m", adapter="lora", tenant="a"),
        Namespace("m", tenant="a", salt="s"),
    ):
        assert all(match.matched == 0 for match in made.longest_match(tokens, namespace).values())
    with pytest.raises(ValueError, match="holds caches of 'other'"):
        made.insert(tokens, A, "z")
    with pytest.raises(ValueError, match="declared with"):
        made.declare("m", CacheLayout(8))


def test_namespaces_that_read_alike_are_still_different():
    made = index()
    made.insert(range(8), Namespace("m", tenant="ab", salt="c"), "e")
    assert made.longest_match(range(8), Namespace("m", tenant="a", salt="bc"))["e"].matched == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, max_size=10), sequences)
def test_no_operation_of_one_tenant_changes_what_another_is_told(operations, asked):
    """Answers and counts of tenant B are the same whether or not tenant A was ever there."""
    shared, alone = index("x", "y"), index("x", "y")
    for add, tokens, namespace, engine, groups, _ in operations:
        made = [(shared.insert if add else shared.evict)(tokens, namespace, engine, groups)]
        if namespace == B:
            made.append((alone.insert if add else alone.evict)(tokens, namespace, engine, groups))
            assert made[0] == made[1]
        assert shared.longest_match(asked, B) == alone.longest_match(asked, B)


def test_a_look_up_takes_as_long_whether_or_not_another_tenant_holds_the_prefix():
    """Look-ups of B for what A holds and for what nobody holds visit the same nodes: none."""
    made = index(layout=CacheLayout(16))
    held, unheld = list(range(8000)), list(range(1, 8001))
    made.insert(held, A, "e")
    made.insert(list(range(5, 805)), B, "e")
    visited = {}
    for name, tokens in (("held", held), ("unheld", unheld)):
        asked = []

        def counted(tokens=tokens, asked=asked):
            for key in made._tree(B).keys(tokens):
                asked.append(key)
                yield key

        made.match_keys(counted(), B)
        visited[name] = len(asked)
    assert visited["held"] == visited["unheld"] == 1
    times = {"held": [], "unheld": []}
    for _ in range(200):
        for name, tokens in (("held", held), ("unheld", unheld)):
            began = time.perf_counter_ns()
            made.longest_match(tokens, B)
            times[name].append(time.perf_counter_ns() - began)
    low, high = sorted(statistics.median(taken) for taken in times.values())
    print(f"median look-up {low} and {high} ns")


def test_readers_see_one_moment_while_writers_come_and_go():
    """The state at 8 is published with the blocks below it and evicted with them: ready is 0 or 8, never 4."""
    made = index()
    tokens, stop, wrong = list(range(8)), threading.Event(), []

    def write():
        while not stop.is_set():
            made.insert(tokens, A, "e")
            made.evict(tokens, A, "e")

    def read():
        while not stop.is_set():
            match = made.longest_match(tokens, A)["e"]
            if (match.matched, match.ready) not in ((0, 0), (8, 8)):
                wrong.append(match)

    threads = [threading.Thread(target=write), *(threading.Thread(target=read) for _ in range(3))]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_engine_that_left_leaves_no_trace_and_its_place_is_used_again():
    made = index("x", "y")
    made.insert(range(8), A, "x")
    made.insert(range(8), A, "y")
    made.remove_engine("x")
    made.add_engine("z", "m")
    matches = made.longest_match(range(8), A)
    assert matches["z"].matched == 0 and matches["y"].ready == 8
    assert made.sizes()[A].held == {"y": 2, "z": 0}


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda made: made.insert(range(8), A, "nobody"), "isn't known"),
        (lambda made: made.insert(range(8), A, "e", groups=[2]), "expected 0 to 1"),
        (lambda made: made.insert(range(8), A, "e", boundaries=[5]), "multiple of 4 up to 8"),
        (lambda made: made.longest_match(range(8), Namespace("n")), "isn't declared"),
        (lambda made: made.add_engine("e", "m"), "there already"),
        (lambda made: Scope(), "expected at least one field"),
        (lambda made: CacheLayout(0), "expected 1 or more"),
        (lambda made: CacheLayout(4, (("key",),)), "expected for each some of"),
    ],
)
def test_bad_input_is_one_clear_line(ask, said):
    with pytest.raises((KeyError, ValueError), match=said):
        ask(index())

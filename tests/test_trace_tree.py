"""The prefix tree of any round equals what a dictionary of plain token prefixes says."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_records import header, written

from radixflow.trace import PromptPaths, open_trace
from radixflow.trace.schema import Admission, Cache, Finish, Gap, Group, Request, Round
from radixflow.trace.tree_text import furthest

GROUPS = [
    Group(0, "full_attention", ["kv"], 2),
    Group(1, "mamba", ["rec", "conv"], 4),
    Group(2, "mamba", ["rec"], 2),
]


class Model:
    """Prefixes are tuples of tokens; what is cached is a dictionary by (group, prefix)."""

    def __init__(self, groups):
        self.groups = {group.index: group for group in groups}
        self.prompts: dict[int, tuple] = {}
        self.whole: dict[int, tuple] = {}
        self.status: dict[tuple, str] = {}
        self.computed: dict[int, int] = {}

    def span(self, i, group, start, end):
        tokens = self.whole[i]
        block = self.groups[group].block_size
        return [tokens[:depth] for depth in range(start + block, end + 1, block)]

    def ends(self, others):
        """Where prompts end, or part from one of the others."""
        ends = {prompt for prompt in self.prompts.values() if prompt}
        for a in self.prompts.values():
            for b in others.values():
                n = 0
                while n < min(len(a), len(b)) and a[n] == b[n]:
                    n += 1
                if n:
                    ends.add(a[:n])
        return ends

    def boundary(self, group, prefix):
        return self.status.get((group, prefix), "never")

    def matched(self, i, group, usable):
        prompt, block = self.prompts[i], self.groups[group].block_size
        depths = range(block, len(prompt), block)
        good = [self.boundary(group, prompt[:d]) in usable for d in depths]
        if self.groups[group].kind == "mamba":
            return max((d for d, ok in zip(depths, good, strict=True) if ok), default=0)
        run = good.index(False) if False in good else len(good)
        return run * block

    def ready(self, i, block_size):
        prompt = self.prompts[i]
        limit = min(
            [self.matched(i, g, ("published",)) for g, x in self.groups.items() if x.kind != "mamba"]
            or [10**9]
        )
        states = [g for g, x in self.groups.items() if x.kind == "mamba"]
        for depth in range(min(limit, len(prompt) - 1), 0, -1):
            if states and all(self.boundary(g, prompt[:depth]) == "published" for g in states):
                return depth
            if not states and depth % block_size == 0:
                return depth
        return 0

    def identity(self, i):
        best = 0
        for j, tokens in self.whole.items():
            if j != i:
                n = 0
                while n < min(len(tokens), len(self.prompts[i])) and tokens[n] == self.prompts[i][n]:
                    n += 1
                best = max(best, min(n, self.computed.get(j, 0)))
        return best


def random_run(rng: random.Random, groups, rounds: int):
    """Records, and for each round a check of the tree against the model as it was then."""
    model, paths = Model(groups), PromptPaths(salt=b"t")
    records, checks, running = [], [], []
    for n in range(1, rounds + 1):
        for _ in range(rng.randrange(3)):
            i = len(model.prompts)
            base = model.whole[rng.randrange(i)] if i and rng.random() < 0.75 else ()
            tokens = base[: rng.randrange(len(base) + 1)] + tuple(
                rng.randrange(3) for _ in range(rng.randrange(1, 14))
            )
            path = paths.insert(tokens)
            output = tuple(rng.randrange(3) for _ in range(rng.randrange(5)))
            more = paths.extend(path, output) if output else []
            model.prompts[i], model.whole[i] = tokens, tokens + output
            records.append(Request(i, f"r{i}", n, len(tokens), path))
            records.append((i, Finish(i, n, "stop", len(output), n, more)))
        selected, admissions = [], []
        waiting = [i for i in model.prompts if i not in model.computed]
        for i in running:
            if model.computed[i] < len(model.whole[i]):
                tokens = rng.randrange(1, len(model.whole[i]) - model.computed[i] + 1)
                selected += i, tokens
                model.computed[i] += tokens
        for i in waiting[: rng.randrange(3)]:
            found = rng.randrange(len(model.prompts[i]))
            tokens = rng.randrange(1, len(model.prompts[i]) - found + 1)
            admissions.append(Admission(i, found, found))
            selected += i, tokens
            model.computed[i] = found + tokens
            running.append(i)
        records.append(Round(n, n, 1, selected, admissions))
        in_flight = set()
        for _ in range(rng.choice([0, 1, 1, 2])):
            cache = Cache(n, cleared=rng.random() < 0.04)
            if cache.cleared:
                for key in model.status:
                    model.status[key] = "evicted"
                in_flight.clear()
            for _ in range(rng.randrange(4)):
                if not model.prompts:
                    break
                i, group = rng.choice(list(model.prompts)), rng.choice(groups)
                blocks = len(model.whole[i]) // group.block_size
                if not blocks:
                    continue
                last = rng.randrange(1, blocks + 1)
                first = last - 1 if group.kind == "mamba" else rng.randrange(last)
                span = (i, group.index, first * group.block_size, last * group.block_size)
                if rng.random() < 0.3:
                    cache.evicted.append((*span, i))
                else:
                    cache.published.append(span)
            for *span, _ in cache.evicted:
                for prefix in model.span(*span):
                    model.status[span[1], prefix] = "evicted"
                    in_flight.discard((span[1], prefix))
            for span in cache.published:
                for prefix in model.span(*span):
                    model.status[span[1], prefix] = "published"
                    if model.groups[span[1]].kind == "mamba":
                        in_flight.add((span[1], prefix))
            records.append(cache)
        checks.append(snapshot(model, in_flight))
    # Paths of outputs come last: a live reader learns them late, a whole trace knows them.
    late = [record[1] for record in records if isinstance(record, tuple)]
    return [record for record in records if not isinstance(record, tuple)] + late, checks


def snapshot(model, in_flight):
    flying = dict.fromkeys(in_flight, "in_flight")
    usable = ("published", "in_flight")
    model.status.update(flying)
    said = {
        "parts": model.ends(model.prompts),
        "outputs": model.ends(model.whole),
        "prompts": dict(model.prompts),
        "status": dict(model.status),
        "matched": {i: {g: model.matched(i, g, usable) for g in model.groups} for i in model.prompts},
        "ready": {i: model.ready(i, 2) for i in model.prompts},
        "identity": {i: model.identity(i) for i in model.prompts},
    }
    for key in in_flight:
        model.status[key] = "published"
    return said


def hold(tree, said, groups):
    prefix_of = {}
    for node in tree.nodes:
        i = node.requests[0]
        end = said["prompts"][i][: node.end]
        prefix_of[node.id] = end
        assert node.requests == [i for i, prompt in said["prompts"].items() if prompt[: node.end] == end]
        if node.parent is None:
            assert node.depth == 0
        else:
            assert prefix_of[node.parent] == end[: node.depth]
        for group in groups:
            for depth, status in tree.state(node, group.index):
                assert node.depth < depth <= node.end and depth % group.block_size == 0
                assert status == said["status"].get((group.index, end[:depth]), "never")
            assert (
                len(tree.state(node, group.index))
                == node.end // group.block_size - node.depth // group.block_size
            )
    ends = set(prefix_of.values())
    assert len(ends) == len(prefix_of)
    assert said["parts"] <= ends <= said["outputs"]  # a node also ends where a prompt parts from an output
    for node in tree.nodes:
        end = prefix_of[node.id]
        assert node.depth == max(
            (len(x) for x in ends if len(x) < len(end) and end[: len(x)] == x), default=0
        )
    for i in said["prompts"]:
        assert tree.matched(i) == said["matched"][i]
        assert tree.ready(i) == said["ready"][i]
        assert tree.identity(i) == said["identity"][i]
        told = max((furthest(tree, i, node, {"published"}) for node in tree.nodes_of(i)), default=0)
        assert told == said["ready"][i] or told == len(said["prompts"][i]), "what the text of the tree says is h"
        assert [prefix_of[node.id] for node in tree.nodes_of(i)] == [
            end for end in sorted(ends, key=len) if end == said["prompts"][i][: len(end)]
        ]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), which=st.sampled_from([GROUPS, GROUPS[:1], GROUPS[1:], GROUPS[:2]]))
def test_the_tree_of_any_round_is_right(seed, which):
    rng = random.Random(seed)
    records, checks = random_run(rng, which, 14)
    with tempfile.TemporaryDirectory() as folder:
        trace = open_trace(written(Path(folder) / "a.rft.jsonl", records, header(block=2, groups=which)))
    trace._boundaries._every = 3  # many snapshots
    order = list(range(1, 15))
    rng.shuffle(order)
    for n in order:
        hold(trace.tree(n), checks[n - 1], which)
        many(trace.tree(n), checks[n - 1], rng)


def many(tree, said, rng):
    """Looked up together, in any order, in one piece or in several, requests find what each finds alone."""
    numbers = rng.sample(list(said["prompts"]), len(said["prompts"]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("radixflow.trace.matches._AT_ONCE", rng.choice([1, 7, 1 << 20]))
        found = tree.matches(numbers)
    assert found.identity.tolist() == [said["identity"][i] for i in numbers]
    assert found.ready.tolist() == [said["ready"][i] for i in numbers]
    for group, tokens in found.matched.items():
        assert tokens.tolist() == [said["matched"][i][group] for i in numbers]


def test_a_partial_boundary_is_kept_where_it_is(tmp_path):
    groups = [Group(0, "full_attention", ["kv"], 64), Group(1, "mamba", ["rec", "conv"], 64)]
    records = [
        Request(0, "a", 0, 200, [("s", 200)]),
        Request(1, "b", 0, 220, [("s", 150), ("u", 70)]),
        Round(1, 1, 1, [0, 144], [Admission(0, 0, 0)]),
        Cache(1, [(0, 0, 0, 128), (0, 1, 80, 144)]),
    ]
    trace = open_trace(written(tmp_path / "a.rft.jsonl", records, header(groups=groups)))
    tree = trace.tree(1)
    shared = tree.nodes_of(1)[0]
    assert tree.state(shared, 1) == [(64, "never"), (128, "never"), (144, "in_flight")]
    assert tree.matched(1) == {0: 128, 1: 144} and tree.state_at(1, 1, 144) == "in_flight"


def test_history_names_who_published_and_who_evicted(tmp_path):
    records = [
        Request(0, "a", 0, 128, [("s", 128)]),
        Request(1, "b", 0, 100, [("s", 70), ("u", 30)]),
        Round(1, 1, 1, [0, 128], [Admission(0, 0, 0)]),
        Cache(1, [(0, 0, 0, 128), (0, 1, 0, 64)]),
        Round(2, 2, 1, [0, 1]),
        Cache(2, evicted=[(0, 1, 0, 64, 1)]),
        Round(3, 3, 1, [0, 1]),
        Cache(3, cleared=True),
    ]
    trace = open_trace(written(tmp_path / "a.rft.jsonl", records))
    assert trace.tree(3).history(1, 1, 64) == [
        (1, "published", 0, -1),
        (2, "evicted", 0, 1),
        (3, "cleared", -1, -1),
    ]
    assert trace.tree(1).history(1, 1, 64) == [(1, "published", 0, -1)]
    assert trace.tree(3).history(1, 0, 64)[-1][1] == "cleared"


def test_a_tree_knows_who_runs_and_waits_and_folds(tmp_path):
    records = [
        Request(i, f"r{i}", 0, 80, [("doc", 64), (f"q{i}", 16)], names=[("doc", 64), (f"q{i}", 16)])
        for i in range(9)
    ]
    records += [
        Round(1, 1, 1, [0, 80, 1, 80], [Admission(0, 0, 0), Admission(1, 0, 0)]),
        Cache(1, [(0, 0, 0, 64), (0, 1, 0, 64)]),
        Request(9, "late", 2, 80, [("doc", 70), ("late", 10)]),
    ]
    trace = open_trace(written(tmp_path / "a.rft.jsonl", records))
    tree = trace.tree(1)
    doc = tree.nodes[0]
    assert doc.name == "doc" and doc.requests == list(range(9)) and tree.holders(doc) == [0, 1]
    assert tree.waiting == list(range(2, 9)) and len(tree.nodes) == 10
    with pytest.raises(KeyError, match="hadn't arrived"):
        tree.ready(9)
    drawn = tree.to_dict()
    assert json.loads(json.dumps(drawn)) == drawn
    assert drawn["nodes"][0]["groups"] == {"0": [[64, 64, "published"]], "1": [[64, 64, "in_flight"]]}
    assert drawn["requests"][2] == {
        **{"i": 2, "id": "r2", "state": "waiting", "prompt": 80, "identity": 64, "ready": 0},
        "matched": {"0": 64, "1": 64},
    }
    few = tree.to_dict(max_nodes=4)["nodes"]
    assert len(few) == 4 and few[0]["folded"] == 6 and few[0]["name"] == "doc"
    assert trace.tree(0).nodes == [] and trace.tree(0).waiting == []


def test_a_gap_makes_the_tree_uncertain(tmp_path):
    records = [Request(0, "a", 0, 9, [("s", 9)]), Round(1, 1, 1), Gap(1, 3, 2, 2), Round(3, 3, 1)]
    trace = open_trace(written(tmp_path / "a.rft.jsonl", records))
    assert trace.tree(1).certain and not trace.tree(3).certain


FIGURE_1 = """\
prefix tree at round 3: 15 nodes
doc1      0 to 1,024  readable to 1,024
  a1  1,024 to 1,644
d1          0 to 950
doc2      0 to 1,024  readable to 1,024
  a2  1,024 to 1,644
d2          0 to 950
doc3      0 to 1,024  readable to 1,024
  a3  1,024 to 1,644  runs A3
d3          0 to 950
doc4      0 to 1,024  1,024 from the next round on; runs P4
  a4  1,024 to 1,644
d4          0 to 950  runs D4
doc5      0 to 1,024  1,024 from the next round on; runs P5
  a5  1,024 to 1,644
d5          0 to 950"""


def test_a_tree_is_read_as_text_at_a_prompt(root, monkeypatch):
    tree = open_trace(root / "data" / "traces" / "figure1-radixflow.rft.jsonl.zst").tree(at_round=3)
    assert repr(tree) == FIGURE_1
    monkeypatch.setattr("radixflow.trace.tree_text.MAX_LINES", 2)
    assert repr(tree).splitlines()[1:] == [
        "doc1                       0 to 1,024  readable to 1,024",
        "  a1                   1,024 to 1,644",
        "... and 13 more nodes",
    ]
    assert repr(tree.trace.tree(at_round=0)) == "prefix tree at round 0: 0 nodes"

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
import pandas as pd
import pytest
from figures_traces import header, write
from hypothesis import given, settings
from hypothesis import strategies as st

from radixflow.figures import palette
from radixflow.trace import open_trace
from radixflow.trace.schema import Request

# Machado, Oliveira, Fernandes 2009, severity 1.0, on linear RGB.
VISION = {
    "normal": np.eye(3),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritan": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


def seen(colour: str, vision: str) -> np.ndarray:
    """The colour in OKLab, as that vision sees it."""
    srgb = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    r, g, b = np.clip(VISION[vision] @ linear, 0, 1)
    long = np.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b)
    medium = np.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b)
    short = np.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b)
    return np.array(
        [
            0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short,
            1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short,
            0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short,
        ]
    )


def apart(one: str, other: str, vision: str) -> float:
    return float(np.linalg.norm(seen(one, vision) - seen(other, vision)))


@pytest.mark.parametrize("vision", VISION)
def test_families_that_follow_one_another_are_told_apart_by_every_vision(vision):
    # 0.02 in OKLab is about one just noticeable difference.
    fills = [palette.fill(hue, 0) for hue in range(len(palette.HUES))]
    assert min(apart(p, q, vision) for p, q in combinations(fills, 2)) > 0.04
    for first in range(len(fills)):
        group = [fills[(first + k) % len(fills)] for k in range(4)]
        assert min(apart(p, q, vision) for p, q in combinations(group, 2)) > 0.06


def test_text_reads_on_everything_it_stands_on():
    for hue in range(3 * len(palette.HUES)):
        for tone in range(len(palette.TONES)):
            assert palette.contrast(palette.CELL_TEXT, palette.fill(hue, tone)) >= 4.5
            assert palette.contrast(palette.CELL_TEXT, palette.gauge(hue, tone)) >= 4.5
    for theme, colours in palette.THEMES.items():
        for text in ("text", "text_soft"):
            for ground in ("page", "panel", "sunken"):
                assert palette.contrast(colours[text], colours[ground]) >= 4.5, (theme, text, ground)
        for name, slot in palette.SLOTS.items():
            assert palette.contrast(colours["text"], slot[theme][0]) >= 4.5, (theme, name)
            if name not in ("idle", "unprobed", "unrecorded", "resident"):
                assert palette.contrast(slot[theme][1], slot[theme][0]) >= 3, (theme, name)


def test_every_class_of_slot_has_a_pattern_of_its_own():
    patterns = [slot["pattern"] for slot in palette.SLOTS.values()]
    assert len(set(patterns)) == len(patterns)


def test_the_avoidable_bubble_is_unlike_any_request():
    for theme in ("light", "dark"):
        ink = palette.SLOTS["avoidable"][theme][1]
        assert min(apart(ink, palette.fill(hue, 0), "normal") for hue in range(len(palette.HUES))) > 0.1


def test_the_canvas_module_holds_exactly_these_tokens():
    text = palette.CANVAS.read_text(encoding="utf-8")
    embedded = re.search(r"/\* tokens: begin \*/(.*?)/\* tokens: end \*/", text, re.S).group(1)
    assert json.loads(embedded) == palette.tokens(), "run palette.embed()"


class Planned:
    """Requests that no trace has yet."""

    def __init__(self, paths: dict[str, list[tuple[str, int]]], groups: dict[str, str]):
        self.ids = list(paths)
        self.requests = pd.DataFrame({"group": [groups.get(r) for r in self.ids]})
        self._paths = paths

    def path_of(self, i: int) -> list[tuple[str, int]]:
        return self._paths[self.ids[i]]


def trace(paths: dict[str, list[tuple[str, int]]], groups: dict[str, str] | None = None):
    return Planned(paths, groups or {})


def test_requests_on_one_document_share_a_hue_and_differ_in_tone():
    colours = palette.Colours.of(trace({"P": [("doc", 1024)], "A": [("doc", 1024), ("a", 620)], "D": [("d", 950)]}))
    assert colours["P"][0] == colours["A"][0] != colours["D"][0]
    assert colours.fill("P") != colours.fill("A")


def test_a_short_shared_preamble_does_not_make_all_requests_one_hue():
    paths = {f"r{k}": [("system", 100), (f"doc{k // 2}", 4000), (f"q{k}", 50)] for k in range(6)}
    colours = palette.Colours.of(trace(paths))
    assert [colours[f"r{k}"][0] for k in range(6)] == [0, 0, 1, 1, 2, 2]


def test_a_request_keeps_its_colour_under_another_policy_and_as_the_run_grows():
    first = {"A": [("s0", 10)], "B": [("s1", 10)], "C": [("s0", 10), ("s2", 3)]}
    # Another run numbers streams and requests differently.
    second = {"B": [("x", 10)], "A": [("y", 10)], "C": [("y", 10), ("z", 3)], "E": [("x", 10), ("w", 1)]}
    colours = palette.Colours.of(trace(first))
    before = {r: colours[r] for r in first}
    colours.extend(trace(second))
    assert {r: colours[r] for r in first} == before
    assert colours["E"][0] == colours["B"][0]


def test_branches_without_a_path_share_their_groups_hue():
    colours = palette.Colours.of(trace({"a": [], "b": [], "c": []}, {"a": "g", "b": "g"}))
    assert colours["a"][0] == colours["b"][0] != colours["c"][0]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 9)), max_size=4, unique_by=lambda part: part[0]),
            st.sampled_from([None, "g", "h"]),
        ),
        max_size=12,
    ),
    st.integers(0, 12),
)
def test_a_trace_that_grows_gets_the_colours_of_one_that_was_planned(prompts, cut):
    # A stream begins at one depth on every path: name it for all that lies before it.
    paths, groups = {}, {}
    for k, (parts, group) in enumerate(prompts):
        way, path = "", []
        for name, n in parts:
            way += name + str(n)
            path.append((way, n))
        paths[f"r{k}"], groups[f"r{k}"] = path, group
    records = [
        Request(i, id, 0, sum(n for _, n in path), path, group=groups[id]) for i, (id, path) in enumerate(paths.items())
    ]
    wanted = palette.Colours.of(Planned(paths, groups))
    with TemporaryDirectory() as folder:
        file = write(Path(folder) / "t.rft.jsonl", [header(4, 100, "radix", "t", 10), *records[:cut]])
        growing = open_trace(file)
        colours = palette.Colours.of(growing)
        with open(file, "ab") as more:
            more.writelines(msgspec.json.encode(record) + b"\n" for record in records[cut:])
        growing.update()
        colours.extend(growing)
    whole = {id: wanted[id] for id in paths}
    grown = {id: colours[id] for id in paths}
    first = dict(list(whole.items())[:cut])
    assert {id: grown[id] for id in first} == first
    # A request's family is what it would be at once.
    assert grown == whole

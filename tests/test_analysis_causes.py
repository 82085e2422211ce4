"""The closed lists of the code and of `docs/causes.md` are the same."""

from __future__ import annotations

import re

from radixflow.analysis import SLOT_CAUSES, WAIT_CAUSES
from radixflow.analysis.overview import _SLOT_WORDS
from radixflow.analysis.prose import in_the_way


def test_every_cause_of_a_wait_is_documented_in_order(root):
    text = (root / "docs" / "causes.md").read_text()
    assert tuple(re.findall(r"^### (\w+)$", text, re.M)) == WAIT_CAUSES


def test_every_cause_of_a_slot_is_documented_and_has_words(root):
    section = (root / "docs" / "causes.md").read_text().split("## What became of a slot")[1].split("\n## ")[0]
    rows = "\n".join(line for line in section.splitlines() if line.startswith("| `"))
    named = [name for row in rows.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert tuple(named) == SLOT_CAUSES
    assert set(_SLOT_WORDS) == {*SLOT_CAUSES} - {"row_visits"}


def test_every_cause_has_a_sentence_even_without_facts():
    facts = {"unexamined": {"culprit": "x", "culprit_cause": "capacity"}, "admission": {"held": 0.004}}
    for cause in WAIT_CAUSES:
        assert in_the_way(cause, facts.get(cause, {})).endswith(".")

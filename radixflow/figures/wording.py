"""What causes and slots are called: one set of words for canvas, page, charts and print."""

from __future__ import annotations

CAUSE_WORDS: dict[str, str] = {
    "row_visits": "row visits",
    "resident": "resident, no tokens",
    "avoidable": "avoidable",
    "blocked": "blocked",
    "capacity": "no free blocks",
    "never_fits": "never fits",
    "alignment": "less than a block left",
    "tokens": "token budget used up",
    "rows": "all rows taken",
    "unexamined": "not examined",
    "not_entered": "queue not entered",
    "admission": "held by admission",
    "fragmented": "put aside",
    "deferred": "not ready to run",
    "in_step": "arrived during a step",
    "idle": "idle",
    "unprobed": "not probed",
    "unrecorded": "not recorded",
    "other": "other cause",
}
"""Causes of waits and slots in two or three words: what legends and tables say."""

SLOT_WORDS: dict[str, str] = {
    "row_visits": "selected",
    "resident": "held without tokens",
    "avoidable": "avoidable",
    "blocked": "lost to blocked requests",
    "capacity": "lost for want of free blocks",
    "never_fits": "lost to requests that never fit",
    "alignment": "lost to block alignment (less than a block of tokens left)",
    "tokens": "lost to the token budget",
    "fragmented": "lost to requests put aside",
    "deferred": "lost to requests not ready to run",
    "admission": "held back by admission",
    "idle": "idle",
    "unprobed": "not probed",
    "unrecorded": "not recorded",
}
"""What became of so many slots of a round, after their number: 4 rows = 1 selected + 3 lost to the token budget."""


def cause_words(cause: str) -> str:
    """The cause in words; one that is in no list as well as its name says it."""
    return CAUSE_WORDS.get(cause, cause.replace("_", " "))


def slot_words(cause: str) -> str:
    """The same of slots, after their number."""
    return SLOT_WORDS.get(cause, f"lost to {cause.replace('_', ' ')}")

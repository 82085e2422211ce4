"""The closed lists of causes, and how the raw facts of a refusal become one of them.

`docs/causes.md` explains each one to a reader who has never seen vLLM; a test holds the two together.
"""

from __future__ import annotations

WAIT_CAUSES = (
    "blocked",
    "capacity",
    "never_fits",
    "alignment",
    "tokens",
    "rows",
    "unexamined",
    "not_entered",
    "admission",
    "fragmented",
    "deferred",
    "in_step",
    "unrecorded",
)
"""Why a request waited: every stretch of a wait has exactly one of these (CONTRACT, Causes)."""

WAIT_CODE = {cause: code for code, cause in enumerate(WAIT_CAUSES)}

SLOT_CAUSES = (
    "row_visits",
    "resident",
    "avoidable",
    "blocked",
    "capacity",
    "never_fits",
    "alignment",
    "tokens",
    "fragmented",
    "deferred",
    "admission",
    "idle",
    "unprobed",
)
"""What became of each of a round's S slots (CONTRACT, Causes): a row visit, held by a running request
that got no tokens, then the probe's answer for the waiting requests and last for those that admission
holds, then nobody."""

NOT_ENTERED = {
    "budget": "budget spent by running requests",
    "preemption": "preemption this round",
    "paused": "paused",
}
"""`Round.closed` -> the `why` of `not_entered`. `closed = "rows"` is the cause `rows`."""

_DEFERRED = {"encoder": "encoder", "throttled": "throttled"}
_SHORT_OF_TOKENS = ("chunking", "draft_padding")


def wait_cause(recorded: str) -> str:
    """The closed cause of a recorded refusal (`schema.Other.cause`, or `blocked`).

    Two recorded causes are finer than the closed list: an encoder or throttled refusal is `deferred`
    with that status, and a prompt that may not be cut (`chunking`) or a padded draft (`draft_padding`)
    that exceeds what is left of the budget is `tokens` with that gate. Anything unknown is `unrecorded`.
    """
    if recorded in _DEFERRED:
        return "deferred"
    if recorded in _SHORT_OF_TOKENS:
        return "tokens"
    return recorded if recorded in WAIT_CODE else "unrecorded"


def slot_cause(recorded: str) -> str:
    """The closed slot cause of what the probe recorded for a request (`schema.Probe.others`).

    The probe stops where a round could grow no further: a request behind a full token budget is `tokens`.
    Raises ValueError for a cause that no slot can have."""
    cause = wait_cause(recorded)
    if cause not in SLOT_CAUSES:
        raise ValueError(f"the probe recorded {recorded!r}, expected one of {', '.join(SLOT_CAUSES[3:11])}")
    return cause


def finer_facts(recorded: str) -> dict[str, str]:
    """What `wait_cause` drops from the recorded cause: `{"status": ...}`, `{"gate": ...}` or nothing."""
    if recorded in _DEFERRED:
        return {"status": _DEFERRED[recorded]}
    if recorded in _SHORT_OF_TOKENS:
        return {"gate": recorded}
    return {}

"""The nouns: a workload, and a request in it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from radixflow.workloads.engine_options import EXPECTED as ENGINE_EXPECTED
from radixflow.workloads.engine_options import EngineOptions, options_from
from radixflow.workloads.errors import WorkloadError, near, shown
from radixflow.workloads.tokenizers import BYTES, Tokenizer
from radixflow.workloads.tokens import DEFAULT_VOCAB_SIZE, SPECIAL_TOKENS, segment_tokens, text_tokens

MAX_TOKENS = 10_000_000
"""Of a prompt or an output: `["doc", 64000000000]` is an error, not all the memory there is."""

Name = Annotated[str, msgspec.Meta(min_length=1)]
AtLeast0 = Annotated[int, msgspec.Meta(ge=0)]
Length = Annotated[int, msgspec.Meta(ge=1, le=MAX_TOKENS)]


class WorkloadRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """One request: what it asks, when it comes, how much it wants."""

    id: Name
    prompt: list[tuple[Name, Length]] | None = None
    """`[(label, n), ...]`: the first n tokens of each label's stream. The same label always gives
    the same stream, so a shared beginning is a shared prefix, token for token."""
    token_ids: Annotated[list[AtLeast0], msgspec.Meta(min_length=1)] | None = None
    text: Name | tuple[str, ...] | None = None
    """In memory also a tuple of pieces, each tokenised by itself, so that requests that share
    pieces share their tokens exactly."""
    arrival: float | None = None
    """Seconds from the start of the run; None where the file doesn't say (then 0, or one of the
    two below)."""
    after_round: AtLeast0 | None = None
    """Added after round k, stalled rounds counted; 0 = before round 1."""
    after: Name | None = None
    """Added when the request of this id finishes."""
    output_tokens: Length = 1
    priority: int = 0
    """vLLM's: smaller is more urgent."""
    group: Name | None = None
    """The logical request it is a branch of."""
    salt: Name | None = None
    """Cache namespace: requests with different salts share nothing."""
    abort_after_round: AtLeast0 | None = None
    label: str | None = None
    """Free text for people; nothing is derived from it."""

    def segments(self) -> list[tuple[str, int]]:
        """The prompt's `(label, n)` segments; empty where it was given as token ids or text."""
        return list(self.prompt or ())


class Workload(msgspec.Struct, kw_only=True):
    """What arrives, and the engine it is meant for."""

    name: str
    note: str = ""
    source: str = ""
    """Where it comes from: a public report, a data set."""
    engine: EngineOptions = EngineOptions()
    layout: EngineOptions = EngineOptions()
    """Cache layout for the simulated engine where neither `engine` nor anybody else states one: an
    import says nothing of blocks. A real model brings its own."""
    requests: list[WorkloadRequest] = []
    tokenizer: Tokenizer = BYTES
    """Turns `text` into tokens. Not part of the file."""

    def __repr__(self) -> str:
        number = len(self.requests)
        note = f": {self.note}" if self.note else ""
        return f"<Workload {self.name}, {number:,} request{'s' * (number != 1)}{note}>"

    @property
    def simulated_engine(self) -> EngineOptions:
        """What the simulated engine is told: `engine`, over `layout`."""
        return EngineOptions(**(self.layout.given() | self.engine.given()))

    @property
    def has_clock(self) -> bool:
        """Whether any request says when it arrives, so that latencies mean something."""
        return any(request.arrival is not None for request in self.requests)

    def token_ids(self, request: WorkloadRequest, vocab_size: int | None = None) -> list[int]:
        """The request's prompt in token ids, with this workload's tokenizer."""
        return token_ids(request, vocab_size, self.tokenizer)

    def check(self) -> None:
        """Raise WorkloadError for the first thing that `load_workload` would refuse in a file.

        For workloads made in Python; the place is named as `workload NAME, request ID`.
        """
        here = f'workload "{self.name}"'
        if not self.name:
            raise WorkloadError("a workload has no name; expected a non-empty one")
        if not self.requests:
            raise WorkloadError(f"{here} has no requests; expected at least one")
        try:
            options_from(self.engine.given())
        except WorkloadError as error:
            raise error.at(here) from None
        for number, request in enumerate(self.requests, 1):
            try:
                request_from(msgspec.to_builtins(request))
            except WorkloadError as error:
                raise error.at(f"{here}, request {number} ({shown(request.id)})") from None
        check_links(self.requests, lambda i: f"{here}, request {i + 1}")


def token_ids(
    request: WorkloadRequest, vocab_size: int | None = None, tokenizer: Tokenizer = BYTES
) -> list[int]:
    """The request's prompt as token ids.

    Segments are drawn from `SPECIAL_TOKENS .. vocab_size - 1` (32,000 where no vocabulary is
    named), the same for the same label, always and everywhere. Token ids and text are taken as they
    are; with a `vocab_size`, an id outside it raises WorkloadError.
    """
    if request.prompt is not None:
        size = DEFAULT_VOCAB_SIZE if vocab_size is None else vocab_size
        if size <= SPECIAL_TOKENS + 1:
            raise WorkloadError(f"a vocabulary of {size}; expected more than {SPECIAL_TOKENS + 1} tokens")
        return segment_tokens(request.prompt, size)
    ids = list(request.token_ids) if request.token_ids is not None else text_tokens(request.text, tokenizer)
    if not ids:
        raise WorkloadError(f"request {shown(request.id)}: its text gives no tokens; expected at least one")
    if vocab_size is not None and (largest := max(ids)) >= vocab_size:
        raise WorkloadError(
            f"request {shown(request.id)} has the token id {largest}; "
            f"expected ids below {vocab_size}, the model's vocabulary"
        )
    return ids


EXPECTED = {
    "id": "a non-empty string",
    "prompt": f'[["label", n], ...] with n from 1 to {MAX_TOKENS:,}',
    "token_ids": "a non-empty list of whole numbers, 0 or more",
    "text": "a non-empty string",
    "arrival": "seconds, a finite number, 0 or more",
    "after_round": "a whole number, 0 or more",
    "after": "the id of another request",
    "output_tokens": f"a whole number from 1 to {MAX_TOKENS:,}",
    "priority": "a whole number",
    "group": "a non-empty string",
    "salt": "a non-empty string",
    "abort_after_round": "a whole number, 0 or more",
    "label": "a string",
}
CONTENTS = ("prompt", "token_ids", "text")
ARRIVALS = ("arrival", "after_round", "after")


def request_from(values: dict[str, Any]) -> WorkloadRequest:
    """WorkloadRequest from a JSON object without its `kind`; WorkloadError (without a place)."""
    for key in values:
        if key not in EXPECTED:
            hint = near(key, EXPECTED, "known ones")
            if key in ENGINE_EXPECTED:
                hint = "it is an engine option: it belongs in the header's engine"
            raise WorkloadError(f'unknown key "{key}"; {hint}')
    if "id" not in values:
        raise WorkloadError(f"a request without id; expected {EXPECTED['id']}")
    for key, value in values.items():
        if value is None:
            raise WorkloadError(f"{key} is null; expected {EXPECTED[key]}, or leave the key out")
    try:
        request = msgspec.convert(values, WorkloadRequest)
    except msgspec.ValidationError as error:
        raise WorkloadError(_misfit(values, str(error))) from None
    _check_combination(request)
    return request


def _misfit(values: dict[str, Any], reason: str) -> str:
    """What is wrong with one value, the offending part shown rather than the whole."""
    # msgspec ends its message with the path of the part at fault: " - at `$.prompt[0][1]`".
    path = reason.rpartition("`$.")[2].rstrip("`")
    key, *steps = path.replace("]", "").split("[")
    part = values[key]
    for step in steps:
        part = part[int(step)]
    return f"{path} is {shown(part)}; expected {key} to be {EXPECTED[key]}"


def _check_combination(request: WorkloadRequest) -> None:
    contents = [key for key in CONTENTS if getattr(request, key) is not None]
    if len(contents) != 1:
        found = " and ".join(contents) if contents else "none"
        raise WorkloadError(
            f"what it asks is given by {found}; expected exactly one of prompt, token_ids, text"
        )
    arrivals = [key for key in ARRIVALS if getattr(request, key) is not None]
    if len(arrivals) > 1:
        raise WorkloadError(
            f"when it comes is given by {' and '.join(arrivals)}; "
            "expected at most one of arrival, after_round, after"
        )
    if request.prompt is not None:
        total = sum(n for _, n in request.prompt)
        if not 1 <= total <= MAX_TOKENS:
            raise WorkloadError(f"prompt has {total:,} tokens; expected {EXPECTED['prompt']}")
    if request.text is not None and not any(request.text):
        raise WorkloadError(f"text is empty; expected {EXPECTED['text']}")
    if request.arrival is not None and not (math.isfinite(request.arrival) and request.arrival >= 0):
        raise WorkloadError(f"arrival is {request.arrival}; expected {EXPECTED['arrival']}")
    if request.abort_after_round is not None and request.abort_after_round < (request.after_round or 0):
        raise WorkloadError(
            f"abort_after_round {request.abort_after_round} comes before after_round {request.after_round}; "
            "expected it to be no smaller"
        )


def check_links(requests: list[WorkloadRequest], where: Callable[[int], str]) -> None:
    """Raise WorkloadError for a duplicate id, an `after` that names nobody, and a ring of them.

    `where(i)` is the place of request i, `FILE:LINE` say.
    """
    number: dict[str, int] = {}
    for i, request in enumerate(requests):
        if (first := number.setdefault(request.id, i)) != i:
            raise WorkloadError(
                f"{where(i)}: id {shown(request.id)} is already that of {where(first)}; expected each id once"
            )
    for i, request in enumerate(requests):
        if request.after is not None and request.after not in number:
            raise WorkloadError(
                f"{where(i)}: after {shown(request.after)}, but no request has that id; "
                + near(request.after, list(number)[:1000], "expected one of")[:200]
            )
    settled: set[int] = set()
    for i in range(len(requests)):
        chain: dict[int, None] = {}
        at = i
        while at not in settled:
            chain[at] = None
            before = requests[at].after
            if before is None:
                break
            at = number[before]
            if at in chain:
                ring = list(chain)[list(chain).index(at) :]
                names = " after ".join(requests[k].id for k in [*ring, at])
                raise WorkloadError(
                    f"{where(at)}: a ring of after ({names}), so none of them ever comes; "
                    "expected one of them to come by itself"
                )
        settled.update(chain)

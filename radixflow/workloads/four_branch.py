"""Questions with four candidate answers each: document + question + one answer, one token each.

doc 0  |==================|q0|o0      four branches of one question share everything but the
                          |  |o1      last few tokens, and come within milliseconds: the first
                          |  |o2      computes the state that the other three wait for
                          |  |o3
                          |q1|o0 ...
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from radixflow.workloads.arguments import few_enough, number, one_of, whole
from radixflow.workloads.engine_options import EngineOptions
from radixflow.workloads.errors import WorkloadError, shown
from radixflow.workloads.workload import Workload, WorkloadRequest

BRANCHES = 4
ORDERS = ("cold", "reuse", "mixed")
"""`cold`: each question has a cache namespace of its own, so questions share nothing. `reuse`: the
questions on one document follow one another. `mixed`: documents take turns."""

Length = int | tuple[int, int]
"""Tokens: a fixed number, or (least, most) to be drawn from evenly."""

T = TypeVar("T")


def four_branch(
    *,
    documents: int = 6,
    questions: int = 4,
    document_tokens: Length = (1500, 4500),
    question_tokens: Length = (8, 20),
    option_tokens: Length = (6, 18),
    order: str = "mixed",
    rate: float | None = 16.0,
    branch_spacing: float = 0.001,
    seed: int = 0,
    engine: EngineOptions | None = None,
) -> Workload:
    """A workload of documents x questions x 4 requests of one output token.

    `rate` is questions a second (a Poisson process; None: all there from the start and no clock),
    `branch_spacing` the seconds between a question's branches. The same arguments always give the
    same workload. Without `engine`: a hybrid model's blocks (528 tokens, three state groups) in a
    pool with room for all of it. Raises WorkloadError for an argument out of range.
    """
    whole("documents", documents)
    whole("questions", questions)
    few_enough(f"documents x questions x {BRANCHES}", documents * questions * BRANCHES)
    one_of("order", order, ORDERS)
    rng = random.Random(seed)
    lengths = [draw_length("document_tokens", document_tokens, rng) for _ in range(documents)]
    asked = [
        [
            (
                draw_length("question_tokens", question_tokens, rng),
                [draw_length("option_tokens", option_tokens, rng) for _ in range(BRANCHES)],
            )
            for _ in range(questions)
        ]
        for _ in range(documents)
    ]
    when = arrivals(rate, rng)
    requests: list[WorkloadRequest] = []
    for d, q in in_order([range(questions)] * documents, order):
        group = f"d{d}.q{q}"
        question, options = asked[d][q]
        contents = [
            {"prompt": [(f"d{d}", lengths[d]), (group, question), (f"{group}.o{b}", n)]}
            for b, n in enumerate(options)
        ]
        requests += branches(group, contents, next(when), branch_spacing, cold=order == "cold")
    return Workload(
        name="four-branch",
        note=f"{documents:,} documents, {questions:,} questions each, four branches a question, {order} order",
        engine=engine or BUDGETS,
        layout=LAYOUT,
        requests=requests,
    )


BUDGETS = EngineOptions(max_num_seqs=16, max_num_batched_tokens=8192)
"""A small row budget and the paper's token budget."""
LAYOUT = EngineOptions(block_size=528, num_blocks=2670, state_groups=3)
"""Blocks, groups and pool as of Qwen3.5-9B on one 80 GB GPU."""


def branches(
    group: str, contents: Sequence[dict[str, Any]], arrival: float | None, spacing: float, cold: bool
) -> Iterator[WorkloadRequest]:
    """The requests of one question: one per content (`{"prompt": ...}` or `{"text": ...}`)."""
    number("branch_spacing", spacing, or_equal=True)
    for b, content in enumerate(contents):
        yield WorkloadRequest(
            id=f"{group}.b{b}",
            group=group,
            salt=group if cold else None,
            arrival=None if arrival is None else round(arrival + b * spacing, 6),
            **content,
        )


def in_order(items: Sequence[Sequence[T]], order: str) -> Iterator[tuple[int, T]]:
    """`(document, question)` pairs in the named order, each document's questions in their own."""
    one_of("order", order, ORDERS)
    if order != "mixed":
        yield from ((d, item) for d, group in enumerate(items) for item in group)
        return
    for turn in range(max(map(len, items), default=0)):
        yield from ((d, group[turn]) for d, group in enumerate(items) if turn < len(group))


def arrivals(rate: float | None, rng: random.Random) -> Iterator[float | None]:
    """Arrival times in seconds, a Poisson process of `rate` a second from 0; Nones without a rate."""
    if rate is not None:
        number("rate", rate)
    now = 0.0
    while True:
        yield None if rate is None else now
        now += rng.expovariate(rate) if rate is not None else 0.0


def draw_length(name: str, length: Any, rng: random.Random) -> int:
    """A number of tokens out of a Length."""
    if isinstance(length, list | tuple):
        if len(length) != 2 or whole(name, length[0]) > whole(name, length[1]):
            raise WorkloadError(f"{name} is {shown(length)}; expected tokens, or (least, most)")
        return rng.randint(*length)
    return whole(name, length)

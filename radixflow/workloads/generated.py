"""Built-in workloads made by rule, each to show one thing; the same seed, the same workload."""

from __future__ import annotations

import random

from radixflow.workloads.arguments import few_enough, number, whole
from radixflow.workloads.engine_options import EngineOptions
from radixflow.workloads.workload import Workload, WorkloadRequest


def _arrival(request: WorkloadRequest) -> float:
    return request.arrival or 0.0


def chat(*, conversations: int = 16, turns: int = 4, rate: float = 4.0, seed: int = 0) -> Workload:
    """Multi-turn conversations: each turn's prompt is the former one, its answer and a new message.

    All share a system prompt. `rate` is new conversations a second; a user reads and types for 1 to
    3 seconds between turns. The answer in a later prompt is a label's stream, not the tokens the
    engine produced, so what a turn can reuse is the former turn's prompt.
    """
    whole("conversations", conversations)
    whole("turns", turns)
    few_enough("conversations x turns", conversations * turns)
    number("rate", rate)
    rng = random.Random(seed)
    requests: list[WorkloadRequest] = []
    begin = 0.0
    for c in range(conversations):
        prompt = [("system", 700)]
        now = begin
        for t in range(turns):
            prompt = [*prompt, (f"c{c}.user{t}", rng.randint(30, 250))]
            answer = rng.randint(20, 70)
            requests.append(
                WorkloadRequest(
                    id=f"c{c}.t{t}",
                    prompt=prompt,
                    arrival=round(now, 6),
                    output_tokens=answer,
                    group=f"c{c}",
                )
            )
            prompt = [*prompt, (f"c{c}.answer{t}", answer)]
            now += rng.uniform(1.0, 3.0)
        begin += rng.expovariate(rate)
    requests.sort(key=_arrival)
    return Workload(
        name="chat",
        note="multi-turn conversations behind one system prompt, by clock: what a later turn can reuse",
        engine=EngineOptions(
            block_size=64, num_blocks=600, state_groups=3, max_num_seqs=16, max_num_batched_tokens=2048
        ),
        requests=requests,
    )


def bursty(*, bursts: int = 6, documents: int = 4, siblings: int = 5, period: float = 1.0) -> Workload:
    """Bursts of siblings on a few new documents, a quarter of a millisecond apart.

    In every other burst the documents take turns, so whoever waits for a few more arrivals computes
    all documents in its first round: admission. In the others each document's siblings come
    together, so the second sibling stops a native scan: traversal. `period` is the seconds from
    burst to burst.
    """
    whole("bursts", bursts)
    whole("documents", documents)
    whole("siblings", siblings)
    few_enough("bursts x documents x siblings", bursts * documents * siblings)
    number("period", period)
    requests = []
    for b in range(bursts):
        pairs = [(d, s) for s in range(siblings) for d in range(documents)]
        for k, (d, s) in enumerate(sorted(pairs) if b % 2 else pairs):
            document = f"burst{b}.doc{d}"
            requests.append(
                WorkloadRequest(
                    id=f"b{b}.d{d}.s{s}",
                    prompt=[(document, 640), (f"{document}.ask{s}", 24)],
                    arrival=round(b * period + k * 0.00025, 6),
                    group=document,
                )
            )
    return Workload(
        name="bursty",
        note="bursts of siblings on new documents, 0.25 ms apart: what admission and traversal are worth",
        engine=EngineOptions(
            block_size=64, num_blocks=600, state_groups=3, max_num_seqs=24, max_num_batched_tokens=4096
        ),
        requests=requests,
    )


def decode_heavy(*, requests: int = 24, output_tokens: int = 240) -> Workload:
    """Short prompts with long answers in a pool that can't hold them all: preemption."""
    whole("requests", requests)
    few_enough("requests", requests)
    whole("output_tokens", output_tokens)
    return Workload(
        name="decode-heavy",
        note="short prompts, long answers, too small a pool: preemption and what it recomputes",
        engine=EngineOptions(
            block_size=16, num_blocks=140, state_groups=1, max_num_seqs=12, max_num_batched_tokens=512
        ),
        requests=[
            WorkloadRequest(
                id=f"r{i}",
                prompt=[("system", 48), (f"ask{i}", 16 + 7 * i % 40)],
                arrival=round(0.02 * i, 6),
                output_tokens=output_tokens - 5 * (i % 8) if output_tokens > 40 else output_tokens,
            )
            for i in range(requests)
        ],
    )


def priority_mix(*, batch: int = 16, interactive: int = 12) -> Workload:
    """Long low-priority batch work on shared documents, and short urgent requests among it.

    Priority scheduling with few rows: batch work holds them when the urgent ones come.
    """
    whole("batch", batch)
    whole("interactive", interactive)
    few_enough("batch + interactive", batch + interactive)
    long = [
        WorkloadRequest(
            id=f"batch{i}",
            prompt=[(f"report{i // 4}", 1280), (f"task{i}", 40)],
            arrival=round(0.005 * i, 6),
            output_tokens=48,
            priority=5,
            group=f"report{i // 4}",
        )
        for i in range(batch)
    ]
    urgent = [
        WorkloadRequest(
            id=f"urgent{i}",
            prompt=[("assistant", 128), (f"message{i}", 24 + 3 * (i % 5))],
            arrival=round(0.08 + 0.11 * i, 6),
            output_tokens=6,
            priority=0,
        )
        for i in range(interactive)
    ]
    return Workload(
        name="priority-mix",
        note="urgent requests among long batch work, priority scheduling: who holds the rows",
        engine=EngineOptions(
            block_size=64,
            num_blocks=260,
            state_groups=1,
            max_num_seqs=6,
            max_num_batched_tokens=1024,
            scheduling_policy="priority",
        ),
        requests=sorted(long + urgent, key=_arrival),
    )

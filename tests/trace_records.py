"""Records for the tests of the trace: a header, and a small run."""

from __future__ import annotations

from pathlib import Path

from radixflow.trace import TraceWriter
from radixflow.trace.schema import (
    SCHEMA,
    Admission,
    Blocked,
    Cache,
    Clock,
    Config,
    End,
    Finish,
    Gap,
    Group,
    Header,
    Hold,
    Other,
    Probe,
    Record,
    Repeat,
    Request,
    Round,
    Step,
    Stop,
)


def header(*, block: int = 64, groups: list[Group] | None = None, policy: str = "fcfs", **changes) -> Header:
    groups = groups or [Group(0, "full_attention", ["kv"], block), Group(1, "mamba", ["rec", "conv"], block)]
    config = Config(4, 4096, block, block, 300, groups, scheduling_policy=policy)
    given = {"id": "00112233445566aa", "policy": "radix", "engine": "sim", **changes}
    versions = {"radixflow": "0", "vllm": "0.29.0", "python": "3.11"}
    return Header(
        schema=SCHEMA,
        config=config,
        clock=Clock(1_700_000_000_000_000_000, 0, virtual=True),
        versions=versions,
        **given,
    )


def small_run(rounds: int = 40) -> list[Record]:
    """A run with a record of every kind, `rounds` numbered rounds long."""
    records: list[Record] = []
    for i in range(6):
        path = [("s0", 100), (f"q{i}", 28)]
        records.append(
            Request(i, f"r{i}", 10 * i, 128, path, names=[("doc", 100), (f"q{i}", 28)], held=i == 5)
        )
    records.append(Hold(50, 60, "deadline", [5]))
    for n in range(1, rounds + 1):
        t = 1000 * n
        if n == 1:
            records.append(Cache(1, [(0, 0, 0, 128), (0, 1, 64, 128)], events=[(1, 64, 0)]))
            records.append(
                Round(
                    1,
                    t,
                    100,
                    [0, 128],
                    [Admission(0, 0, 0)],
                    [Blocked(1, 0, 64, [1])],
                    [Other(2, "capacity", gate="chunk", needed=9, free=2, also=["blocked"])],
                    [1],
                    Stop("capacity", 2),
                    free=200,
                    probe=Probe([3], [(2, "capacity")]),
                )
            )
        else:
            records.append(Round(n, t, 100, [0, 1], resident=[], free=200 - n, stop=Stop("capacity", 2)))
        records.append(Step(n, t + 500, 20))
    records.append(Cache(rounds, evicted=[(0, 0, 64, 128, 0)]))
    records.append(Finish(0, 1000 * rounds + 600, "length", rounds, rounds, [("q0", 28 + rounds - 1)]))
    records.append(Round(rounds + 1, 1000 * rounds + 1000, 100, closed="paused"))
    records.append(Repeat(rounds + 4, 3, 1000 * rounds + 1300))
    records.append(Gap(2, 3, rounds + 5, rounds + 6))
    return records


def written(path: Path, records: list[Record], head: Header | None = None, end: bool = True) -> Path:
    """A trace file of these records."""
    with TraceWriter(path, head or header(), synchronous=True) as writer:
        for record in records:
            writer.write(record)
        if end:
            writer.close(End(10**9, "finished", 40))
    return path

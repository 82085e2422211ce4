"""How big a trace is, what writing costs, and what opening a long one takes.

    python benchmarks/bench_trace_size.py [ROUNDS]

Records are synthetic but shaped like a server's: Poisson arrivals over shared documents, chunked prefill,
decoding, a queue with a stopper and parked requests, measured-looking times, publications and evictions.
Ratios are taken within one run; the seconds beside them only say how long it took here.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from radixflow.trace import PromptPaths, TraceWriter, open_trace  # noqa: F401 (for the fresh process)
from radixflow.trace.schema import (
    SCHEMA,
    Admission,
    Blocked,
    Cache,
    Clock,
    Config,
    Finish,
    Group,
    Header,
    Other,
    Probe,
    Record,
    Request,
    Round,
    Step,
    Stop,
)

BLOCK = 528
GROUPS = [
    Group(0, "full_attention", ["kv"], BLOCK, 8),
    *(Group(g, "mamba", ["rec", "conv"], BLOCK, 8) for g in (1, 2, 3)),
]


def header(rows: int = 12) -> Header:
    config = Config(rows, 8192, BLOCK, BLOCK, 2670, GROUPS, retention_interval=0)
    clock = Clock(wall_ns=1_700_000_000_000_000_000, monotonic_ns=0)
    versions = {"radixflow": "0.1", "vllm": "0.29.0", "python": "3.11"}
    return Header(SCHEMA, "0123456789abcdef", "radixflow", "sim", config, clock, versions)


def server(rounds: int, rows: int = 12, seed: int = 1) -> Iterator[Record]:
    """Records of a server that runs `rounds` rounds with about two thirds of its rows busy."""
    rng = random.Random(seed)
    paths = PromptPaths(salt=b"benchmark", max_tokens=4_000_000)
    documents = [[rng.randrange(150_000) for _ in range(rng.randrange(1500, 6000))] for _ in range(40)]
    waiting: deque[list[int]] = deque()
    running: list[list[int]] = []
    t, number, free = 0, 0, 2600
    for n in range(1, rounds + 1):
        while len(waiting) < 3 and rng.random() < 0.06:
            document = documents[min(int(rng.expovariate(0.15)), 39)]
            prompt = document + [rng.randrange(150_000) for _ in range(rng.randrange(20, 200))]
            output = 1 + int(rng.expovariate(1 / 130))
            yield Request(
                number,
                f"chatcmpl-{rng.getrandbits(64):016x}",
                t,
                len(prompt),
                paths.insert(prompt),
                t - 40_000,
            )
            hit = len(document) // BLOCK * BLOCK if rng.random() < 0.7 else 0
            waiting.append([number, len(prompt), hit, output])
            number += 1
        budget, selected, admissions, published = 8192, [], [], []
        for request in running:
            tokens = min(request[1] - request[2], budget, 4 * BLOCK) if request[2] < request[1] else 1
            selected += request[0], tokens
            if request[2] < request[1]:
                before = request[2] // BLOCK * BLOCK
                request[2] += tokens
                after = request[2] // BLOCK * BLOCK
                if after > before:
                    published += [
                        (request[0], 0, before, after),
                        *((request[0], g, after - BLOCK, after) for g in (1, 2, 3)),
                    ]
            else:
                request[3] -= 1
            budget -= tokens
        blocked, other, order, stop, probe = [], [], [], None, None
        while waiting and len(running) < rows and budget > BLOCK:
            request = waiting[0]
            if rng.random() < 0.05:
                blocked.append(Blocked(request[0], running[-1][0] if running else -1, request[2], [1, 2, 3]))
                order.append(request[0])
                break
            if rng.random() < 0.05:
                other.append(
                    Other(
                        request[0],
                        "capacity",
                        "chunk",
                        9,
                        4,
                        total=2669,
                        ready=request[2],
                        matched=request[2],
                    )
                )
                stop = Stop("capacity", request[0])
                probe = Probe(others=[(request[0], "capacity")])
                break
            waiting.popleft()
            tokens = min(request[1] - request[2], budget, 4 * BLOCK)
            admissions.append(Admission(request[0], request[2], request[2]))
            selected += request[0], tokens
            request[2] += tokens
            budget -= tokens
            running.append(request)
        free = max(5, min(2600, free + rng.randrange(-4, 5)))
        if not selected:
            t += 1_000_000
        d = 250_000 + rng.randrange(120_000)
        round = Round(n, t, d, selected, admissions, blocked, other, order, stop, free=free, probe=probe)
        evicted = [(number // 2, 0, 0, BLOCK, number - 1)] if number and rng.random() < 0.02 else []
        if published or evicted:
            yield Cache(n, published, evicted)
        yield round
        t += d + 9_000_000 + rng.randrange(3_000_000)
        yield Step(n, t, 90_000 + rng.randrange(60_000))
        t += 200_000 + rng.randrange(50_000)
        for request in [r for r in running if r[2] >= r[1] and r[3] <= 0]:
            running.remove(request)
            yield Finish(request[0], t, "stop", 130, n)


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def opened(path: Path) -> dict:
    """In a fresh process: processor seconds and peak memory of opening, of a round, and of the tables."""
    code = """
import json, sys, time
sys.path.insert(0, sys.argv[2])
from bench_trace_size import open_trace, peak_mb
import pandas
marks = {'base': peak_mb()}
began = time.process_time()
trace = open_trace(sys.argv[1])
marks['open'], marks['open_mb'] = time.process_time() - began, peak_mb()
began = time.process_time()
trace.round(trace.num_rounds // 2)
marks['first'] = time.process_time() - began
began = time.process_time()
trace.round(trace.num_rounds // 3)
marks['next'] = time.process_time() - began
began = time.process_time()
trace.rounds, trace.visits, trace.requests
marks['tables'], marks['tables_mb'] = time.process_time() - began, peak_mb()
print(json.dumps(marks))
"""
    answer = subprocess.run(
        [sys.executable, "-c", code, str(path), str(Path(__file__).parent)], capture_output=True, text=True, check=True
    )
    return json.loads(answer.stdout)


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sizes = {}
        for suffix, length in ((".rft.jsonl", max(rounds // 10, 1000)), (".rft.jsonl.zst", rounds)):
            path = Path(folder) / ("trace" + suffix)
            visits, records, spent = 0, 0, 0.0
            with TraceWriter(path, header(), synchronous=True) as writer:
                for record in server(length):
                    began = time.process_time()
                    writer.write(record)
                    spent += time.process_time() - began
                    records += 1
                    visits += len(record.selected) // 2 if record.__class__ is Round else 0
            sizes[suffix] = path.stat().st_size / visits
            print(
                f"{suffix:>15}: {sizes[suffix]:5.1f} bytes a row visit ({visits / length:.1f} a round), "
                f"{spent / records * 1e6:.1f} us to encode and write a record"
            )
        print(
            f"zstd / plain: {sizes['.rft.jsonl.zst'] / sizes['.rft.jsonl']:.2f}; "
            f"bytes a row visit / wanted 12: {sizes['.rft.jsonl.zst'] / 12:.2f}"
        )
        got = opened(path)
    print(
        f"{rounds:,} rounds opened in {got['open']:.1f} s of processor time, "
        f"{got['open'] / rounds * 1e6:.0f} us a round; "
        f"a round somewhere: first {got['first'] * 1e3:.0f} ms, then {got['next'] * 1e3:.1f} ms; "
        f"tables {got['tables']:.1f} s"
    )
    print(
        f"peak memory / 1 GB: {got['open_mb'] / 1024:.2f} open, {got['tables_mb'] / 1024:.2f} with tables "
        f"({got['base'] / 1024:.2f} before)"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)

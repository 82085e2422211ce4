"""How long a prefix tree of any round takes, as a share of 50 ms.

python benchmarks/bench_trace_tree.py [ROUNDS]
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

from bench_trace_size import header, server

from radixflow.trace import TraceWriter, open_trace


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with TraceWriter(Path(folder) / "a.rft.jsonl.zst", header(), synchronous=True) as writer:
            for record in server(rounds):
                writer.write(record)
        trace = open_trace(writer.path)
    began = time.process_time()
    trace.tree(1)
    first = time.process_time() - began
    print(f"{rounds:,} rounds, {len(trace.ids):,} requests; indices built in {first * 1e3:.0f} ms")
    rng = random.Random(1)
    places = [rng.randrange(1, rounds + 1) for _ in range(30)]
    tasks = {
        "tree": lambda tree: tree,
        "h, h^ and matches of all waiting": lambda tree: tree.matches(tree.waiting),
        "all nodes": lambda tree: tree.nodes,
        "to_dict(1000)": lambda tree: tree.to_dict(1000),
    }
    for name, work in tasks.items():
        times = []
        for n in places:
            began = time.process_time()
            work(trace.tree(n))
            times.append(time.process_time() - began)
        times.sort()
        print(
            f"{name:>34}: median {times[15] * 1e3:6.1f} ms, worst {times[-1] * 1e3:6.1f} ms, "
            f"median / 50 ms: {times[15] / 0.05:.2f}"
        )
    print(f"{len(trace.tree(rounds).nodes):,} nodes, {trace._boundaries.size:,} boundaries at the end")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)

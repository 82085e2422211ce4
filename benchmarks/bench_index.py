"""What a core does with `PrefixIndex`: bytes a node, look-ups and insertions a second.

Sequences branch as conversations do: documents of many blocks, and turns behind them.
"""

from __future__ import annotations

import argparse
import random
import resource
import time

from radixflow.index import CacheLayout, Namespace, PrefixIndex
from radixflow.index.snapshot import snapshot


def resident() -> int:
    """Bytes of memory that the process holds now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000_000, help="blocks to hold")
    parser.add_argument("--blocks", type=int, default=64, help="blocks a sequence")
    parser.add_argument("--lookups", type=int, default=20_000)
    args = parser.parse_args()
    index, namespace, chance = PrefixIndex(), Namespace("model"), random.Random(1)
    index.declare("model", CacheLayout(16, (("kv",), ("rec", "conv"))))
    for engine in ("a", "b", "c", "d"):
        index.add_engine(engine, "model")
    before, began, inserted, paths = resident(), time.thread_time(), 0, []
    keys_time = 0.0
    while inserted < args.nodes:
        start = time.thread_time()
        base = chance.getrandbits(40)
        tokens = list(range(base, base + args.blocks * 16))
        path = index.keys_of(tokens, namespace)
        keys_time += time.thread_time() - start
        inserted += index.insert_keys(path, namespace, chance.choice("abcd"))
        if len(paths) < args.lookups:
            paths.append((base, path))
    held = time.thread_time() - began - keys_time
    nodes = index.sizes()[namespace].nodes
    print(f"nodes                         {nodes:>12,}")
    print(f"bytes a node                  {(resident() - before) / nodes:>12.0f}")
    print(f"blocks inserted a second      {inserted / held:>12,.0f}")
    print(f"blocks hashed a second        {inserted / keys_time:>12,.0f}")
    prompts = [list(range(base, base + args.blocks * 16)) for base, _ in paths]
    for name, ask in (
        ("by tokens", lambda k: index.longest_match(prompts[k % len(prompts)], namespace)),
        ("by keys", lambda k: index.match_keys(iter(paths[k % len(paths)][1]), namespace)),
        ("of strangers", lambda k: index.longest_match(range(k, k + 16), namespace)),
    ):
        taken = []
        for k in range(args.lookups):
            start = time.thread_time_ns()
            ask(k)
            taken.append(time.thread_time_ns() - start)
        taken.sort()
        rate = 1e9 * len(taken) / sum(taken)
        p50, p99 = (taken[int(len(taken) * share)] / 1000 for share in (0.5, 0.99))
        print(f"look-ups a second, {name:<12}{rate:>11,.0f}   (p50 {p50:.1f} us, p99 {p99:.1f} us)")
    for name, take in (("sizes of all", index.sizes), ("picture of it", lambda: snapshot(index))):
        start = time.perf_counter()
        take()
        print(f"{name:<30}{1000 * (time.perf_counter() - start):>12,.1f} ms")


if __name__ == "__main__":
    main()

"""Traces of agents that come back, written without vLLM: a pool, two evictions, one request at a time."""

from __future__ import annotations

import random
from collections.abc import Iterator

from analysis_traces import header

from radixflow.trace.schema import Admission, Cache, End, Finish, Record, Request, Round, Step, Stop

BLOCK = 100
SECOND = 10**9


def agents(
    eviction: str,
    states: int = 0,
    agents: int = 6,
    turns: int = 4,
    room: int = 16,
    seed: int = 0,
    id: str = "a" * 16,
    end: bool = True,
) -> Iterator[Record]:
    """Each agent's prompt is a block that all share and blocks of its own, one more a turn. A request is computed in
    one round and ends in the next; every other one arrives while the one before it runs. `room` blocks hold what
    is not shared. With `states`, one state lies at the end of each prompt's last whole block; under LRU a state goes
    with every block."""
    made = header(s=1, block=BLOCK, states=states, eviction=eviction)
    made.id, made.workload = id, "agents"
    yield made
    rng = random.Random(seed)
    order = list(range(agents)) + [rng.randrange(agents) for _ in range(agents * (turns - 1))]
    turn_of = [0] * agents
    kept = [0] * agents  # own blocks
    states_of: list[set[int]] = [set() for _ in range(agents)]  # where its states lie, in blocks of its own
    last = [-1] * agents  # its last request
    idle: list[int] = []  # agents with cached blocks, the one that ended first first
    asked: list[int] = []
    n, t = 0, 0

    def arrive(i: int) -> Request:
        agent = order[i]
        turn = turn_of[agent]
        turn_of[agent] += 1
        asked.append(BLOCK * (3 + turn) + 20)
        path = [("system", BLOCK), (f"own{agent}", asked[i])]
        return Request(
            i=i, id=f"a{agent}.t{turn}", t=t, arrival=t, prompt=BLOCK + asked[i], path=path, group=f"a{agent}"
        )

    for i, agent in enumerate(order):
        if i == len(asked):
            yield arrive(i)
        idle = [other for other in idle if other != agent]
        blocks = asked[i] // BLOCK
        ready = max((at for at in states_of[agent] if at <= kept[agent]), default=0) if states else kept[agent]
        found = (1 + ready) * BLOCK if (i and not states) or ready else 0
        evicted, taken_states = [], []
        while sum(kept) - kept[agent] + blocks > room:
            victim = idle[0]
            if states_of[victim] and eviction == "lru":
                depth = (1 + states_of[victim].pop()) * BLOCK
                taken_states += [(last[victim], group, depth - BLOCK, depth, i) for group in range(1, states + 1)]
            depth = (1 + kept[victim]) * BLOCK
            evicted.append((last[victim], 0, depth - BLOCK, depth, i))
            kept[victim] -= 1
            if eviction == "rr":
                idle.append(idle.pop(0))
            idle = [other for other in idle if kept[other]]
        n += 1
        yield Round(
            n=n, t=t, d=1000, selected=[i, BLOCK + asked[i] - found], admissions=[Admission(i, found, found)], free=9
        )
        begin = (1 + kept[agent]) * BLOCK if i else 0
        published = [(i, 0, begin, (1 + blocks) * BLOCK)] if blocks > kept[agent] else []
        published += [(i, group, blocks * BLOCK, (1 + blocks) * BLOCK) for group in range(1, states + 1)]
        yield Cache(n=n, evicted=[*taken_states, *evicted], published=published)
        kept[agent], last[agent] = blocks, i
        if states:
            states_of[agent].add(blocks)
        t += SECOND
        yield Step(n=n, t=t - 1000, d=10)
        if i + 1 < len(order) and i % 2 and order[i + 1] != agent:
            yield arrive(i + 1)
        n += 1
        stop = Stop("rows") if len(asked) > i + 1 else None
        yield Round(n=n, t=t, d=1000, selected=[i, 1], stop=stop, free=9)
        t += SECOND
        yield Step(n=n, t=t - 1000, d=10)
        yield Finish(i=i, t=t - 500, reason="length", output=2, n=n)
        idle.append(agent)
    if end:
        yield End(t, "finished", n)

"""Agents: each appends to one long context, turn after turn, and is idle while its tool runs.

agent 0   [ shared ][ task 0 .......... ][answer][tool result]            turn 1: all of it, one turn longer
agent 1   [ shared ][ task 1 .......... ]                                 turn 0
"""

from __future__ import annotations

import random

from radixflow.workloads.arguments import few_enough, number, whole
from radixflow.workloads.engine_options import EngineOptions
from radixflow.workloads.errors import WorkloadError
from radixflow.workloads.workload import Workload, WorkloadRequest

BLOCK = 64


def agents(
    *,
    agents: int = 32,
    active: float = 0.125,
    capacity: float = 0.8,
    turns: int = 8,
    shared: int = 256,
    context: int = 2048,
    growth: int = 64,
    answer: int = 16,
    pause: float | None = None,
    seed: int = 0,
) -> Workload:
    """`agents` trajectories of `turns` turns each on average, a share of them active at a time.

    active: share of the agents that wait for an answer; the others run their tools. capacity: share of
    the trajectories, at their mean length, that the pool holds. shared, context: tokens of the system
    prompt and of an agent's task. growth: mean tokens that a tool returns (drawn from half to one and a
    half times as many). answer: output tokens a turn.

    Without `pause` there is no gap to wait for: the agents stand in as many lanes as are active, and in
    each lane an agent drawn at random goes on when the one before it has its answer (`after`). So exactly
    the active share is active, and a tool runs for as long as the lane takes to come back. With `pause`
    each agent comes by clock: its tools take `pause` seconds on average (exponential), and a turn the
    time that makes the active share come out, pause * active / (1 - active), whether or not the engine
    keeps up.

    The answer in a later prompt is a label's stream, not the tokens the engine produced, so what a turn
    can reuse is the former turn's prompt.
    """
    for name, value in (("agents", agents), ("turns", turns), ("context", context), ("growth", growth)):
        whole(name, value)
    few_enough("agents x turns", agents * turns)
    whole("answer", answer)
    whole("shared", shared, least=0)
    if not 0 < number("active", active) < 1:
        raise WorkloadError(f"active is {active}; expected a share between 0 and 1")
    number("capacity", capacity)
    rng = random.Random(seed)
    lanes = max(1, round(active * agents))
    if pause is None:
        turn_order = _in_lanes(agents, lanes, turns, rng)
    else:
        turn_order = _by_clock(agents, turns, number("pause", pause), active, rng)
    prompts = [[("system", shared)] * bool(shared) + [(f"a{k}.task", context)] for k in range(agents)]
    done = [0] * agents
    requests: list[WorkloadRequest] = []
    for k, arrival, after in turn_order:
        turn = done[k]
        if turn:
            result = rng.randint(growth - growth // 2, growth + growth // 2)
            prompts[k] = [*prompts[k], (f"a{k}.answer{turn - 1}", answer), (f"a{k}.tool{turn}", result)]
        requests.append(
            WorkloadRequest(
                id=f"a{k}.t{turn}",
                prompt=prompts[k],
                arrival=arrival,
                after=requests[after].id if after is not None else None,
                output_tokens=answer,
                group=f"a{k}",
            )
        )
        done[k] += 1
    whole_prefix = sum(sum(n for _, n in request.prompt or ()) // BLOCK for request in requests) / len(requests)
    longest = max(sum(n for _, n in prompt) for prompt in prompts) + answer
    room = round(capacity * (agents * (whole_prefix - shared // BLOCK) + shared // BLOCK))
    return Workload(
        name="agents",
        note="agents on long contexts, most of them idle in a tool, and a pool too small: who loses what",
        engine=EngineOptions(
            block_size=BLOCK,
            num_blocks=1 + max(room, 2 * (longest // BLOCK + 2)),
            state_groups=0,
            max_num_seqs=max(8, lanes),
            max_num_batched_tokens=2048,
        ),
        requests=requests,
    )


Turn = tuple[int, float | None, int | None]
"""Whose turn it is; when it comes, in seconds, or the number of the turn that it comes after."""


def _in_lanes(agents: int, lanes: int, turns: int, rng: random.Random) -> list[Turn]:
    order: list[Turn] = []
    for lane in range(lanes):
        own = list(range(lane, agents, lanes))
        before = None
        for k in range(turns * len(own)):
            # Everybody begins once, then each of the lane's idle agents is as likely as any other.
            order.append((own[k] if k < len(own) else rng.choice(own), 0.0 if before is None else None, before))
            before = len(order) - 1
    return order


def _by_clock(agents: int, turns: int, pause: float, active: float, rng: random.Random) -> list[Turn]:
    turn = pause * active / (1 - active)
    order: list[Turn] = []
    for agent in range(agents):
        now = rng.uniform(0, turn + pause)
        for _ in range(turns):
            order.append((agent, round(now, 6), None))
            now += turn + rng.expovariate(1 / pause)
    return sorted(order, key=lambda at: at[1] or 0.0)

"""Trace records for the tests of figures and canvas, written by hand or by a small prefix-stop
scheduler, so that these tests need no vLLM."""

from __future__ import annotations

import json
import random
from pathlib import Path

from radixflow.trace.schema import (
    Admission,
    Blocked,
    Cache,
    Clock,
    Config,
    End,
    Finish,
    Group,
    Header,
    Probe,
    Record,
    Request,
    Round,
    Step,
    Stop,
)

CORPUS = Path(__file__).parents[1] / "data" / "corpus"


def header(rows: int, tokens: int, policy: str, name: str, block: int = 1024) -> Header:
    return Header(
        schema="1.0",
        id=f"{abs(hash((rows, tokens, policy, name))) % 16**16:016x}",
        policy=policy,
        engine="sim",
        config=Config(
            max_num_seqs=rows,
            max_num_batched_tokens=tokens,
            block_size=block,
            hash_block_size=block,
            num_blocks=200,
            groups=[Group(0, "full_attention", ["kv"], block), Group(1, "mamba", ["rec", "conv"], block)],
        ),
        clock=Clock(0, 0, virtual=True, arrivals=False),
        versions={"radixflow": "0", "vllm": "0.29.0", "python": "3.11"},
        workload=name,
    )


def figure1(policy: str) -> list[Record]:
    """The paper's Figure 1 (rounds from the corpus; what waited and why, from the definitions)."""
    lines = (CORPUS / "figure1.workload.jsonl").read_text().splitlines()[1:]
    workload = [json.loads(line) for line in lines]
    number = {request["id"]: i for i, request in enumerate(workload)}
    streams: dict[str, str] = {}
    records: list[Record] = [header(4, 4096, policy, "figure1")]
    for i, request in enumerate(workload):
        path = [(streams.setdefault(label, f"s{len(streams)}"), n) for label, n in request["prompt"]]
        names = [tuple(part) for part in request["prompt"]]
        total = sum(n for _, n in path)
        records.append(Request(i=i, id=request["id"], t=0, prompt=total, path=path, names=names))
    rounds = json.loads((CORPUS / "expected.json").read_text())["figure1"][policy]["rounds"]
    waiting = [request["id"] for request in workload]
    for n, chosen in enumerate(rounds, 1):
        selected = [r for r, _ in chosen]
        left = [r for r in waiting if r not in selected]
        examined = (
            waiting[: max(waiting.index(r) for r in selected) + 2]
            if policy == "radix"
            else (waiting[: max(waiting.index(r) for r in selected) + 1])
        )
        blocked = [r for r in examined if r[0] == "A" and r not in selected and f"P{r[1]}" in selected]
        free = 4 - len(selected)
        ready = [r for r in left if r not in blocked and (r[0] != "A" or f"P{r[1]}" not in left + selected)]
        avoidable = ready[:free]
        stop = Stop("blocked", number[blocked[0]]) if policy == "radix" and blocked else None
        if policy != "radix" and not free:
            stop = Stop("rows")
        records.append(
            Round(
                n=n,
                t=(n - 1) * 40_000_000,
                d=300_000,
                selected=[x for r, tokens in chosen for x in (number[r], tokens)],
                admissions=[
                    Admission(number[r], 1024 * (r[0] == "A"), 1024 * (r[0] == "A")) for r in selected
                ],
                blocked=[
                    Blocked(number[r], number[f"P{r[1]}"], 1024, [1], policy != "radix") for r in blocked
                ],
                order=[number[r] for r in blocked] if policy != "radix" else [],
                stop=stop,
                free=150,
                probe=Probe([number[r] for r in avoidable]),
            )
        )
        producers = [r for r in selected if r[0] == "P"]
        if producers:
            spans = [(number[r], group, 0, 1024) for r in producers for group in (0, 1)]
            records.append(Cache(n=n, published=spans))
        records.append(Step(n=n, t=(n - 1) * 40_000_000 + 39_000_000, d=100_000))
        records += [Finish(number[r], n * 40_000_000 - 1, "length", 1, n) for r in selected]
        waiting = left
    records.append(End(len(rounds) * 40_000_000, "finished", len(rounds)))
    return records


def stream(
    rounds: int, rows: int = 64, tokens: int = 8192, seed: int = 0, probe: bool = True
) -> list[Record]:
    """A run of documents with questions under prefix-stop: chunked prefills, decodes, bubbles, some
    residents and a preemption now and then."""
    rng = random.Random(seed)
    records: list[Record] = [header(rows, tokens, "radix", f"stream{seed}", 64)]
    waiting: list[int] = []
    running: list[int] = []
    left: dict[int, int] = {}
    output: dict[int, int] = {}
    document: dict[int, int] = {}
    done: set[int] = set()
    written: set[int] = set()
    size: dict[int, int] = {}
    t = 0
    i = 0
    for n in range(1, rounds + 1):
        while len(waiting) < rows // 8 + 2 and (n > 5 or len(waiting) < 3) and rng.random() < 0.97:
            doc = i // rng.choice((2, 3, 4)) % 997
            size.setdefault(doc, rng.choice((512, 1024, 2048)))
            question = rng.randrange(30, 400)
            path = [(f"d{doc}", size[doc]), (f"q{i}", question)]
            records.append(Request(i=i, id=f"r{i}", t=t, prompt=size[doc] + question, path=path))
            document[i], left[i], output[i] = doc, size[doc] + question, rng.randrange(1, 18)
            waiting.append(i)
            i += 1
        preempted = [running.pop()] if len(running) > rows // 2 and rng.random() < 0.01 else []
        budget = tokens
        selected: list[tuple[int, int]] = []
        resident = []
        for r in running:
            take = min(left[r], budget) if left[r] else min(1, budget)
            if take and rng.random() > 0.002:
                selected.append((r, take))
                budget -= take
            else:
                resident.append(r)
        admissions, blocked, stop = [], [], None
        begun: dict[int, int] = {}
        queue = [] if preempted else list(waiting)
        for r in queue:
            if len(running) + len(admissions) >= rows:
                stop = Stop("rows")
                break
            doc = document[r]
            if doc in begun and doc not in written:
                blocked.append(Blocked(r, begun[doc], size[doc], [1], False))
                stop = Stop("blocked", r)
                break
            if not budget:
                stop = Stop("tokens")
                break
            if doc in written:
                left[r] = max(1, left[r] - size[doc])
            take = min(left[r], budget)
            begun.setdefault(doc, r)
            selected.append((r, take))
            budget -= take
            admissions.append(Admission(r, size[doc] * (doc in written), size[doc] * (doc in written)))
        waiting = [r for r in waiting if r not in {a.i for a in admissions}]
        free = rows - len(selected) - len(resident)
        # Some of the rest would have been accepted, some were refused for other reasons.
        rest = [] if preempted else [r for r in waiting if r not in {b.i for b in blocked}]
        ready = (
            [r for r in rest if document[r] not in begun or document[r] in written][:free]
            if budget > 64
            else []
        )
        others = [(b.i, "blocked") for b in blocked]
        others += [(r, "tokens" if budget <= 64 else "blocked") for r in rest if r not in ready]
        others += [(r, "capacity") for r in waiting if preempted]
        others = others[: free - len(ready)]
        waiting = preempted + waiting
        running += [a.i for a in admissions]
        records.append(
            Round(
                n=n,
                t=t,
                d=200_000,
                selected=[x for pair in selected for x in pair],
                admissions=admissions,
                blocked=blocked,
                stop=stop,
                closed="preemption" if preempted else None,
                resident=resident,
                preempted=preempted,
                free=1000,
                probe=Probe(ready, others) if probe else None,
            )
        )
        t += 200_000 + 5_000_000 + 2_000 * (tokens - budget)
        records.append(Step(n=n, t=t - 1, d=50_000))
        for r, take in selected:
            written.add(document[r])
            if left[r] > take:
                left[r] -= take
                continue
            left[r] = 0
            output[r] -= 1
            if output[r] <= 0 and r in running and r not in preempted:
                running.remove(r)
                done.add(r)
                records.append(Finish(r, t, "length", 1, n))
    records.append(End(t, "finished", rounds))
    return records


def write(path: Path, records: list[Record]) -> Path:
    """The records as a trace file."""
    import msgspec

    encoder = msgspec.json.Encoder()
    path.write_bytes(b"".join(encoder.encode(record) + b"\n" for record in records))
    return path

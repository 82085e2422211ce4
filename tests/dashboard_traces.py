"""Traces for the dashboard's tests, written without vLLM: a long run, one that is still being written, a
hostile one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path

import msgspec

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

ROWS, TOKENS, BLOCK = 8, 2048, 64
DOCUMENT, QUESTION = 512, 100


def header(id: str, policy: str = "radix", workload: str | None = "long") -> Header:
    return Header(
        schema="1.0",
        id=id,
        policy=policy,
        engine="sim",
        config=Config(
            max_num_seqs=ROWS,
            max_num_batched_tokens=TOKENS,
            block_size=BLOCK,
            hash_block_size=BLOCK,
            num_blocks=2000,
            groups=[Group(0, "full_attention", ["kv"], BLOCK), Group(1, "mamba", ["rec", "conv"], BLOCK)],
        ),
        clock=Clock(0, 0, virtual=True),
        versions={"radixflow": "0", "vllm": "0.29.0", "python": "3.11"},
        workload=workload,
    )


def long_run(rounds: int, id: str = "00000000000000aa", end: bool = True) -> Iterator[Record]:
    """Three requests a document. The second of a document is blocked where the first is admitted in the same
    round: the scan stops there, and what is behind it could have had the free rows."""
    yield header(id)
    waiting: deque[int] = deque()
    running: dict[int, int] = {}
    written: set[int] = set()
    t, i = 0, 0
    for n in range(1, rounds + 1):
        while len(waiting) < 5:
            document = i // 3
            path = [(f"d{document}", DOCUMENT), (f"q{i}", QUESTION)]
            yield Request(i=i, id=f"r{i}", t=t, arrival=t, prompt=DOCUMENT + QUESTION, path=path, max_tokens=100)
            waiting.append(i)
            i += 1
        selected = [(r, 1) for r in running]
        budget = TOKENS - len(selected)
        admissions, blocked, stop, begun = [], [], None, set()
        while waiting and len(selected) < ROWS:
            r = waiting[0]
            document = r // 3
            if document in begun:
                blocked = [Blocked(r, r - r % 3, DOCUMENT, [1], False)]
                stop = Stop("blocked", r)
                break
            ready = DOCUMENT if document in written else 0
            need = DOCUMENT + QUESTION - ready
            if need > budget:
                stop = Stop("tokens")
                break
            waiting.popleft()
            begun.add(document) if not ready else None
            selected.append((r, need))
            budget -= need
            admissions.append(Admission(r, ready, ready))
        if stop is None and waiting and len(selected) == ROWS:
            stop = Stop("rows")
        free = ROWS - len(selected)
        behind = [r for r in waiting if r // 3 not in begun][:free] if blocked else []
        others = [(b.i, "blocked") for b in blocked]
        others += [(r, "blocked") for r in waiting if r // 3 in begun and r not in {b.i for b in blocked}]
        yield Round(
            n=n,
            t=t,
            d=150_000,
            selected=[x for pair in selected for x in pair],
            admissions=admissions,
            blocked=blocked,
            stop=stop,
            free=1500,
            probe=Probe(behind, others[: free - len(behind)]),
        )
        new = [r for r, tokens in selected if tokens > 1 and not r % 3]
        if new:
            yield Cache(n=n, published=[(r, group, 0, DOCUMENT) for r in new for group in (0, 1)])
        t += 150_000 + 4_000_000 + 2_000 * (TOKENS - budget)
        yield Step(n=n, t=t - 50_000, d=40_000)
        written |= {r // 3 for r in new}
        running |= {admission.i: n for admission in admissions}
        # Several end together, so that several rows are free at once.
        for r in [r for r, begun in running.items() if n % 20 == 0 and n - begun >= 20 * (r % 3)]:
            yield Finish(r, t - 10_000, "length", n - running.pop(r) + 1, n)
    if end:
        yield End(t, "finished", rounds)


HOSTILE = ("<script>window.pwned=1</script>", '"><img src=x onerror="window.pwned=1">', "{{7*7}}${7*7}")


def hostile() -> list[Record]:
    """Ids, labels, workload and policy that are markup."""
    records: list[Record] = [
        header("<b>../../etc/passwd", policy="<script>window.pwned=1</script>", workload=HOSTILE[1])
    ]
    for i, id in enumerate(HOSTILE):
        path, names = [("d", 64), (f"q{i}", 10)], [(HOSTILE[0], 64), (HOSTILE[1], 10)]
        records.append(Request(i=i, id=id, t=0, prompt=74, path=path, names=names, label=HOSTILE[0], group=HOSTILE[0]))
    records.append(
        Round(n=1, t=0, d=1000, selected=[0, 74], admissions=[Admission(0, 0, 0)], blocked=[Blocked(1, 0, 64,
        [1], False)],
              stop=Stop("blocked", 1), free=10, probe=Probe([2], [(1, "blocked")]))
    )  # fmt: skip
    records.append(Step(n=1, t=1_000_000))
    records.append(Finish(0, 1_000_000, HOSTILE[0], 1, 1))
    return records


def write(path: Path, records) -> Path:
    """The records as a plain trace."""
    encode = msgspec.json.Encoder().encode
    with open(path, "wb") as file:
        for record in records:
            file.write(encode(record) + b"\n")
    return path


class Growing:
    """A trace that is written a round at a time, as a running engine does."""

    def __init__(self, path: Path, id: str = "00000000000000bb"):
        self.path = path
        self._encode = msgspec.json.Encoder().encode
        self._records = long_run(100_000, id, end=False)
        self._file = open(path, "wb")  # noqa: SIM115  closed by close()
        self._write(next(self._records))
        self.rounds = 0
        self._t = 0

    def round(self, count: int = 1) -> None:
        """Write so many more rounds."""
        for _ in range(count):
            for record in self._records:
                self._write(record)
                if isinstance(record, Step):
                    self._t = record.t
                    self.rounds += 1
                    break
        self._file.flush()

    def end(self, reason: str = "finished") -> None:
        """Write the run's end."""
        self._write(End(self._t, reason, self.rounds))
        self.close()

    def close(self) -> None:
        self._file.close()

    def _write(self, record: Record) -> None:
        self._file.write(self._encode(record) + b"\n")
        self._file.flush()

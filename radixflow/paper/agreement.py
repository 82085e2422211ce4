"""First-token agreement and rounds on the real engine: the paper's questions, greedily, under several policies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from radixflow.analysis import summarize
from radixflow.engines.hardware import on_gpu
from radixflow.engines.run import agreements, run_workload
from radixflow.engines.tiny import is_tiny
from radixflow.trace import open_trace
from radixflow.workloads import Workload, WorkloadRequest, load_tokenizer
from radixflow.workloads.paper import Article, generated_articles, paper_stream
from radixflow.workloads.paper_texts import articles_with_texts

TINY_LENGTHS = 0.15
"""Share of an article's tokens on the tiny models: their blocks are a quarter as long, and a CPU is slow."""
TINY_RATE = 60.0
"""Questions a second on a tiny model, which is fast enough never to have a queue at five."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Runs of one model on the real engine under several policies, the first of them the baseline."""

    model: str
    table: pd.DataFrame
    """A row a policy: `policy`, `end`, `requests`, `completed`, `rounds`, `rows_per_round`, `reuse` (percent),
    `same`, `compared`, `agreement` (percent of first tokens equal to the baseline's; 100 for itself), `latency`
    (mean of the requests, seconds; None on a CPU), `wall_seconds` (None on a CPU)."""
    on_gpu: bool
    notes: tuple[str, ...]


def real_agreement(
    model: str,
    folder: str | Path,
    *,
    policies: Sequence[str] = ("radix", "radixflow"),
    stream: str = "cold",
    order: int = 1,
    seed: int = 0,
    scale: float = 1.0,
    rate: float | None = None,
    quality: str | None = None,
    race: str | None = None,
    tokenizer: str | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    **options: Any,
) -> Agreement:
    """Run one stream of the paper under each policy on vLLM itself and write the traces into `folder`.

    model: a tiny model's name, a folder, or a hub id. quality, race, tokenizer: real texts; a tiny model has no
    tokenizer and takes generated token ids. options: engine options by name. On a CPU only agreement, rounds
    and reuse are reported: its speed says nothing.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tiny = is_tiny(model)
    if quality or race:
        articles = articles_with_texts(quality, race, tokenizer or model, seed, scale)
    else:
        articles = generated_articles(seed, scale)
    if tiny:
        articles = [replace(article, tokens=max(1, round(article.tokens * TINY_LENGTHS))) for article in articles]
    rate = rate or (TINY_RATE if tiny else 5.0)
    workload = paper_stream(articles, stream=stream, order=order, seed=seed, rate=rate)
    if quality or race:
        workload = _with_texts(workload, articles, tokenizer or model)
    workload.layout = type(workload.layout)()  # a real model brings its own
    runs, rows, notes = [], [], []
    for policy in policies:
        path = folder / f"{Path(model).name}-{stream}-{policy}.rft.jsonl.zst"
        tell = None if progress is None else lambda done, total, policy=policy: progress(policy, done, total)
        runs.append(
            run_workload(workload, policy, engine="vllm", model=model, trace=path, probe=0, progress=tell, **options)
        )
        if runs[-1].end == "interrupted":
            raise KeyboardInterrupt(f"{path} holds what ran; a run on the real engine begins again")
        summary = summarize(open_trace(path))
        notes += [note for note in runs[-1].notes if note not in notes]
        rows.append(
            {
                "policy": policy,
                "end": runs[-1].end,
                "requests": summary.requests,
                "completed": summary.completed,
                "rounds": summary.rounds,
                "rows_per_round": summary.rows_per_round,
                "reuse": None if summary.reuse_rate is None else 100 * summary.reuse_rate,
                "latency": (summary.latency or {}).get("mean"),
                "wall_seconds": summary.wall_seconds,
            }
        )
    table = pd.DataFrame(rows)
    said = [{"same": len(runs[0].outputs), "requests": len(runs[0].outputs)}, *agreements(runs)]
    table["same"] = [entry["same"] for entry in said]
    table["compared"] = [entry["requests"] for entry in said]
    table["agreement"] = 100 * table["same"] / table["compared"].clip(lower=1)
    gpu = on_gpu()
    if not gpu:
        table["latency"] = table["wall_seconds"] = None
    return Agreement(model, table, gpu, tuple(notes))


def _with_texts(workload: Workload, articles: Sequence[Article], tokenizer: str) -> Workload:
    """The same requests with their texts in place of labels."""
    texts = {
        f"{article.name}.q{k}": question.texts for article in articles for k, question in enumerate(article.questions)
    }
    requests: list[WorkloadRequest] = []
    for request in workload.requests:
        pieces = texts.get(request.group or "")
        if pieces:
            branch = int(request.id.rpartition(".b")[2])
            text = (pieces[0], pieces[1], pieces[2 + branch])
            request = msgspec.structs.replace(request, prompt=None, text=text)
        requests.append(request)
    workload.requests, workload.tokenizer = requests, load_tokenizer(tokenizer)
    return workload

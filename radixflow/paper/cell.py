"""One cell of the experiment: a model under a policy on one stream in one order, with one seed."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from radixflow.engines.cost import LinearCost
from radixflow.engines.profiles import get_profile
from radixflow.paper.costs import frozen_cost
from radixflow.paper.published import PUBLISHED
from radixflow.scheduling.policies import get_policy
from radixflow.workloads.paper import BRANCH_SPACING, Article, generated_articles, paper_stream


@dataclass(frozen=True, slots=True)
class Texts:
    """Real files in place of generated lengths."""

    quality: str | None = None
    race: str | None = None
    tokenizer: str | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """Everything that decides a cell's result."""

    model: str
    policy: str
    stream: str
    order: int = 1
    seed: int = 0
    cost: tuple[float, float] = (0.0, 0.0)
    """a, b of the round's cost a + b * tokens, seconds."""
    rate: float = 5.0
    """Questions a second."""
    branch_spacing: float = BRANCH_SPACING
    """Seconds."""
    scale: float = 1.0
    """Share of the articles."""
    shared: float = 1.0
    """Share of an article that its requests share."""
    questions: int | None = None
    """Keep the first so many of the stream."""
    output_tokens: int = 1
    options: tuple[tuple[str, Any], ...] = ()
    """Engine options laid over the model's profile: budgets, pool, retention."""
    texts: Texts = Texts()

    @property
    def name(self) -> str:
        """A file's name, different for cells that differ in anything."""
        told = [self.model, self.policy, self.stream, f"order{self.order}", f"seed{self.seed}"]
        plain = Cell(*(getattr(self, key) for key in ("model", "policy", "stream", "order", "seed")))
        for key, value in asdict(self).items():
            if key == "options":
                told += [f"{name}={value}" for name, value in self.options]
            elif key == "texts":
                told += [Path(value).stem for value in value.values() if value]
            elif key != "cost" and value != getattr(plain, key):
                told.append(f"{key}={value}")
        return re.sub(r"[^\w.+=-]", "_", "_".join(told))


def standard_cell(model: str, policy: str, stream: str, order: int = 1, seed: int = 0, **changes: Any) -> Cell:
    """The paper's cell: the model's frozen budgets, rate and fitted round cost; `changes` are Cell's fields."""
    profile = get_profile(model)
    get_policy(policy)
    cell = Cell(
        profile.name,
        policy,
        stream,
        order,
        seed,
        cost=frozen_cost(profile.name),
        rate=PUBLISHED[profile.name].rate if profile.name in PUBLISHED else 5.0,
    )
    return replace(cell, **changes)


class CellResult(msgspec.Struct, kw_only=True):
    """What a cell leaves: one small JSON file. Times are integer microseconds of virtual time."""

    cell: dict[str, Any]
    """The Cell, field by field."""
    end: str
    rounds: int
    row_visits: int
    scheduled_tokens: int
    prompt_tokens: int
    reused_tokens: int
    preemptions: int
    host_ns: int
    questions: int
    finished: int
    """Questions whose four branches all finished."""
    span: int
    """First arrival to last finish."""
    latency: list[int]
    """Of each finished question in order of arrival: its arrival to its last branch's finish."""
    first_selected: list[int]
    """Of each question that was: its arrival to the `schedule()` that first selected one of its branches."""
    branch_latency: float
    """Mean over the requests instead of the questions."""
    digest: str
    """Equal digests, equal runs round for round."""


def run_cell(cell: Cell) -> CellResult:
    """Simulate it. Deterministic: the same cell gives the same result."""
    from radixflow.engines.tally import tally_run

    workload = paper_stream(
        _articles(cell.texts, cell.seed, cell.scale),
        stream=cell.stream,
        order=cell.order,
        seed=cell.seed,
        rate=cell.rate,
        branch_spacing=cell.branch_spacing,
        shared=cell.shared,
        questions=cell.questions,
        output_tokens=cell.output_tokens,
    )
    profile = get_profile(cell.model)
    options = type(workload.engine)(**profile.engine_options()).resolved(**dict(cell.options))
    tally = tally_run(workload, options, list(profile.groups), get_policy(cell.policy), LinearCost(*cell.cost))
    if tally.end == "interrupted":  # the engine ends such a run by itself: a part of a cell is no result
        raise KeyboardInterrupt
    groups: dict[str, list[str]] = {}
    for request in workload.requests:
        groups.setdefault(request.group or request.id, []).append(request.id)
    latency, waits = [], []
    for branches in groups.values():
        begin = min(tally.arrived[branch] for branch in branches)
        chosen = [tally.selected[branch] for branch in branches if branch in tally.selected]
        if chosen:
            waits.append(_microseconds(min(chosen) - begin))
        if all(branch in tally.finished for branch in branches):
            latency.append(_microseconds(max(tally.finished[branch] for branch in branches) - begin))
    branch_ns = [end - tally.arrived[request_id] for request_id, end in tally.finished.items()]
    return CellResult(
        cell=json.loads(json.dumps(asdict(cell))),
        end=tally.end,
        rounds=tally.rounds,
        row_visits=tally.row_visits,
        scheduled_tokens=tally.scheduled_tokens,
        prompt_tokens=tally.prompt_tokens,
        reused_tokens=tally.reused_tokens,
        preemptions=tally.preemptions,
        host_ns=tally.host_ns,
        questions=len(groups),
        finished=len(latency),
        span=_microseconds(max(tally.finished.values(), default=0) - min(tally.arrived.values(), default=0)),
        latency=latency,
        first_selected=waits,
        branch_latency=float(np.mean(branch_ns)) / 1e9 if branch_ns else float("nan"),
        digest=tally.digest,
    )


def _microseconds(ns: int) -> int:
    return round(ns / 1000)


@lru_cache(maxsize=8)
def _articles(texts: Texts, seed: int, scale: float) -> list[Article]:
    if texts.quality is None and texts.race is None:
        return generated_articles(seed, scale)
    from radixflow.workloads.paper_texts import articles_with_texts

    return articles_with_texts(texts.quality, texts.race, texts.tokenizer, seed, scale)


def read_result(path: Path, cell: Cell) -> CellResult | None:
    """The result in this file, if it is this cell's; None where there is none or it is another's.

    A cell run with another cost, say, has the same name: its result doesn't count, nor does that of an interrupted
    run.
    """
    try:
        result = msgspec.json.decode(path.read_bytes(), type=CellResult)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    whole = result.end != "interrupted"
    return result if whole and result.cell == json.loads(json.dumps(asdict(cell))) else None


def write_result(path: Path, result: CellResult) -> None:
    """Whole or not at all: a killed run leaves no half file under this name."""
    half = path.with_name(f".{path.name}.{os.getpid()}")
    half.write_bytes(msgspec.json.encode(result))
    os.replace(half, path)

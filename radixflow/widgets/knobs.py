"""`rf.knobs("figure1")`: turn a scheduler's knobs and see two runs redrawn.

Each turn runs the workload again on the simulated engine, vLLM's own scheduler in virtual time, under
both policies. The engine is reached through the public face, so nothing here imports vLLM until a
run is asked for.
"""

from __future__ import annotations

import atexit
import gc
import html
import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import ipywidgets as w
import msgspec

import radixflow as rf
from radixflow.analysis.summary import Headline, headline
from radixflow.widgets import twin
from radixflow.widgets.notebook import Player, with_still

POLICIES: tuple[str, ...] = (
    "radix",
    "radix+timer5",
    "radix+timer10",
    "radix+flex",
    "radixflow",
    "radixflow+frag",
    "radixflow+noadmit",
)
ORDERS: tuple[str, ...] = ("as written", "by document", "documents in turn", "reversed", "shuffled")
RATES: tuple[tuple[str, float], ...] = (
    ("as written", 0.0),
    ("all at once", float("inf")),
    *((f"{rate:,} a second", float(rate)) for rate in (1000, 500, 200, 100, 50, 20, 10, 5)),
)
_ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_TOKENS = (256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 16384)
_BLOCKS = (16, 32, 64, 128, 256, 528, 544, 784, 1024, 1312, 2048)


def arranged(workload: Any, order: str, rate: float, seed: int = 0) -> Any:
    """The workload with its requests in another order, or arriving at another rate.

    order: one of `ORDERS`. A document is what the prompts' first segment names; `documents in turn` takes
    the first request on each, then the second on each. Places in time stay, who takes them changes.
    rate: requests a second, evenly spaced; infinite for all at once, 0 to keep what is written.
    Requests that come `after` another one keep that.
    """
    free = [request for request in workload.requests if request.after is None]
    bound = [request for request in workload.requests if request.after is not None]
    places = [(request.arrival, request.after_round) for request in free]
    if rate:
        gap = 0.0 if rate == float("inf") else 1 / rate
        places = [(round(k * gap, 6) if gap else None, None) for k in range(len(free))]
    shelves: dict[Any, list[Any]] = {}
    for k, request in enumerate(free):
        shelves.setdefault(request.prompt[0][0] if request.prompt else k, []).append(request)
    if order == "by document":
        free = [request for shelf in shelves.values() for request in shelf]
    elif order == "documents in turn":
        turns = max(map(len, shelves.values()))
        free = [shelf[turn] for turn in range(turns) for shelf in shelves.values() if turn < len(shelf)]
    elif order == "reversed":
        free = free[::-1]
    elif order == "shuffled":
        free = random.Random(seed).sample(free, len(free))
    elif order != "as written":
        raise ValueError(f"order {order!r}: unknown, expected one of {', '.join(ORDERS)}")
    placed = [
        msgspec.structs.replace(request, arrival=arrival, after_round=after_round)
        for request, (arrival, after_round) in zip(free, places, strict=True)
    ]
    return msgspec.structs.replace(workload, requests=placed + bound)


@dataclass(frozen=True, slots=True)
class Kept:
    """A run with the numbers that are shown of it."""

    trace: Any
    numbers: Headline


def _made(path: Path, workload: Any, policy: str, options: dict[str, Any]) -> Kept:
    trace = rf.run(workload, policy, trace=path, **options)
    return Kept(trace, headline(trace))


def _made_elsewhere(path: Path, workload: Any, policy: str, options: dict[str, Any]) -> Headline:
    """As `_made`, in another process: the numbers travel, the trace is read from its file."""
    return _made(path, workload, policy, options).numbers


class Knobs(w.VBox):
    """S, T, block size, order, arrival rate and two policies over a player of the two runs.

    `knobs.controls[name].value` reads and sets a knob; `knobs.traces` are the runs on show, and
    `knobs.player` shows them. What an engine option or a policy is called is what `rf.run` calls it.
    """

    def __init__(self, workload: Any = "figure1", policies: tuple[str, str] = ("radix", "radixflow"), **traits: Any):
        self._workload = rf.load_workload(workload) if isinstance(workload, str | Path) else workload
        own = self._workload.simulated_engine.resolved()
        self._pool = own.num_blocks * own.block_size
        self._groups = 1 + own.state_groups
        self._kept: dict[Any, Kept] = {}
        self._shown: list[Kept] = []
        self._folder = tempfile.TemporaryDirectory(prefix="radixflow-knobs-")
        self.controls: dict[str, Any] = {
            "max_num_seqs": _slider("rows S", _ROWS, own.max_num_seqs),
            "max_num_batched_tokens": _slider("tokens T", _TOKENS, own.max_num_batched_tokens),
            "block_size": _slider("block size", _blocks_near(own.block_size), own.block_size),
            "order": w.Dropdown(options=ORDERS, description="order", layout=_NARROW),
            "rate": w.Dropdown(options=RATES, description="arrivals", layout=_NARROW),
            "above": w.Dropdown(options=POLICIES, value=policies[0], description="above", layout=_NARROW),
            "below": w.Dropdown(options=POLICIES, value=policies[1], description="below", layout=_NARROW),
        }
        self._readout = w.HTML()
        self.seconds = 0.0
        """How long the latest turn took: both runs, their numbers and what is drawn of them."""
        self._load()
        self.player = Player(*self._run(), labels=[])
        self._tell()
        rows = list(self.controls.values())
        wrap = w.Layout(flex_flow="row wrap")
        super().__init__(
            [w.Box(rows[:3], layout=wrap), w.Box(rows[3:], layout=wrap), self._readout, self.player], **traits
        )
        for control in rows:
            control.observe(self._turned, "value")

    @property
    def traces(self) -> tuple[Any, ...]:
        """The two runs on show."""
        return self.player.traces

    def _load(self) -> None:
        """vLLM's scheduler; says so where that is still to come, since it takes a while."""
        if "vllm" in sys.modules:
            return _load_engine()
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        from IPython.display import HTML, display

        notice = display(HTML("Loading vLLM's scheduler, once ..."), display_id=True)
        try:
            _load_engine()
        finally:
            if notice is not None:
                notice.update(HTML(""))

    def _run(self) -> list[Any]:
        """The runs of both policies; turning a knob back costs nothing, and neither does the policy that stays."""
        value = {name: control.value for name, control in self.controls.items()}
        policies = value.pop("above"), value.pop("below")
        settings = tuple(value.values())
        new = [policy for policy in dict.fromkeys(policies) if (policy, *settings) not in self._kept]
        for policy, kept in zip(new, self._runs_of(new, **value) if new else [], strict=True):
            self._kept[policy, *settings] = kept
        self._shown = [self._kept[policy, *settings] for policy in policies]
        while len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]
        return [kept.trace for kept in self._shown]

    def _runs_of(self, policies: list[str], order: str, rate: float, block_size: int, **options: int) -> list[Kept]:
        """New runs, of one or two policies; the second is made in another process at the same time."""
        workload = arranged(self._workload, order, rate)
        options |= {"block_size": block_size, "hash_block_size": block_size, "num_blocks": self._blocks(block_size)}
        paths = [Path(self._folder.name) / f"{k}.rft.jsonl" for k in range(len(policies))]
        jobs = [(path, workload, policy, options) for path, policy in zip(paths, policies, strict=True)]
        try:
            if len(jobs) == 1:
                return [_made(*jobs[0])]
            here, numbers = twin.both(lambda: _made(*jobs[0]), _made_elsewhere, *jobs[1])
            return [here, Kept(rf.open_trace(paths[1]), numbers)]
        finally:
            for path in paths:
                path.unlink(missing_ok=True)

    def _blocks(self, block: int) -> int:
        """The pool in blocks of another size: as many tokens, but no more than all requests together can take,
        since a pool of 100,000 blocks takes a second to make."""
        requests = self._workload.requests
        lengths = [sum(n for _, n in request.prompt or ()) + request.output_tokens for request in requests]
        if not all(request.prompt for request in requests):
            return max(2, -(-self._pool // block))
        most = self._groups * sum(-(-n // block) + 2 for n in lengths) + 1
        return max(2, min(-(-self._pool // block), most))

    def _turned(self, change: dict[str, Any]) -> None:
        began = time.perf_counter()
        try:
            traces = self._run()
        except ValueError as error:
            self._readout.value = f"<p role='alert'><b>Not possible:</b> {html.escape(str(error))}</p>"
            return
        with self.player.hold_sync():  # numbers and picture leave together, for one frame
            self.player.show(*traces)
            self._tell()
        self.seconds = time.perf_counter() - began

    def _tell(self) -> None:
        """The numbers under the knobs."""
        head = "".join(f"<th>{name}</th>" for name in _row(self._shown[0].numbers))
        body = "".join(
            f"<tr><td><b>{one.trace.header.policy}</b></td>"
            + "".join(f"<td>{value}</td>" for value in _row(one.numbers).values())
            + "</tr>"
            for one in self._shown
        )
        stalled = [one.trace.header.policy for one in self._shown if one.trace.end.reason == "stalled"]
        warning = f"<p role='alert'>{' and '.join(stalled)} stalled: somebody never fits.</p>" if stalled else ""
        self._readout.value = f"{_STYLE}<table class='rf-numbers'><tr><th></th>{head}</tr>{body}</table>{warning}"

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """The widget, and a static figure for readers that can't run it."""
        return with_still(super()._repr_mimebundle_(**kwargs), self.player.still())


_KEPT = 24
"""Runs that are remembered."""
_NARROW = w.Layout(width="260px")
_STYLE = "<style>.rf-numbers td,.rf-numbers th{padding:2px 10px;text-align:right}</style>"


def _row(one: Headline) -> dict[str, str]:
    """A row of the table under the knobs; an en dash for what the run doesn't have."""
    return {
        "rounds": f"{one.rounds:,}",
        "rows a round": "–" if one.rows_per_round is None else f"{one.rows_per_round:.2f}",
        "empty slots": f"{one.empty_slots:,}",
        "avoidable": "–" if one.avoidable_slots is None else f"{one.avoidable_slots:,}",
        "reuse": "–" if one.reuse_rate is None else f"{one.reuse_rate:.1%}",
        "mean latency": f"{one.latency['mean'] * 1000:,.0f} ms" if one.latency else "no clock",
    }


@cache
def _load_engine() -> None:
    """Once a process: a run that loads what runs need, and then the twin, which is forked with all of it.

    As vLLM's engine core does after start-up, the 800,000 objects that importing vLLM leaves aren't looked through for
    garbage again, which takes a second in the middle of some turn and would copy the pages that the twin shares.
    """
    with tempfile.TemporaryDirectory() as folder:
        rf.run("figure1", trace=Path(folder) / "first.rft.jsonl")
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # otherwise nanobind reports all of its objects as leaked
    twin.prepare()


def _blocks_near(own: int) -> tuple[int, ...]:
    """Block sizes from an eighth of the workload's own to four times as much: smaller ones make a turn slow."""
    return tuple(block for block in _BLOCKS if own <= 8 * block and block <= 4 * own)


def _slider(description: str, options: tuple[int, ...], value: int) -> Any:
    return w.SelectionSlider(
        options=[(f"{option:,}", option) for option in sorted({*options, value})],
        value=value,
        description=description,
        continuous_update=False,  # a run a stop, not a run a pixel
        layout=w.Layout(width="320px"),
    )


def knobs(workload: Any = "figure1", policies: tuple[str, str] = ("radix", "radixflow"), **traits: Any) -> Knobs:
    """Two runs of a classroom-sized workload, and the knobs to change them.

    workload: a built-in's name, a file or a `Workload`. policies: those above and below at first.
    """
    return Knobs(workload, policies, **traits)

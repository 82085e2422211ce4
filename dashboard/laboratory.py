"""Where classroom runs are made: one warm simulator, asked for one run at a time, its results kept."""

from __future__ import annotations

import importlib.util
import json
import os
import queue
import subprocess
import sys
import threading
import uuid
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from radixflow.scheduling.eviction import EVICTIONS
from radixflow.scheduling.policies import POLICIES
from radixflow.workloads import Workload, WorkloadError, list_builtin, load_workload

from .library import Library

MAX_REQUESTS = 400
"""Of a workload that is run in the page."""

LIMITS = {"max_num_seqs": (1, 256), "max_num_batched_tokens": (1, 65536), "block_size": (1, 8192)}
"""What a page may ask for."""

START_SECONDS = 240.0
RUN_SECONDS = 60.0


class RunRefused(ValueError):
    """A run can't be made; one line that says why."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that a classroom run depends on. The simulator is deterministic, so equal recipes give equal
    runs."""

    workload: str
    order: tuple[str, ...]
    policy: str
    options: tuple[tuple[str, int], ...]
    eviction: str = "lru"

    @classmethod
    def read(cls, data: Any, policy: Any, eviction: Any = "lru") -> Recipe:
        """The recipe of a page's request. Raises RunRefused."""
        if not isinstance(data, dict):
            raise RunRefused("expected an object that names a workload")
        name, order, options = data.get("workload"), data.get("order") or [], data.get("options") or {}
        if name not in list_builtin():
            raise RunRefused(f"unknown workload {str(name)[:40]!r}; expected a built-in one")
        if policy not in POLICIES:
            raise RunRefused(f"unknown policy {str(policy)[:40]!r}; expected one of {', '.join(POLICIES)}")
        if eviction not in EVICTIONS:
            raise RunRefused(f"unknown eviction {str(eviction)[:40]!r}; expected one of {', '.join(EVICTIONS)}")
        workload = load_workload(name)
        ids = [request.id for request in workload.requests]
        if len(ids) > MAX_REQUESTS:
            raise RunRefused(
                f"{name} has {len(ids):,} requests; expected at most {MAX_REQUESTS} here, use `radixflow run`"
            )
        if not isinstance(order, list) or (order and sorted(map(str, order)) != sorted(ids)):
            raise RunRefused("the order names other requests than the workload has; expected each of them once")
        if not isinstance(options, dict) or set(options) - set(LIMITS):
            raise RunRefused(f"options other than {', '.join(LIMITS)} can't be set here")
        for key, value in options.items():
            low, high = LIMITS[key]
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise RunRefused(f"{key} is {str(value)[:20]}; expected a whole number from {low} to {high:,}")
        order = [] if order == ids else order
        return cls(name, tuple(order), policy, tuple(sorted(options.items())), eviction)


class Planned:
    """A workload as `palette.Colours` wants a trace, so that dragging requests about doesn't change their
    colours."""

    def __init__(self, workload: Workload):
        self.ids = [request.id for request in workload.requests]
        self._paths = [request.segments() for request in workload.requests]
        self.requests = {"group": [request.group for request in workload.requests]}

    def path_of(self, i: int) -> list[tuple[str, int]]:
        """The prompt's segments stand for its path."""
        return self._paths[i]


class Laboratory:
    """Makes runs for the page. folder: where their traces go."""

    def __init__(self, folder: Path, library: Library):
        self._folder = folder
        self._library = library
        self._made: dict[Recipe, str] = {}
        self._lock = threading.Lock()
        self._state_lock = threading.Lock()
        self._process: subprocess.Popen | None = None
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.state = "cold" if importlib.util.find_spec("vllm") else "missing"
        """`cold`, `warming`, `ready`, `missing` (no vLLM here) or `failed`."""

    @cached_property
    def workloads(self) -> dict[str, str]:
        """Built-in workloads small enough for the page: name -> note."""
        return {
            name: note for name, note in list_builtin().items() if len(load_workload(name).requests) <= MAX_REQUESTS
        }

    def describe(self, name: str) -> dict[str, Any]:
        """A built-in workload's requests and engine. Raises WorkloadError."""
        if name not in self.workloads:
            raise WorkloadError(f"unknown workload {name[:40]!r}; expected a built-in one")
        workload = load_workload(name)
        colours = self._colours(workload)
        engine = workload.simulated_engine.resolved() if "model" not in workload.engine.given() else workload.engine
        return {
            "name": name,
            "note": workload.note,
            "fixed": any(request.after is not None for request in workload.requests),
            "options": {key: engine.given().get(key) for key in LIMITS},
            "limits": LIMITS,
            "requests": [
                {
                    "id": request.id,
                    "colour": colours.fill(request.id),
                    "segments": request.segments(),
                    "output": request.output_tokens,
                }
                for request in workload.requests
            ],
        }

    def _colours(self, workload: Workload):
        from radixflow.figures.palette import Colours

        return Colours.of(Planned(workload))

    def warm(self) -> str:
        """Start the simulator if nobody has; returns the state."""
        with self._state_lock:
            if self.state in ("cold", "failed"):
                self.state = "warming"
                threading.Thread(target=self._start, name="radixflow-laboratory", daemon=True).start()
            return self.state

    def run(self, recipe: Recipe) -> str:
        """The key of the recipe's run, made now where it wasn't before. Blocks. Raises RunRefused."""
        with self._lock:
            known = self._made.get(recipe)
            if known is not None and self._library.has(known):
                return known
            if self.state == "missing":
                raise RunRefused("the simulated engine needs vLLM here: pip install 'radixflow[cpu]'")
            self.warm()
            self._wait_until_ready()
            path = self._folder / f"{recipe.workload}-{uuid.uuid4().hex[:12]}.rft.jsonl.zst"
            job = {
                "workload": recipe.workload,
                "order": list(recipe.order),
                "policy": recipe.policy,
                "options": dict(recipe.options),
                "eviction": recipe.eviction,
                "trace": str(path),
            }
            answer = self._ask(job)
            if "error" in answer:
                path.unlink(missing_ok=True)
                raise RunRefused(str(answer["error"])[:400])
            key = self._library.add_run(path, Planned(load_workload(recipe.workload)))
            self._made[recipe] = key
            while len(self._made) > 1000:
                self._made.pop(next(iter(self._made)))
            return key

    def close(self) -> None:
        """End the simulator and forget its runs' files."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
        for path in self._folder.glob("*"):
            path.unlink(missing_ok=True)
        if self._folder.is_dir():
            self._folder.rmdir()

    # The worker process

    def _start(self) -> None:
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
        environment.pop("RADIXFLOW_TRACE", None)
        environment.pop("RADIXFLOW_POLICY", None)
        self._answers = answers = queue.Queue()
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("worker.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            text=True,
        )
        self._process = process
        threading.Thread(target=self._listen, args=(process, answers), daemon=True).start()
        try:
            ready = answers.get(timeout=START_SECONDS)
        except queue.Empty:
            ready = None
        if ready and ready.get("ready"):
            self.state = "ready"
        else:
            process.kill()
            self.state = "failed"

    @staticmethod
    def _listen(process: subprocess.Popen, answers: queue.Queue) -> None:
        for line in process.stdout:
            answers.put(json.loads(line))
        answers.put(None)

    def _wait_until_ready(self) -> None:
        waited = threading.Event()
        for _ in range(int(START_SECONDS * 10)):
            if self.state != "warming":
                break
            waited.wait(0.1)
        if self.state != "ready":
            raise RunRefused("the simulated engine could not be started; `radixflow run figure1` says why")

    def _ask(self, job: dict[str, Any]) -> dict[str, Any]:
        process = self._process
        try:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            answer = self._answers.get(timeout=RUN_SECONDS)
        except (queue.Empty, OSError):
            answer = None
        if answer is None:
            process.kill()
            self.state = "cold"
            raise RunRefused(f"the run was given up after {RUN_SECONDS:.0f} s; choose a smaller one")
        return answer

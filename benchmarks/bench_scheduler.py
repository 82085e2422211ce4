"""Ratios of DESIGN's table, rows one to three, measured side by side in one process.

tracing      time in schedule() + update_from_output() with the recorder / without, hybrid, S = 64
control      the same under RadixFlow / native, full attention, nothing traced
simulator    a whole simulated run / the time in vLLM's own schedule() + update_from_output()

Times are the thread's CPU time, so that other work on the machine counts little; repetitions are interleaved.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from dataclasses import dataclass

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

from radixflow.engines.run import simulated_engine
from radixflow.engines.simulated_run import longest_sequence, recorder_for
from radixflow.engines.simulator import Simulator, VirtualClock
from radixflow.engines.stand_in import build_scheduler
from radixflow.scheduling.policies import get_policy
from radixflow.scheduling.settings import Settings
from radixflow.workloads import Workload, four_branch


@dataclass(frozen=True, slots=True)
class Measured:
    inside: float
    """CPU seconds in schedule() and update_from_output()."""
    whole: float
    """CPU seconds of the run."""
    rounds: int


def measure(workload: Workload, model: str, policy: str, trace: bool, probe: int = 1) -> Measured:
    options, groups, cost = simulated_engine(workload, model, {})
    clock = VirtualClock()
    inside = 0.0
    rounds = 0
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            get_policy(policy), trace=f"{folder}/run.rft.jsonl.zst" if trace else None, probe=probe
        )
        scheduler = build_scheduler(
            options,
            groups,
            settings,
            max_model_len=longest_sequence(workload),
            clock=clock,
            open_recorder=recorder_for(workload, clock, synchronous=False),
        )
        schedule, update = scheduler.schedule, scheduler.update_from_output

        def timed(call):
            def inner(*args):
                nonlocal inside, rounds
                began = time.thread_time()
                result = call(*args)
                inside += time.thread_time() - began
                rounds += 1
                return result

            return inner

        scheduler.schedule, scheduler.update_from_output = timed(schedule), timed(update)
        began = time.thread_time()
        Simulator(workload, scheduler, clock, cost).run()
        whole = time.thread_time() - began
        if scheduler.observer is not None:
            scheduler.observer.close("finished")
    return Measured(inside, whole, rounds // 2)


def ratio(name: str, reach: str, repetitions: int, one, other) -> None:
    """The fastest of one over the fastest of the other: what else the machine does can only slow a run down."""
    ones, others = [], []
    for _ in range(repetitions):
        others.append(other())
        ones.append(one())
    pairs = [x / y for x, y in zip(ones, others, strict=True)]
    spread = f"pairs {min(pairs):.3f} to {max(pairs):.3f}"
    print(f"{name:<78} {min(ones) / min(others):6.3f}   ({spread}; reach {reach})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=40, help="questions a document")
    parser.add_argument("--repetitions", type=int, default=5)
    args = parser.parse_args()
    hybrid = four_branch(
        documents=12, questions=args.questions, rate=None, order="mixed", document_tokens=(3000, 8000)
    )
    print(f"{len(hybrid.requests)} requests, S = 64, T = 8192")
    n = args.repetitions
    for policy in ("radix", "radixflow"):
        for probe, how in ((16, "every 16th round, as on servers"), (1, "every round"), (0, "off")):
            ratio(
                f"tracing, {policy}, probe {how}: recorder / none",
                "1.15, aim 1.05",
                n,
                lambda policy=policy, probe=probe: measure(hybrid, "Qwen3.5-9B", policy, True, probe).inside,
                lambda policy=policy: measure(hybrid, "Qwen3.5-9B", policy, False).inside,
            )
    ratio(
        "control, full attention: radixflow+noadmit / radix",
        "1.05",
        n,
        lambda: measure(hybrid, "Qwen3-8B", "radixflow+noadmit", False).inside,
        lambda: measure(hybrid, "Qwen3-8B", "radix", False).inside,
    )
    runs = [measure(hybrid, "Qwen3.5-9B", "radixflow", False) for _ in range(n)]
    whole, inside = min(run.whole for run in runs), min(run.inside for run in runs)
    print(f"{'simulator: whole run / inside vLLM':<78} {whole / inside:6.3f}   (reach 1.5)")


if __name__ == "__main__":
    main()

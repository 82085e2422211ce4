"""The paper's experiment: what a cell costs, beside the time inside vLLM's own calls, and what the whole would take.

    python benchmarks/bench_paper.py [scale]

Prints ratios measured side by side in one run (CPU seconds, so that a busy machine doesn't count).
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

from radixflow.paper.cell import run_cell, standard_cell
from radixflow.paper.experiment import POLICIES, Plan
from radixflow.paper.published import PUBLISHED


def main() -> None:
    scale = float(sys.argv[1]) if len(sys.argv) > 1 else 0.1
    run_cell(standard_cell("Qwen3.5-9B", "radix", "cold", scale=0.01))  # imports
    from vllm.v1.core.sched.scheduler import Scheduler

    inside = 0.0

    def timed(method):
        def call(*args, **kwargs):
            nonlocal inside
            begin = time.process_time()
            try:
                return method(*args, **kwargs)
            finally:
                inside += time.process_time() - begin

        return call

    Scheduler.schedule = timed(Scheduler.schedule)
    Scheduler.update_from_output = timed(Scheduler.update_from_output)
    print(f"{'cell (cold, order 1)':44} {'CPU s':>8} {'/ inside vLLM':>14} {'/ radix':>8}   at scale {scale:g}")
    spent = 0.0
    for model in PUBLISHED:
        base = 0.0
        for policy in POLICIES:
            inside, begin = 0.0, time.process_time()
            run_cell(replace(standard_cell(model, policy, "cold"), scale=scale))
            took = time.process_time() - begin
            spent += took
            base = base or took
            print(f"{model + ' ' + policy:44} {took:8.2f} {took / inside:14.2f} {took / base:8.2f}")
    cells = len(Plan().cells())
    print(f"{cells} cells like these: {spent / (len(PUBLISHED) * len(POLICIES)) * cells:.0f} CPU s at scale {scale:g}")


if __name__ == "__main__":
    main()

"""Runs workloads on the simulated engine, in a process of its own that stays warm. Started by `laboratory`.

First says `{"ready": true}`. Then reads one JSON object a line, `{"workload", "order", "policy", "options",
"eviction", "trace"}`, and answers each with one: `{"trace", "end"}` or `{"error"}`. Importing vLLM takes seconds; a run
after that, well under one.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever vLLM prints goes to stderr
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    from radixflow.engines.run import run_workload
    from radixflow.engines.simulated_run import simulate  # noqa: F401  imports vLLM now, not at the first run
    from radixflow.workloads import load_workload

    print(json.dumps({"ready": True}), file=answers)
    for line in sys.stdin:
        job = json.loads(line)
        try:
            workload = load_workload(job["workload"])
            if job["order"]:
                workload.requests = reordered(workload.requests, job["order"])
            done = run_workload(workload, job["policy"], trace=job["trace"], eviction=job["eviction"], **job["options"])
            answer = {"trace": str(done.trace_path), "end": done.end}
        except Exception as error:  # a run that fails is an answer, not the end of the worker
            answer = {"error": str(error).split("\n")[0] or type(error).__name__}
        print(json.dumps(answer), file=answers)


def reordered(requests: list, order: list[str]) -> list:
    """The requests in another order, each taking the arrival of the one whose place it takes.

    Where one waits for another to finish (`after`), everybody keeps the arrival of their own.
    """
    import msgspec

    by_id = {request.id: request for request in requests}
    chosen = [by_id[id] for id in order]
    if any(request.after is not None for request in requests):
        return chosen
    return [
        msgspec.structs.replace(request, arrival=place.arrival, after_round=place.after_round)
        for request, place in zip(chosen, requests, strict=True)
    ]


if __name__ == "__main__":
    main()

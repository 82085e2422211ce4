"""Make what the repository keeps of Figure 1: recorded traces, the README's picture, the offline replay.

    python scripts/recorded.py        (needs vLLM; half a minute)
"""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

import radixflow as rf

ROOT = Path(__file__).resolve().parent.parent
POLICIES = ("radix", "radixflow")


def main() -> None:
    folder = ROOT / "data" / "traces"
    folder.mkdir(exist_ok=True)
    traces = [rf.run("figure1", policy, trace=folder / f"figure1-{policy}.rft.jsonl.zst") for policy in POLICIES]
    rf.figures.compare(*traces).save(ROOT / "docs" / "images" / "timeline.svg")
    rf.figures.export_html(traces, ROOT / "docs" / "figure1.html", title="Figure 1: a hit that can't run")


if __name__ == "__main__":
    main()

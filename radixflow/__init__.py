"""radixflow: see what an LLM serving scheduler does, round by round, and why.

    import radixflow as rf
    trace = rf.run("figure1", policy="radixflow")
    rf.explain(trace, "A1")

Everything here is resolved when it is first used, so `import radixflow` brings in neither vLLM nor
torch nor the plotting libraries.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PUBLIC = {
    "run": "radixflow.engines.run",
    "open_trace": "radixflow.trace",
    "compare": "radixflow.analysis",
    "explain": "radixflow.analysis",
    "check": "radixflow.analysis.check",
    "summarize": "radixflow.analysis",
    "figures": "radixflow.figures",
    "player": "radixflow.widgets",
    "knobs": "radixflow.widgets.knobs",
    "load_workload": "radixflow.workloads",
    "RadixFlowScheduler": "radixflow.scheduling",
}
__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'radixflow' has no attribute {name!r}; it has {', '.join(_PUBLIC)}")
    module = import_module(_PUBLIC[name])
    return module if name == "figures" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*(name for name in globals() if name.startswith("__")), *_PUBLIC])

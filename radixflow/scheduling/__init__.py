"""What is chosen: the policies over vLLM's own scheduler, and the recorder that writes down why.

`RadixFlowScheduler` is resolved lazily, so importing this package doesn't import vLLM.
"""

from __future__ import annotations

from typing import Any

from radixflow.scheduling.policies import POLICIES, Policy, get_policy

__all__ = ["POLICIES", "Policy", "RadixFlowScheduler", "get_policy"]


def __getattr__(name: str) -> Any:
    if name == "RadixFlowScheduler":
        from radixflow.scheduling.versions import seams

        return seams().RadixFlowScheduler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

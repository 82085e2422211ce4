"""The canvas module that draws rounds and trees, and the notebook player around it."""

from __future__ import annotations

from typing import Any

__all__ = ["Player", "player"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from radixflow.widgets import notebook as module

        return getattr(module, name)
    raise AttributeError(f"module 'radixflow.widgets' has no attribute {name!r}")

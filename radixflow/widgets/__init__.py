"""The canvas module that draws rounds and trees, and the notebook widgets around it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PUBLIC = {"Player": "notebook", "player": "notebook", "Knobs": "knobs"}
__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(f"radixflow.widgets.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module 'radixflow.widgets' has no attribute {name!r}")

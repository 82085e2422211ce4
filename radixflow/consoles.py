"""Where the commands print: stdout for results, stderr for progress, notes and faults."""

from __future__ import annotations

import os
from typing import Any

from rich.console import Console

UNBROKEN = 10_000
"""Columns where there is no terminal: a log or a pipe gets tables and sentences whole, for grep and for diff."""


def _console(**options: Any) -> Console:
    console = Console(highlight=False, **options)
    if console.is_terminal or "COLUMNS" in os.environ:
        return console
    return Console(highlight=False, width=UNBROKEN, **options)


out = _console()
err = _console(stderr=True)

"""The dashboard: rounds, bubbles and the prefix tree, replayed and live, in a browser.

Installed as `radixflow_dashboard`. A Dash app on FastAPI: Dash lays out the page and answers with tables,
charts and words; small ES modules in `assets/` hold the one cursor and draw with the canvas module of
`radixflow.widgets`.
"""

from __future__ import annotations

from typing import Any

__all__ = ["create_app", "serve"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import app

    return getattr(app, name)

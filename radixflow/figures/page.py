"""A run as one HTML file that replays offline: the canvas module and the data, nothing else."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from radixflow.figures import icicle, windows
from radixflow.figures.palette import CANVAS, THEMES, Colours

MAX_ROUNDS = 20_000
"""Longest run that goes into one file, some 10 MB."""
MAX_TREES = 400
"""Runs of up to so many rounds carry the prefix tree of each round."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'">
<meta name="generator" content="radixflow">
<title>{title}</title>
<style>
html {{ height: 100%; background: {page}; }}
html[data-theme=dark] {{ background: {dark}; }}
@media (prefers-color-scheme: dark) {{ html:not([data-theme=light]) {{ background: {dark}; }} }}
body {{ margin: 0; min-height: 100%; font: 16px/1.4 ui-sans-serif, system-ui, sans-serif; }}
main {{ box-sizing: border-box; height: {height}px; min-height: 100vh; padding: 12px; }}
</style>
</head>
<body>
<main id="player" aria-label="{title}"></main>
<script type="application/json" id="data">{data}</script>
<script type="module">
{module}
const data = JSON.parse(document.getElementById("data").textContent);
const onTheme = (name) => (document.documentElement.dataset.theme = name);
replay(document.getElementById("player"), {{ ...data, onTheme }});
</script>
</body>
</html>
"""


def export_html(
    traces: Any | Iterable[Any],
    path: str | os.PathLike[str],
    first: int = 1,
    last: int | None = None,
    title: str | None = None,
) -> Path:
    """Write the replay of one trace, or of up to six under one another, to a self-contained file.

    Arguments: rounds `first`..`last` travel as cells (all by default). The prefix tree travels too where
    the range has at most `MAX_TREES` rounds.
    Raises ValueError where the range is longer than `MAX_ROUNDS` or more than six traces are given.
    """
    runs = list(traces) if isinstance(traces, list | tuple) else [traces]
    if not 1 <= len(runs) <= 6:
        raise ValueError(f"export_html: {len(runs)} traces given, expected 1 to 6")
    colours = Colours.of(*runs)
    data = {
        "runs": [_run(trace, first, last, colours) for trace in runs],
        "labels": [trace.header.policy for trace in runs],
        "note": "" if all(trace.complete for trace in runs) else "a run that had not ended",
    }
    name = title or f"{runs[0].header.workload or 'run'}: " + " and ".join(data["labels"])
    # Ids come from outside: nothing in them may end the script element.
    payload = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    text = PAGE.format(
        title=html.escape(name, quote=True),
        page=THEMES["light"]["page"],
        dark=THEMES["dark"]["page"],
        height=90 + 330 * len(runs) + (420 if data["runs"][0]["trees"] else 0),
        data=payload,
        module=CANVAS.read_text(encoding="utf-8"),
    )
    path = Path(path)
    path.write_text(text, encoding="utf-8")
    return path


def _run(trace: Any, first: int, last: int | None, colours: Colours) -> dict[str, Any]:
    first = max(1, first)
    last = trace.num_rounds if last is None else min(last, trace.num_rounds)
    if last - first + 1 > MAX_ROUNDS:
        raise ValueError(
            f"rounds {first} to {last} of {trace.path}: {last - first + 1:,} rounds, expected at most "
            f"{MAX_ROUNDS:,} in one file; name a range"
        )
    step = windows.MAX_CELL_ROUNDS
    trees = None
    if last - first < MAX_TREES:
        trees = {n: icicle.layout(trace, n, colours, 80) for n in range(first, last + 1)}
    return {
        "overview": windows.overview(trace),
        "windows": [
            windows.window(trace, begin, min(begin + step - 1, last), colours) for begin in range(first, last + 1, step)
        ],
        "trees": trees,
    }

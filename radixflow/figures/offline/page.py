"""A run as one HTML file that replays offline: the canvas module, the data, and the inspectors' words."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from radixflow.analysis.run_labels import run_labels
from radixflow.analysis.waits import Ledger
from radixflow.figures import icicle, windows
from radixflow.figures.offline.cards import STYLE, card_html, chips_html
from radixflow.figures.offline.comparison import comparison_html
from radixflow.figures.palette import CANVAS, THEMES, Colours, css
from radixflow.figures.request_card import Visits, request_card
from radixflow.figures.round_card import round_card

MAX_ROUNDS = 20_000
"""Longest run that goes into one file, some 10 MB."""
MAX_TREES = 400
"""Runs of up to so many rounds carry each round's prefix tree and words."""
MAX_WORDS = 1_000
"""Runs of up to so many requests carry the words for each."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; script-src 'unsafe-inline'; style-src 'unsafe-inline'">
<meta name="generator" content="radixflow">
<title>{title}</title>
<style>
html {{ height: 100%; background: {page}; }}
html[data-theme=dark] {{ background: {dark}; }}
@media (prefers-color-scheme: dark) {{ html:not([data-theme=light]) {{ background: {dark}; }} }}
body {{ margin: 0; min-height: 100%; font: 16px/1.4 ui-sans-serif, system-ui, sans-serif; }}
main {{ box-sizing: border-box; height: {height}px; min-height: 100vh; padding: 12px; }}
{css}
</style>
</head>
<body>
<main id="player" aria-label="{title}"></main>
{words}<script type="application/json" id="data">{data}</script>
<script type="module">
{module}
const data = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement;
if (!root.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches) root.dataset.theme = "dark";
const onTheme = (name) => (root.dataset.theme = name);
let shown = [1, 0];
let selected = null;
// Escaped where it was made.
function fill(id, html) {{
  const host = document.getElementById(id);
  if (host && host.innerHTML !== html) host.innerHTML = html;
}}
function tell() {{
  const [round, run] = shown;
  const {{ words }} = data.runs[run];
  if (!words) return;
  fill("round", words.rounds[round]?.[0] ?? "");
  fill("queue", words.rounds[round]?.[1] ?? "");
  const own = selected === null ? null : words.requests[selected];
  const none = selected === null ? "Select a request in the timeline, the tree or the queue." : "No words for it here.";
  fill("request", own ?? `<p class="soft">${{none}}</p>`);
}}
const player = replay(document.getElementById("player"), {{
  ...data,
  onTheme,
  onShow: (round, run) => ((shown = [round, run]), tell()),
  onSelect: (id) => ((selected = id), tell()),
}});
document.addEventListener("click", ({{ target }}) => {{
  const chip = target.closest("[data-request]");
  if (!chip) return;
  selected = chip.dataset.request === selected ? null : chip.dataset.request;
  player.setSelection(selected);
  tell();
}});
tell();
</script>
</body>
</html>
"""


WORDS = (
    '<section class="card" id="round" aria-label="Round"></section>'
    '<section class="card" id="request" aria-label="Request"></section>'
    '<section class="card wide" aria-label="Waiting queue"><h3>Waiting queue '
    '<span class="soft">in native order, as the scan found it</span></h3><div id="queue"></div></section>'
)


def export_html(
    traces: Any | Iterable[Any],
    path: str | os.PathLike[str],
    first: int = 1,
    last: int | None = None,
    title: str | None = None,
) -> Path:
    """Write the replay of one trace, or of up to six under one another, to a self-contained file.

    Arguments: rounds `first`..`last` travel as cells (all by default). Each round's prefix tree and words (its
    inspector, the queue, the requests) travel too where the range has at most `MAX_TREES` rounds; of two runs or
    more their metrics, charts and requests side by side.
    Raises ValueError where the range is longer than `MAX_ROUNDS` or more than six traces are given.
    """
    runs = list(traces) if isinstance(traces, list | tuple) else [traces]
    if not 1 <= len(runs) <= 6:
        raise ValueError(f"export_html: {len(runs)} traces given, expected 1 to 6")
    colours = Colours.of(*runs)
    data = {
        "runs": [_run(trace, first, last, colours) for trace in runs],
        "labels": run_labels(runs),
        "note": "" if all(trace.complete for trace in runs) else "a run that had not ended",
    }
    name = title or f"{runs[0].header.workload or 'run'}: " + " and ".join(data["labels"])
    # Ids come from outside: nothing in them may end the script element.
    payload = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    cards = WORDS if any(run["words"] for run in data["runs"]) else ""
    if len(runs) > 1:
        cards += comparison_html(runs)
    text = PAGE.format(
        css=css() + STYLE.read_text(encoding="utf-8"),
        words=f'<div class="words">{cards}</div>\n' if cards else "",
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
        "words": _words(trace, first, last, colours) if trees is not None else None,
    }


def _words(trace: Any, first: int, last: int, colours: Colours) -> dict[str, Any]:
    """The inspectors' cards: of each round with its queue, and of each request."""
    rounds = {}
    for n in range(first, last + 1):
        card, queue = round_card(trace, n, colours)
        waiting = chips_html(queue) if queue and queue.chips else '<p class="soft">Nobody waits.</p>'
        rounds[n] = [card_html(card), waiting]
    requests = {}
    if len(trace.ids) <= MAX_WORDS:
        ledger, visits = Ledger(trace), Visits(trace)
        requests = {
            id: card_html(request_card(trace, id, colours, ledger, visits)) for id in trace.ids if id is not None
        }
    return {"rounds": rounds, "requests": requests}

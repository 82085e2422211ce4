"""Every figure that some runs give, as PDF and SVG, at the widths of a paper's column and text block."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from radixflow import figures
from radixflow.analysis import CostRefused
from radixflow.analysis.run_labels import file_labels
from radixflow.export.files import Progress, new_file, new_folder, traces_of
from radixflow.figures.figure import FORMATS, WIDTHS, Figure, inches_of, styled
from radixflow.figures.palette import Colours
from radixflow.figures.printed.comparison import MAX_RUNS
from radixflow.figures.trajectory_bars import Contexts

BOTH = ("column", "text")
SUFFIXES = (".pdf", ".svg")
NO_FORMATS = (".jpg", ".jpeg", ".gif", ".eps", ".ps", ".tif", ".tiff", ".webp", ".pgf", ".tex")
"""Endings of a file that somebody wants as a figure, and doesn't get."""


def to_figures(
    traces: Any,
    path: str | os.PathLike[str],
    first: int = 1,
    last: int | None = None,
    at_round: int | None = None,
    request: str | None = None,
    width: str | float | None = None,
    style: str | os.PathLike[str] | None = None,
    command: str = "",
    source_line: bool = True,
    progress: Progress | None = None,
) -> Path:
    """Write the figures of one run, or of up to six.

    Where `path` ends in `.pdf`, `.svg` or `.png`, one figure: the timelines. Otherwise a folder with every figure
    of `run_figures` as PDF and SVG: in `column/` (3.33 in) and `text/` (7 in), in the folder of the `width` named, or
    in the folder itself where `width` is inches.

    Arguments: rounds `first`..`last` of the timelines; `at_round` of trees and rounds (by default the round with
    most blocked visits); `request`, the id of one that is explained too; `style`, a matplotlib style file;
    `command`, what made them, for metadata and source line; `source_line=False` leaves that line out.
    Raises ValueError and OSError with one line for a wrong wish, or where `path` can't be written.
    """
    given = traces_of(traces)
    path = Path(path)
    if len(given) > MAX_RUNS:
        raise ValueError(f"{len(given)} traces given, expected at most {MAX_RUNS} in a figure")
    if path.suffix.lower() in NO_FORMATS:
        raise ValueError(f"{path}: unknown figure format, expected {', '.join(FORMATS)}, or a folder")
    if at_round is not None:
        for trace in given:
            if not 1 <= at_round <= trace.num_rounds:
                raise ValueError(f"no round {at_round}: {trace.path} has rounds 1 to {trace.num_rounds}")
    if width is not None:
        inches_of(width)
    with styled(style):  # what is wrong with the style file is said before the work
        pass
    if path.suffix.lower() in FORMATS:
        figure = _timelines(given, first, last, Colours.of(*given))
        with new_file(path, given) as part:
            part.write_bytes(
                figure.render(path.suffix.lower()[1:], width or "text", "light", style, command, source_line)
            )
        return path
    wanted = run_figures(given, first, last, at_round, request)
    widths = [(name, str(name) if name in WIDTHS else "") for name in ((width,) if width is not None else BOTH)]
    done, total = 0, len(wanted) * len(widths) * len(SUFFIXES)
    with new_folder(path) as folder:
        for wide, place in widths:
            (folder / place).mkdir(exist_ok=True)
            for name, figure in wanted.items():
                for suffix in SUFFIXES:
                    target = folder / place / f"{name}{suffix}"
                    figure.save(target, wide, style=style, command=command, source_line=source_line)
                    done += 1
                    if progress is not None:
                        progress(done, total)
    return path


def run_figures(
    traces: list[Any],
    first: int = 1,
    last: int | None = None,
    at_round: int | None = None,
    request: str | None = None,
) -> dict[str, Figure]:
    """Every figure of some runs, by file name.

    `timeline-LABEL`, `tree-LABEL`, `round-LABEL` and, where one is named, `request-LABEL` of each run; `slots`,
    `waits`, `rows`, `requests` and, with a clock, `latency` of all; of several `figure1-timelines` (the paper's
    Figure 1: policies beside one another) and `cost`; and where a model ran under two policies or more,
    `figure3-latency` (with a clock) and `figure4-rounds`.
    """
    colours = Colours.of(*traces)
    found: dict[str, Figure] = {}
    for trace, label in zip(traces, file_labels(traces), strict=True):
        found[f"timeline-{label}"] = figures.timeline(trace, first, last, colours)
        n = at_round if at_round is not None else _telling_round(trace)
        if n is not None:
            found[f"tree-{label}"] = figures.tree(trace, n, colours)
            found[f"round-{label}"] = figures.round(trace, n, colours)
        if request is not None:
            found[f"request-{label}"] = figures.request(trace, request, colours)
    if len(traces) > 1:
        found["figure1-timelines"] = _timelines(traces, first, last, colours)
    found["slots"] = figures.slots_by_cause(*traces)
    found["waits"] = figures.waits_by_cause(*traces)
    found["rows"] = figures.rows_a_round(*traces)
    found["requests"] = figures.requests(*traces, sort="wait_rounds", colours=colours)
    contexts = [Contexts(trace) for trace in traces]
    if any(one.tell for one in contexts):
        found["trajectories"] = figures.trajectories(*traces, colours=colours, contexts=contexts)
    _try(found, "latency", lambda: figures.latency(*traces))
    if len(traces) > 1:
        _try(found, "cost", lambda: figures.cost(*traces))
        runs = figures.runs_frame(*traces)
        if runs.groupby("model")["policy"].nunique().max() > 1:
            _try(found, "figure3-latency", lambda: figures.latency_by_model(runs))
            found["figure4-rounds"] = figures.rounds_by_model(runs)
    return found


def _timelines(traces: list[Any], first: int, last: int | None, colours: Colours) -> Figure:
    if len(traces) == 1:
        return figures.timeline(traces[0], first, last, colours)
    return figures.compare(*traces, first=first, last=last, colours=colours, beside=True)


def _try(found: dict[str, Figure], name: str, make: Callable[[], Figure]) -> None:
    """Runs without a clock have no latency, asynchronous ones no cost identity: those figures are left out."""
    try:
        found[name] = make()
    except (CostRefused, ValueError):
        return


def _telling_round(trace: Any) -> int | None:
    """The round with most blocked visits, or the last; None where there is no round."""
    rounds = trace.rounds
    if not len(rounds):
        return None
    blocked = rounds["blocked"]
    return int(blocked.idxmax()) if blocked.max() > 0 else int(rounds.index[-1])

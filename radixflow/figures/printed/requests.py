"""The requests of runs side by side, as a printed table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from radixflow.analysis.causes import WAIT_CAUSES
from radixflow.analysis.compare import request_rows
from radixflow.analysis.run_labels import run_labels
from radixflow.analysis.waits import Ledger
from radixflow.figures.cards import colour_of
from radixflow.figures.figure import Figure
from radixflow.figures.lettering import fit, fit_id, line_height, width_of
from radixflow.figures.palette import THEMES, Colours
from radixflow.figures.printed.card import MAX_ID, one_line
from radixflow.figures.printed.comparison import MAX_RUNS, cause_look
from radixflow.figures.wording import cause_words

MAX_REQUESTS = 200
"""Rows in one picture."""

FIELDS: dict[str, tuple[str, str]] = {
    "latency": ("latency", "ms"),
    "wait_rounds": ("waited", "rounds"),
    "wait_seconds": ("waited", "ms"),
    "first_selected_round": ("first", "round"),
}
"""Columns of a run, and their headings in two lines. Where the page is narrow, the last give way first."""

SORTED = {
    "latency": "longest latency first",
    "wait_rounds": "most rounds waited first",
    "wait_seconds": "longest wait first",
    "first_selected_round": "last selected first",
}
ORDER = ("first_selected_round", "wait_rounds", "wait_seconds", "latency")
CLOCK = ("wait_seconds", "latency")

LEAD = 1.4
GAP, BETWEEN, SIGN = 0.1, 0.22, 0.17
"""Inches between two columns of a run, between runs, and for the pattern of a cause."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What a table of requests shows."""

    table: pd.DataFrame
    """Index: ids; columns `(label, field)`, as `Comparison.requests` has them."""
    said: str
    """Which requests these are, in which order."""


def requests(
    *traces: Any,
    sort: str | None = None,
    most: int = 40,
    colours: Colours | None = None,
    ledgers: Sequence[Ledger] | None = None,
    chosen: Sequence[int] | None = None,
    of: int | None = None,
) -> Figure:
    """A row a request, and for each run when it was first selected, how long it waited, and mostly for what.

    sort: a field of `FIELDS`, by whose largest value over the runs the rows are sorted; None for the order of arrival.
    most: rows shown, at most `MAX_REQUESTS`; the table says how many more there are.
    ledgers: of the traces, where they are there already.
    chosen: numbers of rows to show instead, in this order, the first ones of `of` rows that somebody looks at.

    Raises ValueError for another field, another number of rows, and for no or too many traces.
    """
    if not 1 <= len(traces) <= MAX_RUNS:
        raise ValueError(f"requests: {len(traces)} traces given, expected 1 to {MAX_RUNS}")
    if sort is not None and sort not in FIELDS:
        raise ValueError(f"sort {sort!r}: unknown, expected one of {', '.join(ORDER)}")
    if not 1 <= most <= MAX_REQUESTS:
        raise ValueError(f"most {most}: expected 1 to {MAX_REQUESTS} rows")
    labels = run_labels(traces)
    table = pd.concat(
        [request_rows(ledger) for ledger in ledgers or [Ledger(trace) for trace in traces]], axis=1, keys=labels
    )
    rows = _shown(table, sort, most) if chosen is None else _chosen(table, chosen[:most], of)
    clocked = all(trace.header.clock.arrivals for trace in traces)
    page = _Page(rows, labels, clocked, colours if colours is not None else Colours.of(*traces))
    given = ", ".join(f"t{k}" for k in range(1, len(traces) + 1))
    call = f"radixflow.figures.requests({given}{f', sort={sort!r}' if sort else ''})"
    return Figure(page.draw, page.height, f"requests of traces {', '.join(trace.id for trace in traces)}", call)


def _shown(table: pd.DataFrame, sort: str | None, most: int) -> Rows:
    by = "in order of arrival"
    if sort is not None:
        worst = table.xs(sort, axis=1, level=1).apply(pd.to_numeric, errors="coerce").max(axis=1)
        table = table.iloc[worst.astype(float).fillna(-1).argsort(kind="stable")[::-1]]
        by = SORTED[sort]
    return Rows(table.iloc[:most], _count(min(most, len(table)), len(table), f"requests, {by}"))


def _chosen(table: pd.DataFrame, chosen: Sequence[int], of: int | None) -> Rows:
    kept = [k for k in chosen if 0 <= k < len(table)]
    return Rows(table.iloc[kept], _count(len(kept), max(len(kept), of or 0), "requests, as they were sorted"))


def _count(shown: int, of: int, what: str) -> str:
    return f"{of:,} {what}" if shown == of else f"The first {shown:,} of {of:,} {what}"


class _Page:
    """What the table shows, and the runs side by side: all of them, or as many at a time as there is room for."""

    def __init__(self, rows: Rows, labels: list[str], clocked: bool, colours: Colours):
        self.rows, self.labels, self.colours = rows, labels, colours
        self.fields = [name for name in FIELDS if clocked or name not in CLOCK]

    def _tables(self, width: float) -> list[_Table]:
        for many in range(1, len(self.labels) + 1):
            each = -(-len(self.labels) // many)
            parts = [self.labels[k : k + each] for k in range(0, len(self.labels), each)]
            tables = [_Table(self.rows.table, part, self.fields, self.colours) for part in parts]
            if many == len(self.labels) or all(table.columns(width).fits for table in tables):
                return tables
        return []

    def height(self, width: float) -> float:
        """Inches high at a width in inches."""
        return 1.1 * line_height() * LEAD + sum(table.height(width) for table in self._tables(width))

    def draw(self, figure: Any, theme: str) -> None:
        """Draw all of it on an empty figure of that height."""
        wide, high = figure.get_size_inches()
        y = 1 - 0.5 * line_height() * LEAD / high
        soft = THEMES[theme]["text_soft"]
        said = fit(self.rows.said, wide - 0.1)
        figure.text(0.05 / wide, y, said, color=soft, va="center_baseline", parse_math=False)
        top = 1.1 * line_height() * LEAD
        for table in self._tables(wide):
            table.draw(figure, theme, top)
            top += table.height(wide)


class _Table:
    """Some runs side by side, and the causes' legend."""

    def __init__(self, table: pd.DataFrame, labels: list[str], fields: list[str], colours: Colours):
        self.table, self.labels, self.fields, self.colours = table, labels, fields, colours
        found = {cause for label in labels for cause in table[label]["cause"].dropna()}
        self.causes = [cause for cause in WAIT_CAUSES if cause in found]
        self.ids = [one_line(str(id)[-MAX_ID:]) for id in table.index]

    def _step(self) -> float:
        return line_height() * LEAD

    def _keys(self, width: float) -> list[list[tuple[float, str]]]:
        """Lines of the causes' legend: where each stands, in inches from the left."""
        lines: list[list[tuple[float, str]]] = [[]]
        x = 0.05
        for cause in self.causes:
            wide = SIGN + width_of(cause_words(cause)) + 0.14
            if lines[-1] and x + wide > width:
                lines.append([])
                x = 0.05
            lines[-1].append((x, cause))
            x += wide
        return [line for line in lines if line]

    def height(self, width: float) -> float:
        """Inches high at a width in inches."""
        above = 3.3  # labels and two lines of headings, and room around them
        below = 0 if self.columns(width).worded else len(self._keys(width)) * line_height() * 1.15
        return (len(self.ids) + above) * self._step() + below + 0.1

    def draw(self, figure: Any, theme: str, top: float) -> None:
        """Draw it, so many inches below the figure's upper edge."""
        from matplotlib.lines import Line2D
        from matplotlib.patches import Rectangle

        wide, high = figure.get_size_inches()
        colours, step = THEMES[theme], self._step()
        columns = self.columns(wide)
        names, fields = columns.names, columns.fields
        at = 0.05 + names
        edges: list[dict[str, float]] = []
        for label in self.labels:
            at += BETWEEN
            begin, places = at, {}
            for name in fields:
                at += self._wide(label, name) + (GAP if places else 0)
                places[name] = at
            at = max(at + self._sign(label, columns.worded), begin + columns.label)
            edges.append({"begin": begin, **places, "end": at})

        def y_of(line: float) -> float:
            return 1 - (top + (line + 0.5) * step) / high

        def write(x: float, line: float, text: str, right: bool = False, **look: Any) -> None:
            style = {"color": colours["text"], "ha": "right" if right else "left", "va": "center_baseline", **look}
            figure.text(x / wide, y_of(line), text, parse_math=False, **style)

        def rule(line: float, thick: float, begin: float = 0.05, end: float = at) -> None:
            y = 1 - (top + line * step) / high
            ink = colours["line_strong"]
            figure.add_artist(Line2D([begin / wide, end / wide], [y, y], lw=thick, color=ink))

        rule(0, 0.8)
        for label, edge in zip(self.labels, edges, strict=True):
            write(edge["begin"], 0.05, fit(label, edge["end"] - edge["begin"], bold=True), weight="bold")
            rule(1.0, 0.5, edge["begin"], edge["end"])
            for name in fields:
                for k, words in enumerate(FIELDS[name]):
                    write(edge[name], 1.0 + 0.75 * k, words, right=True, color=colours["text_soft"])
        write(0.05, 1.75, "request", color=colours["text_soft"])
        rule(2.85, 0.5)
        for line, (id, name) in enumerate(zip(self.ids, self.table.index, strict=True)):
            line += 2.95
            y = y_of(line)
            dot = Rectangle((0.05 / wide, y - 0.035 / high), 0.07 / wide, 0.07 / high, fc=colour_of(name, self.colours))
            figure.add_artist(dot)
            write(0.17, line, fit_id(id, names - 0.12))

        def sign(x: float, y: float, cause: str) -> None:
            place = (x / wide, y - 0.045 / high)
            look = cause_look(cause, theme) | {"lw": 0.4}
            figure.add_artist(Rectangle(place, (SIGN - 0.05) / wide, 0.09 / high, **look))

        for label, edge in zip(self.labels, edges, strict=True):
            own = self.table[label]
            for name in fields:
                for line, value in enumerate(own[name]):
                    write(edge[name], line + 2.95, _written(name, value), right=True)
            last = edge[fields[-1]]
            if columns.worded and self.causes:
                write(last + 0.05, 1.75, "mostly", color=colours["text_soft"])
            for line, cause in enumerate(own["cause"]):
                if isinstance(cause, str):
                    sign(last + 0.05, y_of(line + 2.95), cause)
                    if columns.worded:
                        write(last + 0.05 + SIGN, line + 2.95, cause_words(cause), color=colours["text_soft"])
        bottom = len(self.ids) + 3.15
        rule(bottom, 0.8)
        if not columns.worded:
            for k, keys in enumerate(self._keys(wide)):
                line = bottom + 0.1 + k * 1.15 / LEAD
                for x, cause in keys:
                    sign(x, y_of(line), cause)
                    write(x + SIGN, line, cause_words(cause), color=colours["text_soft"])

    def _wide(self, label: str, name: str) -> float:
        """Inches of a column."""
        values = [_written(name, value) for value in self.table[label][name]]
        return max(map(width_of, (*FIELDS[name], *values)))

    def _sign(self, label: str, worded: bool) -> float:
        """Inches for what a run's requests mostly waited for: a pattern, and its words."""
        found = set(self.table[label]["cause"].dropna()) if worded else ()
        return SIGN + (
            max(map(width_of, ("mostly", *(cause_words(cause) for cause in found)))) + 0.05 if found else 0.0
        )

    def columns(self, width: float) -> _Columns:
        """What there is room for: words beside the patterns, then each field."""
        wanted = 0.14 + max(map(width_of, (*self.ids, "request")))
        least = min(wanted, 0.9)
        label = (width - 0.1 - least) / len(self.labels) - BETWEEN
        label = max(0.3, min(label, max(width_of(name, bold=True) for name in self.labels)))
        kept, worded = list(self.fields), True
        while True:
            shown = [name for name in ORDER if name in kept]
            taken = sum(
                BETWEEN
                + max(
                    sum(self._wide(own, name) for name in shown) + GAP * (len(shown) - 1) + self._sign(own, worded),
                    label,
                )
                for own in self.labels
            )
            room = width - 0.1 - taken
            if room >= least or (len(kept) == 1 and not worded):
                return _Columns(max(0.3, min(wanted, room)), shown, worded, label, room >= least)
            if worded:
                worded = False
            else:
                kept.pop()


@dataclass(frozen=True, slots=True)
class _Columns:
    """How a table is laid out at a width."""

    names: float
    """Inches for the ids."""
    fields: list[str]
    worded: bool
    """Whether causes are written out beside their patterns; else a legend below names them."""
    label: float
    """Inches that a run's name gets."""
    fits: bool


def _written(name: str, value: Any) -> str:
    if value is None or pd.isna(value):
        return "-"
    if name in CLOCK:
        return f"{1000 * float(value):,.{1 if value < 10 else 0}f}"
    return f"{int(value):,}"

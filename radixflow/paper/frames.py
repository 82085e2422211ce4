"""DataFrames on a terminal: whatever its width, nothing of them is cut.

A table that is too wide is split by its columns into several that fit, each with the row labels. rich alone would
squeeze the columns of such a table until they hold an ellipsis.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from rich import box
from rich.measure import Measurement
from rich.segment import Segments
from rich.table import Table
from rich.text import Text

from radixflow.consoles import UNBROKEN, out
from radixflow.paper.words import metric_of, number

_NUMBER = re.compile(r"[+-]?\d[\d,]*(\.\d+)?%?( \[.*\])?")


@dataclass(frozen=True, slots=True)
class _Column:
    upper: str
    """The upper one of two levels of headings, or empty."""
    head: str
    cells: tuple[str, ...]

    @property
    def right(self) -> bool:
        """Numbers stand to the right, also those that carry a sign, a unit or an interval and so are text."""
        known = [cell for cell in self.cells if cell != "-"]
        return bool(known) and all(_NUMBER.fullmatch(cell) for cell in known)

    def heading(self, wrapped: bool, upper: bool) -> str:
        parts = [part for part in (self.upper if upper else "", self.head) if part]
        if not wrapped:
            return "\n".join(parts)
        longest = max((len(word) for part in parts for word in part.split()), default=1)
        width = max([longest, *map(len, self.cells)])
        return "\n".join(textwrap.fill(part, width, break_long_words=False, break_on_hyphens=False) for part in parts)


def show_frame(frame: pd.DataFrame, title: str, digits: int | Mapping[Any, int] = 2, labels: int = 1) -> None:
    """A DataFrame as one table, or as several where it is too wide for the terminal.

    The index, if it has a name, goes first. `labels` first columns say what a row is and stand in each of several
    tables. Metrics get their words and decimals from `words`; `digits` are those of other columns. Of two levels of
    columns the upper one goes above the lower one, or into the title where a table has a single one.
    """
    columns = _columns(frame, digits)
    stubs, rest = columns[:labels], columns[labels:]
    before: set[str] = set()
    for k, piece in enumerate(_pieces(stubs, rest)):
        uppers = list(dict.fromkeys(column.upper for column in piece if column.upper))
        again = k > 0 if not uppers else any(upper in before for upper in uppers)
        before |= set(uppers)
        heading = title + (f": {', '.join(uppers)}" if uppers else "") + (", continued" if again else "")
        out.print(Text(heading, style="bold"))
        _show(_table([*stubs, *piece], upper=len(uppers) > 1))


def _columns(frame: pd.DataFrame, digits: int | Mapping[Any, int]) -> list[_Column]:
    flat = frame.reset_index() if any(name is not None for name in frame.index.names) else frame
    made = []
    for k, column in enumerate(flat.columns):
        upper, head = column if isinstance(column, tuple) else ("", column)
        if not head:  # the index beside two levels
            upper, head = "", upper
        metric = metric_of(upper) or metric_of(head)
        if metric is not None:
            places = metric.decimals
        else:
            places = digits if isinstance(digits, int) else digits.get(head, 2)
        known = metric_of(head)
        heading = known.head if known else str(head).replace("_", " ")
        made.append(_Column(str(upper), heading, tuple(cell_text(value, places) for value in flat.iloc[:, k].tolist())))
    return made


def _pieces(stubs: Sequence[_Column], rest: Sequence[_Column]) -> list[list[_Column]]:
    """Columns that go into one table each: what fits, columns of one upper heading together if they can be."""

    def fits(columns: Sequence[_Column], wrapped: bool = True) -> bool:
        upper = len({column.upper for column in columns}) > 1
        return _width(_table([*stubs, *columns], wrapped, upper)) <= out.width

    if fits(rest, wrapped=False) or fits(rest):
        return [list(rest)]
    made: list[list[_Column]] = [[]]
    for upper in dict.fromkeys(column.upper for column in rest):
        own = [column for column in rest if column.upper == upper]
        if made[-1] and not fits([*made[-1], *own]):
            made.append([])
        for column in own:
            if made[-1] and not fits([*made[-1], column]):
                made.append([])
            made[-1].append(column)
    return made


def _table(columns: Sequence[_Column], wrapped: bool | None = None, upper: bool = False) -> Table:
    """wrapped: whether headings are broken between their words; by default where the table is too wide otherwise."""
    if wrapped is None:
        whole = _table(columns, False, upper)
        return whole if _width(whole) <= out.width else _table(columns, True, upper)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        heading = Text(column.heading(wrapped, upper))
        table.add_column(heading, justify="right" if column.right else "left", no_wrap=True, vertical="bottom")
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*map(Text, row))
    return table


def _width(table: Table) -> int:
    return Measurement.get(out, out.options.update(width=UNBROKEN, max_width=UNBROKEN), table).maximum


def _show(table: Table) -> None:
    # Rendered apart: `print` would squeeze a table into the terminal where even one column is too wide for it.
    width = _width(table)
    out.print(Segments(out.render(table, out.options.update(width=width, max_width=width))), soft_wrap=True, end="")


def cell_text(value: Any, digits: int = 2) -> str:
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value, digits) if math.isfinite(value) else "not known"
    return f"{value:,}" if isinstance(value, int) else str(value)

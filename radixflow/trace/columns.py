"""Growing columns: what a trace of a million rounds is kept in."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

NONE = -(2**31)
"""Stands for None in an integer column."""


class Table:
    """Rows of a structured array that grows by doubling.

    `append` takes a tuple; `fold()` moves what was appended into the array (once a block, not once a row).
    """

    def __init__(self, fields: list[tuple[str, str]]):
        self._data = np.empty(256, np.dtype(fields))
        self._size = 0
        self._new: list[tuple] = []
        self.append = self._new.append

    def __len__(self) -> int:
        return self._size + len(self._new)

    def fold(self) -> None:
        """Raises OverflowError where a number doesn't fit its column; the rows are dropped then."""
        if self._new:
            try:
                new = np.array(self._new, self._data.dtype)
            finally:
                self._new.clear()
            self._data = _with_room(self._data, self._size, len(new))
            self._data[self._size : self._size + len(new)] = new
            self._size += len(new)

    def rows(self) -> np.ndarray:
        """All rows, read-only; `rows()["field"]` is a column."""
        self.fold()
        view = self._data[: self._size]
        view.flags.writeable = False
        return view


class Flat:
    """Lists of integers laid end to end; `extend` takes a list."""

    def __init__(self, dtype: str = "i4"):
        self._data = np.empty(256, dtype)
        self._size = 0
        self._new: list[int] = []
        self.extend = self._new.extend
        self.append = self._new.append

    def __len__(self) -> int:
        return self._size + len(self._new)

    def fold(self) -> None:
        """As Table.fold."""
        if self._new:
            try:
                new = np.array(self._new, self._data.dtype)
            finally:
                self._new.clear()
            self._data = _with_room(self._data, self._size, len(new))
            self._data[self._size : self._size + len(new)] = new
            self._size += len(new)

    def values(self) -> np.ndarray:
        self.fold()
        view = self._data[: self._size]
        view.flags.writeable = False
        return view


class Names:
    """Numbers for the values that a column of text (or of small lists) repeats; None is -1."""

    def __init__(self):
        self.values: list = []
        self._codes: dict[Hashable, int] = {None: -1}

    def code(self, value: Hashable) -> int:
        code = self._codes.get(value)
        if code is None:
            code = self._codes[value] = len(self.values)
            self.values.append(value)
        return code

    def find(self, value: Hashable) -> int:
        """The code of a value that is there. KeyError otherwise."""
        return self._codes[value]

    def name(self, code: int) -> Any:
        return self.values[code] if code >= 0 else None


def _with_room(data: np.ndarray, size: int, more: int) -> np.ndarray:
    if size + more <= len(data):
        return data
    grown = np.empty(max(size + more, int(len(data) * 1.6)), data.dtype)
    grown[:size] = data[:size]
    return grown

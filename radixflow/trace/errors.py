"""What can be wrong with a trace, said in one line."""

from __future__ import annotations


class TraceError(Exception):
    """A file can't be read or written as a trace. The message is one line: what, where, what was expected."""


class TraceReplaced(TraceError):
    """A followed file was truncated, replaced or removed: it is another run now, open it again."""

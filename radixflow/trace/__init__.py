"""The record of a run: schema, writer, reader, queues and prefix trees at any round."""

from __future__ import annotations

from radixflow.trace.errors import TraceError, TraceReplaced
from radixflow.trace.parts import read_header
from radixflow.trace.paths import PromptPaths, common_prefix
from radixflow.trace.reader import Trace, open_trace, open_traces
from radixflow.trace.rounds import RoundView
from radixflow.trace.schema import SCHEMA
from radixflow.trace.writer import TraceWriter

__all__ = [
    "SCHEMA",
    "PromptPaths",
    "RoundView",
    "Trace",
    "TraceError",
    "TraceReplaced",
    "TraceWriter",
    "common_prefix",
    "open_trace",
    "open_traces",
    "read_header",
]

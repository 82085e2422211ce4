"""The records of one trace file, in order, while it may still grow."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import msgspec

from radixflow.trace.errors import TraceError
from radixflow.trace.files import later_parts
from radixflow.trace.schema import SCHEMA, AnyRecord, Gap, Header
from radixflow.trace.stream import LineStream

Progress = Callable[[int, int], None]
"""Called with bytes read and bytes to read."""

MAJOR = int(SCHEMA.split(".")[0])


class _Kind(msgspec.Struct):
    kind: str = ""
    schema: str = ""


_decoder = msgspec.json.Decoder(AnyRecord)
_header_decoder = msgspec.json.Decoder(Header)
_kind_decoder = msgspec.json.Decoder(_Kind)
_KINDS = {record.__struct_config__.tag for record in AnyRecord.__args__}
_GIVEN = {*_KINDS, None}
"""Lines of these give a record: one that can't be read is a gap."""
_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class PartReader:
    """One file of a trace. Raises TraceError, one line, for anything that isn't one."""

    def __init__(self, path: Path):
        self.path = path
        self.header: Header
        """There once the first records were given."""
        self.line = 1
        """Number of the first line of the records given last."""
        self._block = b""
        self._stream = LineStream(path)
        self._begun = False
        self._damage_told = False

    def records(self, progress: Progress | None = None) -> Iterator[list]:
        """What the file holds beyond the last call, some thousand records at a time.

        Lines that aren't JSON, and where compressed data can't be read on, become gaps.
        """
        stream = self._stream
        total = stream.size()
        if total == stream.offset and self._begun:
            return
        for block in stream.blocks():
            yield self._decoded(block)
            self.line += block.count(b"\n")
            if progress is not None:
                progress(stream.offset, max(total, stream.offset))
        if stream.rest.rstrip().endswith(b"}") and _is_whole(stream.rest):
            yield self._decoded(stream.rest)
            stream.take_rest()
        if not self._begun:
            _header(stream, b"")
        if stream.damaged and not self._damage_told:
            self._damage_told = True
            yield [Gap(rounds=0, records=0, what="damaged")]

    def _decoded(self, block: bytes) -> list:
        if not self._begun:
            self.header = _header(self._stream, block)
            self._begun = True
        self._block = block
        try:
            return _decoder.decode_lines(block)
        except _NOT_JSON:
            return list(self._decoded_singly(block))

    def line_of(self, at: int) -> int:
        """The line of one of the records given last. Slow: only an error asks."""
        numbers = (n for n, line in enumerate(self._block.split(b"\n"), self.line) if _kind_of(line) in _GIVEN)
        return next(islice(numbers, at, None))

    def _decoded_singly(self, block: bytes) -> Iterator[object]:
        """As decode_lines, but passes over kinds that this version doesn't know."""
        for number, line in enumerate(block.split(b"\n"), self.line):
            if not line.strip():
                continue
            try:
                yield _decoder.decode(line)
                continue
            except msgspec.ValidationError as error:
                problem = error
            except _NOT_JSON:
                yield Gap(rounds=0, records=1, what="unreadable")
                continue
            kind = _kind_of(line)
            if kind in _KINDS:
                raise TraceError(f"{self.path}, line {number}: bad `{kind}` record: {problem}")


def _kind_of(line: bytes) -> str | None:
    """What kind of record a line is: empty where it doesn't say, None where it isn't JSON."""
    if not line.strip():
        return ""
    try:
        return _kind_decoder.decode(line).kind
    except msgspec.ValidationError:
        return ""
    except _NOT_JSON:
        return None


def read_header(path: str | os.PathLike) -> Header:
    """Only a trace's first record. Raises TraceError."""
    part = PartReader(existing(Path(path)))
    records = part.records()
    next(records)
    records.close()
    return part.header


def existing(path: Path) -> Path:
    """The path, or the oldest part that is left of a rotated trace whose first files were deleted."""
    if path.is_dir():
        raise TraceError(f"{path}: is a directory, expected a trace file (.rft.jsonl or .rft.jsonl.zst)")
    if not path.exists():
        parts = later_parts(path)
        if not parts:
            raise TraceError(f"{path}: no such file")
        return parts[0]
    return path


def _is_whole(line: bytes) -> bool:
    """Whether a last line without newline is a whole record nevertheless (a torn one isn't JSON)."""
    try:
        msgspec.json.decode(line)
    except _NOT_JSON:
        return False
    return True


def _header(stream: LineStream, block: bytes) -> Header:
    """The first record, checked. TraceError where it isn't a header that this version can read."""
    line = block.split(b"\n", 1)[0]
    if not line and not block:
        if stream.damaged:
            raise TraceError(f"{stream.path}: not a trace: its zstd data is damaged from the start")
        size = stream.size()
        if size == 0:
            raise TraceError(f"{stream.path}: is empty, expected a trace header in its first line")
        raise TraceError(f"{stream.path}: holds no whole trace header: the file was cut after {size} bytes")
    try:
        kind = _kind_decoder.decode(line)
    except _NOT_JSON:
        raise TraceError(
            f'{stream.path}: not a trace: its first line is not a record, expected {{"kind":"trace", ...}}'
        ) from None
    if kind.kind != "trace":
        raise TraceError(f"{stream.path}: not a trace: its first record is `{kind.kind}`, expected `trace`")
    major = kind.schema.split(".")[0]
    if not major.isdigit():
        raise TraceError(f"{stream.path}: its header has schema {kind.schema!r}, expected MAJOR.MINOR")
    if int(major) != MAJOR:
        word = "newer" if int(major) > MAJOR else "older"
        raise TraceError(
            f"{stream.path}: written with schema {kind.schema}, a {word} major version; "
            f"this radixflow reads {MAJOR}.x"
        )
    try:
        header = _header_decoder.decode(line)
    except msgspec.DecodeError as error:
        raise TraceError(f"{stream.path}, line 1: bad `trace` record: {error}") from error
    for name, value in _sizes(header):
        if value < 1:
            raise TraceError(f"{stream.path}, line 1: bad `trace` record: {name} is {value}, expected 1 or more")
    return header


def _sizes(header: Header) -> list[tuple[str, int]]:
    """Numbers of the header that everything else divides by or counts to."""
    config = header.config
    named = ("max_num_seqs", "max_num_batched_tokens", "block_size", "hash_block_size", "num_blocks")
    sizes = [(f"config.{name}", getattr(config, name)) for name in named]
    sizes.append(("the number of config.groups", len(config.groups)))
    return sizes + [(f"config.groups[{k}].block_size", group.block_size) for k, group in enumerate(config.groups)]

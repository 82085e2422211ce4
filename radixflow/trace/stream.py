"""Reads one trace file as it grows: plain or zstd bytes in, blocks of whole lines out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import zstandard

from radixflow.trace.errors import TraceError, TraceReplaced

MAX_LINE = 64 * 2**20
"""Bytes of the longest line that can be a record."""

MAX_EXPANSION = 2_000
"""How many bytes a compressed byte of a trace can stand for."""

_BLOCK = 2**20
_PIECE = 2048
"""Compressed bytes expanded at a time: even a hostile frame then yields no more than 64 MiB at once."""

_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"PK\x03\x04": "zip", b"PAR1": "Parquet"}
_ZSTD = b"\x28\xb5\x2f\xfd"


class LineStream:
    """The lines of one file, continued by each call of `blocks()`.

    Raises TraceError where the file can't be read as text lines, TraceReplaced where it isn't the file any
    more that was read before.
    """

    def __init__(self, path: Path):
        self.path = path
        self.offset = 0
        """Bytes of the file read so far."""
        self.damaged = False
        """The compressed data can't be decoded past `offset`."""
        self._identity: tuple[int, int] | None = None
        self._head = b""
        self._zstd: zstandard.ZstdDecompressor | None = None
        self._frame = None
        self._expanded = 0
        self._rest = b""

    def size(self) -> int:
        """Bytes that the file has now."""
        return self._stat().st_size

    @property
    def rest(self) -> bytes:
        """The last line, as far as it has come; empty where the file ends with a whole one."""
        return self._rest

    def take_rest(self) -> None:
        """The last line turned out to be whole, only its newline is missing."""
        self._rest = b""

    def blocks(self) -> Iterator[bytes]:
        """Whole lines added since the last call, about a MiB at a time."""
        size = self._stat().st_size
        if size <= self.offset or self.damaged:
            return
        with open(self.path, "rb") as file:
            self._check_head(file, size)
            file.seek(self.offset)
            parts, length = [self._rest], len(self._rest)
            while raw := file.read(_BLOCK if self._zstd is None else _BLOCK // 8):
                self.offset += len(raw)
                for data in (raw,) if self._zstd is None else self._expand(raw):
                    parts.append(data)
                    length += len(data)
                    if length >= _BLOCK and b"\n" in data:
                        block, self._rest = _split(parts)
                        yield block
                        parts, length = [self._rest], len(self._rest)
                    elif length > MAX_LINE:
                        raise TraceError(
                            f"{self.path}: not a trace: a line is longer than {MAX_LINE >> 20} MiB, "
                            "expected one JSON record a line"
                        )
                if self.damaged:
                    break
            block, self._rest = _split(parts)
            if block:
                yield block

    def _stat(self) -> os.stat_result:
        try:
            stat = os.stat(self.path)
        except FileNotFoundError:
            if self._identity is None:
                raise TraceError(f"{self.path}: no such file") from None
            raise TraceReplaced(f"{self.path}: the file was removed while it was followed") from None
        except OSError as error:
            raise TraceError(f"{self.path}: can't be read: {error.strerror}") from error
        identity = (stat.st_dev, stat.st_ino)
        if self._identity is not None and (identity != self._identity or stat.st_size < self.offset):
            raise TraceReplaced(f"{self.path}: the file was replaced or cut short while it was followed")
        return stat

    def _check_head(self, file, size: int) -> None:
        """Recognise the file the first time, and that it still is the same file later."""
        if self._identity is not None:
            if file.read(len(self._head)) != self._head:
                raise TraceReplaced(f"{self.path}: the file was replaced while it was followed")
            return
        stat = os.fstat(file.fileno())
        self._head = file.read(min(256, size))
        for magic, name in _MAGIC.items():
            if self._head.startswith(magic):
                raise TraceError(
                    f"{self.path}: this is a {name} file; a trace is plain JSON Lines (.rft.jsonl) "
                    "or zstd (.rft.jsonl.zst)"
                )
        if self._head.startswith(_ZSTD):
            self._zstd = zstandard.ZstdDecompressor(max_window_size=2**27)
        elif self._head[: len(_ZSTD)] and _ZSTD.startswith(self._head):
            raise TraceError(
                f"{self.path}: holds no trace header: the file was cut after {len(self._head)} bytes"
            )
        elif not self._head.lstrip().startswith(b"{"):
            raise TraceError(
                f"{self.path}: not a trace: it begins with {_shown(self._head[:12])}, "
                'expected {"kind":"trace", ...}'
            )
        self._identity = (stat.st_dev, stat.st_ino)

    def _expand(self, raw: bytes) -> Iterator[bytes]:
        for at in range(0, len(raw), _PIECE):
            piece = raw[at : at + _PIECE]
            while piece:
                if self._frame is None or self._frame.eof:
                    self._frame = self._zstd.decompressobj()
                try:
                    data = self._frame.decompress(piece)
                except zstandard.ZstdError:
                    self.damaged = True
                    return
                piece = self._frame.unused_data if self._frame.eof else b""
                self._expanded += len(data)
                if self._expanded > 2**28 and self._expanded > MAX_EXPANSION * self.offset:
                    raise TraceError(
                        f"{self.path}: not a trace: {self.offset:,} bytes expand to over {self._expanded:,}"
                    )
                if data:
                    yield data


def _split(parts: list[bytes]) -> tuple[bytes, bytes]:
    """Whole lines, and the beginning of the next one."""
    data = b"".join(parts)
    end = data.rfind(b"\n") + 1
    return data[:end], data[end:]


def _shown(head: bytes) -> str:
    """A file's first bytes for people: as text where they are text, else in hexadecimal digits."""
    text = head.decode("utf-8", "replace").splitlines()[0] if head.strip() else ""
    return repr(text) if text.isprintable() and "\ufffd" not in text else head.hex(" ")

"""One file of a trace being written, plain or zstd."""

from __future__ import annotations

import os
from pathlib import Path

import zstandard

from radixflow.trace.files import COMPRESSED


class Sink:
    """Appends encoded lines to a new file; what was flushed survives a kill -9 of the process."""

    def __init__(self, path: Path, level: int):
        self.path = path
        self.size = 0
        """Bytes handed to the operating system."""
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self._compressor = (
            zstandard.ZstdCompressor(level=level).compressobj() if path.name.endswith(COMPRESSED) else None
        )

    def write(self, lines: bytes) -> None:
        self._put(self._compressor.compress(lines) if self._compressor else lines)

    def flush(self) -> None:
        """Make everything written so far readable (ends the zstd block, not the frame)."""
        if self._compressor:
            self._put(self._compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))

    def finish(self) -> None:
        """End the frame and close the file."""
        try:
            if self._compressor:
                self._put(self._compressor.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH))
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the file as it is."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _put(self, data: bytes) -> None:
        while data:
            written = os.write(self._fd, data)
            self.size += written
            data = data[written:]

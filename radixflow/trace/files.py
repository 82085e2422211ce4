"""Names of trace files: which suffixes there are, and how the parts of a rotated trace are called."""

from __future__ import annotations

import re
from pathlib import Path

from radixflow.trace.errors import TraceError

PLAIN = ".rft.jsonl"
COMPRESSED = ".rft.jsonl.zst"

_PART = re.compile(r"\.part(\d+)$")


def split_name(path: Path) -> tuple[str, str]:
    """Stem and suffix of a trace's file name; TraceError for any other suffix."""
    for suffix in (COMPRESSED, PLAIN):
        if path.name.endswith(suffix) and path.name != suffix:
            return path.name[: -len(suffix)], suffix
    raise TraceError(f"{path}: a trace's name ends in {PLAIN} (plain) or {COMPRESSED} (compressed)")


def part_path(path: Path, part: int) -> Path:
    """Where part number `part` of the trace at `path` lies (`path` may be any of its parts)."""
    stem, suffix = split_name(path)
    stem = _PART.sub("", stem)
    return path.with_name(f"{stem}.part{part}{suffix}" if part else stem + suffix)


def part_number(path: Path) -> int:
    """The part that a file's name stands for; 0 for the first."""
    match = _PART.search(split_name(path)[0])
    return int(match[1]) if match else 0


def later_parts(path: Path) -> list[Path]:
    """Files beside `path` that are named as later parts of the same trace, in order."""
    try:
        stem, suffix = split_name(path)
    except TraceError:
        return []
    stem = _PART.sub("", stem)
    first = part_number(path)
    found = []
    for other in path.parent.iterdir() if path.parent.is_dir() else ():
        name = other.name
        if name.startswith(stem + ".part") and name.endswith(suffix):
            number = name[len(stem) + 5 : -len(suffix)]
            if number.isdigit() and int(number) > first:
                found.append((int(number), other))
    return [other for _, other in sorted(found)]

"""Which traces the page may show: files named on the command line, files in one folder, runs made in the
classroom.

The browser knows a trace by an opaque key; only this module turns a key into a file. A key comes from the
run's own random id, so a link still means the same run after the server was started again.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from radixflow.analysis.waits import Ledger
from radixflow.figures.palette import Colours
from radixflow.trace import Trace, TraceError, open_trace, read_header
from radixflow.trace.files import COMPRESSED, PLAIN, later_parts, part_number, part_path
from radixflow.trace.parts import Progress, existing
from radixflow.trace.schema import Header

MAX_OPEN = 12
"""Traces held in memory; the one unused for longest is dropped."""

MAX_LISTED = 500
"""Files of a trace folder that are offered, the newest."""

MAX_RUNS = 200
"""Classroom runs kept; the oldest is dropped."""


class UnknownTrace(KeyError):
    """No trace of that key may be opened."""


@dataclass(slots=True)
class Shelved:
    """One trace that may be opened."""

    key: str
    path: Path
    header: Header
    listed: bool = True
    """False for a classroom run: only who knows its key finds it."""
    planned: Any = None
    """Of a classroom run, what its colours are given by: the workload in its own order."""

    def describe(self) -> dict[str, Any]:
        """What the page's selectors show."""
        header = self.header
        name = self.path.name.removesuffix(COMPRESSED).removesuffix(PLAIN)
        return {
            "key": self.key,
            "file": name,
            "policy": header.policy,
            "eviction": header.config.eviction,
            "engine": header.engine,
            "model": header.model,
            "group": header.workload or name,
            "S": header.config.max_num_seqs,
            "T": header.config.max_num_batched_tokens,
        }


@dataclass(slots=True)
class Open:
    """A trace in memory. Hold `lock` while reading from it: a trace is for one thread at a time."""

    key: str
    path: Path
    trace: Trace
    lock: threading.RLock = field(default_factory=threading.RLock)
    version: int = 0
    """Counts updates; what was derived from an older version is stale."""
    _derived: dict[str, tuple[int, Any]] = field(default_factory=dict)
    _oldest: int = 0
    """Number of the oldest part that was there when the trace was read."""
    _apart: Open | None = None

    def __post_init__(self) -> None:
        self._oldest = self._parts()[0]

    def for_long(self) -> Open:
        """What is worked with where it takes long: of a run that has ended a second reader, with a lock and sums of
        its own, so that pages go on meanwhile; else this one."""
        with self.lock:  # it may end, or be read again, at this very moment
            if not self.trace.complete:
                return self
            if self._apart is None:
                self._apart = Open(self.key, self.path, self.trace.apart())
            return self._apart

    def derived(self, name: str, build) -> Any:
        """`build(trace)`, kept until the trace grows."""
        known = self._derived.get(name)
        if known is None or known[0] != self.version:
            known = (self.version, build(self.trace))
            self._derived[name] = known
        return known[1]

    def holds(self, name: str) -> bool:
        """Whether `derived` has it already."""
        known = self._derived.get(name)
        return known is not None and known[0] == self.version

    @property
    def ledger(self) -> Ledger:
        """All waits of the trace."""
        return self.derived("ledger", Ledger)

    def untouched(self) -> float:
        """Seconds since the file, or a rotated trace's newest part, was last written: a run that was cut long
        ago is quiet from the start."""
        written = 0.0
        for path in (self.path, *later_parts(self.path)[-1:]):
            try:
                written = max(written, path.stat().st_mtime)
            except OSError:
                continue  # deleted as one of too many parts
        return round(max(0.0, time.time() - written), 1) if written else float(2**31)

    def update(self) -> bool:
        """Read what was appended; True if anything was. Raises TraceReplaced, TraceError."""
        with self.lock:
            try:
                grown = self.trace.update()
            except TraceError:
                self.version += 1  # what could be read was
                raise
            if grown and self._is_mostly_gone():
                self.trace = open_trace(self.path)
                self._apart = None
                self._oldest = self._parts()[0]
                self._derived.clear()
            self.version += grown
        return grown

    def _parts(self) -> tuple[int, int]:
        """Numbers of the oldest and the newest part that are left."""
        oldest = part_number(existing(self.path))
        return oldest, max([oldest, *map(part_number, later_parts(self.path)[-1:])])

    def _is_mostly_gone(self) -> bool:
        """Whether more parts were deleted since it was read than are left: what is held would grow for ever."""
        oldest, newest = self._parts()
        return oldest - self._oldest > newest - oldest + 1


class Library:
    """The traces that may be shown, shared by all sessions and never changed by one of them.

    paths: files named on the command line, listed first.
    folder: every trace file below it is offered too; links that lead out of it are not.

    Raises TraceError for a named file that is no trace, and for a folder that isn't one.
    """

    def __init__(self, paths: list[Path] = (), folder: Path | None = None):
        self._lock = threading.Lock()
        self._shelf: dict[str, Shelved] = {}
        self._seen: dict[tuple[Path, int], str] = {}
        self._open: dict[str, Open] = {}
        self._opening: dict[str, threading.Lock] = {}
        self._colours: dict[tuple[str, ...], tuple[tuple[int, ...], Colours]] = {}
        self._folder = folder.resolve() if folder is not None else None
        if self._folder is not None and not self._folder.is_dir():
            raise TraceError(f"{folder}: no such folder, expected one that holds traces")
        self._named = [Path(path) for path in paths]
        for path in self._named:
            self._shelve(path, read_header(path))
        self.refresh()

    # What there is

    @property
    def folder_name(self) -> str | None:
        """What the trace folder is called, without where it lies; None where none was given."""
        return None if self._folder is None else self._folder.name or "the root folder"

    def list(self) -> list[dict[str, Any]]:
        """All that may be offered to everybody: named files first, then the folder's."""
        self.refresh()
        with self._lock:
            return [shelved.describe() for shelved in self._shelf.values() if shelved.listed]

    def describe(self, key: str) -> dict[str, Any]:
        """One trace's description. Raises UnknownTrace."""
        return self._find(key).describe()

    def refresh(self) -> None:
        """Look for new files, and for files that were replaced by another run."""
        for path in [*self._named, *self._in_folder()]:
            try:
                inode = _inode(path)  # first: another run may take the file meanwhile, and is looked at next time
                if (path, inode) not in self._seen:
                    self._shelve(path, read_header(path), inode=inode)
            except (OSError, TraceError):
                continue  # being created, removed, or no trace

    def _in_folder(self) -> Iterator[Path]:
        if self._folder is None:
            return
        found: dict[Path, float] = {}
        for pattern in (f"*{PLAIN}", f"*{COMPRESSED}"):
            for path in self._folder.rglob(pattern):
                # All parts of a rotated trace are one run, also where its first parts were deleted.
                first = existing(part_path(path, 0)) if path.is_file() else path
                if first.is_file() and first.resolve().is_relative_to(self._folder):
                    name = part_path(path, 0)
                    found[name] = max(found.get(name, 0.0), path.stat().st_mtime)
        yield from sorted(found, key=found.__getitem__, reverse=True)[:MAX_LISTED]

    def has(self, key: str) -> bool:
        """Whether a trace of that key may be opened."""
        with self._lock:
            return key in self._shelf

    def add_run(self, path: Path, planned: Any) -> str:
        """Put a classroom run on the shelf, unlisted; its key."""
        key = self._shelve(path, read_header(path), listed=False, planned=planned)
        with self._lock:
            runs = [known for known, shelved in self._shelf.items() if not shelved.listed]
            for old in runs[:-MAX_RUNS]:
                self._shelf.pop(old).path.unlink(missing_ok=True)
                self._open.pop(old, None)
        return key

    def _shelve(
        self, path: Path, header: Header, listed: bool = True, planned: Any = None, inode: int | None = None
    ) -> str:
        with self._lock:
            name = header.id if re.fullmatch(r"[0-9a-f]{16}", header.id) else _digest(header.id)
            key = f"{name}-{header.engine_index}" if header.engine_index else name
            if key in self._shelf and self._shelf[key].path != path:
                key = f"{key}-{_digest(str(path))[:6]}"  # a copy of the same run
            self._shelf[key] = Shelved(key, path, header, listed, planned)
            self._seen[path, _inode(path) if inode is None else inode] = key
            return key

    def _find(self, key: str) -> Shelved:
        with self._lock:
            shelved = self._shelf.get(key)
        if shelved is None:
            raise UnknownTrace(key)
        return shelved

    def latest(self, key: str) -> str:
        """The key of the run that now lies where `key`'s file lay."""
        path = self._find(key).path
        self.refresh()
        with self._lock:
            here = [known for known, shelved in self._shelf.items() if shelved.path == path]
        return here[-1]

    # What is open

    def open(self, key: str, progress: Progress | None = None) -> Open:
        """The trace of a key, read once. progress: as for `open_trace`. Raises UnknownTrace, TraceError."""
        shelved = self._find(key)
        with self._lock:
            known = self._open.pop(key, None)
            if known is not None:
                self._open[key] = known  # now the last one used
                return known
            gate = self._opening.setdefault(key, threading.Lock())
        with gate:
            with self._lock:
                known = self._open.get(key)
            if known is None:
                trace = open_trace(shelved.path, progress)
                if trace.id != shelved.header.id:
                    raise TraceError(f"{shelved.path.name}: holds another run now, choose it again")
                known = Open(key, shelved.path, trace)
                with self._lock:
                    self._open[key] = known
                    while len(self._open) > MAX_OPEN:
                        self._open.pop(next(iter(self._open)))
        return known

    @contextmanager
    def reading(self, key: str, long: bool = False) -> Iterator[Open]:
        """The open trace, with its lock held; where the work is `long`, as `Open.for_long` has it. Take no other
        trace's lock inside, `colours` among them."""
        opened = self.open(key)
        if long:
            opened = opened.for_long()
        with opened.lock:
            yield opened

    @contextmanager
    def reading_all(self, keys: list[str], long: bool = False) -> Iterator[list[Open]]:
        """Several open traces, each as `reading` has it; always taken in the same order, so that two readers can't
        block."""
        opened = [self.open(key) for key in keys]
        if long:
            opened = [one.for_long() for one in opened]
        with ExitStack() as stack:
            for one in sorted(opened, key=lambda one: one.key):
                stack.enter_context(one.lock)
            yield opened

    def colours(self, keys: list[str]) -> Colours:
        """One colour a request over several traces, the first one's order leading."""
        opened = [self.open(key) for key in dict.fromkeys(keys)]
        name = tuple(one.key for one in opened)
        versions = tuple(len(one.trace.ids) for one in opened)
        with self._lock:
            of, colours = self._colours.setdefault(name, ((), Colours()))
        if of == versions:
            return colours
        for one in opened:
            planned = self._find(one.key).planned
            if planned is not None:
                colours.extend(planned)
            with one.lock:
                colours.extend(one.trace)
        if sum(versions) < sum(of):
            # A run that is followed for days was read again without what its deleted files held.
            colours.keep(id for one in opened for id in one.trace.ids)
        with self._lock:
            self._colours[name] = (versions, colours)
            while len(self._colours) > 4 * MAX_OPEN:
                self._colours.pop(next(iter(self._colours)))
        return colours


def _inode(path: Path) -> int:
    """Of a run's first file: another one means another run, but for a part that was deleted."""
    return existing(path).stat().st_ino


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]

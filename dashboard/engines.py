"""The tree across engines: of a running `radixflow index`, or of the library's traces at the cursor.

A running index is asked by this server, never by the browser, and only at the address that the command line named.
What it answers is checked before anything is made of it.
"""

from __future__ import annotations

import hashlib
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import msgspec
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from starlette.concurrency import run_in_threadpool

from radixflow.figures import shared_tree
from radixflow.figures.printed import shared_tree as printed_shared_tree
from radixflow.index import PrefixIndex
from radixflow.index.picture import Snapshot, read_picture
from radixflow.index.snapshot import snapshot
from radixflow.index.traces import TraceFeed
from radixflow.trace import Trace, TraceError

from .api import BadQuestion, keys_of, number
from .exports import PICTURES, TYPES
from .library import Library, UnknownTrace

ANSWER_SECONDS = 3.0
"""As long as an index may take."""

FRESH_SECONDS = 0.5
"""An answer younger than this is given to everybody who looks."""

MAX_ANSWER = 8 * 2**20
"""Bytes of an index's answer."""

MAX_KEPT = 4
"""Choices of traces whose index is kept."""

_encoder = msgspec.json.Encoder()


class IndexGone(Exception):
    """The index can't be shown; the message says why, in one line."""


class RunningIndex:
    """A `radixflow index` that serves its tree. ValueError for an address that isn't http(s)."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            raise ValueError(f"--index {address!r}: expected an address such as http://127.0.0.1:9109")
        self.address = f"{parts.scheme}://{parts.netloc}"
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Stay()).open
        self._lock = threading.Lock()
        self._asked = float("-inf")
        self._answer: Snapshot | IndexGone | None = None
        self._there = time.monotonic()

    def picture(self) -> Snapshot:
        """What it says now. Raises IndexGone."""
        with self._lock:
            if time.monotonic() - self._asked >= FRESH_SECONDS:
                try:
                    self._answer = read_picture(self._fetched())
                except (OSError, ValueError) as error:
                    self._answer = IndexGone(_one_line(error))
                else:
                    self._there = time.monotonic()
                self._asked = time.monotonic()
            if isinstance(self._answer, Snapshot):
                return self._answer
            raise self._answer or IndexGone("it wasn't asked yet")

    @property
    def gone_seconds(self) -> float:
        """Since it answered last, or since this server began to ask."""
        return round(time.monotonic() - self._there, 1)

    def _fetched(self) -> bytes:
        deadline = time.monotonic() + ANSWER_SECONDS
        with self._open(self.address + "/tree", timeout=ANSWER_SECONDS) as answer:
            if answer.status != 200:
                raise ValueError(f"it answered with status {answer.status}")
            body = bytearray()
            while part := answer.read1(2**16):
                body += part
                if len(body) > MAX_ANSWER:
                    raise ValueError(f"its answer is longer than {MAX_ANSWER // 2**20} MiB")
                if time.monotonic() > deadline:
                    raise TimeoutError(f"no whole answer within {ANSWER_SECONDS:.0f} s")
        return bytes(body)


class _Stay(urllib.request.HTTPRedirectHandler):
    """An index that sends its reader elsewhere isn't followed."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _one_line(error: Exception) -> str:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(error, urllib.error.HTTPError):
        return f"it answered with status {error.code}"
    words = getattr(reason, "strerror", None) or str(reason) or type(error).__name__
    return words.split("\n")[0][:200]


class RecordedEngines:
    """The library's traces as engines of one index; kept for the choices made last."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._kept: dict[tuple[str, ...], tuple[threading.Lock, PrefixIndex, list[TraceFeed]]] = {}
        self._lock = threading.Lock()

    def picture(self, keys: list[str], at_round: int) -> Snapshot:
        """The index as that round left the engines of these traces. Raises UnknownTrace, TraceError."""
        name = tuple(dict.fromkeys(keys))
        with ExitStack() as held:
            opened = held.enter_context(self._library.reading_all(list(name)))
            traces = [one.trace for one in opened]
            with self._lock:
                known = self._kept.pop(name, None)
                if known is None or [feed.trace for feed in known[2]] != traces:
                    index = PrefixIndex()
                    feeds = [TraceFeed(index, *named) for named in zip(_names(traces), traces, strict=True)]
                    known = (threading.Lock(), index, feeds)
                self._kept[name] = known
                while len(self._kept) > MAX_KEPT:
                    self._kept.pop(next(iter(self._kept)))
            turn, index, feeds = known
            with turn:  # one round after another: two pages may stand at different ones
                for feed in feeds:
                    feed.show(at_round)
                return snapshot(
                    index,
                    label_of=lambda key: next(filter(None, (feed.label_of(key) for feed in feeds)), ""),
                    states={feed.engine: feed.state for feed in feeds},
                )


def _names(traces: list[Trace]) -> list[str]:
    """As the timelines are called, so that each has a name of its own."""
    words = [f"{t.header.policy}, {t.config.eviction}" for t in traces]
    if len({t.config.eviction for t in traces}) == 1:
        words = [t.header.policy for t in traces]
    return words if len(words) == 1 else [f"{letter} {name}" for letter, name in zip("ABCDEF", words, strict=False)]


def router(library: Library, running: RunningIndex | None) -> APIRouter:
    """`/api/engines`: the picture, unless it is the one that the page has `seen`."""
    routes = APIRouter(prefix="/api")
    recorded = RecordedEngines(library)

    def told(picture: Snapshot, seen: str, **more: Any) -> bytes:
        layout = _encoder.encode(shared_tree.layout(picture))
        mark = hashlib.blake2b(layout, digest_size=8).hexdigest()
        return _encoder.encode({**more, "seen": mark, "tree": None if mark == seen else msgspec.Raw(layout)})

    def of_index(index: RunningIndex, seen: str) -> bytes:
        try:
            return told(index.picture(), seen, index=index.address)
        except IndexGone as gone:
            return _encoder.encode({"index": index.address, "gone": str(gone), "gone_seconds": index.gone_seconds})

    async def answer(build: Callable[[], bytes]) -> Response:
        try:
            return Response(await run_in_threadpool(build), media_type="application/json")
        except BadQuestion as error:
            return JSONResponse({"error": str(error)}, 400)
        except UnknownTrace:
            return JSONResponse({"error": "no such trace: it isn't among those this dashboard may show"}, 404)
        except IndexGone as gone:
            return JSONResponse({"error": f"the index is gone: {gone}"}, 409)
        except (TraceError, ValueError) as error:  # what is wrong, not where the file lies
            return JSONResponse({"error": str(error).split(": ", 1)[-1]}, 409)

    @routes.get("/engines")
    async def engines(request: Request) -> Response:
        seen = request.query_params.get("seen", "")
        if running is not None:
            return await answer(lambda: of_index(running, seen))
        return await answer(lambda: told(recorded.picture(_keys(request), number(request, "round")), seen))

    @routes.get("/engines/picture")
    async def printed(request: Request) -> Response:
        format = request.query_params.get("format", "")
        theme = "dark" if request.query_params.get("theme") == "dark" else "light"

        def drawn() -> bytes:
            if running is not None:
                picture, title, origin = running.picture(), "prefixes across engines", f"index at {running.address}"
            else:
                keys, at = _keys(request), number(request, "round")
                picture, title = recorded.picture(keys, at), f"prefixes across engines, round {at:,}"
                origin = "traces " + ", ".join(keys)
            return printed_shared_tree.engines(picture, title, origin).render(format, width="slide", theme=theme)

        if format not in PICTURES:
            return JSONResponse({"error": f"format is {format[:40]!r}; expected {', '.join(PICTURES)}"}, 400)
        found = await answer(drawn)
        if found.status_code == 200:
            found.headers["content-type"] = TYPES[format]
            found.headers["content-disposition"] = f'attachment; filename="engines.{format}"'
        return found

    def _keys(request: Request) -> list[str]:
        keys = keys_of(request, "traces")
        if not keys:
            raise BadQuestion("traces is missing; expected the key of one")
        return keys

    return routes

"""Follows traces that are still being written, and tells every page that watches one.

One follower a trace, however many pages watch it: it looks at the file's size ten times a second and reads
what was appended. Pages hear of it by server-sent events; where those don't get through they ask `/api/poll`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.concurrency import run_in_threadpool

from radixflow.trace import TraceError, TraceReplaced

from .api import BadQuestion, keys_of
from .library import Library, UnknownTrace

LOOK_SECONDS = 0.1
"""How often a followed file is looked at."""

QUIET_SECONDS = 5.0
"""Without a new round for so long, a run without an end is called quiet."""

BEAT_SECONDS = 10.0
"""A comment is sent so often, so that a dead connection is noticed."""


@dataclass(slots=True)
class Status:
    """What is known of a run that may still go on."""

    key: str
    state: str
    """`live`, `quiet`, `finished` (it has an end), `restarted` (another run took the file), `truncated` (the
    file was cut short or removed), or `unreadable`."""
    rounds: int = 0
    requests: int = 0
    end: str | None = None
    next: str | None = None
    """Where restarted: the key of the run that took the file."""
    message: str | None = None
    quiet_seconds: float = 0.0


class Follower:
    """One trace being followed, as long as somebody watches."""

    def __init__(self, library: Library, key: str):
        self._library = library
        self.status = Status(key, "live")
        self.changes = 0
        self._wake = asyncio.Condition()
        self._watchers = 0
        self._task: asyncio.Task | None = None

    async def look(self) -> None:
        """Read what was appended."""
        before = (self.status.state, self.status.rounds, self.status.requests)
        await run_in_threadpool(self._read)
        if (self.status.state, self.status.rounds, self.status.requests) != before or not self.changes:
            async with self._wake:
                self.changes += 1
                self._wake.notify_all()

    def _read(self) -> None:
        status = self.status
        if status.state in ("restarted", "truncated", "unreadable"):
            return
        try:
            opened = self._library.open(status.key)
            with opened.lock:
                opened.update()
                trace = opened.trace
                status.rounds, status.requests = trace.num_rounds, len(trace.ids)
                status.end = trace.end.reason if trace.end else None
                status.quiet_seconds = opened.untouched()
                if trace.complete:
                    status.state = "finished"
                else:
                    status.state = "quiet" if status.quiet_seconds >= QUIET_SECONDS else "live"
        except TraceReplaced:
            self._replaced()
        except (TraceError, OSError) as error:
            status.state, status.message = "unreadable", str(error).split(": ", 1)[-1]

    def _replaced(self) -> None:
        status = self.status
        try:
            latest = self._library.latest(status.key)
        except (UnknownTrace, TraceError, OSError):
            latest = status.key
        if latest != status.key:
            status.state, status.next = "restarted", latest
            status.message = "another run took this file"
        else:
            status.state = "truncated"
            status.message = "the file was cut short or removed; what was read before is still shown"

    async def watch(self) -> AsyncIterator[Status | None]:
        """The status now, then each time that it changes; None now and then while nothing does."""
        self._watchers += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._follow())
        seen = 0
        try:
            while True:
                async with self._wake:
                    if self.changes == seen:
                        try:
                            await asyncio.wait_for(self._wake.wait(), BEAT_SECONDS)
                        except TimeoutError:
                            pass
                    changed, seen = self.changes != seen, self.changes
                yield self.status if changed else None
        finally:
            self._watchers -= 1

    async def _follow(self) -> None:
        while self._watchers:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)


def router(library: Library) -> APIRouter:
    """The routes by which pages follow runs."""
    routes = APIRouter(prefix="/api")
    followers: dict[str, Follower] = {}

    def follower(key: str) -> Follower:
        library.describe(key)
        while len(followers) > 64:
            idle = next((k for k, known in followers.items() if not known._watchers), None)
            if idle is None:
                break
            followers.pop(idle)
        return followers.setdefault(key, Follower(library, key))

    @routes.get("/poll")
    async def poll(request: Request):
        """The status of up to six runs, once: the fallback where events don't get through."""
        try:
            watched = [follower(key) for key in keys_of(request, "traces")]
        except (BadQuestion, UnknownTrace):
            return JSONResponse({"error": "no such trace"}, 404)
        for one in watched:
            await one.look()
        return {"runs": [asdict(one.status) for one in watched]}

    @routes.get("/live")
    async def live(request: Request):
        """Server-sent events: a run's status whenever it changes."""
        try:
            watched = [follower(key) for key in keys_of(request, "traces")]
        except (BadQuestion, UnknownTrace):
            return JSONResponse({"error": "no such trace"}, 404)
        return StreamingResponse(
            _events(request, watched), media_type="text/event-stream", headers={"x-accel-buffering": "no"}
        )

    return routes


async def _events(request: Request, watched: list[Follower]) -> AsyncIterator[str]:
    queue: asyncio.Queue[str] = asyncio.Queue(maxsize=64)

    async def pump(one: Follower) -> None:
        async for status in one.watch():
            await queue.put(": beat\n\n" if status is None else f"data: {json.dumps(_plain(status))}\n\n")

    pumps = [asyncio.create_task(pump(one)) for one in watched]
    try:
        yield "retry: 1000\n\n"
        while not await request.is_disconnected():
            yield await queue.get()
    finally:
        for task in pumps:
            task.cancel()


def _plain(status: Status) -> dict[str, Any]:
    return asdict(status)

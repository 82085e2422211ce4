"""Puts the app together, and serves it."""

from __future__ import annotations

import secrets
import socket
import tempfile
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from urllib.parse import urlencode

import dash
from fastapi import FastAPI
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.concurrency import run_in_threadpool

import radixflow.widgets
from radixflow.addresses import in_url, is_loopback, names_of, unavailable
from radixflow.figures import palette
from radixflow.trace.files import COMPRESSED, PLAIN
from radixflow.trace.parts import Progress

from . import api, callbacks, classroom, engines, exports, layout, live, metrics, panels
from .laboratory import Laboratory
from .library import Library
from .safety import Guard, content_policy

INDEX = """<!DOCTYPE html>
<html lang="en">
<head>
{%metas%}
<title>{%title%}</title>
<link rel="icon" href="assets/icon.svg" type="image/svg+xml">
<script src="assets/theme.js"></script>
<link rel="stylesheet" href="module/palette.css">
{%css%}
</head>
<body>
{%app_entry%}
<footer>
{%config%}
{%scripts%}
{%renderer%}
<script type="module" src="assets/dashboard.mjs"></script>
</footer>
</body>
</html>"""


def create_app(
    traces: list[Path] | None = None,
    trace_dir: Path | None = None,
    token: str | None = None,
    host: str = "127.0.0.1",
    index: str | None = None,
) -> dash.Dash:
    """The dashboard, ready for uvicorn as `app.server`.

    traces: files that may be shown.
    trace_dir: a folder whose traces may be shown too.
    token: what clients must show; needed where others than this machine reach `host`.
    host: the address that will be listened on.
    index: address of a running `radixflow index`, whose tree is shown.

    Raises TraceError for a file that is no trace, ValueError for an open address without a token, and for an index
    that isn't at an http address.
    """
    if not is_loopback(host) and not token:
        raise ValueError(f"host {host}: anybody on the network could read the traces; expected a token beside it")
    running = engines.RunningIndex(index) if index is not None else None
    library = Library(list(traces or []), trace_dir)
    server = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app = dash.Dash(
        __name__,
        server=server,
        assets_folder=str(Path(__file__).parent / "assets"),
        assets_ignore=r".*\.mjs|theme\.js",
        index_string=INDEX,
        title="radixflow",
        update_title="",
        enable_mcp=False,
        meta_tags=[{"name": "viewport", "content": "width=device-width, initial-scale=1"}],
    )
    # Callbacks go by plain requests: the page would try a socket for asynchronous ones.
    app.backend.websocket_capability = False
    # Any other address is not a page: Dash would answer all of them with one.
    app.backend._setup_catchall = lambda: None
    lab = Laboratory(Path(tempfile.mkdtemp(prefix="radixflow-classroom-")), library)
    app.layout = layout.page(of_index=running is not None)
    callbacks.register(app, library)
    server.include_router(api.router(library))
    server.include_router(panels.router(library))
    server.include_router(live.router(library))
    server.include_router(engines.router(library, running))
    server.include_router(classroom.router(lab))
    server.include_router(exports.router(library))
    _plain_routes(server, library)
    server.add_middleware(Guard, policy=content_policy(app.csp_hashes()), token=token, names=names_of(host))
    app.library = library
    app.laboratory = lab
    return app


def _plain_routes(server: FastAPI, library: Library) -> None:
    canvas = Path(radixflow.widgets.__file__).with_name("canvas.mjs")
    registry = metrics.registry(library)

    @server.get("/healthz")
    async def healthz():
        return {"status": "ok"}

    @server.get("/metrics")
    async def prometheus():
        text = await run_in_threadpool(generate_latest, registry)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    @server.get("/module/canvas.mjs")
    async def canvas_module():
        return Response(canvas.read_bytes(), media_type="text/javascript")

    @server.get("/module/palette.css")
    async def palette_css():
        return PlainTextResponse(palette.css(), media_type="text/css")


def _listen(host: str, port: int) -> socket.socket:
    """The address, claimed before anybody is told of it. OSError in one line where it is not to be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise unavailable(host, port, error) from error
    return listening


@contextmanager
def _silently(_words: str) -> Iterator[None]:
    yield None


def serve(
    traces: list[Path] | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8050,
    trace_dir: Path | None = None,
    token: str | None = None,
    browser: bool = True,
    index: str | None = None,
    say: Callable[[str], None] = print,
    reading: Callable[[str], AbstractContextManager[Progress | None]] = _silently,
) -> None:
    """Serve the dashboard until it is interrupted (`radixflow dash`).

    token: for an address that others reach; one is made up where none is given. browser: open a page here.
    index: address of a running `radixflow index`, whose tree the page opens with.
    reading: called with words for each trace that is read; shows how far it is, by what it hands out.
    Raises TraceError, and OSError where the address can't be listened on.
    """
    import uvicorn

    if not is_loopback(host) and token is None:
        token = secrets.token_urlsafe(18)
    listening = _listen(host, port)
    app = create_app(traces, trace_dir, token, host, index)
    for described in app.library.list()[: len(traces or [])]:
        with reading(f"reading {described['file']}") as progress:
            app.library.open(described["key"], progress)
        with reading(f"indexing {described['file']}"):
            api.prepare(app.library, described["key"])
    query = {"view": "engines" if index else None, "token": token}
    query = urlencode({name: value for name, value in query.items() if value})
    address = f"http://{in_url(host)}:{port}/" + (f"?{query}" if query else "")
    if trace_dir is not None and not app.library.list():
        say(f"{trace_dir}: no traces in this folder, expected files named *{PLAIN} or *{COMPRESSED}")
    say(f"radixflow dashboard on {address} (Ctrl-C ends it)")
    if browser and is_loopback(host):
        webbrowser.open(address)
    config = uvicorn.Config(
        app.server, host=host, port=port, log_level="warning", timeout_graceful_shutdown=1, ws="none"
    )
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        app.laboratory.close()

"""The index's page: `/metrics` for Prometheus, `/tree` as JSON (`radixflow.index.snapshot`)."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import msgspec
from prometheus_client import CollectorRegistry, make_wsgi_app

from radixflow.addresses import names_of, unavailable
from radixflow.index.snapshot import Snapshot

FRESH_SECONDS = 0.25
"""A picture younger than this is given again, so that many who look cost no more than one."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Server6(_Server):
    address_family = socket.AF_INET6


class _QuietHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Requests aren't told."""


class IndexPage:
    """Serves the page from a thread of its own until `close`. OSError where the address can't be listened on."""

    def __init__(self, host: str, port: int, registry: CollectorRegistry, take: Callable[[], Snapshot]) -> None:
        self._metrics = make_wsgi_app(registry)
        self._take = take
        self._taking = threading.Lock()
        self._taken = (float("-inf"), b"")
        self._names = names_of(host)  # both answers name tenants
        kind = _Server6 if ":" in host else _Server
        try:
            self._server = make_server(host, port, self._answer, kind, _QuietHandler)
        except OSError as error:
            raise unavailable(host, port, error) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="radixflow-index-page", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        host = urlsplit("//" + environ.get("HTTP_HOST", "")).hostname
        path = environ["PATH_INFO"]
        if self._names is not None and host not in self._names:
            return _plain(start, "421 Misdirected Request", "This index isn't called by that name.\n")
        if path == "/metrics":
            return self._metrics(environ, start)
        if path != "/tree" or environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _plain(start, "404 Not Found", "Here are GET /metrics and GET /tree.\n")
        body = self._picture()
        start("200 OK", [("Content-Type", "application/json"), ("X-Content-Type-Options", "nosniff")])
        return [body]

    def _picture(self) -> bytes:
        with self._taking:
            taken, body = self._taken
            if time.monotonic() - taken >= FRESH_SECONDS:
                body = msgspec.json.encode(self._take())
                self._taken = (time.monotonic(), body)
            return body


def _plain(start: Callable[..., Any], status: str, words: str) -> list[bytes]:
    start(status, [("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff")])
    return [words.encode()]

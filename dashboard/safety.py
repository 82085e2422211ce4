"""What keeps the page private: who may ask, what a page may load, how large a question may be.

An ASGI layer around everything else. It answers only to the names the server is reached by (so that a hostile
page can't have its own name point here), asks for the token where the server is open to the network, refuses
posts that come from other pages, and sends a content-security policy under which nothing foreign loads and no
inline script runs.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

MAX_BODY = 2**20
"""Bytes of a request's body."""

MAX_QUERY = 2**15
"""Bytes of a question's query: an id of ten thousand letters fits."""

COOKIE = "radixflow_token"

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def content_policy(script_hashes: list[str]) -> str:
    """The content-security policy. Styles may be inline (Plotly and the grid size themselves by them),
    scripts not."""
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src 'self' {' '.join(script_hashes)}".rstrip(),
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    )


class Guard:
    """The outermost layer.

    token: what a client must show, as `?token=` once, as a cookie, or as `Authorization: Bearer`; None where
        only this machine reaches it.
    names: host names under which the server may be addressed; None for any (a token is needed then).
    """

    def __init__(self, app: Any, policy: str, token: str | None = None, names: frozenset[str] | None = None):
        self.app = app
        self._policy = policy.encode()
        self._token = token
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1008})
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            return await self._answer(send, *refusal)
        if self._token is not None and scope["path"] != "/healthz":
            query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
            shown = dict(query).get("token")
            if shown is not None and self._matches(shown) and scope["method"] == "GET":
                return await self._welcome(scope, send, [(name, value) for name, value in query if name != "token"])
            if not self._knows(headers):
                return await self._answer(send, 401, "This dashboard needs its token: open the address it printed.")
        await self.app(scope, self._limited(receive), self._with_headers(scope, send))

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        host = urlsplit("//" + headers.get("host", "")).hostname
        if self._names is not None and host not in self._names:
            return 421, "This dashboard isn't called by that name."
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            return 403, "Requests from other pages are refused."
        if len(scope["query_string"]) > MAX_QUERY:
            return 414, "The address is too long."
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MAX_BODY:
            return 413, "The request is too large."
        return None

    def _matches(self, shown: str) -> bool:
        return hmac.compare_digest(shown.encode(), (self._token or "").encode())

    def _knows(self, headers: dict[str, str]) -> bool:
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._matches(credentials.strip()):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and self._matches(cookie.value)

    async def _welcome(self, scope: Scope, send: Send, query: list[tuple[str, str]]) -> None:
        """Keep the token in a cookie and take it out of the address bar."""
        place = scope["path"] + (f"?{urlencode(query)}" if query else "")
        cookie = f"{COOKIE}={self._token}; Path=/; HttpOnly; SameSite=Strict"
        await self._answer(send, 303, "", [(b"location", place.encode()), (b"set-cookie", cookie.encode())])

    async def _answer(self, send: Send, status: int, text: str, headers: list[tuple[bytes, bytes]] = ()) -> None:
        body = text.encode()
        plain = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", str(len(body)).encode()),
        ]
        await send({"type": "http.response.start", "status": status, "headers": [*plain, *self._headers(), *headers]})
        await send({"type": "http.response.body", "body": body})

    def _headers(self) -> list[tuple[bytes, bytes]]:
        return [
            (b"content-security-policy", self._policy),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"same-origin"),
            (b"cross-origin-opener-policy", b"same-origin"),
            (b"cross-origin-resource-policy", b"same-origin"),
        ]

    def _with_headers(self, scope: Scope, send: Send) -> Send:
        # Dash's own files carry their version in the name; everything else may change between two starts.
        fixed = scope["path"].startswith("/_dash-component-suites/")

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", ()), *self._headers()]
                if not fixed and not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-cache"))
                message = {**message, "headers": headers}
            await send(message)

        return sending

    def _limited(self, receive: Receive) -> Receive:
        left = MAX_BODY

        async def receiving() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            # A body without a length that never ends is cut here: what is left is no JSON.
            return message if left >= 0 else {"type": "http.request", "body": b"", "more_body": False}

        return receiving

"""A dashboard served for tests, and what they ask of a page."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from radixflow_dashboard.app import create_app


@contextmanager
def serving(*traces, **options) -> Iterator[str]:
    """The address of a dashboard of these traces."""
    with running(create_app(list(traces), **options)) as address:
        yield address


@contextmanager
def running(app) -> Iterator[str]:
    """The address under which an app is served."""
    config = uvicorn.Config(app.server, port=0, log_level="warning", ws="none", timeout_graceful_shutdown=0)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(timeout=20)
        app.laboratory.close()


def get(url: str, headers: dict[str, str] | None = None, data: bytes | None = None) -> tuple[int, Any, str]:
    """Status, headers and text of an answer; redirects aren't followed."""
    request = urllib.request.Request(url, headers=headers or {}, data=data)
    try:
        answer = _opener.open(request, timeout=60)
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        return answer.status, answer.headers, answer.read().decode("utf-8", "replace")


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


_opener = urllib.request.build_opener(_Stay)


def ask(address: str, path: str) -> Any:
    """A JSON answer."""
    status, _, text = get(address + path)
    assert status == 200, text
    return json.loads(text)


def opened(page, address: str, query: str = "") -> None:
    """Load the dashboard and wait for the first picture."""
    page.goto(f"{address}/{query}")
    page.wait_for_selector("#page[data-ready=true]", timeout=120_000)


def drawn(page) -> dict[str, Any]:
    """What the canvases show."""
    return page.evaluate("radixflow.describe()")


def at_round(page, n: int) -> None:
    """Wait until timelines, tree and inspector all show round n."""
    page.wait_for_function(
        """(n) => {
          const { lanes, tree } = radixflow.describe();
          const title = document.querySelector("#round-inspector h2")?.textContent;
          return lanes.every((lane) => lane.cursor === n || n > lane.num_rounds)
            && title === "Round " + n.toLocaleString("en-US") && tree?.round === n;
        }""",
        arg=n,
        timeout=60_000,
    )


def cells_of(trace, n: int) -> list[tuple[str, str | None, int]]:
    """What a round's slots must be drawn as: (kind, request, tokens), in any order."""
    from radixflow.figures import windows

    view = trace.round(n)
    admitted = set(view.admitted)
    cells = [("waiting" if i in admitted else "running", trace.ids[i], tokens) for i, tokens in view.selected]
    cells += [
        (cause, None if i < 0 else trace.ids[i], 0) for cause, i in windows.slots(view, trace.config.max_num_seqs)
    ]
    return sorted(cells, key=str)


def cells_drawn(lane: dict[str, Any], n: int) -> list[tuple[str, str | None, int]]:
    """What a lane shows of a round."""
    cells = lane["rounds"][str(n)]["cells"]
    return sorted(((cell["kind"], cell["request"], cell["tokens"]) for cell in cells), key=str)


def faults(page) -> list[str]:
    """What axe-core finds wrong with the page as it is, a line each; the grid's own markup is left out."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, context={"exclude": [[".ag-root-wrapper"]]}).response["violations"]
    return [
        f"{fault['id']} ({fault['impact']}): {fault['help']}: {node['html'][:160]}"
        for fault in found
        for node in fault["nodes"]
    ]

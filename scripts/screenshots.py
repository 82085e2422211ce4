"""Make the pictures of docs/images from the dashboard as it is: run it after a change of the page.

    .venv/bin/python scripts/screenshots.py [--only NAME] [--folder docs/images]

Runs the built-in workloads on the simulated engine (the same runs each time), serves them, and takes the
pictures with Chromium.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

WORKLOADS = (
    ("figure1", ("radix", "radixflow", "radix+flex", "radixflow+frag", "radix+timer5", "radixflow+noadmit")),
    ("four-branch", ("radix", "radixflow")),
    ("bursty", ("radix", "radixflow")),
)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@dataclass(frozen=True, slots=True)
class Picture:
    """One file of docs/images."""

    name: str
    workload: str
    query: str = ""
    theme: str = "light"
    size: tuple[int, int] = (1440, 900)
    request: str | None = None
    whole: bool = False
    """The whole page, not only what fits the window."""
    runs: int = 2
    card: str | None = None
    """Of one card only, by its id."""


PICTURES = (
    Picture("replay", "figure1"),
    Picture("replay-dark", "figure1", "round=2", theme="dark", request="A2"),
    Picture("replay-720p", "figure1", "round=2", size=(1280, 720), request="A2"),
    Picture("replay-projector", "figure1", size=(1920, 1080), request="A1"),
    Picture("replay-projector-dark", "four-branch", "round=8", theme="dark", size=(1920, 1080)),
    Picture("compare", "figure1", "view=compare", whole=True),
    Picture("compare-six", "figure1", "view=compare", runs=6),
    Picture("compare-dark", "bursty", "view=compare", theme="dark", size=(1920, 1080), whole=True),
    Picture("long-run", "bursty", "round=10"),
    Picture("narrow", "figure1", size=(420, 900)),
    Picture("classroom", "figure1", "view=classroom"),
    Picture("trajectories", "agents", "round=700", card="trajectories"),
)


def recorded(folder: Path) -> list[Path]:
    """The runs that the pictures show."""
    import radixflow as rf

    paths = []
    for workload, policies in WORKLOADS:
        for policy in policies:
            path = folder / f"{workload}-{policy}.rft.jsonl.zst"
            rf.run(workload, policy=policy, trace=path)
            paths.append(path)
    for eviction in ("lru", "rr"):
        path = folder / f"agents-{eviction}.rft.jsonl.zst"
        rf.run("agents", policy="radix", eviction=eviction, trace=path)
        paths.append(path)
    return paths


def served(paths: list[Path]):
    """A running server of these traces: (app, server, address)."""
    import uvicorn

    from radixflow_dashboard.app import create_app

    app = create_app(paths)
    server = uvicorn.Server(uvicorn.Config(app.server, port=0, log_level="warning", ws="none"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    return app, server, f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"


def take(browser, address: str, picture: Picture, folder: Path) -> Path:
    """Make one picture."""
    width, height = picture.size
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=picture.theme, reduced_motion="reduce"
    )
    page = context.new_page()
    with urllib.request.urlopen(address + "/api/runs") as answer:
        runs = [run for run in json.load(answer)["runs"] if run["group"] == picture.workload]
    traces = ".".join(run["key"] for run in runs[: picture.runs])
    page.goto(f"{address}/?traces={traces}&{picture.query}")
    page.wait_for_selector("#page[data-ready=true]", timeout=300_000)
    if picture.request:
        page.locator(f"[data-request='{picture.request}']").first.click()
        page.wait_for_selector(f"#request-inspector h2:text-is('{picture.request}')")
    page.wait_for_function("() => radixflow.describe().tree && document.querySelector('#round-inspector h2')")
    if "compare" in picture.query:
        page.wait_for_selector(".metrics")
        page.wait_for_function(
            "() => document.querySelectorAll('.js-plotly-plot .main-svg').length >= 8", timeout=60_000
        )
        page.wait_for_selector(".ag-cell", timeout=60_000)
    if "classroom" in picture.query:
        page.click("#lab-run")  # the first run waited for vLLM to be imported
        page.wait_for_function("() => /^Ran in 0/.test(document.getElementById('lab-state').textContent)")
    page.evaluate("document.activeElement?.blur(), scrollTo(0, 0)")
    page.mouse.move(0, 0)
    page.wait_for_timeout(1500)
    path = folder / f"{picture.name}.png"
    if picture.card is None:
        page.screenshot(path=path, full_page=picture.whole)
    else:
        card = page.locator(f"#{picture.card}")
        card.scroll_into_view_if_needed()
        page.wait_for_timeout(1500)
        card.screenshot(path=path)
    context.close()
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="the name of one picture")
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "images")
    arguments = parser.parse_args()
    chosen = [picture for picture in PICTURES if arguments.only in (None, picture.name)]
    if not chosen:
        names = ", ".join(picture.name for picture in PICTURES)
        sys.exit(f"no picture {arguments.only!r}: expected one of {names}")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("no Chromium here: the pictures are taken with it")
    from playwright.sync_api import sync_playwright

    arguments.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        app, server, address = served(recorded(Path(folder)))
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
                for picture in chosen:
                    print(take(browser, address, picture, arguments.folder))
                browser.close()
        finally:
            server.should_exit = True
            app.laboratory.close()


if __name__ == "__main__":
    main()

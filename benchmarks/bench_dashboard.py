"""How long the dashboard takes on a long run, measured inside Chromium.

    python benchmarks/bench_dashboard.py [ROUNDS] [--rows S] [--steps N] [--live N]

A server-like trace of so many rounds is made, read, and shown. Then: the first picture in a fresh browser and
again with a warm one; steps to rounds all over the run, zoomed in, until timeline, inspector and tree each show
the round; and the time from a new round's line being written to the page having drawn it. Milliseconds are
wall-clock medians and 95th percentiles on whatever machine this is; beside them stands the reach of DESIGN.
"""

from __future__ import annotations

import argparse
import random
import resource
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from bench_trace_size import header, server

from radixflow.trace.schema import Record, Step

FIRST_PICTURE, STEP, LIVE = 3000.0, 150.0, 500.0
"""Milliseconds to reach."""

STEP_TO = """async (n) => {
  const slider = document.getElementById("round-slider");
  const lane = document.querySelector("#lane-0 .rf-pane");
  const began = performance.now();
  const took = {};
  slider.value = n;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  const title = "Round " + n.toLocaleString("en-US");
  const seen = { inspector: () => document.querySelector("#round-inspector h2")?.textContent === title,
                 tree: () => radixflow.treeRound() === n, timeline: () => radixflow.covers(n) };
  while (Object.keys(took).length < 3) {
    await new Promise(requestAnimationFrame);
    const now = performance.now() - began;
    if (now > 20000) throw new Error("round " + n + " isn't shown: " + JSON.stringify(took));
    for (const [what, shows] of Object.entries(seen)) if (!(what in took) && shows()) took[what] = now;
  }
  return took;
}"""

WATCH = """() => {
  window.shownAt = {};
  let last = radixflow.rounds();
  const look = () => {
    const now = radixflow.rounds();
    // The frame that was painted since has them.
    if (now !== last) requestAnimationFrame(() => { while (last < now) shownAt[++last] = Date.now(); });
    requestAnimationFrame(look);
  };
  look();
}"""


class Run:
    """A plain trace that a server-like generator fills, so many rounds at a time."""

    def __init__(self, path: Path, rounds: int, rows: int):
        self.path = path
        self._records = server(rounds, rows)
        self._encode = msgspec.json.Encoder().encode
        self._file = open(path, "wb")  # noqa: SIM115  closed with the process
        self._file.write(self._encode(header(rows)) + b"\n")
        self.rounds = 0

    def write(self, rounds: int) -> None:
        for _ in range(rounds):
            self._file.write(b"".join(self._encode(record) + b"\n" for record in self._one()))
            self.rounds += 1
        self._file.flush()

    def _one(self) -> Iterator[Record]:
        for record in self._records:
            yield record
            if isinstance(record, Step):
                return


def told(name: str, times: list[float], reach: float) -> None:
    times = sorted(times)
    late = times[min(len(times) - 1, int(0.95 * len(times)))]
    median, ratio = statistics.median(times), late / reach
    print(f"{name:>34}: median {median:6.0f} ms, p95 {late:6.0f} ms, p95 / {reach:.0f} ms: {ratio:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", type=int, nargs="?", default=100_000)
    parser.add_argument("--rows", type=int, default=12)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--live", type=int, default=60, help="rounds written while the page follows")
    arguments = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("bench_dashboard: no Chromium here, nothing to measure in")
    import uvicorn
    from playwright.sync_api import sync_playwright

    from radixflow_dashboard.app import create_app

    rng = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder) / "long.rft.jsonl", arguments.rounds + arguments.live + 1, arguments.rows)
        run.write(arguments.rounds)
        app = create_app([run.path])
        key = app.library.list()[0]["key"]
        began, used = time.perf_counter(), time.process_time()
        trace = app.library.open(key).trace
        print(
            f"{trace.num_rounds:,} rounds, {len(trace.ids):,} requests, {arguments.rows} rows; "
            f"read in {time.perf_counter() - began:.1f} s ({time.process_time() - used:.1f} s of processor time)"
        )
        listening = uvicorn.Server(uvicorn.Config(app.server, port=0, log_level="error", ws="none"))
        thread = threading.Thread(target=listening.run, daemon=True)
        thread.start()
        while not listening.started:
            time.sleep(0.02)
        address = f"http://127.0.0.1:{listening.servers[0].sockets[0].getsockname()[1]}"
        with sync_playwright() as playwright:
            flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
            pictures = []
            for _ in range(3):
                browser = playwright.chromium.launch(executable_path=chromium, args=flags)
                page = browser.new_page(viewport={"width": 1440, "height": 900})
                for kind in ("first", "again"):
                    page.goto(address)
                    page.wait_for_function("() => document.querySelector('#page')?.dataset.drawn", timeout=120_000)
                    pictures.append((kind, float(page.evaluate("document.querySelector('#page').dataset.drawn"))))
                if len(pictures) < 6:
                    browser.close()
            told("first picture, fresh browser", [ms for kind, ms in pictures if kind == "first"], FIRST_PICTURE)
            told("first picture, warm browser", [ms for kind, ms in pictures if kind == "again"], FIRST_PICTURE)

            middle = arguments.rounds // 2
            page.goto(f"{address}/?round={middle}&first={middle - 30}&last={middle + 30}")
            page.wait_for_selector("#page[data-ready=true]")
            page.wait_for_timeout(1500)
            for name, places in (
                ("any round", [rng.randrange(1, arguments.rounds + 1) for _ in range(arguments.steps)]),
                ("next round", [middle + k for k in range(arguments.steps)]),
            ):
                took = []
                for n in places:
                    took.append(page.evaluate(STEP_TO, n))
                    page.wait_for_timeout(200)  # a key held down repeats no faster for long
                for part in ("timeline", "inspector", "tree"):
                    told(f"{name}, {part}", [one[part] for one in took], STEP)
                told(f"{name}, all of them", [max(one.values()) for one in took], STEP)

            page.goto(address)
            page.wait_for_selector("#pause-live")
            page.wait_for_timeout(2000)
            page.evaluate(WATCH)
            written = {}
            for _ in range(arguments.live):
                run.write(1)
                written[run.rounds] = time.time() * 1000
                time.sleep(rng.uniform(0.02, 0.4))
            page.wait_for_function("(n) => n in shownAt", arg=run.rounds, timeout=60_000)
            shown = {int(n): at for n, at in page.evaluate("shownAt").items()}
            told("a round written until it is drawn", [shown[n] - at for n, at in written.items()], LIVE)
            browser.close()
        listening.should_exit = True
        thread.join(5)
        app.laboratory.close()
    print(f"largest memory of server and maker: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB")


if __name__ == "__main__":
    main()

"""How long a turn of a knob takes in JupyterLab, from the change in the page to the redrawn picture.

    python benchmarks/bench_knobs.py [TURNS] [--workloads figure1 four-branch bursty]

`rf.knobs` is opened in JupyterLab in Chromium. Each turn chooses an order or an arrival rate in a combination that
wasn't tried before, so that both policies are run again, and lasts until canvases and numbers show what came of it: the
last change before 400 ms without one. Beside it stands Python's part (both runs, their numbers and what is drawn of
them) and what travels to the page. Milliseconds are wall-clock, on whatever machine this is.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

import nbformat

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from notebook_server import JupyterServer  # noqa: E402

REACH = 300.0
"""Milliseconds to reach in classroom sizes."""

SOURCE = """import os
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
import json
import radixflow as rf
knobs = rf.knobs("{workload}")
knobs"""

WATCH = """() => {
  window.drawnAt = 0;
  const numbers = document.querySelector(".rf-numbers").closest(".widget-html");
  new MutationObserver(() => (drawnAt = performance.now())).observe(numbers, { childList: true, subtree: true });
  for (const name of ["fillRect", "clearRect", "drawImage", "fill", "stroke", "putImageData"]) {
    const plain = CanvasRenderingContext2D.prototype[name];
    CanvasRenderingContext2D.prototype[name] = function (...given) {
      drawnAt = performance.now();
      return plain.apply(this, given);
    };
  }
}"""

TURN = """async ([knob, option]) => {
  const named = [...document.querySelectorAll(".widget-dropdown")].find((one) => one.innerText.trim().startsWith(knob));
  const select = named.querySelector("select");
  const began = performance.now();
  // The options' blanks are no-break spaces.
  select.value = [...select.options].find((one) => one.text.replaceAll("\u00a0", " ") === option).value;
  select.dispatchEvent(new Event("change", { bubbles: true }));
  for (;;) {
    await new Promise((done) => setTimeout(done, 20));
    const now = performance.now();
    if (drawnAt > began && now - drawnAt > 400) return drawnAt - began;
    if (now - began > 30000) throw new Error(`${knob} = ${option}: nothing was drawn`);
  }
}"""


def told(name: str, times: list[float]) -> None:
    times = sorted(times)
    late = times[min(len(times) - 1, int(0.95 * len(times)))]
    median, ratio = statistics.median(times), late / REACH
    print(f"{name:>34}: median {median:6.0f} ms, p95 {late:6.0f} ms, p95 / {REACH:.0f} ms: {ratio:.2f}")


def measure(browser, workload: str, turns: int, folder: Path) -> None:
    from radixflow.widgets.knobs import ORDERS, RATES

    notebook = folder / f"{workload}.ipynb"
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    cell = nbformat.v4.new_code_cell(SOURCE.format(workload=workload))
    nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata=kernel), notebook)
    (folder / workload).mkdir()
    server = JupyterServer(sys.executable, folder / workload)
    try:
        page = browser.new_page(viewport={"width": 1440, "height": 1200})
        opened = server.open(page, "lab", notebook, players=1)
        page.locator(".rf-player").first.scroll_into_view_if_needed()
        page.wait_for_timeout(1000)
        page.evaluate(WATCH)
        tries = [
            turn for rate, _ in RATES[1:] for turn in (("arrivals", rate), *(("order", one) for one in ORDERS[1:]))
        ]
        page_ms, python_ms, kilobytes = [], [], []
        for turn in tries[:turns]:
            page_ms.append(page.evaluate(TURN, list(turn)))
            python_ms.append(1000 * float(opened.ask("knobs.seconds")))
            state = "len(json.dumps(knobs.player.get_state(['overview', 'window', 'tree']))) / 1000"
            kilobytes.append(float(opened.ask(state)))
        told(f"{workload}, in the page", page_ms)
        told(f"{workload}, of it in Python", python_ms)
        print(f"{workload + ', sent':>34}: {max(kilobytes):,.0f} kB at most")
        page.goto("about:blank")
        page.close()
    finally:
        server.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("turns", type=int, nargs="?", default=20, help="at most 45")
    parser.add_argument("--workloads", nargs="+", default=["figure1", "four-branch", "bursty"])
    arguments = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("bench_knobs: no Chromium here, nothing to measure in")
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        for workload in arguments.workloads:
            measure(browser, workload, arguments.turns, Path(folder))
        browser.close()


if __name__ == "__main__":
    main()

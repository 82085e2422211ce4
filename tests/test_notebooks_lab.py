"""A lesson in a real JupyterLab in a real browser: the widgets draw, play and answer, and Python hears of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from jupyter_client import BlockingKernelClient

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
LESSON = "01-a-hit-that-cant-run.ipynb"
TOKEN = "lesson"
PATIENCE = 240_000
"""Milliseconds until the last cell has run: vLLM is loaded on the way, and the machine may be busy."""

pytestmark = pytest.mark.timeout(600)


class Lab:
    """A JupyterLab over a copy of the lesson."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runtime = folder / "runtime"
        (folder / "lessons").mkdir()
        shutil.copy(FOLDER / LESSON, folder / "lessons")
        # Without this, a cell far down isn't in the page until somebody scrolls to it.
        settings = folder / "settings" / "@jupyterlab" / "notebook-extension"
        settings.mkdir(parents=True)
        (settings / "tracker.jupyterlab-settings").write_text('{"windowingMode": "none"}')
        news = folder / "settings" / "@jupyterlab" / "apputils-extension"
        news.mkdir()
        (news / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        own = {
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "JUPYTER_DATA_DIR": str(folder / "data"),
            "JUPYTER_RUNTIME_DIR": str(self.runtime),
            "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
            "PYTHONPATH": str(FOLDER.parent),
        }
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1"]
        command += [f"--port={self.port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={TOKEN}"]
        command += ["--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
        self.log = (folder / "lab.log").open("w+")
        self._process = subprocess.Popen(
            command, cwd=folder / "lessons", env=os.environ | own, stdout=self.log, stderr=self.log
        )
        self._wait()

    def _wait(self) -> None:
        for _ in range(600):
            if self._process.poll() is not None:
                self.log.seek(0)
                pytest.fail(f"JupyterLab ended: {self.log.read()[-2000:]}")
            try:
                return self.get("/api/status") and None
            except OSError:
                time.sleep(0.2)
        pytest.fail("JupyterLab didn't answer within two minutes")

    def get(self, path: str):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}?token={TOKEN}", timeout=5) as answer:
            return json.load(answer)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/lab/tree/{LESSON}?token={TOKEN}"

    def ask(self, expression: str) -> str:
        """The value of a Python expression in the lesson's kernel."""
        (session,) = self.get("/api/sessions")
        client = BlockingKernelClient(connection_file=str(self.runtime / f"kernel-{session['kernel']['id']}.json"))
        client.load_connection_file()
        client.start_channels()
        try:
            reply = client.execute_interactive(
                "", user_expressions={"value": expression}, timeout=60, store_history=False, output_hook=lambda m: None
            )
        finally:
            client.stop_channels()
        value = reply["content"]["user_expressions"]["value"]
        assert value["status"] == "ok", value
        return value["data"]["text/plain"]

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self.log.close()


@pytest.fixture(scope="module")
def lab(tmp_path_factory, chromium):
    lab = Lab(tmp_path_factory.mktemp("lab"))
    yield lab
    lab.close()


def until(page, what, expected, patience=20.0):
    """Wait for a Python value to arrive: widget messages take a moment."""
    end = time.monotonic() + patience
    while (value := what()) != expected and time.monotonic() < end:
        page.wait_for_timeout(100)
    assert value == expected


COLOURS = """canvas => {
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const seen = new Set();
  for (let k = 0; k < data.length; k += 4) if (data[k + 3]) seen.add(data[k] << 16 | data[k + 1] << 8 | data[k + 2]);
  return seen.size;
}"""


def test_the_lesson_runs_and_its_widgets_draw_play_answer_and_redraw(lab, page):
    page.set_viewport_size({"width": 1440, "height": 1400})
    page.goto(lab.url)
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=PATIENCE)
    # Cells that are run before the kernel has answered are dropped.
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=PATIENCE)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    page.locator(".rf-player").nth(1).wait_for(state="attached", timeout=PATIENCE)
    page.get_by_text("No answer yet.").last.wait_for(timeout=PATIENCE)
    assert page.locator(".rf-player").count() == 2
    assert page.locator(".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.error']").count() == 0

    player = page.locator(".rf-player").first
    player.scroll_into_view_if_needed()
    pictures = [one for one in player.locator("canvas").all() if one.bounding_box()["width"] > 400]
    assert sum(one.evaluate(COLOURS) > 30 for one in pictures) >= 3, "two timelines and a tree are drawn"

    # It plays: the button runs the rounds off, and Python's round follows.
    assert lab.ask("player.round") == "1"
    player.get_by_role("button", name="Play").click()
    player.get_by_text("Round 6 of 6").wait_for(timeout=20_000)
    until(page, lambda: lab.ask("player.round"), "6")

    # It answers a click: somewhere in the first round's column stands P1, and then only its cells are of that request.
    player.get_by_role("button", name="First round").click()
    until(page, lambda: lab.ask("player.round"), "1")
    assert lab.ask("player.selected") == "None"
    box = pictures[0].bounding_box()
    for share in (0.66, 0.62, 0.58, 0.54):
        page.mouse.click(box["x"] + 0.15 * box["width"], box["y"] + share * box["height"])
        page.wait_for_timeout(500)
        if lab.ask("player.selected") != "None":
            break
    assert lab.ask("player.selected") == "'P1'"

    # And Python moves it.
    lab.ask("setattr(player, 'round', 4)")
    player.get_by_text("Round 4 of 6").wait_for(timeout=20_000)

    # A knob runs both policies again: with all producers in front, native scheduling needs four rounds as well.
    knobs = page.locator(".rf-player").nth(1)
    knobs.scroll_into_view_if_needed()
    assert page.locator(".rf-numbers tr").nth(1).inner_text().split()[:2] == ["radix", "6"]
    page.locator("select").filter(has_text="documents in turn").last.select_option("documents in turn")
    end = time.monotonic() + 60
    row = page.locator(".rf-numbers tr").nth(1)
    while row.inner_text().split()[1] == "6" and time.monotonic() < end:
        page.wait_for_timeout(50)
    assert row.inner_text().split()[:2] == ["radix", "4"]
    knobs.get_by_text("Round 1 of 4").wait_for(timeout=20_000)

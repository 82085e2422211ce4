"""A Jupyter server for tests: notebooks opened in JupyterLab or in Notebook 7, and their kernel asked."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from jupyter_client import BlockingKernelClient

CONFIG = Path(__file__).with_name("notebook_server_config.py")
TOKEN = "lesson"
PATIENCE = 240_000
"""Milliseconds until a lesson's last cell has run: vLLM is loaded on the way, and the machine may be busy."""
FRONT_ENDS = {"lab": "lab/tree", "notebook": "notebooks"}
"""JupyterLab and Notebook 7, by their places on the server: one server brings up both."""
OPEN = """async (path) => {
  const opened = await jupyterapp.commands.execute("docmanager:open", { path });
  await opened.context.ready;
  await opened.revealed;
}"""
KERNEL_ANSWERED = {
    "lab": "text='Python 3 (ipykernel) | Idle'",
    "notebook": ".jp-NotebookKernelStatus-fade:not(.jp-NotebookKernelStatus-info)",
}
"""What a front end shows once it has heard of its kernel: before that, it drops the cells that it is told to run."""


class JupyterServer:
    """JupyterLab's server in a new folder, run by `python`, which finds radixflow as installed."""

    def __init__(self, python: Path | str, folder: Path) -> None:
        self._runtime = folder / "runtime"
        self._lessons = folder / "lessons"
        self._lessons.mkdir()
        # Without this, a cell far down isn't in the page until somebody scrolls to it.
        settings = folder / "settings" / "@jupyterlab" / "notebook-extension"
        settings.mkdir(parents=True)
        (settings / "tracker.jupyterlab-settings").write_text('{"windowingMode": "none"}')
        news = folder / "settings" / "@jupyterlab" / "apputils-extension"
        news.mkdir()
        (news / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
        (folder / "config").mkdir()
        shutil.copy(CONFIG, folder / "config" / "jupyter_server_config.py")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "JUPYTER_DATA_DIR": str(folder / "data"),
            "JUPYTER_RUNTIME_DIR": str(self._runtime),
            "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        }
        command = [str(python), "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1"]
        command += [f"--port={self._port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={TOKEN}"]
        command += ["--LabApp.expose_app_in_browser=True", "--LabApp.news_url=None"]
        command += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
        self._log = (folder / "server.log").open("w+")
        self._process = subprocess.Popen(
            command, cwd=self._lessons, env=environment, stdout=self._log, stderr=self._log
        )
        self._wait()

    def _wait(self) -> None:
        for _ in range(600):
            if self._process.poll() is not None:
                self._log.seek(0)
                pytest.fail(f"JupyterLab ended: {self._log.read()[-2000:]}")
            try:
                self._get("/api/status")
                return
            except OSError:
                time.sleep(0.2)
        pytest.fail("JupyterLab didn't answer within two minutes")

    def _get(self, path: str):
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}?token={TOKEN}", timeout=5) as answer:
            return json.load(answer)

    def open(self, page, front_end: str, notebook: Path, players: int) -> Lesson:
        """A copy of a notebook in one of `FRONT_ENDS`, run from top to bottom, once it shows so many players."""
        path = f"{front_end}-{notebook.name}"
        shutil.copy(notebook, self._lessons / path)
        page.goto(f"http://127.0.0.1:{self._port}/{FRONT_ENDS[front_end]}/{path}?token={TOKEN}")
        page.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=PATIENCE)
        page.locator(KERNEL_ANSWERED[front_end]).wait_for(state="attached", timeout=PATIENCE)
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        page.locator(".rf-player").nth(players - 1).wait_for(state="attached", timeout=PATIENCE)
        lesson = Lesson(self, path)
        lesson.ask("'asked after every cell'")
        return lesson

    def looking(self, page, notebooks: list[Path]) -> Iterator[Path]:
        """JupyterLab with one notebook open after another, as they were saved."""
        page.goto(f"http://127.0.0.1:{self._port}/lab?reset&token={TOKEN}")
        page.wait_for_function("() => window.jupyterapp", timeout=PATIENCE)
        page.evaluate("() => jupyterapp.restored")
        for notebook in notebooks:
            shutil.copy(notebook, self._lessons / notebook.name)
            page.evaluate(OPEN, notebook.name)  # in front of those before
            yield notebook

    def kernel_of(self, path: str) -> BlockingKernelClient:
        """A client of the kernel that runs the notebook."""
        (session,) = (one for one in self._get("/api/sessions") if one["path"] == path)
        client = BlockingKernelClient(connection_file=str(self._runtime / f"kernel-{session['kernel']['id']}.json"))
        client.load_connection_file()
        return client

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._log.close()


@dataclass(frozen=True, slots=True)
class Lesson:
    """A lesson that is open in a page, by its path on the server."""

    server: JupyterServer
    path: str

    def ask(self, expression: str) -> str:
        """The value of a Python expression in the lesson's kernel, once the kernel is done with what it was told."""
        client = self.server.kernel_of(self.path)
        client.start_channels()
        try:
            reply = client.execute_interactive(
                "",
                user_expressions={"value": expression},
                timeout=PATIENCE / 1000,
                store_history=False,
                output_hook=lambda message: None,
            )
        finally:
            client.stop_channels()
        value = reply["content"]["user_expressions"]["value"]
        assert value["status"] == "ok", value
        return value["data"]["text/plain"]

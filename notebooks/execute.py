"""Executes the lessons, and refreshes the outputs that are committed with them.

    python notebooks/execute.py                    run all, say what came out otherwise than committed
    python notebooks/execute.py --write 04         run lesson 04, keep its outputs

One kernel runs one lesson after another, each in an empty namespace: loading vLLM takes longer than most
lessons. What is kept renders everywhere: text, HTML tables and PNGs; no widget state, no counters.
"""

from __future__ import annotations

import argparse
import base64
import io
import os
import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from PIL import Image

FOLDER = Path(__file__).resolve().parent
KEPT = ("text/html", "image/png", "text/plain")
"""Mime types of committed outputs."""
TIMEOUT = 240
"""Seconds a cell may take, on a machine that is busy with other things."""
QUIET = {"VLLM_LOGGING_LEVEL": "ERROR", "TORCH_CPP_LOG_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"}
"""Environment of the kernel. The lessons set the same; but torch is loaded only once."""


def lessons(*beginnings: str) -> list[Path]:
    """The notebooks in order; with `beginnings`, those whose names begin with one of them."""
    return [path for path in sorted(FOLDER.glob("*.ipynb")) if not beginnings or path.name.startswith(beginnings)]


class Kernel:
    """A Python kernel in which lessons run one after another."""

    def __init__(self) -> None:
        self._manager = KernelManager(kernel_name="python3")
        # Told of pytest, ipykernel gives up capturing what libraries write to the file descriptors.
        plain = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
        self._manager.start_kernel(cwd=str(FOLDER), env=plain | QUIET, extra_arguments=["--log-level=ERROR"])

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *exception: object) -> None:
        self._manager.shutdown_kernel(now=True)

    def run(self, notebook: Any) -> Any:
        """Execute all cells in an empty namespace; CellExecutionError where one fails."""
        empty = nbformat.v4.new_code_cell("get_ipython().reset(new_session=True)")
        self.run_more(nbformat.v4.new_notebook(cells=[empty]))
        return self.run_more(notebook)

    def run_more(self, notebook: Any) -> Any:
        """Execute all cells in the namespace as the last lesson left it."""
        client = NotebookClient(notebook, km=self._manager, timeout=TIMEOUT, kernel_name="python3")
        try:
            return client.execute()
        finally:
            if client.kc is not None:
                client.kc.stop_channels()
                client.kc = None


def cleaned(notebook: Any) -> Any:
    """In place: outputs as they are committed, cells named by their place, no traces of the execution."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"c{number:02d}"
        cell.metadata = {key: value for key, value in cell.metadata.items() if key == "tags"}
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = _joined(kept for output in cell.outputs if (kept := _kept(output)) is not None)
    return notebook


def _joined(outputs: Iterable[Any]) -> list[Any]:
    """Pieces of one stream as one: where a kernel cuts it is chance."""
    joined: list[Any] = []
    for output in outputs:
        before = joined[-1] if joined else {}
        if output.output_type == "stream" and before.get("name") == output.name:
            before["text"] += output.text
        else:
            joined.append(output)
    return joined


def _kept(output: Any) -> Any | None:
    if output.output_type == "stream":
        return output
    data = {mime: value for mime, value in output.data.items() if mime in KEPT}
    if "image/png" in data:
        data = {"image/png": _small(data["image/png"]), "text/plain": "<picture>"}
    if "text/html" in data:
        # pandas scopes its table style with nothing random, but a style block is noise on a code host.
        data["text/html"] = re.sub(r"<style scoped>.*?</style>\n?", "", data["text/html"], flags=re.S)
    if not data or not "".join(map(str, data.values())).strip():
        return None
    return nbformat.v4.new_output("display_data", data=data)


def _small(png: str) -> str:
    """The picture with 64 colours: a quarter of the bytes, and nothing to see of it."""
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    out = io.BytesIO()
    picture.quantize(64, dither=Image.Dither.NONE).save(out, "png", optimize=True)
    return base64.b64encode(out.getvalue()).decode()


def texts(notebook: Any) -> list[list[str]]:
    """What each code cell says: its streams and texts as committed, and that a picture is there."""
    return [[_text(output) for output in cell.outputs] for cell in notebook.cells if cell.cell_type == "code"]


def _text(output: Any) -> str:
    if output.output_type == "stream":
        return f"{output.name}: {output.text}"
    return output.data.get("text/plain", "") if "image/png" not in output.data else "<picture>"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="keep the new outputs")
    parser.add_argument("lessons", nargs="*", help="beginnings of names, 04 say; all by default")
    asked = parser.parse_args(arguments)
    stale = 0
    with Kernel() as kernel:
        for path in lessons(*asked.lessons):
            began = time.monotonic()
            committed = nbformat.read(path, as_version=4)
            made = cleaned(kernel.run(nbformat.read(path, as_version=4)))
            fresh = texts(made) == texts(committed)
            print(f"{path.name}: {time.monotonic() - began:.1f} s{'' if fresh else ', other outputs than committed'}")
            if asked.write:
                nbformat.write(made, path)
            else:
                stale += not fresh
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The viewer runs where only the viewer is installed: no vLLM, no torch, nothing of the other extras."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

# Rooms that import vLLM; everything else is the viewer's.
ENGINE_ROOMS = ("radixflow.scheduling", "radixflow.engines")

# Runs in a fresh interpreter: what is on the list isn't found, as if it weren't installed.
WITHOUT = """
import importlib, json, sys, traceback
from importlib.machinery import PathFinder

hidden, modules = json.loads(sys.argv[1]), json.loads(sys.argv[2])

class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in hidden else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
failed = {}
for module in modules:
    try:
        importlib.import_module(module)
    except Exception:
        failed[module] = traceback.format_exc().splitlines()[-1]
print(json.dumps({"failed": failed, "loaded": sorted({name.partition(".")[0] for name in sys.modules})}))
"""


def distribution_names(lock: Path) -> set[str]:
    return {re.split("[=;]", line)[0].strip() for line in lock.read_text().splitlines() if line[:1].isalnum()}


def normalized(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def modules_outside_the_viewer(root: Path) -> list[str]:
    """Top-level modules installed here that a viewer-only install wouldn't have."""
    viewer = distribution_names(root / "requirements" / "viewer.txt") | {"radixflow", "pip"}
    hidden = {
        module
        for module, distributions in importlib.metadata.packages_distributions().items()
        if not viewer & {normalized(name) for name in distributions}
    }
    return sorted(hidden | {"vllm", "torch"})


def viewer_modules(root: Path) -> list[str]:
    """Every module of the two packages that isn't the engines', found without importing any."""
    names = []
    for package, folder in (("radixflow", root / "radixflow"), ("radixflow_dashboard", root / "dashboard")):
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            names.append(".".join([package, *(part for part in parts if part != "__init__")]))
    return [name for name in names if not name.startswith(ENGINE_ROOMS) and not name.endswith("__main__")]


def import_without(hidden: list[str], modules: list[str], folder: Path) -> dict:
    command = [sys.executable, "-c", WITHOUT, json.dumps(hidden), json.dumps(modules)]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def test_every_viewer_module_imports_in_a_viewer_only_environment(root, tmp_path):
    modules = viewer_modules(root)
    assert {"radixflow.trace", "radixflow.analysis", "radixflow.figures", "radixflow.cli"} <= set(modules)
    outcome = import_without(modules_outside_the_viewer(root), modules, tmp_path)
    assert outcome["failed"] == {}


def test_importing_the_viewer_loads_neither_vllm_nor_torch(root, tmp_path):
    outcome = import_without([], viewer_modules(root), tmp_path)
    assert outcome["failed"] == {}
    assert not {"vllm", "torch"} & set(outcome["loaded"])


@pytest.mark.parametrize("name", ["vllm", "torch", "pytest"])
def test_what_is_hidden_is_not_found(name, tmp_path):
    assert name in import_without([name], [name], tmp_path)["failed"]

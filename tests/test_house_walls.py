"""The walls of docs/structures.md: who may import whom."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

LINT_IMPORTS = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()", "--no-cache"]


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(LINT_IMPORTS, cwd=folder, capture_output=True, text=True, timeout=120)


def copy_of_the_house(root: Path, folder: Path) -> Path:
    """The two packages by the names they are installed under."""
    leave = shutil.ignore_patterns("__pycache__")
    shutil.copytree(root / "radixflow", folder / "radixflow", ignore=leave)
    shutil.copytree(root / "dashboard", folder / "radixflow_dashboard", ignore=leave)
    shutil.copy(root / "pyproject.toml", folder)
    return folder


@pytest.fixture
def house(root, tmp_path) -> Path:
    return copy_of_the_house(root, tmp_path)


def test_the_walls_stand(house):
    result = lint_imports(house)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_breach_is_found(house):
    breaches = {
        "trace": "import vllm",
        "workloads": "import radixflow.trace",
        "scheduling": "import radixflow.analysis",
        "engines": "import radixflow.figures",
        "analysis": "def late():\n    from torch import nn",
        "figures": "from radixflow.engines import tiny",
        "export": "import radixflow.widgets",
    }
    for room, line in breaches.items():
        (house / "radixflow" / room / "breach.py").write_text(line + "\n")
    result = lint_imports(house)
    assert result.returncode != 0
    assert not {room for room in breaches if f"radixflow.{room}.breach ->" not in result.stdout}, result.stdout


def test_every_room_stands_behind_a_wall(root):
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    named = str(contracts)
    packages = {path.parent.name for path in (root / "radixflow").glob("*/__init__.py")}
    modules = {path.stem for path in (root / "radixflow").glob("*.py")} - {"__init__"}
    assert packages and modules
    assert not {name for name in packages | modules if f"'radixflow.{name}'" not in named.replace(" | ", "', '")}

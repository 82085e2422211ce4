"""The wheel, and an environment that has radixflow from it alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {"radixflow": "radixflow", "dashboard": "radixflow_dashboard"}
"""The two packages: folder in the repository, name once installed."""
PROJECT_FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")


def build(folder: Path) -> Path:
    """The project's wheel, built in an empty folder from a copy, so that nothing is left in the repository."""
    for name in (*PACKAGES, "etc"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in PROJECT_FILES:
        shutil.copy(ROOT / name, folder)
    pip("wheel", "--no-deps", "--no-build-isolation", ".", cwd=folder)
    (path,) = folder.glob("radixflow-*.whl")
    return path


def environment(wheel: Path, folder: Path) -> Path:
    """The interpreter of a new environment with this wheel in it.

    What radixflow depends on is this environment's: modules by a path file, which doesn't lead to the editable
    install, and JupyterLab's static files by links at the places where pip puts them. Network: none.
    """
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    pip("--python", str(python), "install", "--no-index", "--no-deps", "--no-compile", str(wheel), cwd=folder)
    (site_packages,) = folder.glob("lib/python*/site-packages")
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    # The wheel itself brings files of JupyterLab's: these stay the wheel's.
    for mine in (Path(sys.prefix) / "etc" / "jupyter", Path(sys.prefix) / "share" / "jupyter"):
        theirs = folder / mine.relative_to(sys.prefix)
        theirs.mkdir(parents=True, exist_ok=True)
        for entry in mine.iterdir():
            if not (theirs / entry.name).exists() and entry.name != "labconfig":
                (theirs / entry.name).symlink_to(entry)
    return python


def pip(*arguments: str, cwd: Path) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    # On PYTHONPATH, the repository would count as installed.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stderr

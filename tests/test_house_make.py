"""The make targets of the contract are there, and what they run is in order."""

from __future__ import annotations

import shutil
import subprocess

import pytest

TARGETS = ["demo", "test", "setup", "setup-viewer", "lint", "bench", "notebooks"]


def run(command: list[str], folder, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, **options)


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_of_the_contract_exists(root, target):
    result = run(["make", "--dry-run", target], root)
    assert result.returncode == 0, result.stderr


def test_make_alone_lists_the_targets(root):
    result = run(["make"], root)
    assert all(f"make {target} " in result.stdout for target in TARGETS)


@pytest.mark.parametrize("script", ["scripts/setup.sh", "scripts/browser.sh", "scripts/lock.sh", ".ci/run"])
def test_a_script_parses(root, script):
    assert run(["bash", "-n", script], root).returncode == 0


def test_setup_without_a_fitting_python_says_what_it_needs(root, tmp_path):
    for name in ("scripts", "requirements"):
        shutil.copytree(root / name, tmp_path / name)
    for name in ("pyproject.toml", "setup.py"):
        shutil.copy(root / name, tmp_path)
    old = tmp_path / "old-python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    result = run(["bash", "scripts/setup.sh", "engine"], tmp_path, env={"PATH": "/usr/bin:/bin", "PYTHON": str(old)})
    assert result.returncode == 1
    assert "Python 3.11 or newer" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / ".venv").exists()


def test_setup_refuses_a_kind_it_does_not_know(root):
    result = run(["bash", "scripts/setup.sh", "everything"], root)
    assert result.returncode == 2
    assert "engine or viewer" in result.stderr

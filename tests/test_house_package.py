"""What a wheel brings: both packages whole, their data, the command, and JupyterLab's setting."""

from __future__ import annotations

import importlib.util
import json
import sys
import zipfile
from pathlib import Path

import pytest
import wheels
from wheels import PACKAGES


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    return zipfile.ZipFile(wheels.build(tmp_path_factory.mktemp("project")))


def package_files(root: Path) -> set[str]:
    """Every file of the two packages that a user needs, by its name in the wheel."""
    return {
        "/".join([package, *path.relative_to(root / folder).parts])
        for folder, package in PACKAGES.items()
        for path in (root / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".md"
    }


def test_the_wheel_holds_every_module_and_data_file(root, wheel):
    assert package_files(root) - set(wheel.namelist()) == set()


def test_the_wheel_holds_nothing_else(root, wheel):
    extra = {name for name in wheel.namelist() if not name.startswith("radixflow-")} - package_files(root)
    assert extra == set()


def test_the_command_is_radixflow(wheel):
    (entry_points,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert "radixflow = radixflow.cli:main" in wheel.read(entry_points).decode()


def test_jupyterlab_is_told_not_to_rebuild_itself(wheel):
    (name,) = (name for name in wheel.namelist() if name.endswith("page_config.json"))
    assert name.endswith(".data/data/etc/jupyter/labconfig/page_config.json")
    assert json.loads(wheel.read(name)) == {"buildAvailable": False, "buildCheck": False}


def test_the_environment_has_that_setting_too():
    assert (Path(sys.prefix) / "etc" / "jupyter" / "labconfig" / "page_config.json").is_file()


@pytest.mark.parametrize("folder", PACKAGES)
def test_both_packages_are_installed_from_this_repository(root, folder):
    spec = importlib.util.find_spec(PACKAGES[folder])
    assert spec is not None and spec.origin is not None
    assert Path(spec.origin).parent == root / folder

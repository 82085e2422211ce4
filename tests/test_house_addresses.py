"""The repository works anywhere: no file names a package registry's host or a path of the machine it was made on."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

# In pieces, so that this file passes its own test.
HOSTS = ["pypi" + ".org", "python" + "hosted.org", "npm" + "js.org", "deb." + "debian.org", "anaconda" + ".org"]
PATHS = ["work", "root", "farm", "opt/" + "pypi", "opt/" + "wheels", "tmp/" + "w"]
UNWANTED = re.compile(
    "|".join(map(re.escape, HOSTS)) + r"|(?<![\w.~-])/(?:" + "|".join(PATHS) + r")/", re.IGNORECASE
)


def own_files(root: Path) -> list[Path]:
    """What git tracks or would; where there is no git, everything outside hidden folders."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if listed.returncode == 0:
        paths = [root / name for name in listed.stdout.split("\0") if name]
    else:
        folders = [path for path in root.iterdir() if not path.name.startswith(".")]
        paths = [path for folder in folders for path in (folder, *folder.rglob("*"))]
    return [path for path in paths if path.is_file()]


def unwanted_lines(path: Path) -> list[str]:
    text = path.read_bytes().decode("utf-8", errors="replace")
    return [f"{path}: {line.strip()[:100]}" for line in text.splitlines() if UNWANTED.search(line)]


def test_no_file_names_a_registry_or_this_machine(root):
    files = own_files(root)
    assert root / "pyproject.toml" in files
    assert [line for path in files for line in unwanted_lines(path)] == []


@pytest.mark.parametrize("text", ["https://" + HOSTS[0] + "/simple", "see /" + "work/main/x", "'/" + "root/.cache'"])
def test_an_address_is_recognised(text, tmp_path):
    path = tmp_path / "file.md"
    path.write_text(f"first line\n{text}\n")
    assert len(unwanted_lines(path)) == 1


@pytest.mark.parametrize("text", ["../shared/work/x", "docs/root/", "framework/", "https://example.com/work/a"])
def test_other_paths_are_left_alone(text, tmp_path):
    path = tmp_path / "file.md"
    path.write_text(text)
    assert unwanted_lines(path) == []

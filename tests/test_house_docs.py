"""The pages hang together: what one links to is there."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)[^)]*\)|<img src=\"(?!https?:)([^\"]+)\"")
PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md"]


def pages(root: Path) -> list[Path]:
    return [path for pattern in PAGES for path in sorted(root.glob(pattern))]


def dead_links(path: Path) -> list[str]:
    targets = ["".join(match) for match in LINK.findall(path.read_text())]
    return [target for target in targets if not (path.parent / target).exists()]


def test_every_link_leads_somewhere(root):
    dead = {str(path.relative_to(root)): dead_links(path) for path in pages(root)}
    assert {page: targets for page, targets in dead.items() if targets} == {}


def test_every_page_is_listed(root):
    index = (root / "docs" / "README.md").read_text()
    assert [path.name for path in (root / "docs").glob("*.md") if f"({path.name})" not in index] == ["README.md"]


@pytest.mark.parametrize("text", ["[a](missing.md)", "[a](missing.md#part)", '<img src="missing.svg" width="3">'])
def test_a_dead_link_is_found(text, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"[there](page.md) [web](https://example.com) {text}")
    assert len(dead_links(page)) == 1


def test_the_page_on_python_says_what_python_says(root, monkeypatch):
    monkeypatch.chdir(root)
    failed, tried = doctest.testfile(
        str(root / "docs" / "python.md"), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert tried >= 9 and not failed

"""What tests share. A section a room; keep each small."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parent.parent

# --- Everywhere: no test reaches the network, and none depends on how fast the machine is.

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["VLLM_NO_USAGE_STATS"] = "1"
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")

hypothesis.settings.register_profile("here", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "here")


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Workloads with known outcomes, and `expected.json`."""
    return ROOT / "data" / "corpus"


# --- Browser: Debian's Chromium, driven by playwright. One browser a file, since playwright's own event loop, while
# it runs, keeps asyncio from running in the same thread.


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of a Chromium; skips where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip("browser test: no Chromium on this machine (Debian: apt-get install chromium)")
    return found


@pytest.fixture(scope="module")
def browser(chromium):
    """A headless `playwright.sync_api.Browser`."""
    from playwright.sync_api import sync_playwright

    quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=[*quiet, "--disable-sync"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    """A fresh page, 1440 by 900. The test fails where the page wrote an error to its console or threw one."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert not errors, errors

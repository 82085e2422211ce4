"""A lesson in a real JupyterLab and a real Notebook 7, in a real browser, with radixflow from its wheel alone.

The widgets draw, play and answer, Python hears of it, and the console stays empty. Nothing is done between
installing the wheel and opening the lesson.
"""

from __future__ import annotations

import json
import re
import time

import pytest
import wheels
from notebook_server import FRONT_ENDS, JupyterServer

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def server(tmp_path_factory, chromium):
    folder = tmp_path_factory.mktemp("wheel")
    python = wheels.environment(wheels.build(folder), tmp_path_factory.mktemp("environment"))
    server = JupyterServer(python, tmp_path_factory.mktemp("server"))
    yield server
    server.close()


def until(page, what, expected, patience=20.0):
    """Wait for a Python value to arrive: widget messages take a moment."""
    end = time.monotonic() + patience
    while (value := what()) != expected and time.monotonic() < end:
        page.wait_for_timeout(100)
    assert value == expected


COLOURS = """canvas => {
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const seen = new Set();
  for (let k = 0; k < data.length; k += 4) if (data[k + 3]) seen.add(data[k] << 16 | data[k + 1] << 8 | data[k + 2]);
  return seen.size;
}"""


LOADED = "all => all.filter((one) => one.naturalWidth).length"


@pytest.fixture
def page(browser):
    """A page large enough for a whole player. The test fails where its console gets an error.

    What Notebook's own bundle throws isn't counted: 7.6 does so at every start, for an empty notebook too.
    """
    context = browser.new_context(viewport={"width": 1440, "height": 1400})
    page = context.new_page()
    errors: list[tuple[str, str]] = []
    page.on("console", lambda said: errors.append((said.text, said.location["url"])) if said.type == "error" else None)
    page.on("pageerror", lambda error: errors.append((error.message, error.stack or "")))
    yield page
    context.close()
    assert not [error for error in errors if not of_notebook_itself(error[1])]


def of_notebook_itself(where: str) -> bool:
    """Whether every address in a stack trace is Notebook's own."""
    files = re.findall(r"https?://[^ )]+|blob:[^ )]+", where)
    return bool(files) and all("/static/notebook/" in file for file in files)


@pytest.mark.parametrize("front_end", FRONT_ENDS)
def test_the_lesson_runs_and_its_widgets_draw_play_answer_and_redraw(front_end, server, root, page):
    lesson = server.open(page, front_end, root / "notebooks" / "01-a-hit-that-cant-run.ipynb", players=2)
    # It is the wheel's radixflow that runs, not the repository's.
    assert lesson.ask("__import__('pathlib').Path(rf.__file__).is_relative_to(__import__('sys').prefix)") == "True"
    assert page.locator(".rf-player").count() == 2
    assert page.locator(".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.error']").count() == 0

    player = page.locator(".rf-player").first
    player.scroll_into_view_if_needed()
    pictures = [one for one in player.locator("canvas").all() if one.bounding_box()["width"] > 400]
    assert sum(one.evaluate(COLOURS) > 30 for one in pictures) >= 3, "two timelines and a tree are drawn"

    # It plays: the button runs the rounds off, and Python's round follows.
    assert lesson.ask("player.round") == "1"
    player.get_by_role("button", name="Play").click()
    player.get_by_text("Round 6 of 6").wait_for(timeout=20_000)
    until(page, lambda: lesson.ask("player.round"), "6")

    # It answers a click: somewhere in the first round's column stands P1, and then only its cells are of that request.
    player.get_by_role("button", name="First round").click()
    until(page, lambda: lesson.ask("player.round"), "1")
    assert lesson.ask("player.selected") == "None"
    box = pictures[0].bounding_box()
    for share in (0.66, 0.62, 0.58, 0.54):
        page.mouse.click(box["x"] + 0.15 * box["width"], box["y"] + share * box["height"])
        page.wait_for_timeout(500)
        if lesson.ask("player.selected") != "None":
            break
    assert lesson.ask("player.selected") == "'P1'"

    # And Python moves it.
    lesson.ask("setattr(player, 'round', 4)")
    player.get_by_text("Round 4 of 6").wait_for(timeout=20_000)

    # A knob runs both policies again: with all producers in front, native scheduling needs four rounds as well.
    knobs = page.locator(".rf-player").nth(1)
    knobs.scroll_into_view_if_needed()
    assert page.locator(".rf-numbers tr").nth(1).inner_text().split()[:2] == ["radix", "6"]
    page.locator("select").filter(has_text="documents in turn").last.select_option("documents in turn")
    end = time.monotonic() + 60
    row = page.locator(".rf-numbers tr").nth(1)
    while row.inner_text().split()[1] == "6" and time.monotonic() < end:
        page.wait_for_timeout(50)
    assert row.inner_text().split()[:2] == ["radix", "4"]
    knobs.get_by_text("Round 1 of 4").wait_for(timeout=20_000)


def test_every_lesson_opens_as_it_was_saved(server, root, page):
    for lesson in server.looking(page, sorted((root / "notebooks").glob("*.ipynb"))):
        saved = json.loads(lesson.read_text())["cells"]
        outputs = [output for cell in saved for output in cell.get("outputs", [])]
        pictures = sum("image/png" in output.get("data", {}) for output in outputs)
        shown = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
        cells = shown.locator(".jp-Cell")
        cells.nth(len(saved) - 1).wait_for(state="attached")
        assert cells.count() == len(saved), lesson.name
        until(page, lambda shown=shown: shown.locator(".jp-OutputArea-output img").evaluate_all(LOADED), pictures)
        text = shown.inner_text()
        assert "Error displaying widget" not in text and "Loading widget" not in text, lesson.name
        assert shown.locator(".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.error']").count() == 0

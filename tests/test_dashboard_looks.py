"""Legible by everybody: contrast, size, names and focus, in light and dark, wide and narrow."""

from __future__ import annotations

from pathlib import Path

import pytest
from dashboard_server import at_round, faults, opened, serving
from dashboard_traces import write
from figures_traces import figure1

FAULTS = Path(__file__).with_name("dashboard_faults.mjs").read_text()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("looks")
    paths = [
        write(folder / "figure1-radix.rft.jsonl", figure1("radix")),
        write(folder / "figure1-radixflow.rft.jsonl", figure1("radixflow+noadmit")),
    ]
    with serving(*paths) as address:
        yield address


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 420])
def test_text_is_large_enough_and_stands_out(page, address, theme, width):
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size({"width": width, "height": 900})
    opened(page, address, "?round=1&request=A1")
    at_round(page, 1)
    page.wait_for_selector("#request-inspector h2")
    assert page.evaluate("document.documentElement.dataset.theme") == theme
    assert page.evaluate(FAULTS) == []
    page.click(".tab[data-view=compare]")
    page.wait_for_selector(".metrics")
    assert page.evaluate(FAULTS) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_fault(page, address, theme):
    page.emulate_media(color_scheme=theme)
    opened(page, address, "?round=1&request=A1")
    at_round(page, 1)
    page.wait_for_selector("#request-inspector h2")
    assert faults(page) == []
    page.locator("#tree .rf-pane").focus()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.wait_for_selector("#node h3")
    page.click("#downloads summary")
    assert faults(page) == []
    page.click(".tab[data-view=compare]")
    page.wait_for_selector(".metrics")
    page.wait_for_selector(".js-plotly-plot .main-svg")
    assert faults(page) == []


def test_the_chosen_tab_is_as_wide_as_its_words_and_moves_nothing(page, address):
    opened(page, address)
    places = """() => [...document.querySelectorAll(".tab")].map((tab) => {
      const words = document.createRange();
      words.selectNodeContents(tab);
      const [inner, outer] = [words.getBoundingClientRect(), tab.getBoundingClientRect()];
      return [outer.left, outer.width, inner.left - outer.left, outer.right - inner.right];
    })"""
    before = page.evaluate(places)
    for view in ("compare", "engines", "classroom"):
        page.click(f".tab[data-view={view}]")
        now = page.evaluate(places)
        assert [tab[:2] for tab in now] == [tab[:2] for tab in before]
        assert all(abs(left - right) < 1 for *_, left, right in now), "words stand over the middle of their line"


def test_numbers_of_a_metric_end_at_one_edge(page, address):
    opened(page, address, "?view=compare")
    page.wait_for_selector(".metrics .change:not(:empty)")
    edges = page.evaluate(
        """() => [1, 2].map((k) => [...document.querySelectorAll(`.metrics tr > :nth-child(${k + 1})`)].map((cell) => {
          const number = document.createRange();
          number.selectNodeContents(cell.firstChild);
          return Math.round(number.getBoundingClientRect().right);
        }))"""
    )
    assert [len(set(column)) for column in edges] == [1, 1], edges


@pytest.mark.parametrize("width", [1280, 1366, 1440])
def test_selectors_show_all_of_their_value(page, address, width):
    page.set_viewport_size({"width": width, "height": 768})
    opened(page, address)
    cut = page.evaluate(
        """() => [...document.querySelectorAll(".toolbar select")].filter((select) => {
          const pen = document.createElement("canvas").getContext("2d");
          const style = getComputedStyle(select);
          pen.font = style.font;
          const room = select.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
          return pen.measureText(select.selectedOptions[0].textContent).width > room + 1;
        }).map((select) => select.id)"""
    )
    assert cut == []


def test_the_theme_can_be_chosen_and_stays(page, address):
    page.emulate_media(color_scheme="light")
    opened(page, address)
    page.click("#theme")
    assert page.evaluate("radixflow.describe().lanes[0].theme") == "dark"
    page.reload()
    page.wait_for_selector("#page[data-ready=true]")
    assert page.evaluate("[document.documentElement.dataset.theme, radixflow.describe().lanes[0].theme]") == [
        "dark",
        "dark",
    ]


def test_the_whole_page_can_be_reached_by_tab(page, address):
    opened(page, address)
    at_round(page, 1)
    reached = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.closest('[id]')?.id"))
    wanted = {
        "trace-select",
        "policy-a",
        "policy-b",
        "round-slider",
        "play",
        "lane-0",
        "lane-1",
        "tree",
        "theme",
        "round-inspector",
    }
    assert wanted <= reached, wanted - reached


def test_every_id_that_the_contract_names_is_there(page, address):
    opened(page, address)
    names = "trace-select policy-a policy-b round-slider play timeline tree round-inspector"
    names += " request-inspector compare live-status"
    for name in names.split():
        assert page.locator(f"#{name}").count() == 1
        assert page.locator(f"#{name}").is_visible(), name

"""Legible by everybody: contrast, size, names and focus, in light and dark, wide and narrow."""

from __future__ import annotations

import pytest
from dashboard_server import at_round, opened, serving
from dashboard_traces import write
from figures_traces import figure1

# Each visible piece of text against the colour behind it (WCAG 2, 1.4.3), its size, and a name for every control.
FAULTS = """() => {
  const luminance = (c) => c.slice(0, 3).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const colour = (text) => { const v = (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number); return v.length < 4 ? [...v, 1] : v; };
  const over = (top, below) => [0, 1, 2].map((k) => top[k] * top[3] + below[k] * (1 - top[3]));
  const behind = (node) => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) { const c = colour(getComputedStyle(at).backgroundColor); if (c[3] > 0) layers.push(c); if (c[3] === 1) break; }
    return layers.reverse().reduce((below, c) => over(c, below), [255, 255, 255]);
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !node.checkVisibility({ visibilityProperty: true }) || node.closest("script,style,svg,option,.rf-hidden,.skip,.ag-root,.rf-tip")) continue;
    const style = getComputedStyle(node);
    const size = parseFloat(style.fontSize);
    const back = behind(node);
    const [a, b] = [luminance(over(colour(style.color), back)), luminance(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const what = walker.currentNode.textContent.trim().slice(0, 40);
    if (size < 12) found.push(`${what}: ${size} px`);
    if (ratio < (size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5)) found.push(`${what}: contrast ${ratio.toFixed(2)}`);
  }
  for (const control of document.querySelectorAll("button, select, input, a, [tabindex='0']")) {
    if (!control.checkVisibility()) continue;
    const named = control.getAttribute("aria-label") || control.textContent.trim() || control.labels?.length || control.title;
    if (!named) found.push(`no name: ${control.outerHTML.slice(0, 80)}`);
  }
  if (document.documentElement.scrollWidth > innerWidth + 1) found.push(`wider than the window: ${document.documentElement.scrollWidth}`);
  return found;
}"""


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
@pytest.mark.parametrize("width", [1920, 1440, 420])
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


def test_the_theme_can_be_chosen_and_stays(page, address):
    page.emulate_media(color_scheme="light")
    opened(page, address)
    page.click("#theme")
    assert page.evaluate("radixflow.describe().lanes[0].theme") == "dark"
    page.reload()
    page.wait_for_selector("#page[data-ready=true]")
    assert page.evaluate("[document.documentElement.dataset.theme, radixflow.describe().lanes[0].theme]") == ["dark", "dark"]


def test_the_whole_page_can_be_reached_by_tab(page, address):
    opened(page, address)
    at_round(page, 1)
    reached = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.closest('[id]')?.id"))
    wanted = {"trace-select", "policy-a", "policy-b", "round-slider", "play", "lane-0", "lane-1", "tree", "theme", "round-inspector"}
    assert wanted <= reached, wanted - reached


def test_every_id_that_the_contract_names_is_there(page, address):
    opened(page, address)
    names = "trace-select policy-a policy-b round-slider play timeline tree round-inspector request-inspector compare live-status"
    for name in names.split():
        assert page.locator(f"#{name}").count() == 1
        assert page.locator(f"#{name}").is_visible(), name

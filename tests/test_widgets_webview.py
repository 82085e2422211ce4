"""The player as VS Code's notebooks load it: from the text that the kernel sends, in a page that has nothing else.

VS Code runs neither JupyterLab's extensions nor its styles: anywidget makes a blob of `_esm`, imports that, and calls
`render`. The page here allows less than VS Code's: no inline code, no eval, no network, no styles but constructed ones.
"""

from __future__ import annotations

import pytest
from figures_traces import figure1, write

import radixflow as rf
from radixflow.figures.palette import THEMES

POLICY = "default-src 'none'; script-src 'self' blob:"
PAGE = f"""<!doctype html><html><head><meta charset="utf-8"><title>webview</title>
<meta http-equiv="Content-Security-Policy" content="{POLICY}"></head>
<body data-vscode-theme-kind="vscode-THEME"><div id="cell"></div><script type="module" src="/host.mjs"></script>
</body></html>"""

HOST = """// What anywidget asks of a module and gives it: packages/anywidget in its nbextension.
const listeners = new Map();
const heard = (name) => listeners.get(name) ?? [];
const state = await kernel("state");
const changed = new Set();
window.state = state;
const arrives = (values) => {
  Object.assign(state, values);
  for (const name of Object.keys(values)) for (const listener of heard("change:" + name)) listener();
};
const model = {
  get: (name) => state[name],
  set(name, value) {
    state[name] = value;
    changed.add(name);
    for (const listener of heard("change:" + name)) listener();
  },
  async save_changes() {
    const values = Object.fromEntries([...changed].map((name) => [name, state[name]]));
    changed.clear();
    arrives(await kernel("changes", values));
  },
  on: (name, listener) => listeners.set(name, [...heard(name), listener]),
  off: (name, listener) => listeners.set(name, heard(name).filter((one) => one !== listener)),
};
const url = URL.createObjectURL(new Blob([state._esm], { type: "text/javascript" }));
const { default: widget } = await import(url);
URL.revokeObjectURL(url);
const el = document.getElementById("cell");
await widget.initialize?.({ model });
window.leave = await widget.render({ model, el });
window.arrives = arrives;
"""

GROUNDS = """[...document.querySelectorAll("#cell canvas")].map((canvas) => {
  if (!canvas.width || !canvas.height) return null;
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Map();
  for (let k = 0; k < data.length; k += 4) {
    const colour = data[k] << 16 | data[k + 1] << 8 | data[k + 2];
    if (data[k + 3]) seen.set(colour, (seen.get(colour) ?? 0) + 1);
  }
  if (seen.size <= 30) return null;
  const [ground] = [...seen].sort((a, b) => b[1] - a[1])[0];
  return "#" + ground.toString(16).padStart(6, "0");
}).filter(Boolean)"""
"""The most frequent colour of each canvas that a picture is drawn on."""


@pytest.fixture
def player(tmp_path):
    traces = [
        rf.open_trace(write(tmp_path / f"{policy}.rft.jsonl", figure1(policy)))
        for policy in ("radix", "radixflow+noadmit")
    ]
    return rf.player(*traces)


@pytest.fixture
def open_webview(browser, player):
    """Open the player in a webview of a theme; its console stays empty and it asks for nothing."""
    context = browser.new_context(viewport={"width": 900, "height": 900}, reduced_motion="reduce")
    said: list[str] = []

    def kernel(what, changes=None):
        """What the kernel would do: take the page's changes, and send back what changed because of them."""
        before = player.get_state()
        if what == "state":
            return before
        player.set_state(changes)
        after = player.get_state()
        return {name: value for name, value in after.items() if value != before[name] and value != changes.get(name)}

    def opened(theme):
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.expose_function("kernel", kernel)
        files = {"/": (PAGE.replace("THEME", theme), "text/html"), "/host.mjs": (HOST, "text/javascript")}

        def answer(route):
            path = route.request.url.removeprefix("http://webview.test")
            if path in files:
                route.fulfill(body=files[path][0], content_type=files[path][1])
            else:
                said.append(f"asked for {path}")
                route.abort()

        page.route("**/*", answer)
        page.goto("http://webview.test/")
        eventually(page, "Boolean(window.leave)")
        return page

    yield opened
    context.close()
    assert [line for line in said if not line.startswith("asked for /favicon")] == []


def eventually(page, expression):
    """Wait until an expression is true (`wait_for_function` needs eval, which the policy forbids)."""
    for _ in range(400):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"never true: {expression}")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_draws_in_the_theme_of_the_editor(open_webview, theme):
    page = open_webview(theme)
    eventually(page, f"{GROUNDS}.length >= 3")  # two timelines and a tree
    assert THEMES[theme]["panel"] in page.evaluate(GROUNDS)


def test_it_plays_answers_a_click_and_python_and_leaves_nothing_behind(open_webview, player):
    page = open_webview("dark")
    page.get_by_label("Rounds a second").select_option("30")
    page.get_by_role("button", name="Play").click()
    eventually(page, "document.querySelector('#cell output').textContent === 'Round 6 of 6'")
    eventually(page, "document.querySelectorAll('#cell .rf-title small')[0].textContent === 'in round 6'")
    assert player.round == 6

    page.get_by_role("button", name="First round").click()
    stage = page.locator(".rf-stage").first.bounding_box()
    for share in (0.66, 0.62, 0.58, 0.54):
        page.mouse.click(stage["x"] + 0.15 * stage["width"], stage["y"] + share * stage["height"])
        if page.evaluate("state.selected"):
            break
    eventually(page, "state.selected === 'P1'")
    assert player.selected == "P1" and player.round == 1

    page.evaluate("arrives({ round: 4 })")
    assert page.locator("output").text_content() == "Round 4 of 6"
    page.evaluate("leave()")
    assert page.locator("#cell .rf-player").count() == 0

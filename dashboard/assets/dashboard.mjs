// Wires the page: waits for Dash to lay it out, then connects state, panes, transport, selectors and the callbacks.

import { ask, fetched, overtaken } from "./ask.mjs";
import { createEngines } from "./engines.mjs";
import { createLab } from "./lab.mjs";
import { createLive } from "./live.mjs";
import { show } from "./panels.mjs";
import { createPanes } from "./panes.mjs";
import { createPickers } from "./pickers.mjs";
import { createState, doubts, initial, read } from "./state.mjs";
import { createTrajectories } from "./trajectories.mjs";
import { createTransport } from "./transport.mjs";

const ready = (id) =>
  new Promise((resolve) => {
    const look = () => document.getElementById(id) && (observer.disconnect(), resolve());
    const observer = new MutationObserver(look);
    observer.observe(document.documentElement, { childList: true, subtree: true });
    look();
  });

const theme = () => document.documentElement.dataset.theme;

function save({ name, content }) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(content), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// The table of requests as somebody sorted or filtered it: the numbers of its first rows, and how many there are.
function shownRows(most = 40) {
  const grid = document.getElementById("requests-grid") && window.dash_ag_grid?.getApi("requests-grid");
  if (!grid || !(grid.isAnyFilterPresent() || grid.getColumnState().some(({ sort }) => sort))) return {};
  const of = grid.getDisplayedRowCount();
  const rows = Array.from({ length: Math.min(most, of) }, (_, k) => grid.getDisplayedRowAtIndex(k).data.n);
  return rows.length ? { rows: rows.join("."), of } : {};
}

// What a server says begins small: it follows the name of a file at a prompt. Names with a sign in them stay as they are.
const sentence = (text) => text.replace(/^[a-z]+(?=[ ,:;.'])/, (word) => word[0].toUpperCase() + word.slice(1)).replace(/[^.!?…]$/, "$&.");

// At once, then at most every so often, and always the last one.
function throttle(action, ms) {
  let timer = 0;
  let again = false;
  const run = () => {
    again = false;
    action();
    timer = setTimeout(() => ((timer = 0), again && run()), typeof ms === "function" ? ms() : ms);
  };
  return () => (timer ? (again = true) : run());
}

async function start() {
  await ready("laid-out");
  const { set_props: setProps } = window.dash_clientside;
  const store = createState(read(location.search));
  const page = document.getElementById("page");
  let transport = null;
  let live = null;
  let compareSeen = false;
  let settled = false; // whether it is known what there is to show
  let told = ""; // what the request inspector was last asked

  let messageTimer = 0;
  function say(text, passing = false) {
    const host = document.getElementById("message");
    host.textContent = sentence(text);
    host.hidden = false;
    clearTimeout(messageTimer);
    messageTimer = setTimeout(() => (host.hidden = true), passing ? 2500 : 9000);
  }

  // Take back what was said, once it no longer holds.
  function hush(text) {
    const host = document.getElementById("message");
    if (host.textContent === sentence(text)) host.hidden = true;
  }

  const panes = createPanes(store, { say, play: () => transport.toggle(), loaded, chosenNode });
  const trajectories = createTrajectories(store, { panes, failed: (error) => overtaken(error) || say(error.message) });
  const lab = createLab(store, { say, hush });
  const pickers = createPickers(store, { lab });
  const engines = createEngines(store, { pickers, say, save, shown: () => (page.dataset.ready = "true") });

  function chosenNode(node) {
    if (node) show("node", { trace: panes.shown(), node: node.id, round: store.get().round, among: panes.among() }, say);
  }

  let partingsOf = "";
  let partingsFound = [];
  async function partings() {
    const names = panes.among();
    if (names !== partingsOf) ((partingsFound = (await ask("/api/partings", { traces: names })).rounds), (partingsOf = names));
    return partingsFound.filter((n) => n !== null);
  }

  transport = createTransport(store, { panes, say, partings, moved: () => live.leave() });
  live = createLive(store, {
    panes,
    say,
    switchTo: async (old, next) => {
      await pickers.refresh();
      store.set({ traces: store.get().traces.map((key) => (key === old ? next : key)), round: 1, request: null, first: null, last: null });
    },
    grown: () => (transport.show(), tellCursor(), soonTellSelection(), trajectories.refresh(), facts()),
  });

  function loaded(overviews) {
    const [round, last] = [store.get().round, panes.longest()];
    if (round > last) {
      store.set({ round: last });
      say(`There is no round ${round.toLocaleString("en-US")}: the last one is ${last.toLocaleString("en-US")}.`);
    }
    transport.show();
    live.watch(overviews);
    facts();
    tellCursor();
    tellSelection();
    tellComparison();
    trajectories.refresh();
    page.dataset.ready = "true";
    // Milliseconds from the navigation to the frame that holds the first picture.
    requestAnimationFrame(() => requestAnimationFrame((now) => (page.dataset.drawn ??= Math.round(now))));
  }

  function facts() {
    const host = document.getElementById("run-facts");
    const overview = panes.overviews.get(panes.shown());
    if (!overview) return;
    const n = (value) => value.toLocaleString("en-US");
    const parts = [`S ${n(overview.S)} rows`, `T ${n(overview.T)} tokens`, `${n(overview.requests)} requests`, overview.engine === "sim" ? "simulated" : "vLLM engine"];
    if (overview.model) parts.push(overview.model);
    if (overview.gaps) parts.push(`${n(overview.gaps)} rounds not recorded`);
    host.replaceChildren(...parts.map((text) => Object.assign(document.createElement("span"), { textContent: text })));
  }

  const tellCursor = throttle(() => {
    const trace = panes.shown();
    if (trace) show("round", { trace, round: store.get().round, among: panes.among() }, say);
    // While it plays, frames come first.
  }, () => (transport?.playing() ? 120 : 40));

  function tellSelection() {
    const trace = panes.shown();
    if (!trace) return;
    // A run that goes on may also change what is known of the request.
    const { request } = store.get();
    const known = panes.overviews.get(trace);
    const wanted = { trace, request, among: panes.among() };
    const asked = JSON.stringify([wanted, request === null || known?.complete ? null : known?.num_rounds]);
    if (asked !== told) show("request", wanted, say);
    told = asked;
  }
  // All waits are summed up again for it: seldom.
  const soonTellSelection = throttle(tellSelection, 2000);

  function tellComparison() {
    const { traces, view } = store.get();
    if (traces.length && (compareSeen || view === "compare")) setProps("comparison", { data: { traces, view, theme: theme() } });
  }

  function showView() {
    const { view, traces } = store.get();
    page.dataset.view = view;
    document.getElementById("nothing").hidden = !settled || traces.length > 0 || !["replay", "compare"].includes(view);
    document.querySelectorAll(".tab").forEach((tab) => tab.setAttribute("aria-pressed", String(tab.dataset.view === view)));
  }

  async function enter(view, before) {
    if (view === "classroom") await lab.open();
    else if (before === "classroom" || !store.get().traces.length) {
      const runs = await pickers.refresh();
      const known = store.get().traces.length && store.get().traces.every((key) => runs.some((run) => run.key === key));
      if (!known && runs.length) store.set({ traces: pickers.pair(pickers.groupOf(runs[0])), round: 1, request: null, first: null, last: null, side: 0 });
    }
    pickers.show();
  }

  store.on((changed, state, before) => {
    if (["round", "request", "side", "traces"].some((name) => changed.has(name)) && panes.overviews.has(panes.shown())) (tellCursor(), facts());
    if (["request", "side", "traces"].some((name) => changed.has(name)) && panes.overviews.has(panes.shown())) tellSelection();
    if (changed.has("view") || changed.has("traces")) showView();
    if (changed.has("view")) {
      tellComparison();
      enter(state.view, before.view).catch((error) => say(error.message));
    }
    if (changed.has("axis")) document.querySelectorAll("[data-axis]").forEach((b) => b.setAttribute("aria-pressed", String(b.dataset.axis === state.axis)));
    if (changed.has("round") && before.round !== state.round && state.round < panes.longest() && !transport.playing()) live.leave();
  });

  document.querySelectorAll("button[data-view]").forEach((button) => button.addEventListener("click", () => store.set({ view: button.dataset.view }, true)));
  document.querySelectorAll("[data-axis]").forEach((button) => button.addEventListener("click", () => store.set({ axis: button.dataset.axis })));
  document.addEventListener("click", (event) => {
    const chip = event.target.closest("[data-request]");
    if (chip) store.set({ request: chip.dataset.request === store.get().request ? null : chip.dataset.request });
    const jump = event.target.closest("[data-round]");
    if (jump) (live.leave(), store.set({ round: Number(jump.dataset.round) }), document.getElementById("timeline").scrollIntoView({ block: "nearest" }));
    const traces = event.target.closest("[data-traces]");
    if (traces) store.set({ traces: traces.dataset.traces.split("."), side: 0 });
  });
  document.getElementById("theme").addEventListener("click", () => {
    const next = theme() === "dark" ? "light" : "dark";
    localStorage.setItem("radixflow-theme", next);
    document.documentElement.dataset.theme = next;
  });
  const showTheme = () => (document.getElementById("theme").textContent = theme() === "dark" ? "Light" : "Dark");
  new MutationObserver(() => (showTheme(), tellComparison())).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  showTheme();
  document.getElementById("copy-link").addEventListener("click", async () => {
    await new Promise((resolve) => setTimeout(resolve, 200)); // the address follows a moment later
    try {
      await navigator.clipboard.writeText(location.href);
      say("Link copied.", true);
    } catch {
      say("Copy the address bar: it is the link.", true);
    }
  });
  const downloads = document.getElementById("downloads");
  // Only what can be drawn of these runs is offered.
  const several = () => store.get().traces.length > 1;
  const clocked = () => store.get().traces.every((key) => panes.overviews.get(key)?.clock);
  const always = () => true;
  const applies = {
    timeline: always, tree: always, round: always, replay: always, rows: always, slots: always, waits: always, requests: always,
    request: () => store.get().request !== null,
    trajectories: () => trajectories.describe() !== null,
    bars: () => trajectories.describe() !== null,
    latency: clocked,
    metrics: several,
    // Where steps overlap, the time of one isn't its cost.
    cost: () => several() && store.get().traces.filter((key, k) => !panes.overviews.get(key)?.overlapping && k > 0).length > 0 && !panes.overviews.get(store.get().traces[0])?.overlapping,
  };
  // On the click, which comes before the menu opens; "toggle" comes a moment after.
  downloads.querySelector("summary").addEventListener("click", () => {
    const { round, request, first, last } = store.get();
    const query = { traces: panes.among(), shown: panes.shown(), round, first: first ?? 1, last: last ?? panes.longest(), theme: theme() };
    for (const link of downloads.querySelectorAll("a")) {
      const { what, format } = link.dataset;
      link.closest("li").hidden = !applies[what]?.() || !panes.shown();
      const more = what === "request" && request !== null ? { request } : what === "requests" ? shownRows() : {};
      link.href = `/api/export?${new URLSearchParams({ ...query, what, format, ...more })}`;
    }
  });
  // Fetched first, so that what can't be drawn says why instead of leaving the page.
  downloads.addEventListener("click", async (event) => {
    const link = event.target.closest("a.download");
    if (!link) return;
    event.preventDefault();
    say("Drawing it ...", true);
    try {
      save(await fetched(link.href));
      say("Saved.", true);
      downloads.open = false;
    } catch (error) {
      say(error.message);
    }
  });
  downloads.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !downloads.open) return;
    event.stopPropagation();
    downloads.open = false;
    downloads.querySelector("summary").focus();
  });
  document.addEventListener("click", (event) => downloads.open && !event.target.closest("#downloads") && (downloads.open = false));
  new IntersectionObserver((entries) => {
    if (compareSeen || !entries.some((entry) => entry.isIntersecting)) return;
    compareSeen = true;
    tellComparison();
  }).observe(document.getElementById("compare"));

  // For browser tests: what is drawn, and where.
  const { describe, place, longest, covers, treeRound } = panes;
  window.radixflow = { describe: () => ({ ...describe(), trajectories: trajectories.describe() }), place, rounds: longest, covers, treeRound, engines: engines.describe, state: () => ({ ...store.get() }) };

  const left = doubts(location.search);
  if (left.length) say(left.join(" "));
  showView();
  const runs = await pickers.refresh();
  settled = true;
  if (store.get().view === "engines") engines.refresh();
  if (engines.ofIndex && !runs.length && !store.get().traces.length) {
    store.set({ view: store.get().view === "classroom" ? "classroom" : "engines" });
    if (store.get().view === "classroom") await enter("classroom");
    return;
  }
  if (store.get().view === "classroom" || (!runs.length && !store.get().traces.length)) {
    if (store.get().view !== "classroom") store.set({ view: "classroom" });
    else await enter("classroom");
    return;
  }
  if (store.get().traces.length) {
    pickers.show();
    // A link to runs that aren't here: said, and others shown.
    if (!(await panes.load()) && runs.length) store.set({ ...initial(), view: store.get().view, traces: pickers.pair(pickers.groupOf(runs[0])) });
  } else store.set({ traces: pickers.pair(pickers.groupOf(runs[0])) });
  document.querySelectorAll("[data-axis]").forEach((b) => b.setAttribute("aria-pressed", String(b.dataset.axis === store.get().axis)));
}

start();

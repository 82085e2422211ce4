// Timelines and tree: keeps the canvases in step with the state and fetches what they lack.

import { createTimeline, createTree } from "../module/canvas.mjs";
import { ask, overtaken } from "./ask.mjs";

export function createPanes(store, { say, play, loaded, chosenNode }) {
  const lanes = [];
  const overviews = new Map();
  let tree = null;
  let treeFor = "";
  let treeBusy = false;
  let treeTimer = 0;
  let treeTook = 0; // ms
  let treeAt = 0;
  const trees = new Map(); // promises of the last few
  let drawnTree = null; // the round of the tree that was painted last

  const among = () => store.get().traces.join(".");
  const shown = () => store.get().traces[Math.min(store.get().side, store.get().traces.length - 1)] ?? null;
  const longest = () => Math.max(1, ...store.get().traces.map((key) => overviews.get(key)?.num_rounds ?? 1));
  const failed = (error) => overtaken(error) || say(error.message);

  function lane(k) {
    const host = document.getElementById(`lane-${k}`);
    const own = { key: null, host };
    host.addEventListener("pointerdown", () => store.set({ side: k }), true);
    host.addEventListener("focusin", () => store.set({ side: k }));
    own.make = (overview) => {
      own.timeline?.destroy();
      own.timeline = createTimeline(host, {
        theme: "auto",
        title: overview.label,
        label: overview.label,
        onCursor: (round) => store.set({ round, side: k }),
        onSelect: (request) => store.set({ request, side: k }),
        onPlay: play,
        onWindow: async ({ first, last }) => {
          const key = own.key;
          try {
            const window = await ask("/api/window", { trace: key, first, last, among: among() });
            if (own.key === key) own.timeline.setData(window);
          } catch (error) {
            failed(error);
          }
        },
        onView: ({ first, last }) => {
          const [from, to] = [Math.max(1, Math.round(first)), Math.round(last)];
          const all = from <= 1 && to >= longest();
          lanes.forEach((other) => other !== own && other.key && other.timeline.setView(first, last));
          store.set({ first: all ? null : from, last: all ? null : to });
        },
      });
      own.timeline.setOverview(overview);
    };
    return own;
  }

  // Show the state's traces, one lane each; false where one of them can't be had.
  async function load() {
    const { traces } = store.get();
    while (lanes.length < traces.length) lanes.push(lane(lanes.length));
    let fetched;
    try {
      fetched = await Promise.all(traces.map(async (key) => overviews.get(key) ?? (await ask("/api/overview", { trace: key }))));
    } catch (error) {
      failed(error);
      return false;
    }
    if (traces !== store.get().traces) return true;
    fetched.forEach((overview) => overviews.set(overview.key, overview));
    name(fetched);
    const whole = Math.max(1, ...fetched.map((o) => o.num_rounds));
    document.getElementById("timeline").dataset.lanes = traces.length;
    for (let k = 0; k < 6; k++) document.getElementById(`lane-${k}`).hidden = k >= traces.length;
    lanes.forEach((own, k) => {
      const overview = fetched[k];
      if (!overview) {
        own.timeline?.destroy();
        own.timeline = own.key = null;
        own.host.replaceChildren();
        return;
      }
      if (own.key !== overview.key || own.label !== overview.label || own.among !== among()) {
        own.key = overview.key;
        own.label = overview.label;
        own.among = among();
        own.host.replaceChildren();
        own.make(overview);
      }
      const { axis, first, last, round, request } = store.get();
      own.timeline.setAxis(axis);
      own.timeline.setView(first ?? 1, last ?? whole);
      own.timeline.setCursor(round);
      own.timeline.setSelection(request);
    });
    markShown();
    loaded(fetched);
    refreshTree();
    return true;
  }

  // Which timeline tree and inspectors speak about.
  function markShown() {
    const { side, traces } = store.get();
    document.querySelectorAll(".lane").forEach((host, k) => host.classList.toggle("shown", k === side && traces.length > 1));
  }

  // Runs of the same policy are told apart by letter, and by eviction where that differs.
  function name(list) {
    const letters = "ABCDEF";
    const differ = list.some((overview) => overview.eviction !== list[0].eviction);
    list.forEach((overview, k) => (overview.label = `${list.length > 1 ? `${letters[k]}  ` : ""}${overview.policy}${differ ? `, ${overview.eviction}` : ""}`));
  }

  // The inspector and the timeline ask first.
  function soonTree() {
    clearTimeout(treeTimer);
    treeTimer = setTimeout(refreshTree, 0);
  }

  // While a run goes on, new rounds are more urgent than its tree: it rests eight times as long as it takes.
  function paceTree() {
    clearTimeout(treeTimer);
    treeTimer = setTimeout(refreshTree, Math.min(6000, 8 * treeTook));
  }

  // What a round left changes no more once a few others have followed.
  function nameOf(key, round) {
    const total = overviews.get(key).num_rounds;
    return `${key} ${round} ${round < total - 4 ? "" : total} ${among()}`;
  }

  // The tree of a round; the one that comes next in the cursor's direction is asked for beforehand.
  function treeOf(key, round) {
    const name = nameOf(key, round);
    const found = trees.get(name) ?? ask("/api/tree", { trace: key, round, among: among() });
    trees.delete(name);
    trees.set(name, found);
    while (trees.size > 6) trees.delete(trees.keys().next().value);
    found.catch(() => trees.delete(name));
    return found;
  }

  // Calls back once the next frame is on the screen.
  function painted(then) {
    requestAnimationFrame(() => {
      const channel = new MessageChannel();
      channel.port1.onmessage = then;
      channel.port2.postMessage(null);
    });
  }

  function foresee(key, round) {
    const next = round + (round < treeAt ? -1 : 1);
    treeAt = round;
    if (!store.get().follow && overviews.has(key) && next >= 1 && next <= overviews.get(key).num_rounds) treeOf(key, next).catch(() => {});
  }

  async function refreshTree() {
    const key = shown();
    if (!key || !overviews.get(key)?.num_rounds) return;
    const wanted = nameOf(key, store.get().round);
    if (wanted === treeFor || treeBusy) return;
    treeBusy = true;
    treeFor = wanted;
    const began = performance.now();
    try {
      const { round } = store.get();
      const layout = await treeOf(key, round);
      if (!tree)
        tree = createTree(document.getElementById("tree"), {
          theme: "auto",
          label: "Prefix tree",
          onSelect: (request) => store.set({ request }),
          onNode: chosenNode,
        });
      tree.setData(layout);
      painted(() => (drawnTree = layout.round));
      tree.setSelection(store.get().request);
      setTimeout(() => foresee(key, round), 30);
    } catch (error) {
      failed(error);
    } finally {
      treeBusy = false;
      treeTook = performance.now() - began;
    }
    store.get().follow ? paceTree() : refreshTree(); // the cursor may have moved on meanwhile
  }

  store.on((changed, state) => {
    if (changed.has("traces")) load();
    for (const own of lanes) {
      if (!own.timeline) continue;
      if (changed.has("round")) own.timeline.setCursor(state.round);
      if (changed.has("request")) own.timeline.setSelection(state.request);
      if (changed.has("axis")) own.timeline.setAxis(state.axis);
    }
    if (changed.has("request")) tree?.setSelection(state.request);
    if (changed.has("round") || changed.has("side")) state.follow ? paceTree() : soonTree();
    if (changed.has("side") || changed.has("traces")) markShown();
  });

  return {
    load,
    overviews,
    longest,
    shown,
    among,
    // A run has grown: new overview, and the rounds that came.
    async grow(key) {
      const k = store.get().traces.indexOf(key);
      const old = overviews.get(key);
      if (k < 0 || !old) return;
      const first = Math.max(1, (old.num_rounds || 1) - 1);
      const { overview, window } = await ask("/api/growth", { trace: key, first, among: among() });
      if (lanes[k]?.key !== key) return;
      overview.label = old.label;
      overviews.set(key, overview);
      lanes[k].timeline.setOverview(overview);
      if (window) lanes[k].timeline.setData(window);
      paceTree();
      return overview;
    },
    // Whether the first timeline shows this round, cell by cell where it is zoomed in; and whose tree is drawn.
    covers: (n) => lanes[0]?.timeline?.covers(n) ?? false,
    treeRound: () => drawnTree,
    // What is drawn, for tests.
    describe: () => ({ lanes: lanes.filter((own) => own.timeline).map((own) => ({ key: own.key, ...own.timeline.describe() })), tree: tree?.describe() ?? null }),
    place(k, round, row) {
      const stage = lanes[k].host.querySelector(".rf-stage").getBoundingClientRect();
      const at = lanes[k].timeline.place(round, row);
      return { x: stage.x + at.x, y: stage.y + at.y };
    },
  };
}

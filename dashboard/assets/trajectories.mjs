// The trajectories card: a bar a context at the cursor's round, one column a trace, rows and scale shared.

import { ask, overtaken } from "./ask.mjs";

const n = (value) => value.toLocaleString("en-US");

// What a bar shows, in a sentence; `when` leaves the future out where a run is still being written.
export function wordsOf(label, bar) {
  if (!bar) return `${label} isn't in this run.`;
  if (bar.state === "absent") return `${label} has not come yet.`;
  const states = {
    running: bar.miss ? `came back in this round as ${bar.request}` : `${bar.request} is running`,
    waiting: `${bar.request} waits`,
    idle: `idle since round ${n(bar.since ?? 0)}`,
    gone: `done since round ${n(bar.since ?? 0)}`,
  };
  const parts = [`${label}: ${states[bar.state]}, ${n(bar.full)} tokens`];
  if (bar.expected && !bar.lost) parts.push(`all of its ${n(bar.expected)} cached tokens are there`);
  if (bar.lost) {
    const left = bar.vanished ? (bar.ready ? `only the ${n(bar.ready)} that others share are left` : "nothing is left") : `${n(bar.ready)} of ${n(bar.expected)} are left to go on from`;
    parts.push(left, `${n(bar.lost)} lost${bar.evictor ? `, the last of them to ${bar.evictor}` : ""}`);
  }
  if (bar.matched > bar.ready) parts.push(`key-values of ${n(bar.matched - bar.ready)} more serve nobody, as no state goes with them`);
  if (bar.next) parts.push(`comes back in round ${n(bar.next.round)} and misses ${bar.next.missed ? n(bar.next.missed) : "nothing"}`);
  return parts.join("; ") + ".";
}

// The few words beside a bar.
function noteOf(bar) {
  if (!bar) return "";
  if (bar.state === "absent") return "not yet";
  if (bar.miss) return bar.lost ? `missed ${n(bar.lost)}` : "found all";
  if (bar.lost) return `−${n(bar.lost)}${bar.evictor ? ` to ${bar.evictor}` : ""}`;
  return { running: "running", waiting: "waits", gone: "done", idle: "" }[bar.state];
}

const make = (tag, className = "", text = "") => Object.assign(document.createElement(tag), { className, textContent: text });

// One row, whose nodes stay while the cursor moves, so that bars shrink and grow instead of being replaced.
function createRow(id) {
  const element = make("li", "bar-row");
  element.id = id;
  element.setAttribute("role", "option");
  const name = make("span", "bar-name");
  const track = make("span", "bar-track");
  const note = make("span", "bar-note");
  const parts = Object.fromEntries(["full", "lost", "dead", "own", "shared"].map((part) => [part, track.appendChild(make("i", `bar-${part}`))]));
  element.append(name, track, note);
  const row = { element, bar: null, words: "" };
  row.show = (label, bar, extent) => {
    row.bar = bar;
    row.words = wordsOf(label, bar);
    name.textContent = label;
    note.textContent = noteOf(bar);
    element.dataset.state = bar?.state ?? "missing";
    element.classList.toggle("vanished", Boolean(bar?.vanished));
    element.setAttribute("aria-label", row.words);
    element.style.setProperty("--fill", bar?.fill ?? "transparent");
    const at = (tokens) => `${((100 * tokens) / Math.max(1, extent)).toFixed(3)}%`;
    const ends = bar ?? { full: 0, expected: 0, matched: 0, ready: 0, shared: 0 };
    // Each reaches from the beginning to its end, and covers the ones below it.
    parts.full.style.width = at(ends.full);
    parts.lost.style.width = at(ends.lost && !ends.vanished ? ends.expected : 0);
    parts.dead.style.width = at(ends.matched > ends.ready ? ends.matched : 0);
    parts.own.style.width = at(ends.ready);
    parts.shared.style.width = at(Math.min(ends.ready, ends.shared));
  };
  // As drawn: tokens, from the widths on the page.
  row.drawn = (extent) => {
    const tokens = (part) => Math.round((parseFloat(parts[part].style.width) / 100) * extent);
    return { state: element.dataset.state, request: row.bar?.request ?? null, full: tokens("full"), ready: tokens("own"), matched: Math.max(tokens("dead"), tokens("own")), lost: Math.max(0, tokens("lost") - tokens("own")), vanished: element.classList.contains("vanished"), note: note.textContent };
  };
  return row;
}

// A trace's bars, as a list of which one row at a time is current.
function createColumn(k, { select, tell }) {
  const element = make("div", "bar-column");
  const title = make("h3");
  const list = make("ul", "bar-list");
  list.setAttribute("role", "listbox");
  list.tabIndex = 0;
  element.append(title, list);
  const rows = new Map();
  let order = [];
  let current = 0;
  let whose = ""; // which run, where there are several
  const said = (row) => (row ? whose + row.words : null);

  function goTo(at, focused = true) {
    current = Math.min(order.length - 1, Math.max(0, at));
    order.forEach((row, m) => row.element.classList.toggle("current", focused && m === current));
    const row = order[current];
    if (!row) return;
    list.setAttribute("aria-activedescendant", row.element.id);
    row.element.scrollIntoView?.({ block: "nearest" });
    tell(said(row));
  }

  list.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") goTo(current + (event.key === "ArrowDown" ? 1 : -1));
    else if (event.key === "Enter") order[current] && select(k, order[current].bar);
    else return;
    event.preventDefault();
  });
  list.addEventListener("focus", () => list.matches(":focus-visible") && goTo(current));
  list.addEventListener("blur", () => order.forEach((row) => row.element.classList.remove("current")));
  const rowAt = (event) => order.find((row) => row.element === event.target.closest(".bar-row"));
  list.addEventListener("click", (event) => {
    const row = rowAt(event);
    if (row) ((current = order.indexOf(row)), select(k, row.bar));
  });
  list.addEventListener("pointerover", (event) => rowAt(event) && tell(said(rowAt(event))));

  return {
    element,
    show(data, label) {
      const run = data.runs[k];
      whose = data.runs.length > 1 ? `In ${"ABCDEF"[k]}, ` : "";
      const count = (state) => run.bars.filter((bar) => bar?.state === state).length;
      const heading = label.endsWith(run.eviction) ? label : `${label}, ${run.eviction}`;
      const soft = make("span", "soft", `${count("running")} running, ${count("waiting")} waiting, ${count("idle")} idle`);
      title.replaceChildren(heading, soft);
      list.setAttribute("aria-label", `Trajectories of ${heading}`);
      list.style.setProperty("--names", `${Math.min(18, Math.max(...data.labels.map((name) => name.length)))}ch`);
      order = data.rows.map((name, m) => {
        const row = rows.get(name) ?? createRow(`bar-${k}-${rows.size}`);
        rows.set(name, row);
        row.show(data.labels[m], run.bars[m], data.extent);
        if (list.children[m] !== row.element) list.insertBefore(row.element, list.children[m] ?? null);
        return row;
      });
      while (list.children.length > order.length) list.lastElementChild.remove();
      current = Math.min(current, Math.max(0, order.length - 1));
    },
    mark(request) {
      for (const row of order) row.element.setAttribute("aria-selected", String(request !== null && row.bar?.request === request));
    },
    // Of the row that the keyboard is at, else of the selected one.
    words: () => said(document.activeElement === list ? order[current] : order.find((row) => row.element.getAttribute("aria-selected") === "true")),
    drawn: (extent) => order.map((row) => row.drawn(extent)),
  };
}

// Fetches and draws; once it is known that somebody comes back, asks only while the card is in sight.
export function createTrajectories(store, { panes, failed }) {
  const host = document.getElementById("trajectories");
  const columns = host.querySelector(".bar-columns");
  const sentence = host.querySelector(".bar-words");
  const folded = host.querySelector(".bar-folded");
  let made = []; // columns
  let data = null;
  let shownFor = ""; // what was asked last
  let tracesOf = ""; // the traces that `data` is of
  let busy = false;
  let inSight = false;
  let timer = 0;
  let took = 0;

  const tell = (words) => {
    sentence.textContent = words ?? "Point at a bar, or walk along them with the arrow keys: who lost what, to whom, and what that costs it.";
    sentence.classList.toggle("soft", !words);
  };
  const select = (side, bar) => bar && bar.state !== "absent" && store.set({ request: bar.request === store.get().request ? null : bar.request, side });

  function draw() {
    const { traces, request } = store.get();
    host.hidden = !data.rows.length;
    if (host.hidden) return columns.replaceChildren();
    host.classList.toggle("with-states", data.runs.some((run) => run.states));
    const anew = made.length !== data.runs.length;
    if (anew) made = data.runs.map((_, k) => createColumn(k, { select, tell }));
    if (anew || !columns.children.length) columns.replaceChildren(...made.map((column) => column.element));
    made.forEach((column, k) => (column.show(data, panes.overviews.get(traces[k])?.label ?? data.runs[k].policy), column.mark(request)));
    folded.textContent = data.hidden ? `${n(data.hidden)} more are not shown` : "";
    tell(made.map((column) => column.words()).find(Boolean));
  }

  function nameOf({ traces, round }) {
    const growing = traces.map((key) => panes.overviews.get(key)).filter((one) => one && !one.complete);
    return [traces.join("."), round, ...growing.map((one) => `${one.num_rounds} ${one.requests}`)].join(" ");
  }

  async function refresh() {
    const { traces, round } = store.get();
    const among = traces.join(".");
    const open = traces.some((key) => !panes.overviews.get(key)?.complete);
    if (busy || !traces.length || !traces.every((key) => panes.overviews.get(key)?.num_rounds)) return;
    // Where nobody comes back there is nothing to show, unless the run goes on.
    if (among === tracesOf && data && (data.rows.length ? !inSight : !open)) return;
    const wanted = nameOf({ traces, round });
    if (wanted === shownFor) return;
    busy = true;
    shownFor = wanted;
    const began = performance.now();
    try {
      const answer = await ask("/api/trajectories", { traces: among, round });
      if (among === panes.among()) ((data = answer), (tracesOf = among), draw());
    } catch (error) {
      failed(error);
    } finally {
      busy = false;
      took = performance.now() - began;
    }
    store.get().follow ? pace() : refresh(); // the cursor may have moved on meanwhile
  }

  // A run that goes on: new rounds are more urgent, and a card that shows nobody even less so.
  function pace() {
    clearTimeout(timer);
    timer = setTimeout(refresh, data && !data.rows.length ? 6000 : Math.min(6000, 8 * took));
  }

  function soon() {
    clearTimeout(timer);
    timer = setTimeout(refresh, 0);
  }

  new IntersectionObserver((entries) => {
    inSight = entries.at(-1).isIntersecting;
    if (inSight) soon();
  }).observe(host);
  store.on((changed, state) => {
    if (changed.has("request")) (made.forEach((column) => column.mark(state.request)), tell(made.map((column) => column.words()).find(Boolean)));
    if (changed.has("round")) state.follow ? pace() : soon();
  });

  return {
    refresh: () => (store.get().follow ? pace() : soon()),
    describe: () => (data?.rows.length ? { round: data.round, rows: data.rows, labels: data.labels, hidden: data.hidden, extent: data.extent, runs: data.runs.map((run, k) => ({ eviction: run.eviction, bars: made[k].drawn(data.extent) })) } : null),
  };
}

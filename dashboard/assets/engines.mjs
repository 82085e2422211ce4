// The view "Engines": the tree across engines, of a running index each second, or of the traces shown at the cursor.

import { createTree } from "../module/canvas.mjs";
import { ask, fetched, overtaken } from "./ask.mjs";

const POLL_MS = 1000;
const MAX_CHOICES = 60;
const n = (value) => value.toLocaleString("en-US");
const countedBlocks = (value) => `${n(value)} block${value === 1 ? "" : "s"}`;

function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let k = 0;
  for (; value >= 1000 && k < units.length - 1; k++) value /= 1000;
  return `${value.toLocaleString("en-US", { maximumFractionDigits: value < 10 && k ? 1 : 0 })} ${units[k]}`;
}

// An element with text and children; what comes from an index or a trace stays text.
function el(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

export function createEngines(store, { pickers, say, shown, save }) {
  const page = document.getElementById("page");
  const ofIndex = page.dataset.engines === "index";
  const host = document.getElementById("engines-tree");
  const source = document.getElementById("engines-source");
  const choice = document.getElementById("engines-choice");
  const pane = document.getElementById("engines-pane");
  let tree = null;
  let data = null;
  let seen = "";
  let chosen = null; // a node's id
  let timer = 0;
  let gone = null;

  const visible = () => store.get().view === "engines";

  async function refresh() {
    clearTimeout(timer);
    if (!visible()) return;
    const { traces, round } = store.get();
    if (!ofIndex && !traces.length) return;
    try {
      take(await ask("/api/engines", ofIndex ? { seen } : { traces: traces.join("."), round, seen }, "engines"));
    } catch (error) {
      if (overtaken(error)) return;
      ofIndex ? tellGone("this dashboard's server doesn't answer") : say(error.message);
    }
    if (ofIndex) timer = setTimeout(refresh, POLL_MS);
  }

  function take(answer) {
    if (answer.gone !== undefined) return tellGone(answer.gone, answer);
    gone = null;
    host.classList.remove("stale");
    if (answer.tree) {
      data = answer.tree;
      seen = answer.seen;
      tree ??= createTree(host, { theme: "auto", label: "Prefixes across engines", onNode: ({ id }) => ((chosen = id), tellPane()) });
      tree.setData(data);
      tellPane();
    }
    tell(ofIndex
      ? `Index at ${answer.index}, asked each second`
      : `${data.engines.length === 1 ? "The run" : "Each run"} as an engine in round ${n(store.get().round)}; a hollow mark is ready from the next round on`);
  }

  function tell(words) {
    source.textContent = words;
    source.className = gone === null ? "soft" : "alert";
    if (ofIndex && !store.get().traces.length) document.getElementById("live-status").textContent = gone === null ? "Index there" : "Index gone";
    if (ofIndex) shown();
  }

  function tellGone(words, answer = {}) {
    gone = words;
    host.classList.add("stale");
    const since = answer.gone_seconds >= 1 ? `has been gone for ${n(Math.round(answer.gone_seconds))} s` : "is gone";
    tell(`The index${answer.index ? ` at ${answer.index}` : ""} ${since}: ${words}. ${data ? "This is what it said last; it" : "It"} is asked again each second.`);
  }

  // -- the pane: what the engines hold in all, and who could resume what is chosen

  function row(cells, head = false) {
    const tr = el("tr", "");
    cells.forEach((cell, k) => {
      const td = el(head || k === 0 ? "th" : "td", "", ...(Array.isArray(cell) ? cell : [cell]));
      if (head) td.scope = "col";
      else if (k === 0) td.scope = "row";
      tr.append(td);
    });
    return tr;
  }

  function table(head, rows) {
    return el("table", "facts", el("thead", "", row(head, true)), el("tbody", "", ...rows.map((cells) => row(cells))));
  }

  function totals() {
    const sized = data.engines.some((engine) => engine.bytes !== null);
    const head = ["Engine", "Blocks", ...(sized ? ["Bytes"] : []), "State"];
    const rows = data.engines.map((engine) => [engine.name, n(engine.blocks), ...(sized ? [engine.bytes === null ? "" : bytes(engine.bytes)] : []), engine.state]);
    const again = `${countedBlocks(data.duplicated)}${data.duplicated_bytes === null ? "" : ` (${bytes(data.duplicated_bytes)})`}`;
    const copies = data.duplicated ? `Of these, ${again} repeat${data.duplicated === 1 ? "s" : ""} what another engine holds.` : "No block is held by two engines.";
    const out = [el("h3", "", "What they hold"), table(head, rows), el("p", "soft", copies)];
    if (data.hidden_spaces) out.push(el("p", "soft", `${n(data.hidden_spaces)} smaller namespaces aren't drawn.`));
    return out;
  }

  function answers(node) {
    const name = (answer) => data.engines[answer.engine].name;
    const ranked = [...node.answers].sort((a, b) => b.ready - a.ready || b.matched - a.matched);
    const best = ranked[0];
    let words = `Nobody can resume a prompt that goes this far: each engine computes all ${n(node.end)} tokens.`;
    if (best?.ready > 0) {
      const equals = ranked.filter((answer) => answer.ready === best.ready).map(name);
      const named = equals.length > 4 ? [...equals.slice(0, 3), `${equals.length - 3} more`] : equals;
      const who = named.length > 1 ? `${named.slice(0, -1).join(", ")} and ${named.at(-1)}` : named[0];
      words = `${who} can resume a prompt that goes this far at ${n(best.ready)}${best.ready === node.end ? ", its end." : `; ${n(node.end - best.ready)} tokens are computed again.`}`;
    }
    const held = (answer) => {
      const alike = new Map();
      for (const [component, blocks] of Object.entries(answer.held)) alike.set(blocks, [...(alike.get(blocks) ?? []), component]);
      return [...alike].map(([blocks, components]) => `${components.join("+")} ${n(blocks)}`).join(", ") || "none";
    };
    return [
      el("h3", "", node.label, el("span", "soft", `tokens ${n(node.start)} to ${n(node.end)}, ${countedBlocks(node.blocks)}`)),
      el("p", "lead", words),
      table(["Engine", "Ready h", "Matched h^", "Blocks here"], ranked.map((answer) => [name(answer), n(answer.ready), n(answer.matched), held(answer)])),
    ];
  }

  function tellPane() {
    if (!data) return;
    const node = data.nodes.find((one) => one.id === chosen);
    const out = totals();
    if (node?.heading || node?.folded) out.push(el("h3", "", node.heading ? node.label : `${n(node.folded)} more segments`), el("p", "soft", node.note));
    else if (node) out.push(...answers(node));
    else out.push(el("p", "soft placeholder", chosen === null ? "Choose a segment to see who could resume a prompt that goes so far, and from where." : "What was chosen isn't cached any more."));
    pane.replaceChildren(...out);
  }

  // -- which traces are engines

  function offer() {
    if (ofIndex || !visible()) return;
    const { traces } = store.get();
    const runs = pickers.runs();
    const own = [...runs.filter((run) => traces.includes(run.key)), ...runs.filter((run) => !traces.includes(run.key))];
    const twice = (run) => runs.filter((other) => other.group === run.group && other.policy === run.policy).length > 1;
    choice.replaceChildren(
      ...own.slice(0, MAX_CHOICES).map((run) => {
        const on = traces.includes(run.key);
        const button = el("button", "toggle", twice(run) ? run.file : `${run.group}: ${run.policy}`);
        Object.assign(button, { type: "button", title: run.file, disabled: on ? traces.length === 1 : traces.length >= 6 });
        button.dataset.engine = run.key;
        button.setAttribute("aria-pressed", String(on));
        return button;
      }),
    );
    if (own.length > MAX_CHOICES) choice.append(el("span", "more", `and ${n(own.length - MAX_CHOICES)} more`));
  }

  choice.addEventListener("click", (event) => {
    const key = event.target.closest("[data-engine]")?.dataset.engine;
    if (!key) return;
    const { traces } = store.get();
    store.set({ traces: traces.includes(key) ? traces.filter((own) => own !== key) : [...traces, key], side: 0 });
    choice.querySelector(`[data-engine="${CSS.escape(key)}"]`)?.focus();
  });

  document.getElementById("engines-save").addEventListener("click", async (event) => {
    const format = event.target.closest("[data-format]")?.dataset.format;
    if (!format) return;
    const { traces, round } = store.get();
    const query = { format, theme: document.documentElement.dataset.theme, ...(ofIndex ? {} : { traces: traces.join("."), round }) };
    say("Drawing it ...", true);
    try {
      save(await fetched(`/api/engines/picture?${new URLSearchParams(query)}`));
      say("Saved.", true);
    } catch (error) {
      say(error.message);
    }
  });

  store.on((changed) => {
    if (changed.has("traces") || changed.has("view")) offer();
    if (changed.has("traces") || changed.has("view") || (changed.has("round") && !ofIndex)) refresh();
  });

  return {
    ofIndex,
    refresh: () => (offer(), refresh()),
    // What is drawn and said, for tests.
    describe: () => ({ tree: tree?.describe() ?? null, chosen, gone, source: source.textContent, engines: data?.engines ?? null }),
  };
}

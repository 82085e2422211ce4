// The classroom: keeps the recipe, runs it, and puts its runs on the page.

import { ask, post } from "./ask.mjs";
import { createOrder } from "./order.mjs";

const FIELDS = { rows: "max_num_seqs", tokens: "max_num_batched_tokens", block: "block_size" };
const n = (value) => Number(value).toLocaleString("en-US");
const LABELS = { rows: "Rows a round (S)", tokens: "Tokens a round (T)", block: "Tokens a block" };

export function createLab(store, { say, hush }) {
  const status = document.getElementById("lab-state");
  const page = document.getElementById("page");
  const note = document.getElementById("lab-note");
  const fields = {};
  for (const [name, option] of Object.entries(FIELDS)) {
    fields[name] = Object.assign(document.createElement("input"), { type: "number", id: `lab-${option}`, className: "number", step: 1 });
    document.querySelector(`[data-number="${option}"]`).append(fields[name]);
  }
  const field = (name) => fields[name];
  const evictions = ["a", "b"].map((name) => document.getElementById(`lab-eviction-${name}`));
  const order = createOrder(document.getElementById("order"), (ids) => {
    store.set({ order: ids });
    run();
  });
  let lab = null;
  let workload = null;
  let serial = 0;
  let timer = 0;
  let doing = ""; // the recipe that is being run
  let doubted = ""; // what was said about a field

  async function open() {
    starting("The simulated engine is starting", "A moment.");
    lab = await ask("/api/lab", { warm: 1 });
    forgetUnknown();
    if (!store.get().workload) store.set({ workload: lab.workloads[0]?.name ?? null });
    if (!store.get().policies) store.set({ policies: ["radix", "radixflow"] });
    await choose(store.get().workload, false);
    if (lab.state === "missing") {
      status.textContent = "No engine here";
      starting("No run can be made here", "The simulated engine needs vLLM on this machine: pip install 'radixflow[cpu]'", "No engine");
      return lab;
    }
    run();
    return lab;
  }

  // Where the first run will stand; a run that is there already stays.
  function starting(title, words, state = "Starting") {
    if (store.get().traces.length) return;
    page.dataset.starting = "true";
    document.getElementById("starting-title").textContent = title;
    document.getElementById("starting-words").textContent = words;
    document.getElementById("live-status").textContent = state;
  }

  // Whether each field holds a number that can be run; one that doesn't is marked, and said.
  function checked() {
    const wrong = [];
    for (const name of Object.keys(FIELDS)) {
      const input = field(name);
      const left = input.value === "" && !input.validity.badInput && workload?.options[FIELDS[name]] == null; // the engine's own
      const fine = left || (Number.isInteger(input.valueAsNumber) && input.checkValidity());
      if (fine) input.removeAttribute("aria-invalid");
      else input.setAttribute("aria-invalid", "true");
      if (!fine) wrong.push(`${LABELS[name]}: expected a whole number from ${n(input.min)} to ${n(input.max)}.`);
    }
    if (doubted) hush(doubted);
    doubted = wrong.join(" ");
    if (doubted) ((status.textContent = "Not run"), say(doubted));
    return !wrong.length;
  }

  // What a field sets; null where it says what the workload says anyhow.
  function given(name) {
    const value = field(name).valueAsNumber;
    return Number.isNaN(value) || (store.get()[name] === null && value === workload.options[FIELDS[name]]) ? null : value;
  }

  // A link's recipe may name what isn't here: said, and left out.
  function forgetUnknown() {
    const { workload: wanted, policies } = store.get();
    const unknown = [];
    if (wanted && !lab.workloads.some(({ name }) => name === wanted)) {
      unknown.push(`workload ${wanted}`);
      store.set({ workload: null, order: null, rows: null, tokens: null, block: null });
    }
    const other = (policies ?? []).filter((policy) => !lab.policies.some(({ name }) => name === policy));
    if (other.length) {
      unknown.push(`policy ${other.join(", ")}`);
      store.set({ policies: null, evictions: null });
    }
    if (unknown.length) say(`The classroom has no ${unknown.join(" and no ")}: it shows its own instead.`);
  }

  async function choose(name, fresh = true) {
    workload = await ask("/api/workload", { name });
    if (fresh) store.set({ workload: name, order: null, rows: null, tokens: null, block: null, evictions: null });
    note.textContent = workload.note;
    const ids = new Map(workload.requests.map((request) => [request.id, request]));
    const wanted = store.get().order;
    const known = wanted && wanted.length === ids.size && wanted.every((id) => ids.has(id));
    order.show(known ? wanted.map((id) => ids.get(id)) : workload.requests);
    evictions.forEach((select, k) => (select.value = store.get().evictions?.[k] ?? "lru"));
    for (const name of Object.keys(FIELDS)) {
      const [low, high] = workload.limits[FIELDS[name]];
      Object.assign(field(name), { min: low, max: high, value: store.get()[name] ?? workload.options[FIELDS[name]] ?? "" });
      field(name).removeAttribute("aria-invalid");
    }
  }

  // Soon, once: changes come in bursts.
  function run() {
    clearTimeout(timer);
    timer = setTimeout(runNow, 250);
  }

  async function runNow() {
    clearTimeout(timer); // what was to be run soon is run now
    if (!workload || lab?.state === "missing" || !checked()) return;
    const options = {};
    for (const name of Object.keys(FIELDS)) if (store.get()[name] !== null) options[FIELDS[name]] = store.get()[name];
    const { order: ids, policies, evictions: chosen } = store.get();
    const recipe = { workload: workload.name, order: ids, options, policies, evictions: policies.map((_, k) => chosen?.[k] ?? "lru") };
    if (doing === JSON.stringify(recipe)) return;
    doing = JSON.stringify(recipe);
    const mine = ++serial;
    const began = performance.now();
    const tellWait = () => {
      const seconds = Math.round((performance.now() - began) / 1000);
      if (lab.state !== "ready") starting("The simulated engine is starting", `It loads vLLM, once, which may take a minute: ${seconds} s so far. After that a run takes well under a second.`);
      if (seconds >= 2) status.textContent = `${lab.state === "ready" ? "Running" : "Starting"}: ${seconds} s`;
    };
    const waiting = setInterval(tellWait, 500);
    status.textContent = "Running";
    tellWait();
    try {
      const { keys } = await post("/api/run", recipe);
      lab.state = "ready";
      if (mine !== serial) return;
      status.textContent = `Ran in ${((performance.now() - began) / 1000).toFixed(2)} s`;
      delete page.dataset.starting;
      store.set({ traces: keys, side: Math.min(store.get().side, keys.length - 1), first: null, last: null });
    } catch (error) {
      if (mine !== serial) return;
      status.textContent = "Not run";
      if (!store.get().traces.length) starting("The run could not be made", error.message, "Not run");
      say(error.message);
    } finally {
      if (mine === serial) doing = "";
      clearInterval(waiting);
    }
  }

  for (const name of Object.keys(FIELDS))
    field(name).addEventListener("change", () => {
      if (!checked()) return;
      // A field that was wrong may have become right beside this one.
      store.set(Object.fromEntries(Object.keys(FIELDS).map((own) => [own, given(own)])));
      run();
    });
  evictions.forEach((select) =>
    select.addEventListener("change", () => {
      store.set({ evictions: evictions.map((one) => one.value) });
      run();
    }),
  );
  document.getElementById("lab-run").addEventListener("click", runNow);
  document.getElementById("lab-reset").addEventListener("click", async () => {
    await choose(workload.name);
    run();
  });

  return { open, choose: async (name) => (await choose(name), run()), run, list: () => lab };
}

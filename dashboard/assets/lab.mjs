// The classroom: keeps the recipe, runs it, and puts its runs on the page.

import { ask, post } from "./ask.mjs";
import { createOrder } from "./order.mjs";

const FIELDS = { rows: "max_num_seqs", tokens: "max_num_batched_tokens", block: "block_size" };
const LABELS = { rows: "Rows a round (S)", tokens: "Tokens a round (T)", block: "Tokens a block" };

export function createLab(store, { say }) {
  const status = document.getElementById("lab-state");
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

  async function open() {
    lab = await ask("/api/lab", { warm: 1 });
    forgetUnknown();
    if (!store.get().workload) store.set({ workload: lab.workloads[0]?.name ?? null });
    if (!store.get().policies) store.set({ policies: ["radix", "radixflow"] });
    await choose(store.get().workload, false);
    if (lab.state === "missing") return (status.textContent = "The simulated engine needs vLLM on this machine.");
    run();
    return lab;
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
    }
  }

  // Soon, once: changes come in bursts.
  function run() {
    clearTimeout(timer);
    timer = setTimeout(runNow, 250);
  }

  async function runNow() {
    if (!workload || lab?.state === "missing") return;
    const mine = ++serial;
    const options = {};
    for (const name of Object.keys(FIELDS)) if (store.get()[name] !== null) options[FIELDS[name]] = store.get()[name];
    const began = performance.now();
    const waiting = setInterval(() => {
      const seconds = Math.round((performance.now() - began) / 1000);
      if (seconds >= 2) status.textContent = `Starting the simulated engine, once: ${seconds} s`;
    }, 500);
    status.textContent = "Running";
    try {
      const recipe = store.get();
      const asked = recipe.policies.map((_, k) => recipe.evictions?.[k] ?? "lru");
      const { keys } = await post("/api/run", { workload: workload.name, order: recipe.order, options, policies: recipe.policies, evictions: asked });
      if (mine !== serial) return;
      status.textContent = `Ran in ${((performance.now() - began) / 1000).toFixed(2)} s`;
      store.set({ traces: keys, side: Math.min(store.get().side, keys.length - 1), first: null, last: null });
    } catch (error) {
      if (mine === serial) ((status.textContent = "Not run"), say(error.message));
    } finally {
      clearInterval(waiting);
    }
  }

  for (const name of Object.keys(FIELDS))
    field(name).addEventListener("change", () => {
      const value = field(name).valueAsNumber;
      if (!Number.isInteger(value) || !field(name).checkValidity()) return say(`${LABELS[name]}: expected a whole number from ${field(name).min} to ${field(name).max}.`);
      store.set({ [name]: value });
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

// The three selectors: workload, policy A, policy B. What they offer depends on the view.

import { ask } from "./ask.mjs";

export function createPickers(store, { lab }) {
  const workload = document.getElementById("trace-select");
  const policies = [document.getElementById("policy-a"), document.getElementById("policy-b")];
  let runs = [];
  let folder = null; // what the folder is called whose traces are offered
  const none = document.getElementById("no-traces");

  const groupOf = (run) => JSON.stringify([run.group, run.model, run.S, run.T]);
  const inClassroom = () => store.get().view === "classroom";
  const current = () => runs.find((run) => run.key === store.get().traces[0]) ?? runs[0];

  function fill(select, options, value) {
    const made = options.map(([key, words, title]) => Object.assign(document.createElement("option"), { value: key, textContent: words, title: title ?? "" }));
    select.replaceChildren(...made);
    select.value = value ?? "";
  }

  async function refresh() {
    ({ runs, folder } = await ask("/api/runs"));
    none.hidden = folder === null || runs.length > 0;
    none.textContent = none.hidden ? "" : `The folder ${folder} holds no traces: files named *.rft.jsonl or *.rft.jsonl.zst were expected there. The classroom makes its own runs.`;
    return runs;
  }

  // The runs of one workload, in words that tell them apart.
  function siblings(group) {
    const own = runs.filter((run) => groupOf(run) === group);
    const alike = (run) => own.filter((other) => other.policy === run.policy);
    const words = (run) => (alike(run).length < 2 ? run.policy : alike(run).every((other) => other === run || other.eviction !== run.eviction) ? `${run.policy}, ${run.eviction}` : `${run.policy} (${run.file})`);
    return own.map((run) => [run.key, words(run), run.file]);
  }

  function show() {
    const [a, b] = store.get().traces;
    const made = !inClassroom() && !runs.length && a !== undefined; // in the classroom: nothing here to choose from
    for (const select of [workload, ...policies]) select.disabled = made;
    if (made) {
      fill(workload, [["", "made in the classroom"]]);
      for (const select of policies) fill(select, [["", "as made there"]]);
      return;
    }
    if (inClassroom()) {
      const known = lab.list();
      if (!known) return;
      fill(workload, known.workloads.map(({ name, note }) => [name, name, note]), store.get().workload);
      const names = known.policies.map(({ name, note }) => [name, name, note]);
      fill(policies[0], names, store.get().policies?.[0]);
      fill(policies[1], [["", "none"], ...names], store.get().policies?.[1] ?? "");
      return;
    }
    const first = current();
    const groups = new Map();
    for (const run of runs) groups.set(groupOf(run), run);
    const alike = (run) => [...groups.values()].filter((other) => other.group === run.group).length > 1;
    fill(workload, [...groups].map(([group, run]) => [group, alike(run) ? `${run.group} (S ${run.S}, T ${run.T.toLocaleString("en-US")})` : run.group]), first && groupOf(first));
    const own = first ? siblings(groupOf(first)) : [];
    fill(policies[0], own, a);
    fill(policies[1], own.length > 1 ? [["", "none"], ...own] : [["", "none"]], b ?? "");
  }

  // The runs to show of a workload at first: native next to RadixFlow where both are there.
  function pair(group) {
    const own = siblings(group).map(([key]) => runs.find((run) => run.key === key));
    const native = own.find((run) => run.policy === "radix") ?? own[0];
    const flow = own.find((run) => run.policy === "radixflow") ?? own.find((run) => run.policy.startsWith("radixflow")) ?? own.find((run) => run !== native);
    return [native, flow].filter((run, k, both) => run && both.indexOf(run) === k).map((run) => run.key);
  }

  const fresh = { round: 1, request: null, first: null, last: null, side: 0 };
  workload.addEventListener("change", () => {
    if (inClassroom()) return (store.set(fresh), lab.choose(workload.value));
    store.set({ ...fresh, traces: pair(workload.value) });
  });
  policies.forEach((select, k) =>
    select.addEventListener("change", () => {
      const chosen = policies.map((other) => other.value).filter(Boolean);
      if (!inClassroom()) return store.set({ traces: chosen, side: Math.min(store.get().side, chosen.length - 1) });
      store.set({ policies: chosen, side: Math.min(store.get().side, chosen.length - 1) });
      lab.run();
    }),
  );
  store.on((changed) => ["traces", "view", "workload", "policies"].some((name) => changed.has(name)) && show());

  return { refresh, show, pair, groupOf, runs: () => runs };
}

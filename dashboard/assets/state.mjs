// What the page shows, in one place: everything that a link must carry. Pure but for `remember`.

const NAMES = ["view", "traces", "side", "round", "follow", "request", "axis", "first", "last", "workload", "order", "rows", "tokens", "block", "policies", "evictions"];

const LONGEST = 16_000; // letters of an id in a link

// The state of a page opened without a link.
export const initial = () => ({
  view: "replay",
  traces: [], // keys, the first one is policy A
  side: 0, // which of them tree and inspectors show
  round: 1,
  follow: false, // the cursor goes along with a run that still goes on
  request: null,
  axis: "round",
  first: null, // visible rounds, null: all
  last: null,
  workload: null, // the classroom's recipe
  order: null,
  rows: null,
  tokens: null,
  block: null,
  policies: null,
  evictions: null, // one a policy
});

const VIEWS = ["replay", "compare", "engines", "classroom"];
const AXES = ["round", "time"];
const NUMBERS = ["side", "round", "first", "last", "rows", "tokens", "block"];

const whole = (text) => (/^\d{1,15}$/.test(text ?? "") ? Number(text) : null);
const list = (text) => (text ? text.split(".").filter(Boolean) : null);

// From an address's query; what makes no sense is left out.
export function read(query) {
  const at = new URLSearchParams(query);
  const state = initial();
  if (VIEWS.includes(at.get("view"))) state.view = at.get("view");
  state.traces = (list(at.get("traces")) ?? []).slice(0, 6);
  state.side = Math.min(Math.max(0, state.traces.length - 1), whole(at.get("side")) ?? 0);
  state.round = Math.max(1, whole(at.get("round")) ?? 1);
  state.request = at.get("request");
  if (at.get("axis") === "time") state.axis = "time";
  state.first = whole(at.get("first"));
  state.last = whole(at.get("last"));
  state.workload = at.get("workload");
  state.order = at.has("order") ? at.getAll("order") : null;
  for (const name of ["rows", "tokens", "block"]) state[name] = whole(at.get(name));
  state.policies = at.has("policy") ? at.getAll("policy").slice(0, 6) : null;
  state.evictions = at.has("eviction") ? at.getAll("eviction").slice(0, 6) : null;
  return state;
}

// What `read` left out of an address's query: a sentence each.
export function doubts(query) {
  const at = new URLSearchParams(query);
  const said = [];
  const doubt = (name, expected) => said.push(`${name}=${at.get(name).slice(0, 40)} in this link: expected ${expected}.`);
  const oneOf = (name, known) => at.has(name) && !known.includes(at.get(name)) && doubt(name, `${known.slice(0, -1).join(", ")} or ${known.at(-1)}`);
  oneOf("view", VIEWS);
  oneOf("axis", AXES);
  for (const name of NUMBERS) {
    const least = name === "side" ? 0 : 1;
    if (at.has(name) && (whole(at.get(name)) ?? -1) < least) doubt(name, `a whole number from ${least}`);
  }
  if (!said.length && whole(at.get("first")) > whole(at.get("last"))) doubt("first", `at most last=${at.get("last")}`);
  return said;
}

// The query that `read` turns back into this state.
export function write(state) {
  const at = new URLSearchParams();
  const lab = state.view === "classroom";
  if (state.view !== "replay") at.set("view", state.view);
  // A classroom's runs are made again from their recipe; their keys end with the server.
  if (state.traces.length && !lab) at.set("traces", state.traces.join("."));
  if (state.side) at.set("side", state.side);
  if (!state.follow) at.set("round", state.round);
  // A server takes no address of any length.
  if (state.request !== null && encodeURIComponent(state.request).length <= LONGEST) at.set("request", state.request);
  if (state.axis !== "round") at.set("axis", state.axis);
  if (state.first !== null && state.last !== null) (at.set("first", state.first), at.set("last", state.last));
  if (lab) {
    if (state.workload) at.set("workload", state.workload);
    for (const name of ["rows", "tokens", "block"]) if (state[name] !== null) at.set(name, state[name]);
    for (const id of state.order ?? []) at.append("order", id);
    for (const policy of state.policies ?? []) at.append("policy", policy);
    for (const eviction of state.evictions ?? []) at.append("eviction", eviction);
  }
  return at.toString();
}

// A state that tells its listeners what changed.
export function createState(start) {
  const state = { ...start };
  const listeners = new Set();
  let timer = 0;
  const place = (of) => "?" + write(of);
  const remember = () => {
    clearTimeout(timer);
    // Browsers refuse addresses that change too often.
    timer = setTimeout(() => ((timer = 0), history.replaceState(null, "", place(state))), 150);
  };
  const tell = (changes) => {
    const before = { ...state };
    const changed = Object.keys(changes).filter((name) => NAMES.includes(name) && JSON.stringify(state[name]) !== JSON.stringify(changes[name]));
    if (!changed.length) return null;
    Object.assign(state, changes);
    for (const listener of listeners) listener(new Set(changed), state, before);
    return before;
  };
  // Back and forward: what the address doesn't say stays as it is.
  globalThis.addEventListener?.("popstate", () => {
    clearTimeout(timer);
    const { traces, round, follow, ...found } = read(location.search);
    if (traces.length) found.traces = traces;
    if (new URLSearchParams(location.search).has("round")) Object.assign(found, { round, follow });
    tell(found);
  });
  return {
    get: () => state,
    on(listener) {
      listeners.add(listener);
    },
    // step: the back button comes back to what was before.
    set(changes, step = false) {
      const before = tell(changes);
      if (!before) return;
      if (step) {
        history.replaceState(null, "", place(before));
        history.pushState(null, "", place(state));
      }
      remember();
    },
  };
}

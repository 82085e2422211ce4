// The cursor's buttons and keys: play, pause, speed, steps, slider, jumps.

import { ask } from "./ask.mjs";

export function createTransport(store, { panes, say, partings, moved }) {
  const play = document.getElementById("play");
  const slider = document.createElement("input");
  Object.assign(slider, { type: "range", id: "round-slider", min: 1, max: 1, step: 1, value: 1 });
  document.querySelector(".slider-host").append(slider);
  const readout = document.getElementById("round-readout");
  const speed = document.getElementById("speed");
  let timer = 0;
  speed.value = "2";
  slider.setAttribute("aria-label", "Round");

  const last = () => panes.longest();
  const go = (round) => {
    moved();
    store.set({ round: Math.min(last(), Math.max(1, round)) });
  };

  function setPlaying(on) {
    clearInterval(timer);
    timer = 0;
    play.setAttribute("aria-pressed", String(on));
    play.setAttribute("aria-label", on ? "Pause" : "Play");
    if (!on) return;
    if (store.get().round >= last()) store.set({ round: 1 });
    // By the clock: where a page can't draw so many rounds a second, it leaves some out and keeps the pace.
    let [from, began] = [store.get().round, performance.now()];
    let shown = from;
    timer = setInterval(() => {
      const { round } = store.get();
      if (round >= last()) return setPlaying(false);
      if (round !== shown) [from, began] = [round, performance.now()]; // somebody moved the cursor
      const due = from + Math.floor(((performance.now() - began) * Number(speed.value)) / 1000);
      shown = Math.min(last(), Math.max(round, due));
      if (shown > round) store.set({ round: shown });
    }, 1000 / Number(speed.value) / 2);
  }
  const toggle = () => {
    moved();
    setPlaying(!timer);
  };

  const steps = { first: () => go(1), back: () => go(store.get().round - 1), next: () => go(store.get().round + 1), last: () => go(last()) };

  async function jump(what, direction) {
    setPlaying(false);
    const { round } = store.get();
    let found = null;
    if (what === "parting") {
      const places = (await partings()).filter((n) => (direction > 0 ? n > round : n < round));
      found = places.length ? (direction > 0 ? Math.min(...places) : Math.max(...places)) : null;
      if (found === null) {
        const all = await partings();
        if (all.includes(round)) return say("The runs part in this round.", true);
      }
    } else if (panes.shown()) found = (await ask("/api/jump", { trace: panes.shown(), what, from: round, direction }, "jump")).round;
    if (found === null) {
      const words = { bubble: "avoidable bubble", blocked: "blocked request", stop: "stop of the scan", parting: "round where the runs part" }[what];
      return say(`No ${direction > 0 ? "later" : "earlier"} ${words}.`, true);
    }
    go(found);
  }

  play.addEventListener("click", toggle);
  speed.addEventListener("change", () => timer && setPlaying(true));
  slider.addEventListener("input", () => go(Number(slider.value)));
  document.querySelectorAll("[data-step]").forEach((button) => button.addEventListener("click", () => (setPlaying(false), steps[button.dataset.step]())));
  document.querySelectorAll("[data-jump]").forEach((button) => button.addEventListener("click", (event) => jump(button.dataset.jump, event.shiftKey ? -1 : 1).catch((e) => say(e.message))));

  const keys = { n: "bubble", b: "blocked", s: "stop", p: "parting" };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.closest("input, select, textarea, [contenteditable], .rf-pane, .order, .ag-root")) return;
    if (event.key === " " && !event.target.closest("button, a")) (event.preventDefault(), toggle());
    else if (event.key === "ArrowRight") go(store.get().round + (event.shiftKey ? 10 : 1));
    else if (event.key === "ArrowLeft") go(store.get().round - (event.shiftKey ? 10 : 1));
    else if (event.key === "Home") (event.preventDefault(), go(1));
    else if (event.key === "End") (event.preventDefault(), go(last()));
    else if (event.key === "Escape") store.set({ request: null });
    else if (keys[event.key.toLowerCase()]) jump(keys[event.key.toLowerCase()], event.shiftKey ? -1 : 1).catch((e) => say(e.message));
  });

  function show() {
    const { round } = store.get();
    const total = last();
    slider.max = total;
    slider.value = round;
    slider.style.setProperty("--at", total > 1 ? (round - 1) / (total - 1) : 0);
    slider.setAttribute("aria-valuetext", `round ${round} of ${total}`);
    const format = (n) => n.toLocaleString("en-US");
    readout.replaceChildren(Object.assign(document.createElement("span"), { textContent: "Round " }), Object.assign(document.createElement("b"), { textContent: format(round) }), ` of ${format(total)}`);
    document.querySelector('[data-jump="parting"]').hidden = store.get().traces.length < 2;
  }
  store.on((changed) => (changed.has("round") || changed.has("traces")) && show());

  return { toggle, show, pause: () => setPlaying(false), playing: () => timer !== 0 };
}

// Follows the shown runs that have no end yet: server-sent events, polling where they don't get through.

import { ask } from "./ask.mjs";

const POLL_MS = 400;

export function createLive(store, { panes, say, switchTo, grown }) {
  const host = document.getElementById("live-status");
  let source = null;
  let timer = 0;
  let watched = "";
  // A link that names a round means that round.
  let following = !new URLSearchParams(location.search).has("round");
  let paused = false; // keeps the picture as it is while the run goes on
  let unseen = 0;
  const known = new Map();
  const busy = new Set();

  function watch(overviews) {
    const open = overviews.filter((o) => !o.complete).map((o) => o.key);
    for (const o of overviews) known.set(o.key, { ...known.get(o.key), state: o.complete ? "finished" : "live", end: o.end, rounds: o.num_rounds });
    const names = open.join(".");
    if (names !== watched) {
      stop();
      watched = names;
      if (open.length) listen(names);
    }
    store.set({ follow: open.length > 0 && following });
    // At once where it is being written; of one that was cut the beginning is as good as the end.
    if (following && overviews.some((o) => !o.complete && o.written_seconds < 5)) store.set({ round: panes.longest() });
    show();
  }

  function stop() {
    source?.close();
    clearInterval(timer);
    source = null;
    timer = 0;
  }

  function listen(names) {
    if (typeof EventSource === "undefined" || new URLSearchParams(location.search).has("poll")) return poll(names);
    let got = false;
    source = new EventSource(`/api/live?traces=${encodeURIComponent(names)}`);
    source.onmessage = (event) => ((got = true), take(JSON.parse(event.data)));
    source.onerror = () => {
      if (source?.readyState === EventSource.CLOSED || !got) (stop(), poll(names));
    };
  }

  function poll(names) {
    timer = setInterval(async () => {
      try {
        for (const status of (await ask("/api/poll", { traces: names })).runs) take(status);
      } catch {
        known.set("", { state: "lost" });
        show();
      }
    }, POLL_MS);
  }

  async function take(status) {
    known.delete("");
    const before = known.get(status.key);
    known.set(status.key, status);
    const overview = panes.overviews.get(status.key);
    const more = overview && (status.rounds !== overview.num_rounds || status.requests !== overview.requests || (status.state === "finished") !== overview.complete);
    if (more) {
      if (paused) unseen = Math.max(0, status.rounds - overview.num_rounds);
      else await catchUp(status.key);
    }
    if (status.state === "restarted" && status.next && before?.state !== "restarted") {
      if (following && !paused) (say("Another run took this file: showing it from its beginning.", true), switchTo(status.key, status.next));
    }
    show();
  }

  async function catchUp(key) {
    if (busy.has(key)) return; // the next event comes with the rest
    busy.add(key);
    const began = performance.now();
    try {
      const overview = await panes.grow(key);
      if (!overview) return;
      if (following) store.set({ round: panes.longest() });
      grown();
      // A very long run takes a while to sum up: leave as much time to everything else.
      await new Promise((resolve) => setTimeout(resolve, performance.now() - began));
    } catch (error) {
      say(error.message);
    } finally {
      busy.delete(key);
    }
    const status = known.get(key);
    if (!paused && status && panes.overviews.get(key)?.num_rounds < status.rounds) catchUp(key);
  }

  const words = {
    live: "Live",
    quiet: "Quiet, no end yet",
    finished: "Finished",
    restarted: "Restarted",
    truncated: "Truncated",
    unreadable: "Unreadable",
    lost: "Server lost",
  };
  const ends = { finished: "", stalled: "Stalled", interrupted: "Interrupted", shutdown: "Shut down", fault: "Ended by a fault" };

  function show() {
    const states = [...store.get().traces.map((key) => known.get(key)), known.get("")].filter(Boolean);
    const order = ["lost", "unreadable", "truncated", "restarted", "live", "quiet", "finished"];
    const worst = states.sort((a, b) => order.indexOf(a.state) - order.indexOf(b.state))[0];
    if (!worst) return;
    const live = worst.state === "live" || worst.state === "quiet";
    host.dataset.state = live && paused ? "paused" : worst.state;
    host.replaceChildren();
    const add = (tag, text, set = {}) => host.appendChild(Object.assign(document.createElement(tag), { textContent: text, ...set }));
    add("span", "", { className: "lamp" });
    const text = live && paused ? (unseen ? `Paused, ${unseen.toLocaleString("en-US")} new rounds` : "Paused") : (worst.state === "finished" && ends[worst.end]) || words[worst.state];
    add("span", text, { title: worst.message || "" });
    if (worst.message && !live && worst.state !== "finished") add("span", worst.message, { className: "soft live-message" });
    if (worst.state === "restarted" && worst.next) add("button", "Show the new run", { className: "quiet", type: "button", onclick: () => switchTo(worst.key, worst.next) });
    else if (live) {
      if (paused || !following)
        add("button", "Back to live", { className: "quiet", type: "button", id: "back-to-live", onclick: backToLive });
      if (!paused) add("button", "Pause", { className: "quiet", type: "button", id: "pause-live", onclick: pause });
    }
  }

  function pause() {
    paused = true;
    following = false;
    store.set({ follow: false });
    unseen = 0;
    show();
  }

  async function backToLive() {
    paused = false;
    following = true;
    unseen = 0;
    store.set({ follow: true });
    for (const key of store.get().traces) if (known.get(key)?.state !== "finished" || panes.overviews.get(key)?.num_rounds !== known.get(key)?.rounds) await catchUp(key);
    store.set({ round: panes.longest() });
    show();
  }

  return {
    watch,
    // The reader went to another round: new ones no longer pull the cursor along.
    leave() {
      if (!following) return;
      following = false;
      store.set({ follow: false });
      show();
    },
    stop,
  };
}

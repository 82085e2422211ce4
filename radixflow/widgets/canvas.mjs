// The round timeline and the prefix tree on canvas: one module for dashboard, notebook and exported
// files. It draws what radixflow.figures computed (README.md beside this file) and decides nothing.
// Order: tokens, decoding, scales (all pure), painting, then the parts that touch the page.

const TOKENS = /* tokens: begin */ {"fills":[["#93a8f5","#a3b7fd","#879be8"],["#a3b760","#b1c66e","#97aa54"],["#b6dafe","#d1e8fe","#a9cdf1"],["#d7de82","#e6ed91","#cbd176"],["#cb82ba","#da90c8","#c57cb3"],["#55b486","#64c393","#4eae80"],["#f6a5c8","#feb8d5","#e898bb"],["#9dc4f8","#b2d2fd","#91b7ea"],["#9196e5","#9ea4f4","#8b90de"],["#b49e41","#c2ac50","#ad983a"],["#8eedbc","#9dfdca","#81e0af"],["#4ac4aa","#5bd3b8","#3ab79d"],["#8a9eeb","#97acfa","#8093df"],["#9aae57","#a8bc65","#8fa34c"],["#acd1f4","#bfdffe","#a0c4e7"],["#ced479","#dce387","#c1c76c"],["#c57cb3","#d087be","#c57cb3"],["#4eae80","#5ab98a","#4eae80"],["#ec9bbe","#fba9cd","#de8fb2"],["#94baee","#a2c8fd","#87ade0"],["#8b90de","#959bea","#8b90de"],["#ad983a","#b8a346","#ad983a"],["#84e3b2","#93f3c1","#77d6a6"],["#3ebaa0","#50c9ae","#2faf96"],["#9db1fd","#b0c1fd","#90a4f2"],["#acc16a","#bacf78","#a0b45d"],["#c8e3fe","#d1e8fe","#b3d7fb"],["#e1e88c","#e6ed91","#d4da7f"],["#d58bc3","#e499d2","#c87fb6"],["#5fbe8f","#6dcc9c","#51b183"],["#feafd1","#fec7de","#f2a1c5"],["#aacdfd","#c3dbfd","#9ac0f4"],["#9a9fef","#a7adfe","#8e93e1"],["#bda74b","#ccb55a","#b19b3d"],["#98f8c5","#9dfdca","#8beab9"],["#55ceb3","#66ddc1","#46c1a6"]],"gauges":[["#7588d4","#8296e3","#7184cf"],["#859841","#92a64f","#80933c"],["#96badd","#a4c8ec","#8aadd0"],["#b7bd63","#c6cc71","#abb056"],["#b46da4","#b971a8","#b46da4"],["#3d9e71","#42a375","#3d9e71"],["#d486a8","#e393b6","#c7799c"],["#7ea4d6","#8cb2e5","#7297c9"],["#7c80cd","#8085d2","#7c80cd"],["#9e8828","#a38d2d","#9e8828"],["#6dcc9c","#7cdbaa","#60bf90"],["#1ca48b","#34b299","#119f86"],["#7184cf","#7a8dd9","#7184cf"],["#80933c","#899c46","#80933c"],["#8db1d3","#9bbfe2","#81a4c6"],["#aeb459","#bcc267","#a2a74c"],["#b46da4","#b46da4","#b46da4"],["#3d9e71","#3d9e71","#3d9e71"],["#ca7c9f","#d98aad","#bd7093"],["#759bcc","#83a9db","#6a8ebf"],["#7c80cd","#7c80cd","#7c80cd"],["#9e8828","#9e8828","#9e8828"],["#64c393","#72d1a1","#56b687"],["#119f86","#25a98f","#119f86"],["#7e92de","#8ba0ed","#7285d0"],["#8ea14a","#9baf58","#82953e"],["#a0c4e7","#a4c8ec","#93b7d9"],["#c1c76c","#c6cc71","#b4ba5f"],["#b46da4","#c37ab2","#b46da4"],["#3d9e71","#4cac7e","#3d9e71"],["#de8fb2","#ed9dc0","#d183a5"],["#87ade0","#95bcef","#7ba1d3"],["#7c80cd","#898edc","#7c80cd"],["#9e8828","#ac9638","#9e8828"],["#77d6a6","#7cdbaa","#6ac999"],["#2dae94","#40bca2","#15a188"]],"strong":["#3b498b","#495700","#335371","#515402","#743566","#085f3d","#793456","#2f517e","#45468a","#5e4f05","#085f3d","#075d4e"],"cell_text":"#14161a","themes":{"light":{"page":"#fbfbfa","panel":"#ffffff","sunken":"#f3f3f0","line":"#dcdcd6","line_strong":"#a9a9a2","text":"#1b1d21","text_soft":"#565a61","cursor":"#1b1d21","focus":"#1f5fd0","select":"#1b1d21","occupied":"#7f93b8","budget":"#3d6f66"},"dark":{"page":"#14161a","panel":"#1a1d22","sunken":"#121417","line":"#30343b","line_strong":"#666c76","text":"#eef0f2","text_soft":"#a8adb6","cursor":"#f7f8f9","focus":"#82b1ff","select":"#ffffff","occupied":"#6f86b4","budget":"#6db5a7"}},"slots":{"resident":{"pattern":"horizontal","light":["#e9e9e4","#8b8f97"],"dark":["#262a30","#7d838d"],"name":"resident, no tokens","short":"resident, no tokens"},"avoidable":{"pattern":"diagonal","light":["#fde4da","#d4410f"],"dark":["#43201a","#ff7a4d"],"name":"avoidable: a ready request was waiting","short":"avoidable"},"blocked":{"pattern":"backslash","light":["#f4ead0","#96690a"],"dark":["#352b14","#dbac45"],"name":"blocked on a producer of this round","short":"blocked"},"other":{"pattern":"cross","light":["#ecebef","#74717f"],"dark":["#282730","#918d9f"],"name":"refused for another reason","short":"other cause"},"unexamined":{"pattern":"vertical","light":["#e8eef4","#5d7b98"],"dark":["#1e2832","#7c9dbc"],"name":"not examined by the scan","short":"not examined"},"idle":{"pattern":"dots","light":["#f8f8f5","#b4b4ac"],"dark":["#181b1f","#4e545d"],"name":"idle: nobody else waiting","short":"idle"},"unprobed":{"pattern":"dashes","light":["#fbfbfa","#b4b4ac"],"dark":["#14161a","#4e545d"],"name":"empty, not probed","short":"not probed"},"unrecorded":{"pattern":"void","light":["#e4e4df","#a9a9a2"],"dark":["#0c0d0f","#4e545d"],"name":"not recorded","short":"not recorded"}},"causes":{"row_visits":"row visits","resident":"resident, no tokens","avoidable":"avoidable","blocked":"blocked","capacity":"no free blocks","never_fits":"never fits","alignment":"less than a block left","tokens":"token budget used up","rows":"all rows taken","unexamined":"not examined","not_entered":"queue not entered","admission":"held by admission","fragmented":"put aside","deferred":"not ready to run","in_step":"arrived during a step","idle":"idle","unprobed":"not probed","unrecorded":"not recorded","other":"other cause"}} /* tokens: end */;

const FONT = 'ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif';
const MIN_TEXT = 12;
const CELL_PX = 3; // below this width a round is drawn as part of a bin
const VISIT = new Set(["waiting", "running"]);
const SLOT_ORDER = ["resident", "avoidable", "blocked", "other", "unexamined", "idle", "unprobed", "unrecorded"];
const causeText = (cause) => TOKENS.causes[cause] ?? cause.replaceAll("_", " ");

// ---------------------------------------------------------------- decoding

function bytes(text) {
  const raw = atob(text);
  const out = new Uint8Array(raw.length);
  for (let k = 0; k < raw.length; k++) out[k] = raw.charCodeAt(k);
  return out.buffer;
}

function decodeLevel(level, fields) {
  const flat = new Float32Array(bytes(level.values));
  const values = {};
  fields.forEach((field, k) => (values[field] = flat.subarray(k * level.count, (k + 1) * level.count)));
  return { bin: level.bin, first: level.first, count: level.count, values, t: new Float64Array(bytes(level.t)) };
}

function decodeOverview(o) {
  return { ...o, levels: o.levels.map((level) => decodeLevel(level, o.fields)) };
}

function decodeWindow(w) {
  if (w.mode === "empty") return null;
  const out = { ...w, level: decodeLevel(w.level, w.fields) };
  if (w.mode !== "cells") return out;
  out.cells = new Int32Array(bytes(w.cells));
  out.classes = w.kinds.map((kind) => (VISIT.has(kind) ? "visit" : kind in TOKENS.slots ? kind : "other"));
  out.stops = new Map();
  out.parked = new Map();
  const stops = new Int32Array(bytes(w.stops));
  for (let k = 0; k < stops.length; k += 3)
    out.stops.set(stops[k], { request: stops[k + 1], cause: w.kinds[stops[k + 2]] });
  const parked = new Int32Array(bytes(w.parked));
  for (let k = 0; k < parked.length; k += 5) {
    const [round, request, producer, boundary, kept] = parked.subarray(k, k + 5);
    if (!out.parked.has(round)) out.parked.set(round, []);
    out.parked.get(round).push({ request, producer, boundary, parked: kept === 1 });
  }
  // Runs that go on with the same request, so that a stay reads as one bar: index of the run before.
  const runs = out.cells.length / 6;
  const endsAt = new Map();
  out.before = new Int32Array(runs).fill(-1);
  out.after = new Uint8Array(runs);
  for (let k = 0; k < runs; k++) {
    const [row, first, span, kind, request] = out.cells.subarray(6 * k, 6 * k + 5);
    if (out.classes[kind] !== "visit") continue;
    const previous = endsAt.get(row);
    if (previous !== undefined && out.cells[6 * previous + 1] + out.cells[6 * previous + 2] === first && out.cells[6 * previous + 4] === request) {
      out.before[k] = previous;
      out.after[previous] = 1;
    }
    endsAt.set(row, k);
  }
  // Lowest empty row of each round: where the scan's mark goes.
  out.lowest = new Int16Array(w.last - w.first + 1).fill(w.S);
  for (let k = 0; k < out.cells.length; k += 6) {
    const [row, first, span, kind] = out.cells.subarray(k, k + 4);
    if (out.classes[kind] === "visit" || out.classes[kind] === "resident") continue;
    for (let n = first - w.first; n < first - w.first + span; n++) if (row < out.lowest[n]) out.lowest[n] = row;
  }
  return out;
}

// ---------------------------------------------------------------- scales

const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
const count = (n) => Math.round(n).toLocaleString("en-US");

function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1e-9)));
  return [1, 2, 5, 10].map((m) => m * power).find((s) => s >= least);
}

// Round number <-> coordinate along x: the number itself, or the time at which the round began.
function roundScale() {
  return { to: (n) => n, from: (u) => u };
}

function timeScale(overview) {
  const level = overview.levels[0];
  const last = overview.num_rounds + 1;
  const rounds = Array.from({ length: level.count }, (_, k) => level.first + k * level.bin).concat(last);
  const t = Array.from(level.t);
  const mean = t.length > 1 ? (t[t.length - 1] - t[0]) / Math.max(1, rounds[t.length - 1] - rounds[0]) : 1;
  t.push(t[t.length - 1] + Math.max(mean, 1e-9) * (last - rounds[t.length - 1]));
  for (let k = 1; k < t.length; k++) t[k] = Math.max(t[k], t[k - 1] + 1e-12);
  const between = (from, to, x) => {
    let low = 0;
    let high = from.length - 1;
    while (high - low > 1) {
      const mid = (low + high) >> 1;
      if (from[mid] <= x) low = mid;
      else high = mid;
    }
    return to[low] + ((x - from[low]) / (from[high] - from[low])) * (to[high] - to[low]);
  };
  return { to: (n) => between(rounds, t, n), from: (u) => between(t, rounds, u) };
}

// ---------------------------------------------------------------- paint

function mix(one, other, share) {
  const c = (s, k) => parseInt(s.slice(1 + 2 * k, 3 + 2 * k), 16);
  return "#" + [0, 1, 2].map((k) => Math.round(c(one, k) * (1 - share) + c(other, k) * share).toString(16).padStart(2, "0")).join("");
}

const light = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, k, j) => sum + k * (parseInt(c.slice(1 + 2 * j, 3 + 2 * j), 16) / 255) ** 2.2, 0);
// Dark text where the ground is light enough for it.
const readable = (ground, paint) => (light(ground) > 0.18 ? paint.cellText : "#ffffff");

function paints(theme) {
  const t = TOKENS.themes[theme];
  const slot = (name) => ({ pattern: TOKENS.slots[name].pattern, back: TOKENS.slots[name][theme][0], ink: TOKENS.slots[name][theme][1] });
  const slots = Object.fromEntries(SLOT_ORDER.map((name) => [name, slot(name)]));
  const fill = ([hue, tone]) => TOKENS.fills[hue % TOKENS.fills.length][tone];
  return { ...t, theme, slots, fill, gauge: ([hue, tone]) => TOKENS.gauges[hue % TOKENS.gauges.length][tone], strong: ([hue]) => TOKENS.strong[hue % TOKENS.strong.length], cellText: TOKENS.cell_text };
}

function hatch(pattern, ink, scale, dense) {
  const size = pattern === "dots" ? 8 : pattern === "dashes" ? 10 : pattern === "vertical" || pattern === "horizontal" ? 5 : 8;
  const tile = document.createElement("canvas");
  const px = Math.max(1, Math.round(size * scale));
  tile.width = tile.height = px;
  const c = tile.getContext("2d");
  c.scale(px / size, px / size);
  c.strokeStyle = c.fillStyle = ink;
  c.lineWidth = pattern === "diagonal" ? 2.2 : pattern === "backslash" ? 1.6 : 1.1;
  c.beginPath();
  const line = (a, b, d, e) => (c.moveTo(a, b), c.lineTo(d, e));
  if (pattern === "diagonal" || pattern === "cross") (line(-2, 2, 2, -2), line(-2, size + 2, size + 2, -2), line(size - 2, size + 2, size + 2, size - 2));
  if (pattern === "backslash" || pattern === "cross") (line(-2, size - 2, 2, size + 2), line(-2, -2, size + 2, size + 2), line(size - 2, -2, size + 2, 2));
  if (pattern === "vertical") line(size / 2, 0, size / 2, size);
  if (pattern === "horizontal") line(0, size / 2, size, size / 2);
  if (pattern === "dashes") line(2, size / 2, 6, size / 2);
  c.stroke();
  if (pattern === "dots") (c.beginPath(), c.arc(2, 2, 1, 0, 7), c.arc(6, 6, 1, 0, 7), c.fill());
  return { tile, px };
}

// Fills rectangles with a background and a pattern that moves along when the picture is panned.
function hatcher(ctx, paint, scale) {
  const made = new Map();
  return {
    style(name, shift = 0) {
      const slot = paint.slots[name];
      if (slot.pattern === "void") return null;
      if (!made.has(name)) {
        const { tile, px } = hatch(slot.pattern, slot.ink, scale);
        made.set(name, { pattern: ctx.createPattern(tile, "repeat"), px });
      }
      const { pattern, px } = made.get(name);
      pattern.setTransform(new DOMMatrix().scale(1 / scale).translate(Math.round(shift * scale) % px, 0));
      return pattern;
    },
  };
}

const widths = new Map();
function textWidth(ctx, text) {
  const key = ctx.font + text;
  if (!widths.has(key)) {
    if (widths.size > 20000) widths.clear();
    widths.set(key, ctx.measureText(text).width);
  }
  return widths.get(key);
}

function fitted(ctx, text, room) {
  if (textWidth(ctx, text) <= room) return text;
  let keep = Math.floor((text.length * room) / textWidth(ctx, text)) - 1;
  while (keep > 1 && textWidth(ctx, text.slice(0, keep) + "…") > room) keep--;
  return keep > 1 ? text.slice(0, keep) + "…" : "";
}

// The same for ids: cut in the middle, since they are told apart by either end.
function fittedId(ctx, id, room) {
  const whole = textWidth(ctx, id);
  if (whole <= room) return id;
  for (let keep = Math.min(id.length - 1, Math.ceil((id.length * room) / whole) + 2); keep > 0; keep--) {
    const head = Math.floor(keep / 2);
    const text = id.slice(0, head) + "…" + id.slice(head - keep);
    if (textWidth(ctx, text) <= room) return keep > 1 ? text : "";
  }
  return "";
}

function box(ctx, x, y, w, h, r) {
  ctx.beginPath();
  if (r > 0 && w > 2 * r && h > 2 * r) ctx.roundRect(x, y, w, h, r);
  else ctx.rect(x, y, w, h);
}

// ---------------------------------------------------------------- page

const STYLE = `
.rf-pane{position:relative;display:flex;flex-direction:column;width:100%;height:100%;min-height:120px;box-sizing:border-box;
  font:13px/1.35 ${FONT};border-radius:8px;overflow:hidden;user-select:none;-webkit-user-select:none;outline:none}
.rf-pane *{box-sizing:border-box}
.rf-head{display:flex;flex-wrap:wrap;align-items:center;gap:2px 14px;padding:7px 12px 3px;min-height:30px}
.rf-title{font-weight:650;font-size:15px;margin-right:auto;white-space:nowrap}
.rf-title small{font-weight:400;font-size:13px;margin-left:8px}
.rf-key{display:inline-flex;align-items:center;gap:6px;font-size:12.5px;white-space:nowrap}
.rf-key canvas{width:18px;height:14px;border-radius:2.5px;display:block}
.rf-stage{position:relative;flex:1 1 0;min-height:0;touch-action:pan-y;cursor:default}
.rf-stage>canvas{position:absolute;inset:0;width:100%;height:100%;display:block}
.rf-tip{position:absolute;z-index:5;max-width:340px;padding:8px 11px;border-radius:6px;font-size:13px;line-height:1.4;
  pointer-events:none;white-space:pre-line;box-shadow:0 3px 14px rgba(0,0,0,.22);visibility:hidden;left:0;top:0}
.rf-tip b{font-weight:650;font-size:14px}
.rf-hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.rf-bar{display:flex;flex-wrap:wrap;align-items:center;gap:6px;padding:6px 10px;font:13px/1.35 ${FONT}}
.rf-bar button{display:inline-flex;align-items:center;justify-content:center}
.rf-bar button svg{display:block;width:18px;height:18px}
.rf-bar button,.rf-bar select{font:inherit;min-height:32px;min-width:36px;padding:3px 10px;border-radius:6px;border:1px solid;cursor:pointer}
.rf-bar button:focus-visible,.rf-bar select:focus-visible{outline:2.5px solid;outline-offset:1px}
.rf-bar output{font-variant-numeric:tabular-nums;margin:0 8px;min-width:9em}
.rf-bar .rf-note{margin-left:auto;font-size:12.5px}
.rf-player{display:flex;flex-direction:column;width:100%;height:100%;gap:8px}
`;

const sheets = new WeakMap();
function adoptStyle(element) {
  const root = element.getRootNode();
  const target = root.adoptedStyleSheets ? root : document;
  if (!sheets.has(target)) {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(STYLE);
    sheets.set(target, sheet);
  }
  // Constructed sheets pass a content-security policy that forbids inline styles.
  if (!target.adoptedStyleSheets.includes(sheets.get(target)))
    target.adoptedStyleSheets = [...target.adoptedStyleSheets, sheets.get(target)];
}

function make(tag, className, parent, attributes = {}) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (parent) parent.append(node);
  return node;
}

function pageTheme() {
  for (const node of [document.documentElement, document.body]) {
    const named = node?.dataset.theme || node?.dataset.mantineColorScheme || node?.dataset.vscodeThemeKind;
    if (named) return /dark/.test(named) ? "dark" : "light";
    if (node?.dataset.jpThemeLight) return node.dataset.jpThemeLight === "true" ? "light" : "dark";
  }
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

const stillness = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// What both panes share: two canvases (scene and what moves over it), size, theme, tooltip, live text.
function pane(element, options, role) {
  adoptStyle(element);
  const root = make("div", "rf-pane", element, { tabindex: "0", role: "application", "aria-roledescription": role, "aria-label": options.label || role });
  const head = make("div", "rf-head", root);
  const stage = make("div", "rf-stage", root);
  const scene = make("canvas", "", stage, { "aria-hidden": "true" });
  const over = make("canvas", "", stage, { "aria-hidden": "true" });
  const tip = make("div", "rf-tip", root, { "aria-hidden": "true" });
  const live = make("div", "rf-hidden", root, { "aria-live": "polite" });
  const self = { root, head, stage, tip, live, scene: scene.getContext("2d"), over: over.getContext("2d"), width: 0, height: 0, scale: 1, focused: false };
  let wanted = options.theme || "auto";
  let frame = 0;
  let sceneDirty = true;

  self.setTheme = (theme) => {
    wanted = theme || "auto";
    const name = wanted === "auto" ? pageTheme() : wanted;
    if (self.paint?.theme === name) return;
    self.paint = paints(name);
    root.dataset.rfTheme = name;
    root.style.background = self.paint.panel;
    root.style.color = self.paint.text;
    tip.style.background = name === "dark" ? "#f4f5f6" : "#1b1d21";
    tip.style.color = name === "dark" ? "#16181c" : "#f6f7f8";
    self.hatch = null;
    self.themed?.();
    self.invalidate();
  };
  self.invalidate = (what = "scene") => {
    if (what === "scene") sceneDirty = true;
    if (!frame) frame = requestAnimationFrame(paintNow);
  };
  function paintNow() {
    frame = 0;
    if (!self.width || !self.height) return;
    if (sceneDirty) {
      sceneDirty = false;
      self.scene.setTransform(self.scale, 0, 0, self.scale, 0, 0);
      if (!self.hatch) self.hatch = hatcher(self.scene, self.paint, self.scale);
      self.drawScene(self.scene);
    }
    self.over.setTransform(self.scale, 0, 0, self.scale, 0, 0);
    self.over.clearRect(0, 0, self.width, self.height);
    self.drawOver(self.over);
  }
  self.flush = () => {
    if (frame) cancelAnimationFrame(frame);
    paintNow();
  };
  function resize() {
    const { clientWidth, clientHeight } = stage;
    const scale = Math.max(1, Math.min(3, devicePixelRatio || 1));
    if (clientWidth === self.width && clientHeight === self.height && scale === self.scale) return;
    Object.assign(self, { width: clientWidth, height: clientHeight, scale, hatch: null });
    for (const canvas of [scene, over]) {
      canvas.width = Math.round(clientWidth * scale);
      canvas.height = Math.round(clientHeight * scale);
    }
    self.resized?.();
    sceneDirty = true;
    if (frame) cancelAnimationFrame(frame);
    paintNow();
  }
  const observer = new ResizeObserver(resize);
  observer.observe(stage);
  const watchTheme = new MutationObserver(() => wanted === "auto" && self.setTheme("auto"));
  for (const node of [document.documentElement, document.body])
    watchTheme.observe(node, { attributes: true, attributeFilter: ["data-theme", "data-mantine-color-scheme", "data-jp-theme-light", "data-vscode-theme-kind"] });
  const media = matchMedia("(prefers-color-scheme: dark)");
  const mediaChanged = () => wanted === "auto" && self.setTheme("auto");
  media.addEventListener("change", mediaChanged);
  root.addEventListener("focus", () => ((self.focused = true), self.invalidate("over")));
  root.addEventListener("blur", () => ((self.focused = false), self.invalidate("over")));

  self.say = (text) => (live.textContent = text);
  self.showTip = (x, y, title, lines) => {
    tip.replaceChildren();
    make("b", "", tip).textContent = title;
    tip.append("\n" + lines.filter(Boolean).join("\n"));
    const top = stage.offsetTop + y;
    const left = x + 16 + tip.offsetWidth > self.width ? Math.max(4, x - tip.offsetWidth - 14) : x + 16;
    const up = top + 14 + tip.offsetHeight > root.clientHeight ? Math.max(4, root.clientHeight - tip.offsetHeight - 4) : top + 14;
    tip.style.transform = `translate(${Math.round(left)}px,${Math.round(up)}px)`;
    tip.style.visibility = "visible";
  };
  self.hideTip = () => (tip.style.visibility = "hidden");
  self.at = (event) => {
    const r = stage.getBoundingClientRect();
    return [event.clientX - r.left, event.clientY - r.top];
  };
  self.drawFocus = (ctx) => {
    if (!self.focused || !root.matches(":focus-visible")) return;
    ctx.strokeStyle = self.paint.focus;
    ctx.lineWidth = 2.5;
    box(ctx, 1.5, 1.5, self.width - 3, self.height - 3, 6);
    ctx.stroke();
  };
  self.destroy = () => {
    observer.disconnect();
    watchTheme.disconnect();
    media.removeEventListener("change", mediaChanged);
    if (frame) cancelAnimationFrame(frame);
    root.remove();
  };
  self.start = () => {
    self.setTheme(wanted);
    resize();
  };
  return self;
}

function swatch(paint, name, colour) {
  const canvas = document.createElement("canvas");
  canvas.width = 54;
  canvas.height = 42;
  const ctx = canvas.getContext("2d");
  ctx.scale(3, 3);
  ctx.fillStyle = colour || paint.slots[name].back;
  ctx.fillRect(0, 0, 18, 14);
  const style = !colour && hatcher(ctx, paint, 3).style(name);
  if (style) ((ctx.fillStyle = style), ctx.fillRect(0, 0, 18, 14));
  ctx.strokeStyle = colour ? paint.line_strong : paint.slots[name].ink;
  ctx.lineWidth = 1;
  ctx.strokeRect(0.5, 0.5, 17, 13);
  return canvas;
}

// ---------------------------------------------------------------- timeline

const GUTTER = 64;
const RIGHT = 20;
const AXIS = 24;
const STRIP = 46;

export function createTimeline(element, options = {}) {
  const self = pane(element, { label: "Round timeline", ...options }, "round timeline");
  let overview = null;
  let windows = [];
  let scale = roundScale();
  let axis = "round";
  let view = [1, 2]; // in the scale's coordinate
  let cursor = 1;
  let cursorRow = -1;
  let selection = null;
  let hover = null;
  let wantTimer = 0;
  let viewTimer = 0;
  let asked = "";
  let drawn = [];
  let chips = [];
  let mode = "empty";
  let animation = 0;
  let goal = null; // where a moving view is going
  let area = null;
  let shownClasses = "";
  let extent = 0; // rounds that the longest of the runs shown together has

  // -- geometry

  function layout() {
    const { width, height } = self;
    const w = Math.max(10, width - GUTTER - RIGHT);
    // A short run in a low picture needs its rows more than an overview of what is in sight anyhow.
    const bare = height < 300 && reach() * 24 <= w;
    const strip = bare ? { x: GUTTER, y: 2 * height, w, h: 0 } : { x: GUTTER, y: height - STRIP - 8, w, h: STRIP };
    const small = height < (bare ? 150 : 210);
    const bottom = bare ? height - 10 : strip.y - 14;
    const tokensH = clamp((height - strip.h - AXIS) * 0.22, small ? 22 : 34, 92);
    const marks = { x: GUTTER, y: AXIS, w, h: small ? 6 : 26 };
    const tokens = { x: GUTTER, y: bottom - tokensH, w, h: tokensH };
    const top = marks.y + marks.h;
    const rows = { x: GUTTER, y: top, w, h: Math.max(20, tokens.y - 8 - top) };
    area = { strip, marks, tokens, rows };
  }
  const S = () => overview?.S ?? windows.at(-1)?.S ?? 1;
  const T = () => overview?.T ?? windows.at(-1)?.T ?? 1;
  const total = () => Math.max(overview?.num_rounds ?? 0, windows.at(-1)?.num_rounds ?? 0);
  const X = (n) => area.rows.x + ((scale.to(n) - view[0]) / (view[1] - view[0])) * area.rows.w;
  const roundAt = (x) => scale.from(view[0] + ((x - area.rows.x) / area.rows.w) * (view[1] - view[0]));
  const rowHeight = () => area.rows.h / S();
  const rowY = (row) => area.rows.y + area.rows.h - (row + 1) * rowHeight();
  const reach = () => Math.max(total(), extent);
  const full = () => [scale.to(1), scale.to(reach() + 1)];
  const snap = (x) => Math.round(x * self.scale) / self.scale;
  const visible = ([a, b] = view) => [clamp(Math.floor(scale.from(a)), 1, Math.max(1, total())), clamp(Math.ceil(scale.from(b)) - 1, 1, Math.max(1, total()))];
  const columnWidth = ([a, b] = view) => area.rows.w / Math.max(1e-9, scale.from(b) - scale.from(a));

  function limit([a, b]) {
    const [low, high] = full();
    const least = Math.min(high - low, ((high - low) / Math.max(1, reach())) * 3);
    const span = clamp(b - a, least, high - low);
    const middle = (a + b) / 2;
    const start = clamp(middle - span / 2, low, high - span);
    return [start, start + span];
  }

  function applyView(next, quiet) {
    view = limit(next);
    self.invalidate();
    clearTimeout(wantTimer);
    wantTimer = setTimeout(() => wantData(), 50);
    if (quiet) return;
    const range = () => ({ first: scale.from(view[0]), last: scale.from(view[1]) - 1 });
    options.onPan?.(range());
    clearTimeout(viewTimer);
    viewTimer = setTimeout(() => options.onView?.(range()), 200);
  }

  function moveView(next, quiet) {
    halt();
    const target = limit(next);
    if (stillness() || !total()) return applyView(target, quiet);
    goal = target;
    const from = [...view];
    const began = performance.now();
    const step = (now) => {
      const k = clamp((now - began) / 170, 0, 1);
      const e = 1 - (1 - k) ** 3;
      applyView([from[0] + (target[0] - from[0]) * e, from[1] + (target[1] - from[1]) * e], quiet);
      if (k < 1) animation = requestAnimationFrame(step);
      else goal = null;
    };
    animation = requestAnimationFrame(step);
  }

  function halt() {
    cancelAnimationFrame(animation);
    goal = null;
  }

  // What comes next goes by where a moving view was to end.
  function arrive() {
    if (goal) view = goal;
    halt();
  }

  function zoom(factor, x = area.rows.x + area.rows.w / 2) {
    const at = view[0] + ((x - area.rows.x) / area.rows.w) * (view[1] - view[0]);
    applyView([at - (at - view[0]) * factor, at + (view[1] - at) * factor]);
  }

  function reveal(n) {
    const [a, b] = view;
    const left = scale.to(n);
    const right = scale.to(n + 1);
    if (left >= a && right <= b) return;
    const span = b - a;
    const target = limit(left < a ? [left - span * 0.1, left + span * 0.9] : [right - span * 0.9, right + span * 0.1]);
    // What is far away is there at once; its data is asked for before the view has come to rest.
    if (left < a - span || right > b + span) (halt(), applyView(target, true));
    else moveView(target, true);
    wantData(target);
  }

  // -- data

  function wantData(range = view) {
    if (!overview || !total() || !area) return; // not on the page yet
    const [a, b] = visible(range);
    const width = columnWidth(range);
    const fine = width >= CELL_PX;
    const served = windows.some((w) => w.first <= a && w.last >= b && (fine ? w.mode === "cells" : width * w.level.bin <= 2.9));
    const plain = !fine && width * overview.levels[0].bin <= 2.9;
    if (served || plain) return;
    const margin = fine ? clamp(b - a, 24, Math.max(24, Math.floor((2040 - (b - a)) / 2))) : Math.floor((b - a) / 2);
    const first = Math.max(1, a - margin);
    const last = Math.min(total(), b + margin);
    const key = `${first}-${last}-${total()}`;
    if (key === asked) return;
    asked = key;
    options.onWindow?.({ first, last });
  }

  // The finest bins that are not much narrower than a pixel, for a range of rounds.
  function levelFor(first, last) {
    const width = columnWidth();
    const candidates = [];
    for (const w of windows) if (w.first <= first && w.last >= last) candidates.push(w.level);
    if (overview) candidates.push(...overview.levels);
    candidates.sort((p, q) => p.bin - q.bin);
    return candidates.find((level) => level.bin * width >= 0.72) || candidates.at(-1) || null;
  }

  // -- drawing

  self.drawScene = (ctx) => {
    const { paint } = self;
    layout();
    const { strip, rows, tokens, marks } = area;
    ctx.clearRect(0, 0, self.width, self.height);
    ctx.fillStyle = paint.panel;
    ctx.fillRect(0, 0, self.width, self.height);
    drawn = [];
    chips = [];
    if (!total()) {
      mode = "empty";
      ctx.fillStyle = paint.text_soft;
      ctx.font = `15px ${FONT}`;
      ctx.textAlign = "center";
      ctx.fillText("No rounds yet", self.width / 2, self.height / 2);
      ctx.textAlign = "left";
      return;
    }
    ctx.fillStyle = paint.sunken;
    const until = clamp(X(total() + 1), rows.x, rows.x + rows.w) - rows.x;
    ctx.fillRect(rows.x, rows.y, until, rows.h);
    ctx.fillRect(tokens.x, tokens.y, until, tokens.h);
    const classes = new Set();
    ctx.save();
    ctx.beginPath();
    ctx.rect(rows.x, 0, rows.w, tokens.y + tokens.h);
    ctx.clip();
    const [a, b] = visible();
    const detailed = columnWidth() >= CELL_PX;
    const covering = detailed ? windows.filter((w) => w.mode === "cells" && w.first <= b && w.last >= a) : [];
    const whole = covering.some((w) => w.first <= a && w.last >= b);
    mode = detailed && whole ? "cells" : "bins";
    if (!whole) drawBins(ctx, a, b, classes);
    for (const w of whole ? [covering.findLast((c) => c.first <= a && c.last >= b)] : covering) drawCells(ctx, w, Math.max(a, w.first), Math.min(b, w.last), classes);
    ctx.restore();
    drawFrame(ctx);
    drawStrip(ctx);
    legend(classes);
  };

  const shiftOf = () => area.rows.x - (view[0] / (view[1] - view[0])) * area.rows.w;

  function hatched(ctx, name, rects, border) {
    const slot = self.paint.slots[name];
    ctx.fillStyle = slot.back;
    for (const [x, y, w, h] of rects) ctx.fillRect(x, y, w, h);
    const style = self.hatch.style(name, shiftOf());
    if (style) {
      ctx.fillStyle = style;
      for (const [x, y, w, h] of rects) ctx.fillRect(x, y, w, h);
    }
    if (!border) return;
    ctx.strokeStyle = slot.ink;
    ctx.lineWidth = name === "avoidable" ? 1.5 : 1;
    for (const [x, y, w, h] of rects) if (w > 5 && h > 5) ctx.strokeRect(x + 0.75, y + 0.75, w - 1.5, h - 1.5);
  }

  // Few tokens, a decode say, leave a cell pale; a prefill that fills much of T makes it strong.
  const grounds = new Map();
  function ground(colour, tokens, faded) {
    const key = ((colour[0] * 3 + colour[1]) * 2 ** 24 + tokens) * 2 + (faded ? 1 : 0);
    if (!grounds.has(key)) grounds.set(key, mix(self.paint.fill(colour), self.paint.panel, faded ? 0.78 : paleness(tokens)));
    return grounds.get(key);
  }
  const paleness = (tokens) => 0.42 * (1 - Math.min(1, 2.4 * Math.sqrt(tokens / T())));

  function drawBins(ctx, a, b, classes) {
    const level = levelFor(a, b);
    if (!level) return;
    const { rows, tokens } = area;
    const { paint } = self;
    const bands = [["rows", null], ["resident", "resident"], ["avoidable", "avoidable"], ["refused", "other"], ["idle", "idle"], ["unprobed", "unprobed"]];
    const from = Math.max(0, Math.floor((a - level.first) / level.bin));
    const to = Math.min(level.count - 1, Math.floor((b - level.first) / level.bin));
    const rects = new Map(bands.map(([field]) => [field, []]));
    const bars = [];
    for (let k = from; k <= to; k++) {
      const n = level.first + k * level.bin;
      const x = snap(X(n));
      const w = Math.max(1 / self.scale, snap(X(Math.min(n + level.bin, total() + 1))) - x);
      let y = rows.y + rows.h;
      for (const [field, name] of bands) {
        const h = (level.values[field][k] / S()) * rows.h;
        if (h < 0.02) continue;
        y -= h;
        rects.get(field).push([x, y, w, h]);
        if (name) classes.add(name);
      }
      const th = (level.values.tokens[k] / T()) * tokens.h;
      bars.push([x, tokens.y + tokens.h - th, w, th]);
    }
    for (const [field, name] of bands) {
      if (name) hatched(ctx, name, rects.get(field));
      else {
        ctx.fillStyle = paint.occupied;
        for (const r of rects.get(field)) ctx.fillRect(...r);
        classes.add("visit");
      }
    }
    ctx.fillStyle = paint.budget;
    for (const r of bars) ctx.fillRect(...r);
  }

  function drawCells(ctx, w, a, b, classes) {
    const { rows, tokens } = area;
    const { paint } = self;
    const xs = Float64Array.from({ length: b - a + 2 }, (_, k) => X(a + k));
    const x0 = xs[0];
    const x1 = xs[b - a + 1];
    ctx.fillStyle = paint.panel;
    ctx.fillRect(x0, 0, x1 - x0, rows.y);
    ctx.fillStyle = paint.sunken;
    ctx.fillRect(x0, rows.y, x1 - x0, rows.h);
    ctx.fillRect(x0, tokens.y, x1 - x0, tokens.h);
    const h = rowHeight();
    const gapY = h >= 7 ? (h >= 18 ? 2 : 1) : 0;
    const width = columnWidth();
    const gapX = width >= 16 ? 2 : width >= 6 ? 1 : 0;
    const visits = new Map();
    const empties = new Map();
    const labels = [];
    const { cells } = w;
    for (let k = 0; k < cells.length; k += 6) {
      const first = Math.max(cells[k + 1], a);
      const last = Math.min(cells[k + 1] + cells[k + 2] - 1, b);
      if (last < first) continue;
      const row = cells[k];
      const name = w.classes[cells[k + 3]];
      const request = cells[k + 4];
      const left = xs[first - a];
      const right = xs[last + 1 - a];
      const item = { w, run: k / 6, row, first, last, kind: w.kinds[cells[k + 3]], name, request, tokens: cells[k + 5], x: left, y: rowY(row) + gapY / 2, width: Math.max(0.8, right - left - gapX), height: h - gapY };
      drawn.push(item);
      classes.add(name);
      if (name === "visit") {
        const colour = w.requests[request].colour;
        const key = colour[0] * 3 + colour[1];
        if (!visits.has(key)) visits.set(key, []);
        visits.get(key).push(item);
      } else {
        if (!empties.has(name)) empties.set(name, []);
        empties.get(name).push(item);
      }
      labels.push(item);
    }
    const dim = selection !== null;
    const chosen = (item) => item.request >= 0 && w.requests[item.request].id === selection;
    for (const [name, items] of empties) {
      const rects = [];
      for (const item of items) {
        // Each empty slot of each round is its own slot, also where a run holds many.
        if (width >= 6 && item.last > item.first && name !== "resident")
          for (let n = item.first; n <= item.last; n++) rects.push([xs[n - a], item.y, xs[n + 1 - a] - xs[n - a] - gapX, item.height]);
        else rects.push([item.x, item.y, item.width, item.height]);
      }
      hatched(ctx, name, rects, width >= 8 && h >= 8 && name !== "idle" && name !== "unprobed");
    }
    const radius = width >= 18 && h >= 14 ? 3 : 0;
    for (const items of visits.values()) {
      const colour = w.requests[items[0].request].colour;
      for (const item of items) {
        const joined = w.after[item.run] && item.last < b;
        const wide = joined ? xs[item.last + 1 - a] - item.x : item.width;
        const faded = dim && !chosen(item);
        ctx.fillStyle = item.base = ground(colour, item.tokens, faded);
        if (radius) (box(ctx, item.x, item.y, wide, item.height, radius), ctx.fill());
        else ctx.fillRect(item.x, item.y, wide, item.height);
        const part = Math.min(1, item.tokens / T()) * item.height;
        if (part >= 0.75) {
          ctx.fillStyle = faded ? mix(paint.gauge(colour), paint.sunken, 0.6) : paint.gauge(colour);
          if (radius) (ctx.save(), box(ctx, item.x, item.y, wide, item.height, radius), ctx.clip());
          ctx.fillRect(item.x, item.y + item.height - part, wide, part);
          if (part >= 3 && item.height >= 10) {
            ctx.fillStyle = faded ? mix(paint.strong(colour), paint.sunken, 0.6) : paint.strong(colour);
            ctx.fillRect(item.x, item.y + item.height - part, wide, 1.5);
          }
          if (radius) ctx.restore();
        }
        if (chosen(item)) {
          ctx.strokeStyle = paint.select;
          ctx.lineWidth = 2;
          box(ctx, item.x + 1, item.y + 1, Math.max(1, wide - 2), Math.max(1, item.height - 2), radius);
          ctx.stroke();
        }
      }
    }
    if (h >= 15) cellLabels(ctx, w, labels, a, h, gapX, dim, chosen);
    drawTokens(ctx, w, a, b, xs, gapX, dim, chosen);
    drawMarks(ctx, w, a, b, gapX);
  }

  function cellLabels(ctx, w, items, a, h, gapX, dim, chosen) {
    const { paint } = self;
    const size = clamp(Math.round(h * 0.36), MIN_TEXT, 19);
    ctx.textBaseline = "middle";
    for (const item of items) {
      if (item.request < 0 && item.name === "idle") continue;
      const before = w.before[item.run];
      if (before >= 0 && item.first !== a && item.tokens <= w.cells[6 * before + 5]) continue;
      const visit = item.name === "visit" || item.name === "resident";
      const runs = visit ? [[item.x, item.width]] : [];
      if (!visit) for (let n = item.first; n <= item.last; n++) runs.push([X(n), X(n + 1) - X(n) - gapX]);
      for (let [x, width] of runs) {
        const hidden = Math.max(0, area.rows.x - x);
        x += hidden;
        width -= hidden;
        if (width < 24) continue;
        const id = item.request >= 0 ? w.requests[item.request].id : "";
        if (!id) continue;
        ctx.font = `${item.name === "visit" ? 600 : 500} ${size}px ${FONT}`;
        const text = fittedId(ctx, id, width - 12);
        if (!text) continue;
        const middle = item.y + item.height / 2;
        if (item.name === "visit") {
          // In a low cell a little higher: the edge of its share of T lies below.
          const line = middle + (item.height < 24 ? -1 : 0.5);
          ctx.fillStyle = dim && !chosen(item) ? paint.text_soft : readable(item.base, paint);
          ctx.fillText(text, x + 8, line);
          const used = textWidth(ctx, text);
          ctx.font = `${Math.max(MIN_TEXT, Math.round(size * 0.8))}px ${FONT}`;
          // The number alone, so that all cells of a page read alike: the legend says of what.
          const tokens = count(item.tokens);
          const room = x + width > area.rows.x + area.rows.w ? 0 : width - used - 34;
          if (item.first === item.last && textWidth(ctx, tokens) <= room) ctx.fillText(tokens, x + width - 8 - textWidth(ctx, tokens), line);
        } else {
          const slot = paint.slots[item.name];
          const tw = textWidth(ctx, text);
          ctx.fillStyle = slot.back;
          box(ctx, x + 5, middle - size * 0.72, tw + 10, size * 1.44, 3);
          ctx.fill();
          ctx.fillStyle = paint.text;
          ctx.fillText(text, x + 10, middle + 0.5);
        }
      }
    }
    ctx.textBaseline = "alphabetic";
  }

  function drawTokens(ctx, w, a, b, xs, gapX, dim, chosen) {
    const { tokens } = area;
    const { paint } = self;
    const stacks = new Float64Array(b - a + 1);
    const small = new Float64Array(b - a + 1);
    const mine = drawn.filter((item) => item.w === w && item.name === "visit").sort((p, q) => p.row - q.row);
    const unit = tokens.h / T();
    for (const item of mine) {
      const h = item.tokens * unit;
      const colour = w.requests[item.request].colour;
      ctx.fillStyle = dim && !chosen(item) ? mix(paint.fill(colour), paint.sunken, 0.68) : paint.fill(colour);
      for (let n = item.first; n <= item.last; n++) {
        if (h < 0.8) {
          small[n - a] += h;
          continue;
        }
        const x = xs[n - a];
        const width = Math.max(0.8, xs[n + 1 - a] - x - gapX);
        const y = tokens.y + tokens.h - stacks[n - a] - h;
        ctx.fillRect(x, y, width, h > 5 && width > 5 ? h - 1 : h);
        stacks[n - a] += h;
      }
    }
    ctx.fillStyle = paint.occupied;
    for (let n = a; n <= b; n++) if (small[n - a] > 0) ctx.fillRect(X(n), tokens.y + tokens.h - stacks[n - a] - small[n - a], Math.max(0.8, X(n + 1) - X(n) - gapX), Math.max(0.6, small[n - a]));
  }

  function drawMarks(ctx, w, a, b, gapX) {
    const { marks, rows } = area;
    const { paint } = self;
    ctx.font = `500 ${MIN_TEXT}px ${FONT}`;
    ctx.textBaseline = "middle";
    const ink = (cause) => paint.slots[cause in paint.slots ? cause : "other"].ink;
    for (let n = a; n <= b; n++) {
      const parked = w.parked.get(n) || [];
      let stop = w.stops.get(n);
      // A scan that ends because the budgets are spent is no news: the picture shows it.
      if (stop && stop.request < 0) stop = null;
      if (!stop && !parked.length) continue;
      const x = X(n);
      const width = X(n + 1) - x - gapX;
      const y = marks.y + marks.h / 2 - 1;
      if (stop) {
        // The scan went up to here.
        const edge = rows.y + rows.h - w.lowest[n - w.first] * rowHeight();
        ctx.fillStyle = ink(stop.cause);
        ctx.fillRect(x - (gapX ? 1 : 0), edge - 1.5, width + (gapX ? 2 : 0), width > 12 ? 3.5 : 2.5);
      }
      const items = parked.map((p) => ({ ...p, stop: stop && p.request === stop.request, cause: "blocked" }));
      if (stop && !items.some((p) => p.stop)) items.push({ request: stop.request, producer: -1, stop: true, cause: stop.cause, parked: false });
      if (width < 44 || marks.h < 20) {
        if (width < 2) continue;
        const r = clamp(width / 2 - 0.5, 1, 4);
        if (stop) ((ctx.fillStyle = ink(stop.cause)), ctx.fillRect(x + width / 2 - r, y - r, 2 * r, 2 * r));
        else {
          ctx.strokeStyle = ink("blocked");
          ctx.lineWidth = Math.min(1.6, r);
          ctx.beginPath();
          ctx.arc(x + width / 2, y, Math.max(0.8, r - 0.5), 0, 7);
          ctx.stroke();
        }
        chips.push({ round: n, x, y: marks.y, width, height: marks.h, items, w });
        continue;
      }
      let left = x;
      for (let k = 0; k < items.length; k++) {
        const item = items[k];
        const id = item.request >= 0 ? w.requests[item.request].id : "";
        const long = item.producer >= 0 ? `${id} ← ${w.requests[item.producer].id}` : id || causeText(item.cause);
        const room = x + width - left - (k < items.length - 1 ? 26 : 0);
        const text = [long, id].find((t) => t && textWidth(ctx, t) + 24 <= room) || (k === 0 ? (id ? fittedId(ctx, id, room - 24) : fitted(ctx, long, room - 24)) : "");
        if (!text) {
          ctx.fillStyle = paint.text_soft;
          ctx.fillText(`+${items.length - k}`, left + 2, y + 0.5);
          chips.push({ round: n, x: left, y: marks.y, width: 24, height: marks.h, items: items.slice(k), w });
          break;
        }
        const wide = textWidth(ctx, text) + 24;
        const colour = ink(item.cause);
        ctx.fillStyle = item.stop ? paint.slots[item.cause in paint.slots ? item.cause : "other"].back : paint.panel;
        ctx.strokeStyle = colour;
        ctx.lineWidth = 1.4;
        ctx.setLineDash(item.stop ? [] : [3.5, 2.5]);
        box(ctx, left + 0.7, marks.y + 2, wide - 1.4, marks.h - 6, 4);
        ctx.fill();
        ctx.stroke();
        ctx.setLineDash([]);
        ctx.fillStyle = colour;
        if (item.stop) ctx.fillRect(left + 7, y - 4, 8, 8);
        else {
          ctx.lineWidth = 1.6;
          ctx.beginPath();
          ctx.arc(left + 11, y, 3.4, 0, 7);
          ctx.stroke();
        }
        ctx.fillStyle = paint.text;
        ctx.fillText(text, left + 19, y + 0.5);
        chips.push({ round: n, x: left, y: marks.y, width: wide, height: marks.h, items: [item], w, request: item.request, producer: item.producer });
        left += wide + 5;
      }
    }
    ctx.textBaseline = "alphabetic";
  }

  // Rounds, or seconds, along the top; the cursor's round stands there as a label of its own.
  function drawTicks(ctx) {
    const { rows } = area;
    ctx.font = `${MIN_TEXT}px ${FONT}`;
    ctx.fillStyle = self.paint.text_soft;
    const pill = (X(cursor) + X(cursor + 1)) / 2;
    const taken = textWidth(ctx, count(cursor)) / 2 + 14;
    ctx.textAlign = "center";
    const span = view[1] - view[0];
    if (axis === "round") {
      const [a, b] = visible();
      const step = Math.max(1, niceStep((span / rows.w) * 56));
      for (let n = Math.ceil(a / step) * step || step; n <= b; n += step) tick((X(n) + X(n + 1)) / 2, count(n));
      if (step > 1 && a === 1) tick((X(1) + X(2)) / 2, "1");
    } else {
      const step = niceStep((span / rows.w) * 74);
      for (let t = Math.ceil(view[0] / step) * step; t <= view[1]; t += step) tick(rows.x + ((t - view[0]) / span) * rows.w, seconds(t, step));
    }
    ctx.textAlign = "left";
    function tick(x, text) {
      const half = textWidth(ctx, text) / 2;
      if (x - half < rows.x - 6 || x > rows.x + rows.w || Math.abs(x - pill) < taken + half) return;
      ctx.fillText(text, x, 16);
    }
  }

  function drawFrame(ctx) {
    const { paint } = self;
    const { rows, tokens } = area;
    ctx.font = `${MIN_TEXT}px ${FONT}`;
    ctx.fillStyle = paint.text_soft;
    ctx.strokeStyle = paint.line;
    ctx.lineWidth = 1;
    ctx.textAlign = "right";
    ctx.fillText(axis === "round" ? "round" : "time", GUTTER - 10, 16);
    const h = rowHeight();
    const every = h >= 16 ? 1 : S() % 8 ? niceStep(20 / h) : 2 ** Math.ceil(Math.log2(20 / h));
    for (let row = 0; row < S(); row++) {
      if ((row + 1) % every) continue;
      const y = rowY(row) + h / 2;
      ctx.fillText(String(row + 1), GUTTER - 10, y + 4);
    }
    if (area.marks.h >= 20) ctx.fillText("row", GUTTER - 10, rows.y - 9);
    ctx.strokeStyle = paint.line_strong;
    ctx.setLineDash([4, 3]);
    ctx.beginPath();
    ctx.moveTo(tokens.x, tokens.y + 0.5);
    ctx.lineTo(tokens.x + tokens.w, tokens.y + 0.5);
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.fillText(`T ${count(T())}`, GUTTER - 10, tokens.y + 8);
    if (tokens.h >= 38) ctx.fillText("tokens", GUTTER - 10, tokens.y + tokens.h - 1);
    ctx.textAlign = "left";
    ctx.strokeStyle = paint.line_strong;
    ctx.beginPath();
    ctx.moveTo(rows.x, rows.y + rows.h + 0.5);
    ctx.lineTo(rows.x + rows.w, rows.y + rows.h + 0.5);
    ctx.moveTo(tokens.x, tokens.y + tokens.h + 0.5);
    ctx.lineTo(tokens.x + tokens.w, tokens.y + tokens.h + 0.5);
    ctx.stroke();
  }

  function seconds(t, step) {
    if (step >= 1) return `${count(t)} s`;
    const digits = Math.max(0, -Math.floor(Math.log10(step)) - 3);
    return step >= 1e-3 ? `${(t * 1e3).toFixed(digits)} ms` : `${(t * 1e6).toFixed(0)} µs`;
  }

  // -- overview strip

  const stripX = (u) => area.strip.x + ((u - full()[0]) / (full()[1] - full()[0])) * area.strip.w;
  const stripU = (x) => full()[0] + ((x - area.strip.x) / area.strip.w) * (full()[1] - full()[0]);

  function drawStrip(ctx) {
    const { strip } = area;
    const { paint } = self;
    if (!strip.h) return;
    ctx.fillStyle = paint.sunken;
    ctx.fillRect(strip.x, strip.y, strip.w, strip.h);
    if (!overview?.levels.length) return;
    const perRound = strip.w / reach();
    const level = overview.levels.find((l) => l.bin * perRound >= 0.6) || overview.levels.at(-1);
    const rowsH = strip.h - 15;
    const avoidable = [];
    const taken = [];
    const budget = [];
    for (let k = 0; k < level.count; k++) {
      const n = level.first + k * level.bin;
      const x = snap(stripX(scale.to(n)));
      const w = Math.max(1 / self.scale, snap(stripX(scale.to(Math.min(n + level.bin, total() + 1)))) - x);
      const used = (level.values.rows[k] / S()) * rowsH;
      const bubble = (level.values.avoidable[k] / S()) * rowsH;
      taken.push([x, strip.y + rowsH - used, w, used]);
      if (bubble > 0.01) avoidable.push([x, strip.y + rowsH - used - bubble, w, bubble]);
      const th = (level.values.tokens[k] / T()) * 12;
      budget.push([x, strip.y + strip.h - th, w, th]);
    }
    ctx.fillStyle = paint.occupied;
    for (const r of taken) ctx.fillRect(...r);
    ctx.fillStyle = paint.slots.avoidable.ink;
    for (const r of avoidable) ctx.fillRect(...r);
    ctx.fillStyle = paint.budget;
    for (const r of budget) ctx.fillRect(...r);
    ctx.fillStyle = paint.text_soft;
    ctx.font = `${MIN_TEXT}px ${FONT}`;
    ctx.textAlign = "right";
    ctx.fillText("all", GUTTER - 10, strip.y + 13);
    ctx.fillText(count(total()), GUTTER - 10, strip.y + 28);
    ctx.textAlign = "left";
  }

  function drawBrush(ctx) {
    const { strip } = area;
    const { paint } = self;
    if (!strip.h) return;
    const left = stripX(view[0]);
    const right = Math.max(left + 5, stripX(view[1]));
    ctx.fillStyle = paint.theme === "dark" ? "rgba(10,11,13,.58)" : "rgba(251,251,250,.62)";
    ctx.fillRect(strip.x, strip.y, left - strip.x, strip.h);
    ctx.fillRect(right, strip.y, strip.x + strip.w - right, strip.h);
    ctx.strokeStyle = paint.text_soft;
    ctx.lineWidth = 1.5;
    box(ctx, left + 0.5, strip.y - 1.5, right - left - 1, strip.h + 3, 3);
    ctx.stroke();
    ctx.fillStyle = paint.text_soft;
    for (const x of [left, right]) (box(ctx, x - 2.5, strip.y + strip.h / 2 - 8, 5, 16, 2.5), ctx.fill());
    const at = stripX(scale.to(cursor));
    ctx.fillStyle = paint.cursor;
    ctx.fillRect(clamp(at, strip.x, strip.x + strip.w - 2), strip.y - 3, 2, strip.h + 6);
  }

  self.drawOver = (ctx) => {
    if (!total() || !area) return;
    const { paint } = self;
    const { rows, tokens } = area;
    drawBrush(ctx);
    drawTicks(ctx);
    ctx.save();
    ctx.beginPath();
    ctx.rect(rows.x - 2, 0, rows.w + 4, tokens.y + tokens.h + 3);
    ctx.clip();
    const left = X(cursor);
    const right = X(cursor + 1);
    const middle = (left + right) / 2;
    arrows(ctx);
    ctx.strokeStyle = paint.cursor;
    if (right - left >= 5) {
      ctx.lineWidth = 1.8;
      box(ctx, left - 1.5, AXIS - 1, right - left + 1, tokens.y + tokens.h - AXIS + 2, 4);
      ctx.stroke();
    } else {
      ctx.lineWidth = 2;
      ctx.beginPath();
      ctx.moveTo(middle, AXIS);
      ctx.lineTo(middle, tokens.y + tokens.h);
      ctx.stroke();
    }
    if (hover?.cell) outline(ctx, hover.cell, paint.cursor, 1.5);
    if (cursorRow >= 0 && self.focused) {
      const cell = cellAt(cursor, cursorRow);
      if (cell) outline(ctx, cell, paint.focus, 2.5);
    }
    ctx.restore();
    if (middle >= rows.x && middle <= rows.x + rows.w) {
      ctx.font = `650 ${MIN_TEXT + 1}px ${FONT}`;
      const text = count(cursor);
      const w = textWidth(ctx, text) + 14;
      const x = clamp(middle - w / 2, GUTTER - 7, self.width - w - 2);
      ctx.fillStyle = paint.cursor;
      box(ctx, x, 2, w, 19, 5);
      ctx.fill();
      ctx.fillStyle = paint.panel;
      ctx.fillText(text, x + 7, 16);
    }
    self.drawFocus(ctx);
  };

  function outline(ctx, cell, colour, width) {
    const x = X(cell.round);
    const w = X(cell.round + 1) - x;
    ctx.strokeStyle = colour;
    ctx.lineWidth = width;
    box(ctx, x, rowY(cell.row), Math.max(2, w - 1), rowHeight(), 3);
    ctx.stroke();
  }

  // From each parked request of the cursor's round to the cell of the producer it waits for.
  function arrows(ctx) {
    const { paint } = self;
    for (const chip of chips) {
      if (chip.round !== cursor || chip.request === undefined || chip.producer < 0) continue;
      const target = drawn.find((d) => d.w === chip.w && d.request === chip.producer && d.name === "visit" && d.first <= cursor && d.last >= cursor);
      if (!target) continue;
      // Between the cell's name and its tokens, and down to its upper edge: neither is covered.
      const left = Math.max(X(cursor), area.rows.x);
      const wide = Math.min(X(cursor + 1), area.rows.x + area.rows.w) - left;
      if (wide < 80) continue;
      ctx.font = `${MIN_TEXT}px ${FONT}`;
      const x0 = chip.x + chip.width / 2;
      const y0 = chip.y + chip.height - 3;
      const x1 = left + Math.min(wide / 2, Math.max(44, wide - textWidth(ctx, count(target.tokens)) - 22));
      const y1 = target.y + Math.min(9, target.height / 2);
      ctx.strokeStyle = paint.slots.blocked.ink;
      ctx.fillStyle = paint.slots.blocked.ink;
      ctx.lineWidth = 2;
      ctx.beginPath();
      ctx.moveTo(x0, y0);
      ctx.bezierCurveTo(x0, y0 + 26, x1, y0 + 4, x1, y1 - 7);
      ctx.stroke();
      ctx.beginPath();
      ctx.moveTo(x1, y1);
      ctx.lineTo(x1 - 5, y1 - 9);
      ctx.lineTo(x1 + 5, y1 - 9);
      ctx.fill();
    }
  }

  function legend(classes) {
    const names = SLOT_ORDER.filter((name) => classes.has(name));
    const shown = chips.flatMap((chip) => chip.items);
    const marked = [shown.some((item) => item.stop), shown.some((item) => !item.stop)];
    const key = [self.paint.theme, mode, ...names, ...marked, overview?.policy, overview?.complete].join();
    if (key === shownClasses) return;
    shownClasses = key;
    self.head.replaceChildren();
    if (options.title ?? true) {
      const title = make("span", "rf-title", self.head);
      title.textContent = options.title && options.title !== true ? options.title : (overview?.policy ?? "");
      if (overview && !overview.complete) {
        const note = make("small", "", title);
        note.textContent = "not ended";
        note.style.color = self.paint.text_soft;
      }
    }
    const add = (canvas, text) => {
      const item = make("span", "rf-key", self.head);
      item.append(canvas, text);
    };
    add(swatch(self.paint, null, mode === "cells" ? self.paint.fill([0, 0]) : self.paint.occupied), mode === "cells" ? "row visit, its tokens" : "rows in use");
    for (const name of names) add(swatch(self.paint, name), name === "other" && mode === "bins" ? "refused" : TOKENS.slots[name].short);
    const mark = (draw, text) => {
      const canvas = document.createElement("canvas");
      canvas.width = 54;
      canvas.height = 42;
      const ctx = canvas.getContext("2d");
      ctx.scale(3, 3);
      ctx.fillStyle = ctx.strokeStyle = self.paint.slots.blocked.ink;
      draw(ctx);
      add(canvas, text);
    };
    if (marked[0]) mark((ctx) => ctx.fillRect(5, 3, 8, 8), "scan stopped");
    if (marked[1]) mark((ctx) => ((ctx.lineWidth = 1.8), ctx.beginPath(), ctx.arc(9, 7, 4, 0, 7), ctx.stroke()), "parked");
  }

  // -- reading back

  function cellAt(round, row) {
    const item = drawn.find((d) => d.row === row && d.first <= round && d.last >= round);
    if (!item) return null;
    const id = item.request >= 0 ? item.w.requests[item.request].id : null;
    return { round, row, kind: item.kind, request: id, tokens: item.tokens };
  }

  function binAt(round) {
    const level = levelFor(...visible());
    if (!level) return null;
    const k = clamp(Math.floor((round - level.first) / level.bin), 0, level.count - 1);
    const values = Object.fromEntries(Object.entries(level.values).map(([field, v]) => [field, v[k]]));
    const first = level.first + k * level.bin;
    return { first, last: Math.min(total(), first + level.bin - 1), ...values };
  }

  function named(w, request) {
    return request >= 0 ? w.requests[request].id : null;
  }

  function marksOf(n) {
    const w = windows.findLast((c) => c.mode === "cells" && c.first <= n && c.last >= n);
    if (!w) return { stop: null, parked: [], w: null };
    const stop = w.stops.get(n);
    return {
      w,
      stop: stop ? { request: named(w, stop.request), cause: stop.cause } : null,
      parked: (w.parked.get(n) || []).map((p) => ({ request: named(w, p.request), producer: named(w, p.producer), boundary: p.boundary, parked: p.parked })),
    };
  }

  function inspect(x, y) {
    if (!area || !total()) return null;
    const { rows, strip, tokens, marks } = area;
    if (x >= strip.x && x <= strip.x + strip.w && y >= strip.y - 6) return { part: "overview", round: clamp(Math.floor(scale.from(stripU(x))), 1, total()) };
    if (x < rows.x || x > rows.x + rows.w) return null;
    const round = Math.floor(roundAt(x) + 1e-9);
    if (round < 1 || round > total()) return null;
    const chip = y >= marks.y && y < rows.y ? chips.find((c) => x >= c.x && x <= c.x + c.width) : null;
    if (chip) return { part: "mark", round: chip.round, marks: marksOf(chip.round), request: chip.request !== undefined ? named(chip.w, chip.request) : null };
    if (y < rows.y) return { part: "axis", round };
    if (y > rows.y + rows.h) return y >= tokens.y && y <= tokens.y + tokens.h ? { part: "tokens", round, bin: binAt(round) } : null;
    if (mode === "bins") return { part: "bin", round, bin: binAt(round) };
    const row = clamp(Math.floor((rows.y + rows.h - y) / rowHeight()), 0, S() - 1);
    const cell = cellAt(round, row);
    return cell ? { part: "cell", round, cell } : { part: "bin", round, bin: binAt(round) };
  }

  function describe() {
    self.flush();
    const rounds = {};
    for (const item of drawn)
      for (let n = item.first; n <= item.last; n++) {
        rounds[n] ??= { cells: [], tokens: 0 };
        rounds[n].cells.push({ row: item.row, kind: item.kind, request: named(item.w, item.request), tokens: item.tokens });
        rounds[n].tokens += item.tokens;
      }
    for (const n of Object.keys(rounds)) {
      rounds[n].cells.sort((p, q) => p.row - q.row);
      const { stop, parked } = marksOf(Number(n));
      Object.assign(rounds[n], { stop, parked });
    }
    const [first, last] = visible();
    return { mode, view: { first, last }, cursor, selection, theme: self.paint.theme, num_rounds: total(), S: S(), T: T(), rounds };
  }

  const slotText = (kind, request) =>
    ({
      avoidable: `avoidable bubble: ${request} was ready`,
      resident: `${request} holds the row, got no tokens`,
      idle: "idle: nobody else was waiting",
      unprobed: "empty; the free slots were not probed",
      unrecorded: "not recorded",
      blocked: `${request} was blocked on a producer`,
      unexamined: `${request} was not examined`,
    })[kind] || `${request ?? "a request"}: ${causeText(kind)}`;

  function cellText(cell) {
    if (VISIT.has(cell.kind)) {
      const share = Math.round((100 * cell.tokens) / T());
      return [`${cell.request}`, [`${count(cell.tokens)} of ${count(T())} tokens (${share < 1 ? "<1" : share}%)`, cell.kind === "waiting" ? "admitted from the queue" : "was running"]];
    }
    return [cell.kind === "avoidable" ? "Avoidable bubble" : cell.request || "Empty row", [slotText(cell.kind, cell.request)]];
  }

  function marksText({ stop, parked }) {
    const lines = [];
    if (stop) lines.push(`scan stopped${stop.request ? ` at ${stop.request}` : ""}: ${causeText(stop.cause)}`);
    for (const p of parked.slice(0, 6)) lines.push(`${p.request} ${p.parked ? "parked" : "blocked"}: waits for ${p.producer ?? "an unknown producer"} at ${count(p.boundary)} tokens`);
    if (parked.length > 6) lines.push(`and ${parked.length - 6} more`);
    return lines;
  }

  function tell(what) {
    const round = `Round ${count(what.round)}`;
    if (what.part === "cell") {
      const [title, lines] = cellText(what.cell);
      return [title, [...lines, `${round}, row ${what.cell.row + 1}`]];
    }
    if (what.part === "mark") return [round, marksText(what.marks)];
    if (!what.bin) return [round, marksText(marksOf(what.round))];
    const { bin } = what;
    const title = bin.first === bin.last ? round : `Rounds ${count(bin.first)} to ${count(bin.last)}`;
    const mean = bin.first === bin.last ? "" : ", mean a round";
    const lines = [`${(+bin.rows.toFixed(1)).toLocaleString("en-US")} of ${S()} rows, ${count(bin.tokens)} of ${count(T())} tokens${mean}`];
    if (bin.avoidable > 0.005) lines.push(`avoidable slots ${bin.avoidable.toFixed(bin.first === bin.last ? 0 : 2)}${mean && `, at most ${bin.avoidable_max}`}`);
    if (bin.stalled > 0) lines.push("stalled");
    return [title, [...lines, ...(bin.first === bin.last ? marksText(marksOf(bin.first)) : [])]];
  }

  function announce() {
    const w = windows.findLast((c) => c.mode === "cells" && c.first <= cursor && c.last >= cursor);
    const cell = cursorRow >= 0 ? cellAt(cursor, cursorRow) : null;
    if (cell) {
      const [title, lines] = cellText(cell);
      return self.say(`Round ${cursor}, row ${cursorRow + 1}: ${title}, ${lines.join(", ")}`);
    }
    const source = w?.level ?? overview?.levels[0];
    if (!source) return;
    const k = clamp(Math.floor((cursor - source.first) / source.bin), 0, source.count - 1);
    const v = (field) => +source.values[field][k].toFixed(1);
    const bubbles = v("avoidable") ? `, ${v("avoidable")} avoidable` : "";
    self.say(`Round ${cursor} of ${total()}: ${v("rows")} of ${S()} rows, ${count(v("tokens"))} of ${count(T())} tokens${bubbles}. ${marksText(marksOf(cursor)).join(". ")}`);
  }

  // -- acting

  function setCursor(n, { user = false, quiet = false } = {}) {
    const next = clamp(Math.round(n), 1, Math.max(1, total()));
    if (next !== cursor) {
      cursor = next;
      self.invalidate("over");
      if (user) options.onCursor?.(cursor);
    }
    if (!quiet) reveal(cursor);
    if (user) announce();
  }

  function choose(id, user) {
    if (id === selection) return;
    selection = id;
    self.invalidate();
    if (user) options.onSelect?.(id);
  }

  function bubble(direction) {
    const exact = windows.filter((w) => w.level.bin === 1).map((w) => w.level);
    const sources = [...exact.filter((l) => l.first <= cursor && l.first + l.count > cursor), ...(overview?.levels ?? [])];
    for (const level of sources) {
      for (let k = Math.floor((cursor - level.first) / level.bin) + direction; k >= 0 && k < level.count; k += direction)
        if (level.values.avoidable_max[k] > 0) return setCursor(level.first + k * level.bin, { user: true });
      if (level.bin === 1 && level.count === total()) return;
    }
  }

  const screen = () => Math.max(1, Math.floor(visible()[1] - visible()[0]));
  const keys = {
    ArrowLeft: (e) => setCursor(cursor - (e.shiftKey ? 10 : 1), { user: true }),
    ArrowRight: (e) => setCursor(cursor + (e.shiftKey ? 10 : 1), { user: true }),
    ArrowUp: () => ((cursorRow = Math.min(S() - 1, cursorRow + 1)), self.invalidate("over"), announce()),
    ArrowDown: () => ((cursorRow = Math.max(-1, cursorRow - 1)), self.invalidate("over"), announce()),
    Home: () => setCursor(1, { user: true }),
    End: () => setCursor(total(), { user: true }),
    PageUp: () => setCursor(cursor - screen(), { user: true }),
    PageDown: () => setCursor(cursor + screen(), { user: true }),
    "+": () => zoom(0.6, clamp(X(cursor + 0.5), area.rows.x, area.rows.x + area.rows.w)),
    "=": () => keys["+"](),
    "-": () => zoom(1 / 0.6, clamp(X(cursor + 0.5), area.rows.x, area.rows.x + area.rows.w)),
    _: () => keys["-"](),
    0: () => moveView(full()),
    b: () => bubble(1),
    B: () => bubble(-1),
    " ": () => options.onPlay?.(),
    Enter: () => choose(cursorRow >= 0 ? (cellAt(cursor, cursorRow)?.request ?? null) : selection, true),
    Escape: () => ((cursorRow = -1), choose(null, true), self.invalidate("over"), self.hideTip()),
  };
  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key] || !total()) return;
    event.preventDefault();
    keys[event.key](event);
  }

  const pointers = new Map();
  let drag = null;

  function onDown(event) {
    if (event.button > 0 || !total()) return;
    const [x, y] = self.at(event);
    self.stage.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, [x, y]);
    halt();
    if (pointers.size === 2) {
      const [p, q] = [...pointers.values()];
      drag = { what: "pinch", apart: Math.abs(p[0] - q[0]), view: [...view] };
      return;
    }
    const { strip } = area;
    if (y >= strip.y - 6) {
      const left = stripX(view[0]);
      const right = Math.max(left + 5, stripX(view[1]));
      const near = (edge) => Math.abs(x - edge) < 7 && right - left > 20;
      if (near(left)) drag = { what: "edge", side: 0 };
      else if (near(right)) drag = { what: "edge", side: 1 };
      else {
        if (x < left || x > right) {
          const half = (view[1] - view[0]) / 2;
          moveView([stripU(x) - half, stripU(x) + half]);
        }
        drag = { what: "brush", x, view: limit(x < left || x > right ? [stripU(x) - (view[1] - view[0]) / 2, stripU(x) + (view[1] - view[0]) / 2] : view) };
      }
    } else drag = { what: "pan", x, y, view: [...view], moved: false };
  }

  function onMove(event) {
    const [x, y] = self.at(event);
    if (!total()) return;
    if (pointers.has(event.pointerId)) pointers.set(event.pointerId, [x, y]);
    if (drag) {
      self.hideTip();
      const perPx = (drag.view ? drag.view[1] - drag.view[0] : 0) / area.rows.w;
      if (drag.what === "pinch" && pointers.size === 2) {
        const [p, q] = [...pointers.values()];
        const factor = drag.apart / Math.max(8, Math.abs(p[0] - q[0]));
        const at = drag.view[0] + (((p[0] + q[0]) / 2 - area.rows.x) / area.rows.w) * (drag.view[1] - drag.view[0]);
        applyView([at - (at - drag.view[0]) * factor, at + (drag.view[1] - at) * factor]);
      } else if (drag.what === "pan") {
        if (Math.abs(x - drag.x) > 4) drag.moved = true;
        if (drag.moved) {
          self.stage.style.cursor = "grabbing";
          applyView([drag.view[0] - (x - drag.x) * perPx, drag.view[1] - (x - drag.x) * perPx]);
        }
      } else if (drag.what === "brush") {
        const by = stripU(x) - stripU(drag.x);
        if (Math.abs(x - drag.x) > 2) (halt(), applyView([drag.view[0] + by, drag.view[1] + by]));
      } else if (drag.what === "edge") {
        const next = [...view];
        next[drag.side] = clamp(stripU(x), ...full());
        if (next[0] < next[1]) applyView(next);
      }
      return;
    }
    hover = inspect(x, y);
    const edge = area && y >= area.strip.y - 6 && (Math.abs(x - stripX(view[0])) < 7 || Math.abs(x - stripX(view[1])) < 7);
    self.stage.style.cursor = edge ? "ew-resize" : hover?.cell?.request || hover?.request ? "pointer" : "default";
    if (hover && hover.part !== "overview") self.showTip(x, y, ...tell(hover));
    else self.hideTip();
    self.invalidate("over");
  }

  function onUp(event) {
    const [x, y] = self.at(event);
    pointers.delete(event.pointerId);
    if (drag?.what === "pan" && !drag.moved) {
      const hit = inspect(x, y);
      if (hit) {
        setCursor(hit.round, { user: true, quiet: true });
        const id = hit.cell?.request ?? hit.request ?? null;
        if (hit.part === "cell" || hit.request) choose(id === selection ? null : id, true);
        cursorRow = hit.cell ? hit.cell.row : -1;
      }
    }
    drag = null;
    self.stage.style.cursor = "default";
  }

  function onLeave() {
    hover = null;
    self.hideTip();
    self.invalidate("over");
  }

  function onWheel(event) {
    if (!total()) return;
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
    // Without focus the wheel scrolls the page.
    if (!sideways && !event.ctrlKey && !event.metaKey && !self.focused) return;
    event.preventDefault();
    halt();
    const unit = event.deltaMode === 1 ? 16 : 1;
    if (sideways) {
      const by = (((event.deltaX || event.deltaY) * unit) / area.rows.w) * (view[1] - view[0]);
      applyView([view[0] + by, view[1] + by]);
    } else zoom(Math.exp(clamp(event.deltaY * unit, -120, 120) * (event.ctrlKey ? 0.01 : 0.0025)), self.at(event)[0]);
    onLeave();
  }

  self.root.addEventListener("keydown", onKey);
  self.stage.addEventListener("pointerdown", onDown);
  self.stage.addEventListener("pointermove", onMove);
  self.stage.addEventListener("pointerup", onUp);
  self.stage.addEventListener("pointercancel", onUp);
  self.stage.addEventListener("pointerleave", onLeave);
  self.stage.addEventListener("wheel", onWheel, { passive: false });
  self.stage.addEventListener("dblclick", (event) => area && self.at(event)[1] < area.strip.y - 6 && zoom(0.4, self.at(event)[0]));
  self.themed = () => {
    shownClasses = "";
    grounds.clear();
  };
  self.resized = () => {
    layout();
    clearTimeout(wantTimer);
    wantTimer = setTimeout(() => wantData(), 50);
  };
  self.start();

  return {
    element: self.root,
    setOverview(o) {
      arrive();
      const before = overview?.num_rounds ?? 0; // a window may know of more
      const following = overview && scale.from(view[1]) >= before + 0.5;
      const visibleSpan = scale.from(view[1]) - scale.from(view[0]);
      const wholeRun = overview && visibleSpan >= before - 0.5;
      const fresh = !overview || overview.trace !== o.trace;
      overview = decodeOverview(o);
      if (axis === "time" && overview.levels.length) scale = timeScale(overview);
      if (fresh) {
        windows = windows.filter((w) => w.trace === o.trace);
        cursor = clamp(cursor, 1, Math.max(1, total()));
      }
      asked = "";
      shownClasses = "";
      if (fresh || wholeRun) applyView(full(), true);
      else if (following) applyView([scale.to(total() + 1 - visibleSpan), scale.to(total() + 1)], true);
      else applyView(view, true);
    },
    setData(w) {
      const decoded = decodeWindow(w);
      if (!decoded) return;
      windows = windows.filter((old) => !(old.first === w.first && old.last <= w.last)).slice(-15);
      windows.push(decoded);
      if (!overview) applyView(full(), true);
      self.invalidate();
      if (w.num_rounds > w.last) asked = "";
    },
    clearData() {
      windows = [];
      overview = null;
      asked = "";
      self.invalidate();
    },
    setCursor: (n) => setCursor(n),
    setSelection: (id) => choose(id ?? null, false),
    setView: (first, last) => applyView([scale.to(first), scale.to(last + 1)], true),
    setTheme: self.setTheme,
    setExtent(rounds) {
      if (rounds === extent) return;
      const wholeRun = view[0] <= full()[0] && view[1] >= full()[1];
      extent = rounds;
      applyView(wholeRun ? full() : view, true);
    },
    setAxis(name) {
      if (name === axis || !overview?.levels.length) return;
      const [a, b] = view.map((u) => scale.from(u));
      axis = name;
      scale = name === "time" ? timeScale(overview) : roundScale();
      applyView([scale.to(a), scale.to(b)], true);
    },
    describe,
    // Whether the round is in what was painted last, in cells or, zoomed out, in bins.
    covers(n) {
      const [a, b] = visible();
      return a <= n && n <= b && cursor === n && (columnWidth() < CELL_PX || mode === "cells");
    },
    inspect(x, y) {
      self.flush();
      return inspect(x, y);
    },
    place(round, row) {
      self.flush();
      return { x: (X(round) + X(round + 1)) / 2, y: rowY(row) + rowHeight() / 2 };
    },
    destroy() {
      clearTimeout(wantTimer);
      clearTimeout(viewTimer);
      cancelAnimationFrame(animation);
      self.destroy();
    },
  };
}

// ---------------------------------------------------------------- prefix tree

const PUBLISHED = 1;
const IN_FLIGHT = 2;
const EVICTED = 3;
const STATE_TEXT = ["absent", "published", "in flight", "evicted"];
const STATE_TITLE = ["", "in the cache: requests can resume from here", "being computed in this round: ready from the next one on", "its memory was given to others"];
const COMPONENT_TEXT = {
  kv: "kv: keys and values of the attention layers, kept for each block of tokens",
  rec: "rec: the state of the recurrent (Mamba) layers at this boundary",
  conv: "conv: the state of the convolutions before the recurrent layers",
};
const LEFT = 12;
const QUEUE = 76; // left of the root stand the requests that match nothing

export function createTree(element, options = {}) {
  const self = pane(element, { label: "Prefix tree", ...options }, "prefix tree");
  let tree = null;
  let children = new Map();
  let byId = new Map();
  let selection = null;
  let hover = null;
  let focus = null;
  let scroll = 0;
  let span = null; // visible tokens [from, to]; null: all
  let drawn = [];
  let flags = [];
  let labels = [];
  let marks = [];
  let drag = null;
  let legendKey = "";
  let leastRow = 27; // px

  const queue = () => (tree.requests.some((r) => r.at === 0) ? QUEUE : 0);
  const area = () => ({ x: LEFT + queue(), y: AXIS + 2, w: Math.max(10, self.width - LEFT - queue() - 30), h: Math.max(10, self.height - AXIS - 8) });
  // The tree across engines (kind "engines"): a lane an engine instead of a component, and namespaces as headings.
  const shared = () => tree?.kind === "engines";
  const lanesOf = (node) => node.lanes ?? tree.components.length;
  const rowHeight = () => clamp(area().h / Math.max(1, tree.rows), leastRow, Math.max(leastRow, shared() ? 46 : 60));
  const range = () => span ?? [0, Math.max(1, tree.extent)];
  const X = (tokens) => area().x + ((tokens - range()[0]) / (range()[1] - range()[0])) * area().w;
  const Y = (row) => area().y + row * rowHeight() - scroll;
  const lowest = () => Math.max(0, tree.rows * rowHeight() - area().h);

  self.drawScene = (ctx) => {
    const { paint } = self;
    ctx.clearRect(0, 0, self.width, self.height);
    ctx.fillStyle = paint.panel;
    ctx.fillRect(0, 0, self.width, self.height);
    drawn = [];
    flags = [];
    labels = [];
    marks = [];
    if (!tree || !tree.nodes.length) {
      ctx.fillStyle = paint.text_soft;
      ctx.font = `15px ${FONT}`;
      ctx.textAlign = "center";
      ctx.fillText(shared() ? "Nothing is cached" : tree ? "No prompt has arrived yet" : "", self.width / 2, self.height / 2);
      ctx.textAlign = "left";
      return;
    }
    scroll = clamp(scroll, 0, lowest());
    axis(ctx);
    const a = area();
    ctx.save();
    ctx.beginPath();
    ctx.rect(0, a.y - 2, self.width, self.height - a.y + 2);
    ctx.clip();
    for (const node of tree.nodes) drawNode(ctx, node);
    for (const request of tree.requests) drawRequest(ctx, request);
    for (const mark of marks) drawMark(ctx, ...mark);
    for (const label of labels) drawLabel(ctx, label);
    for (const flag of flags) drawProducer(ctx, flag);
    for (const flag of flags) drawFlag(ctx, flag);
    ctx.restore();
    if (lowest() > 0) {
      const h = (a.h * a.h) / (tree.rows * rowHeight());
      ctx.fillStyle = paint.line_strong;
      box(ctx, self.width - 7, a.y + (scroll / lowest()) * (a.h - h), 4, h, 2);
      ctx.fill();
    }
    legend();
  };

  function axis(ctx) {
    const { paint } = self;
    const a = area();
    ctx.font = `${MIN_TEXT}px ${FONT}`;
    ctx.textAlign = "center";
    const [from, to] = range();
    const block = Math.max(1, tree.block);
    const perBlock = (a.w / (to - from)) * block;
    const step = block * Math.max(1, perBlock >= 54 ? 1 : 2 ** Math.ceil(Math.log2(54 / perBlock)));
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      const x = X(t);
      ctx.strokeStyle = paint.line;
      ctx.lineWidth = 1;
      ctx.beginPath();
      ctx.moveTo(Math.round(x) + 0.5, AXIS - 3);
      ctx.lineTo(Math.round(x) + 0.5, self.height);
      ctx.stroke();
      ctx.fillStyle = paint.text_soft;
      if (x < self.width - 70) ctx.fillText(count(t), Math.max(x, LEFT + 4), 15);
    }
    ctx.textAlign = "right";
    ctx.fillStyle = paint.text_soft;
    ctx.fillText("tokens", self.width - 10, 15);
    ctx.textAlign = "left";
  }

  function drawNode(ctx, node) {
    const { paint } = self;
    const x = X(node.start);
    const w = Math.max(2, X(node.end) - x - 1.5);
    const y = Y(node.top) + 1.5;
    const h = node.height * rowHeight() - 3;
    if (y > self.height || y + h < AXIS || x > self.width || x + w < 0) return;
    drawn.push({ node, x, y, w, h });
    if (node.heading) return drawHeading(ctx, node, y, h);
    const chosen = shared() ? focus === node.id : selection !== null && node.ids.includes(selection);
    const ground = node.folded
      ? paint.slots.other.back
      : shared()
        ? mix(paint.occupied, paint.panel, Math.max(0.45, 0.9 - 0.12 * node.sharing))
        : mix(paint.fill(node.colour), paint.panel, selection !== null && !chosen ? 0.86 : node.computed ? 0.32 : 0.74);
    ctx.fillStyle = ground;
    box(ctx, x, y, w, h, w > 10 ? 4 : 0);
    ctx.fill();
    if (node.folded) {
      ctx.fillStyle = self.hatch.style("other");
      ctx.fill();
    } else {
      ctx.fillStyle = shared() ? paint.occupied : paint.strong(node.colour);
      ctx.globalAlpha = node.computed ? 1 : 0.5;
      ctx.fillRect(x, y + 2, Math.min(3, w), h - 4);
      ctx.globalAlpha = 1;
    }
    if (chosen) {
      ctx.strokeStyle = paint.select;
      ctx.lineWidth = 2;
      ctx.stroke();
    }
    const lanes = lanesOf(node);
    const lane = laneHeight(lanes);
    // Lanes, label and the first row's request all stand around the first row's middle.
    const middle = y - 1.5 + rowHeight() / 2;
    const label = w > 26 ? labelOf(ctx, node, x, w, middle, ground) : null;
    if (label) labels.push(label);
    for (const mark of node.marks) marks.push([node, mark, middle + ((mark.lane ?? mark.component) - lanes / 2) * lane, lane, middle, label?.plate]);
  }

  // What a segment is called, how long it is where there is room, and the plate that both stand on.
  function labelOf(ctx, node, x, w, middle, ground) {
    const left = Math.max(x + 9, LEFT + 4);
    const room = x + w - left - (node.marks.length ? 16 : 6);
    ctx.font = `600 ${MIN_TEXT + 1}px ${FONT}`;
    const text = fitted(ctx, node.folded ? `${node.folded} more` : node.label, room);
    if (!text) return null;
    const name = textWidth(ctx, text);
    ctx.font = `${MIN_TEXT}px ${FONT}`;
    const length = count(node.end - node.start);
    const wide = name + 8 + textWidth(ctx, length);
    const both = !node.folded && wide <= room;
    return { node, text, length: both ? length : "", at: left + name + 8, left, y: middle + 4.5, ground, plate: { x: left - 4, w: (both ? wide : name) + 9 } };
  }

  const laneHeight = (lanes) => clamp((rowHeight() - 7) / Math.max(1, lanes), 3, 11);

  // A namespace's name and what it holds, on a line over its segments.
  function drawHeading(ctx, node, y, h) {
    const { paint } = self;
    const base = y + h - 8;
    ctx.fillStyle = paint.line_strong;
    ctx.fillRect(LEFT, y + h - 1, self.width - LEFT - 12, 1);
    ctx.fillStyle = paint.text;
    ctx.font = `650 ${MIN_TEXT + 2}px ${FONT}`;
    const name = fitted(ctx, node.label, (self.width - 2 * LEFT) * 0.62);
    const used = textWidth(ctx, name);
    ctx.fillText(name, LEFT, base);
    ctx.fillStyle = paint.text_soft;
    ctx.font = `${MIN_TEXT}px ${FONT}`;
    ctx.fillText(fitted(ctx, node.note, self.width - LEFT - used - 34), LEFT + used + 14, base);
    if (focus !== node.id) return;
    ctx.strokeStyle = paint.select;
    ctx.lineWidth = 1.5;
    box(ctx, LEFT - 5, y, self.width - LEFT - 5, h - 2, 4);
    ctx.stroke();
  }

  // Over marks and gaps, on a plate of the node's own colour.
  function drawLabel(ctx, { node, text, length, at, left, y, ground, plate }) {
    ctx.fillStyle = ground;
    const tall = shared() ? Math.max(17, laneHeight(lanesOf(node)) * lanesOf(node) + 2) : 17;
    box(ctx, plate.x, y - 4.5 - tall / 2, plate.w, tall, 3);
    ctx.fill();
    ctx.fillStyle = node.folded ? self.paint.text : readable(ground, self.paint);
    ctx.font = `${MIN_TEXT}px ${FONT}`;
    if (length) ctx.fillText(length, at, y);
    ctx.font = `600 ${MIN_TEXT + 1}px ${FONT}`;
    ctx.fillText(text, left, y);
  }

  // Boundaries start + step, ..., end of one component: glyphs where there is room, else a bar.
  function drawMark(ctx, node, mark, y, lane, center, plate) {
    const { paint } = self;
    const own = tree.components[mark.component].colour;
    const strong = own
      ? paint.theme === "dark" ? paint.fill(own) : mix(paint.gauge(own), "#000000", 0.28)
      : node.folded ? paint.text_soft : paint.theme === "dark" ? mix(paint.fill(node.colour), "#ffffff", 0.25) : paint.strong(node.colour);
    const size = Math.max(2.6, lane * 0.78);
    const gap = X(mark.step) - X(0);
    const middle = y + lane / 2;
    ctx.strokeStyle = ctx.fillStyle = mark.state === EVICTED ? paint.text_soft : strong;
    ctx.lineWidth = 1.3;
    const ground = paint.panel;
    const abreast = lanesOf(node);
    if (gap >= size + 3) {
      const beside = gap >= abreast * 11 + 60;
      const wide = beside ? 8 : size;
      for (let t = mark.start + mark.step; t <= mark.end; t += mark.step) {
        const x = X(t) - 6 - (beside ? (abreast - (mark.lane ?? mark.component)) * 11 - 3 : wide);
        if (plate && x < plate.x + plate.w && x + wide > plate.x) continue; // whole, or not at all
        glyph(ctx, tree.components[mark.component].shape, x, beside ? center : middle, wide, mark.state, ground);
      }
      return;
    }
    const left = X(mark.start) + 4;
    const width = Math.max(size, X(mark.end) - 4 - left);
    const h = Math.max(2, lane - 2);
    if (mark.state === PUBLISHED) ctx.fillRect(left, middle - h / 2, width, h);
    else if (mark.state === IN_FLIGHT) {
      ctx.fillStyle = ground;
      ctx.fillRect(left, middle - h / 2, width, h);
      ctx.strokeRect(left + 0.6, middle - h / 2 + 0.6, width - 1.2, Math.max(0.5, h - 1.2));
    } else {
      ctx.beginPath();
      for (let x = left; x + h <= left + width; x += h + 2) (ctx.moveTo(x, middle - h / 2), ctx.lineTo(x + h, middle + h / 2), ctx.moveTo(x + h, middle - h / 2), ctx.lineTo(x, middle + h / 2));
      ctx.stroke();
    }
  }

  // Flags leave room for the glyphs at the boundary they stand at.
  const inset = (request) => {
    if (request.at % tree.block) return 6;
    const widest = Math.max(1, ...tree.components.map((c) => c.block));
    const abreast = tree.components.length;
    return X(widest) - X(0) >= abreast * 11 + 60 ? abreast * 11 + 9 : 18;
  };
  const flagRow = (request) => Y(request.row) + rowHeight() / 2;

  function drawRequest(ctx, request) {
    const { paint } = self;
    const y = flagRow(request);
    const at = X(request.at) - (request.at > 0 ? inset(request) : 0);
    // The gap between readiness h and identity h^.
    if (request.state !== "running" && request.matched > request.ready) {
      const x = X(request.ready);
      const slot = paint.slots.blocked;
      const h = 9;
      ctx.fillStyle = slot.back;
      ctx.fillRect(x, y - h / 2, at - x, h);
      ctx.fillStyle = self.hatch.style("blocked");
      ctx.fillRect(x, y - h / 2, at - x, h);
      ctx.strokeStyle = slot.ink;
      ctx.lineWidth = 1.2;
      ctx.strokeRect(x + 0.6, y - h / 2, at - x - 1.2, h);
      ctx.lineWidth = 2.5;
      ctx.beginPath();
      ctx.moveTo(x + 1, y - 8);
      ctx.lineTo(x + 1, y + 8);
      ctx.stroke();
    }
    flags.push({ request, x: X(request.at), y });
  }

  function flagBox(ctx, flag) {
    ctx.font = `600 ${MIN_TEXT}px ${FONT}`;
    const text = fittedId(ctx, flag.request.id, flag.request.at > 0 ? 90 : QUEUE - 20);
    const w = textWidth(ctx, text) + 12;
    return { text, w, h: 17, x: clamp(flag.x - w - (flag.request.at > 0 ? inset(flag.request) : 6), 4, self.width - w - 12), y: flag.y - 8.5 };
  }

  function drawFlag(ctx, flag) {
    const { paint } = self;
    const { request } = flag;
    Object.assign(flag, { box: flagBox(ctx, flag) });
    const b = flag.box;
    const running = request.state === "running";
    const slot = paint.slots.blocked;
    ctx.fillStyle = running ? paint.fill(request.colour) : request.state === "blocked" ? slot.back : paint.panel;
    ctx.strokeStyle = request.state === "blocked" ? slot.ink : running ? paint.strong(request.colour) : paint.line_strong;
    if (request.id === selection) ctx.strokeStyle = paint.select;
    ctx.lineWidth = request.id === selection ? 2.4 : 1.5;
    ctx.setLineDash(running ? [] : [3.5, 2.5]);
    box(ctx, b.x, b.y, b.w, b.h, 4);
    ctx.fill();
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.fillStyle = running ? paint.cellText : paint.text;
    ctx.textBaseline = "middle";
    ctx.fillText(b.text, b.x + 6, b.y + b.h / 2 + 0.5);
    ctx.textBaseline = "alphabetic";
  }

  // From a blocked request to the producer it waits for.
  function drawProducer(ctx, flag) {
    const target = flag.request.producer && flags.find((f) => f.request.id === flag.request.producer);
    if (!target) return;
    const { paint } = self;
    const from = flagBox(ctx, flag);
    const to = flagBox(ctx, target);
    const right = Math.max(from.x + from.w, to.x + to.w) + 16;
    const [y0, y1] = [flag.y, target.y];
    ctx.strokeStyle = ctx.fillStyle = paint.slots.blocked.ink;
    ctx.lineWidth = 1.8;
    const shared = [Math.max(from.x, to.x), Math.min(from.x + from.w, to.x + to.w)];
    if (shared[1] - shared[0] > 10 && Math.abs(y1 - y0) < 1.6 * rowHeight()) {
      // One above the other: a straight arrow.
      const x = (shared[0] + shared[1]) / 2;
      const down = Math.sign(y1 - y0);
      const end = y1 - down * to.h * 0.5;
      ctx.beginPath();
      ctx.moveTo(x, y0);
      ctx.lineTo(x, end - down * 6);
      ctx.stroke();
      ctx.beginPath();
      ctx.moveTo(x, end - down);
      ctx.lineTo(x - 4.5, end - down * 8);
      ctx.lineTo(x + 4.5, end - down * 8);
      ctx.fill();
      return;
    }
    ctx.beginPath();
    ctx.moveTo(from.x + from.w, y0);
    ctx.bezierCurveTo(right + 10, y0, right + 10, y1, to.x + to.w + 7, y1);
    ctx.stroke();
    ctx.beginPath();
    ctx.moveTo(to.x + to.w + 1, y1);
    ctx.lineTo(to.x + to.w + 9, y1 - 4.5);
    ctx.lineTo(to.x + to.w + 9, y1 + 4.5);
    ctx.fill();
  }

  self.drawOver = (ctx) => {
    if (!tree) return;
    const mark = (item, colour, width) => {
      ctx.strokeStyle = colour;
      ctx.lineWidth = width;
      box(ctx, item.x, item.y, item.w, item.h, 4);
      ctx.stroke();
    };
    if (hover?.item) mark(hover.item, self.paint.cursor, 1.5);
    const focused = self.focused && focus && drawn.find((d) => d.node.id === focus);
    if (focused) mark(focused, self.paint.focus, 2.5);
    self.drawFocus(ctx);
  };

  function legend() {
    const key = [self.paint.theme, tree.kind, tree.policy, tree.round, ...tree.components.map((c) => c.name)].join();
    if (key === legendKey) return;
    legendKey = key;
    const { head, paint } = self;
    head.replaceChildren();
    if (options.title ?? true) {
      const title = make("span", "rf-title", head);
      title.textContent = shared() ? "Prefixes" : "Prefix tree";
      const note = make("small", "", title);
      note.textContent = shared() ? "" : `in round ${count(tree.round)}`;
      note.style.color = paint.text_soft;
    }
    const add = (draw, text, width = 18, title = "") => {
      const item = make("span", "rf-key", head);
      if (title) item.title = title;
      const canvas = make("canvas", "", item);
      canvas.width = width * 3;
      canvas.height = 42;
      canvas.style.width = `${width}px`;
      const ctx = canvas.getContext("2d");
      ctx.scale(3, 3);
      ctx.strokeStyle = ctx.fillStyle = paint.text;
      ctx.lineWidth = 1.4;
      draw(ctx);
      item.append(text);
    };
    tree.components.slice(0, 12).forEach((c) =>
      add((ctx) => {
        if (c.colour) ctx.fillStyle = ctx.strokeStyle = paint.theme === "dark" ? paint.fill(c.colour) : mix(paint.gauge(c.colour), "#000000", 0.28);
        glyph(ctx, c.shape, 3, 7, 9, PUBLISHED, paint.panel);
      }, c.groups > 1 ? `${c.name} ×${c.groups}` : c.name, 15, shared() ? "" : [COMPONENT_TEXT[c.name], c.groups > 1 && `in ${c.groups} cache groups`].filter(Boolean).join(", ")),
    );
    // A bar, which is no component's shape: what filled, hollow and crossed mean holds for each of them.
    const bar = (ctx, state) => {
      if (state === PUBLISHED) return ctx.fillRect(1, 3.5, 16, 7);
      ctx.strokeRect(1.7, 4.2, 14.6, 5.6);
      if (state === EVICTED) (ctx.beginPath(), ctx.moveTo(1.7, 9.8), ctx.lineTo(16.3, 4.2), ctx.moveTo(1.7, 4.2), ctx.lineTo(16.3, 9.8), ctx.stroke());
    };
    const states = shared() ? [[PUBLISHED, tree.states[1]], [IN_FLIGHT, tree.states[2]]] : [[PUBLISHED, "published"], [IN_FLIGHT, "in flight"], [EVICTED, "evicted"]];
    for (const [state, text] of states) add((ctx) => bar(ctx, state), text, 18, shared() ? "" : STATE_TITLE[state]);
    if (tree.requests.some((r) => r.state === "blocked")) {
      const item = make("span", "rf-key", head);
      item.append(swatch(paint, "blocked"), "matched, not ready");
    }
  }

  // -- reading back and acting

  function inspect(x, y) {
    if (!tree) return null;
    const flag = flags.findLast((f) => f.box && x >= f.box.x && x <= f.box.x + f.box.w && y >= f.box.y && y <= f.box.y + f.box.h);
    if (flag) return { part: "request", request: flag.request };
    const item = drawn.findLast((d) => x >= d.x && x <= d.x + d.w && y >= d.y && y <= d.y + d.h);
    return item ? { part: "node", node: item.node, item } : null;
  }

  function describe() {
    self.flush();
    return {
      round: tree?.round ?? null,
      theme: self.paint.theme,
      selection,
      nodes: drawn.map(({ node }) => ({ id: node.id, parent: node.parent, start: node.start, end: node.end, label: node.label, folded: node.folded, marks: node.marks.map((m) => ({ component: tree.components[m.component].name, state: (tree.states ?? STATE_TEXT)[m.state], start: m.start, end: m.end, step: m.step })) })),
      requests: flags.map(({ request, x, y }) => ({ id: request.id, state: request.state, matched: request.matched, ready: request.ready, producer: request.producer, x, y })),
    };
  }

  function tell(what) {
    if (what.part === "request") {
      const r = what.request;
      const lines = [];
      if (r.state === "running") lines.push(`running, ${count(r.at)} tokens done after this round`);
      else {
        lines.push(r.state === "blocked" ? `blocked: waits for ${r.producer ?? "an unknown producer"}` : "waiting");
        if (r.matched !== null) lines.push(`matched h^ = ${count(r.matched)} tokens, ready h = ${count(r.ready)}`);
      }
      lines.push(`prompt ${count(r.prompt)} tokens`);
      return [r.id, lines];
    }
    const { node } = what;
    if (shared()) return tellShared(node);
    if (node.folded) return [`${node.folded} more nodes`, ["folded away: choose a larger tree or a request"]];
    const lines = [`tokens ${count(node.start)} to ${count(node.end)} (${count(node.end - node.start)})`, `${node.requests} request${node.requests === 1 ? "" : "s"}: ${node.ids.slice(0, 8).join(", ")}${node.requests > 8 ? ", …" : ""}`];
    for (let c = 0; c < tree.components.length; c++) {
      const marks = node.marks.filter((m) => m.component === c);
      if (marks.length) lines.push(`${tree.components[c].name}: ${marks.map((m) => `${STATE_TEXT[m.state]} to ${count(m.end)}`).join(", ")}`);
    }
    return [node.label, lines];
  }

  function tellShared(node) {
    if (node.heading) return [node.label, [node.note]];
    if (node.folded) return [`${count(node.folded)} more segments`, [node.note]];
    const lines = [`tokens ${count(node.start)} to ${count(node.end)} (${count(node.blocks)} block${node.blocks === 1 ? "" : "s"})`];
    for (const a of node.answers.slice(0, 12)) lines.push(`${tree.components[a.engine].name}: matched ${count(a.matched)}, ready ${count(a.ready)}`);
    return [node.label, lines];
  }

  function focusOn(id) {
    if (!byId.has(id)) return;
    focus = id;
    const node = byId.get(id);
    if (shared()) options.onNode?.(publicNode(node));
    const y = Y(node.top);
    if (y < AXIS || y + rowHeight() > self.height) scroll = clamp(node.top * rowHeight() - area().h / 3, 0, lowest());
    const [title, lines] = tell({ part: "node", node });
    self.say(`${title}: ${lines.join("; ")}`);
    self.invalidate();
  }

  // Keep in sight what the round is about: the blocked requests, else the running ones.
  function follow() {
    const about = ["blocked", "running", "waiting"].map((state) => tree.requests.filter((r) => r.state === state)).find((list) => list.length);
    if (!about || !self.height) return;
    const h = rowHeight();
    const rows = about.map((r) => r.row);
    const [first, last] = [Math.min(...rows) * h, (Math.max(...rows) + 1) * h];
    if (first < scroll || last > scroll + area().h) scroll = clamp(first - h, 0, lowest());
  }

  function step(direction) {
    const node = byId.get(focus) ?? tree.nodes[0];
    if (direction === "right") return focusOn(children.get(node.id)?.[0]?.id ?? node.id);
    if (direction === "left") return focusOn(byId.has(node.parent) ? node.parent : node.id);
    const mates = tree.nodes.filter((n) => n.depth === node.depth).sort((p, q) => p.top - q.top);
    const k = mates.indexOf(node) + (focus === null ? 0 : direction === "down" ? 1 : -1);
    focusOn(mates[clamp(k, 0, mates.length - 1)].id);
  }

  function zoom(factor, x) {
    const [a, b] = range();
    const at = a + ((x - area().x) / area().w) * (b - a);
    const next = [Math.max(0, at - (at - a) * factor), Math.min(tree.extent, at + (b - at) * factor)];
    span = next[1] - next[0] >= tree.extent * 0.999 ? null : next[1] - next[0] < 8 ? span : next;
    self.invalidate();
  }

  const choose = (id, user) => {
    if (id === selection) return;
    selection = id;
    self.invalidate();
    if (user) options.onSelect?.(id);
  };
  const keys = {
    ArrowDown: () => step("down"),
    ArrowUp: () => step("up"),
    ArrowRight: () => step("right"),
    ArrowLeft: () => step("left"),
    Home: () => focusOn(tree.nodes[0].id),
    End: () => focusOn(tree.nodes.at(-1).id),
    "+": () => zoom(0.6, area().x + area().w / 2),
    "=": () => keys["+"](),
    "-": () => zoom(1 / 0.6, area().x + area().w / 2),
    0: () => ((span = null), self.invalidate()),
    Enter: () => focus !== null && options.onNode?.(publicNode(byId.get(focus))),
    Escape: () => ((focus = null), choose(null, true), self.invalidate("over")),
  };
  const publicNode = (n) => ({ id: n.id, start: n.start, end: n.end, label: n.label, requests: n.requests, ids: n.ids, folded: n.folded });

  self.root.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key] || !tree?.nodes.length) return;
    event.preventDefault();
    keys[event.key]();
  });
  self.stage.addEventListener("pointerdown", (event) => {
    if (event.button > 0 || !tree) return;
    const [x, y] = self.at(event);
    self.stage.setPointerCapture(event.pointerId);
    drag = { x, y, scroll, span: span && [...span], moved: false };
  });
  self.stage.addEventListener("pointermove", (event) => {
    if (!tree) return;
    const [x, y] = self.at(event);
    if (drag) {
      if (Math.hypot(x - drag.x, y - drag.y) > 4) drag.moved = true;
      if (!drag.moved) return;
      self.hideTip();
      scroll = clamp(drag.scroll - (y - drag.y), 0, lowest());
      if (drag.span) {
        const by = clamp(((drag.x - x) / area().w) * (drag.span[1] - drag.span[0]), -drag.span[0], tree.extent - drag.span[1]);
        span = [drag.span[0] + by, drag.span[1] + by];
      }
      return self.invalidate();
    }
    hover = inspect(x, y);
    self.stage.style.cursor = hover ? "pointer" : "default";
    if (hover) self.showTip(x, y, ...tell(hover));
    else self.hideTip();
    self.invalidate("over");
  });
  self.stage.addEventListener("pointerup", (event) => {
    const [x, y] = self.at(event);
    if (drag && !drag.moved) {
      const hit = inspect(x, y);
      if (hit?.part === "request") choose(hit.request.id === selection ? null : hit.request.id, true);
      else if (hit) {
        focus = hit.node.id;
        options.onNode?.(publicNode(hit.node));
        if (shared()) self.invalidate();
      } else choose(null, true);
    }
    drag = null;
  });
  self.stage.addEventListener("pointerleave", () => ((hover = null), self.hideTip(), self.invalidate("over")));
  self.stage.addEventListener(
    "wheel",
    (event) => {
      if (!tree) return;
      const zooming = event.ctrlKey || event.metaKey;
      if (!zooming && (!self.focused || lowest() === 0)) return;
      event.preventDefault();
      if (zooming) zoom(Math.exp(clamp(event.deltaY, -120, 120) * 0.006), self.at(event)[0]);
      else scroll = clamp(scroll + event.deltaY, 0, lowest());
      self.hideTip();
      self.invalidate();
    },
    { passive: false },
  );
  self.themed = () => (legendKey = "");
  self.start();

  return {
    element: self.root,
    setData(next) {
      tree = next;
      byId = new Map(tree.nodes.map((n) => [n.id, n]));
      children = new Map();
      for (const node of tree.nodes) {
        node.depth = byId.has(node.parent) ? byId.get(node.parent).depth + 1 : 0;
        if (!children.has(node.parent)) children.set(node.parent, []);
        children.get(node.parent).push(node);
      }
      if (span && span[1] > tree.extent) span = null;
      if (focus !== null && !byId.has(focus)) focus = null;
      leastRow = shared() ? Math.max(27, 9 + 6 * Math.max(1, ...tree.nodes.map(lanesOf))) : 27;
      follow();
      self.invalidate();
    },
    setSelection: (id) => choose(id ?? null, false),
    setTheme: self.setTheme,
    describe,
    inspect(x, y) {
      self.flush();
      const hit = inspect(x, y);
      return hit && (hit.part === "node" ? { part: "node", node: publicNode(hit.node) } : { part: "request", request: hit.request.id });
    },
    destroy: self.destroy,
  };
}

// Filled when published, hollow while in flight, crossed when evicted.
function glyph(ctx, shape, x, y, size, state, ground) {
  const half = size / 2;
  const outline = () => {
    ctx.beginPath();
    if (shape === "circle") ctx.arc(x + half, y, half, 0, 7);
    else if (shape === "diamond") {
      ctx.moveTo(x + half, y - half * 1.15);
      ctx.lineTo(x + size + half * 0.15, y);
      ctx.lineTo(x + half, y + half * 1.15);
      ctx.lineTo(x - half * 0.15, y);
      ctx.closePath();
    } else ctx.rect(x, y - half, size, size);
  };
  const ink = ctx.fillStyle;
  outline();
  if (state === PUBLISHED) ctx.fill();
  else {
    ctx.fillStyle = ground;
    ctx.fill();
    ctx.fillStyle = ink;
    ctx.stroke();
  }
  if (state === EVICTED) {
    const over = half + Math.min(1.5, size / 5);
    ctx.beginPath();
    ctx.moveTo(x + half - over, y - over);
    ctx.lineTo(x + half + over, y + over);
    ctx.stroke();
  }
}

// ---------------------------------------------------------------- player

const ICONS = {
  first: "M3 3h2v10H3zM14 3v10L6 8z",
  back: "M12 3v10L4 8z",
  play: "M4 2.5v11L13.5 8z",
  pause: "M4 3h3v10H4zM9 3h3v10H9z",
  next: "M4 3v10l8-5z",
  last: "M2 3v10l8-5zM11 3h2v10h-2z",
  theme: "M8 1.5a6.5 6.5 0 1 0 0 13zM8 1.5a6.5 6.5 0 0 1 0 13",
};

function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  const path = document.createElementNS(space, "path");
  for (const [key, value] of Object.entries({ viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" })) svg.setAttribute(key, value);
  path.setAttribute("d", ICONS[name]);
  path.setAttribute(name === "theme" ? "stroke" : "fill", "currentColor");
  if (name === "theme") path.setAttribute("fill", "none");
  svg.append(path);
  return svg;
}

// One timeline a run (runs under one another share the cursor), and the tree of one of them.
export function createPlayer(element, options = {}) {
  adoptStyle(element);
  const runs = options.runs ?? 1;
  const root = make("div", "rf-player", element);
  const bar = make("div", "rf-bar", root, { role: "toolbar", "aria-label": "Replay" });
  const boxes = Array.from({ length: runs }, () => make("div", "", root));
  const treeBox = options.tree === false ? null : make("div", "", root);
  for (const one of boxes) one.style.flex = "1 1 280px";
  if (treeBox) treeBox.style.flex = "0.85 1 220px";
  for (const one of [...boxes, treeBox]) if (one) one.style.minHeight = "180px";
  let round = 1;
  let total = 1;
  let playing = 0;
  let theme = options.theme ?? "auto";
  let shown = 0; // whose tree
  let speed = 2;
  const totals = new Array(runs).fill(0);

  const button = (name, label, act) => {
    const node = make("button", "", bar, { type: "button", "aria-label": label, title: label });
    node.append(icon(name));
    node.addEventListener("click", act);
    return node;
  };
  button("first", "First round", () => move(1));
  button("back", "Round back", () => move(round - 1));
  const playButton = button("play", "Play", () => (playing ? pause() : play()));
  button("next", "Round on", () => move(round + 1));
  button("last", "Last round", () => move(total));
  const rate = make("select", "", bar, { "aria-label": "Rounds a second" });
  for (const value of [0.5, 1, 2, 5, 10, 30]) {
    const option = make("option", "", rate, { value });
    option.textContent = `${value} rounds/s`;
    if (value === speed) option.selected = true;
  }
  rate.addEventListener("change", () => (speed = Number(rate.value)));
  const where = make("output", "", bar, { "aria-live": "off" });
  const note = make("span", "rf-note", bar);
  note.textContent = options.note ?? "";
  const themeButton = button("theme", "Light or dark", () => {
    setTheme(timelines[0].describe().theme === "dark" ? "light" : "dark");
    options.onTheme?.(theme);
  });
  if (!note.textContent) themeButton.style.marginLeft = "auto";

  const timelines = boxes.map((one, k) =>
    createTimeline(one, {
      theme,
      label: options.labels?.[k] ? `Round timeline, ${options.labels[k]}` : "Round timeline",
      title: options.labels?.[k] ?? true,
      onCursor: (n) => ((shown = k), move(n)),
      onSelect: (id) => select(id, true),
      // Runs under one another show the same rounds.
      onPan: ({ first, last }) => timelines.forEach((other, j) => j !== k && other.setView(first, last)),
      onWindow: (range) => options.onWindow?.(range, k),
      onPlay: () => (playing ? pause() : play()),
    }),
  );
  const tree = treeBox && createTree(treeBox, { theme, onSelect: (id) => select(id, true), onNode: (node) => options.onNode?.(node, shown) });

  function paintBar() {
    const paint = paints(timelines[0].element.dataset.rfTheme);
    root.style.color = paint.text;
    for (const node of bar.querySelectorAll("button,select")) {
      node.style.background = paint.panel;
      node.style.color = paint.text;
      node.style.borderColor = paint.line_strong;
      node.style.outlineColor = paint.focus;
    }
    note.style.color = paint.text_soft;
  }

  function show() {
    where.textContent = `Round ${count(round)} of ${count(total)}`;
    playButton.replaceChildren(icon(playing ? "pause" : "play"));
    playButton.setAttribute("aria-label", playing ? "Pause" : "Play");
    playButton.title = playing ? "Pause" : "Play";
  }

  function move(n, user = true) {
    const next = clamp(Math.round(n), 1, total);
    if (next === round && user) return show();
    round = next;
    timelines.forEach((timeline, k) => timeline.setCursor(Math.min(round, Math.max(1, totals[k]))));
    show();
    askTree();
    if (user) options.onCursor?.(round);
  }

  function askTree() {
    if (tree) options.onTree?.(Math.min(round, Math.max(1, totals[shown])), shown);
  }

  function select(id, user) {
    for (const pane of [...timelines, tree]) pane?.setSelection(id);
    if (user) options.onSelect?.(id);
  }

  function play() {
    if (round >= total) move(1);
    let last = performance.now();
    let owed = 0;
    const step = (now) => {
      owed += ((now - last) / 1000) * speed;
      last = now;
      if (owed >= 1) {
        move(Math.min(total, round + Math.floor(owed)));
        owed %= 1;
      }
      if (round >= total) return pause();
      playing = requestAnimationFrame(step);
    };
    playing = requestAnimationFrame(step);
    show();
    options.onPlaying?.(true);
  }

  function pause() {
    cancelAnimationFrame(playing);
    playing = 0;
    show();
    options.onPlaying?.(false);
  }

  function setTheme(next) {
    theme = next;
    for (const pane of [...timelines, tree]) pane?.setTheme(next);
    paintBar();
  }

  const watch = new MutationObserver(paintBar);
  watch.observe(timelines[0].element, { attributes: true, attributeFilter: ["data-rf-theme"] });
  paintBar();
  show();

  return {
    element: root,
    timelines,
    tree,
    setOverview(overview, run = 0) {
      totals[run] = overview.num_rounds;
      total = Math.max(1, ...totals);
      timelines[run].setOverview(overview);
      for (const timeline of timelines) timeline.setExtent(total);
      show();
      askTree();
    },
    setData: (w, run = 0) => timelines[run].setData(w),
    setTree: (layout) => tree?.setData(layout),
    setCursor: (n) => move(n, false),
    setSelection: (id) => select(id, false),
    setTheme,
    play,
    pause,
    get playing() {
      return playing !== 0;
    },
    get round() {
      return round;
    },
    destroy() {
      cancelAnimationFrame(playing);
      watch.disconnect();
      for (const pane of [...timelines, tree]) pane?.destroy();
      root.remove();
    },
  };
}

// A page that carries its data replays it offline: runs = [{overview, windows, trees by round}, ...].
export function replay(element, { runs, labels, note, theme, onTheme, onShow, onSelect }) {
  const player = createPlayer(element, {
    runs: runs.length,
    labels,
    note,
    theme,
    onTheme,
    tree: runs.some((run) => run.trees),
    onTree: (round, run) => {
      const trees = runs[run].trees;
      if (trees?.[round]) player.setTree(trees[round]);
      onShow?.(round, run);
    },
    onSelect,
  });
  runs.forEach((run, k) => {
    player.setOverview(run.overview, k);
    for (const w of run.windows) player.setData(w, k);
  });
  return player;
}

// ---------------------------------------------------------------- anywidget

function render({ model, el }) {
  const list = (value) => (Array.isArray(value) ? value : [value]).filter(Boolean);
  const holder = make("div", "", el);
  holder.style.height = `${model.get("height") || 620}px`;
  const set = (name, value) => {
    if (model.get(name) === value) return;
    model.set(name, value);
    model.save_changes();
  };
  const player = createPlayer(holder, {
    runs: Math.max(1, list(model.get("overview")).length),
    labels: list(model.get("label")),
    theme: model.get("theme") || "auto",
    onCursor: (round) => set("round", round),
    onSelect: (id) => set("selected", id),
    onWindow: ({ first, last }, run) => set("wanted", { run, first, last }),
    onTree: (round, run) => set("wanted_tree", { run, round }),
  });
  const changes = {
    overview: () => list(model.get("overview")).forEach((overview, k) => player.setOverview(overview, k)),
    window: () => list(model.get("window")).forEach((w) => player.setData(w, w.run ?? 0)),
    tree: () => model.get("tree") && player.setTree(model.get("tree")),
    round: () => player.setCursor(model.get("round") || 1),
    selected: () => player.setSelection(model.get("selected") ?? null),
    theme: () => player.setTheme(model.get("theme") || "auto"),
    playing: () => model.get("playing") !== player.playing && (model.get("playing") ? player.play() : player.pause()),
  };
  for (const [name, change] of Object.entries(changes)) {
    if (name !== "playing") change();
    model.on(`change:${name}`, change);
  }
  return () => {
    for (const [name, change] of Object.entries(changes)) model.off(`change:${name}`, change);
    player.destroy();
  };
}

export default { render };

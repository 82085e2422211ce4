// The inspectors: asks for their elements and puts them in place. Text stays text: nothing is parsed as markup.

import { ask, overtaken } from "./ask.mjs";

const NAMES = { className: "class", tabIndex: "tabindex", colSpan: "colspan" };

function build(part) {
  if (typeof part === "string") return document.createTextNode(part);
  const [tag, attributes, children] = part;
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === false) continue;
    if (name === "style") for (const [key, to] of Object.entries(value)) key.startsWith("--") ? node.style.setProperty(key, to) : (node.style[key] = to);
    else node.setAttribute(NAMES[name] ?? name, value === true ? "" : value);
  }
  node.append(...children.map(build));
  return node;
}

function fill(id, parts) {
  const host = document.getElementById(id);
  // Who stands on a request with the keyboard goes on standing there.
  const on = host.contains(document.activeElement) ? document.activeElement.dataset.request : undefined;
  host.replaceChildren(...parts.map(build));
  if (on !== undefined) [...host.querySelectorAll("[data-request]")].find((node) => node.dataset.request === on)?.focus();
}

// Ask for what an inspector shows; an older question of the same kind is given up.
export async function show(kind, query, say) {
  // Of a long run all waits are added up for the first request that is asked about.
  const summing = [["p", { className: "soft" }, ["Adding up all waits of this run, once ..."]]];
  const slow = kind === "request" && query.request !== null ? setTimeout(() => fill("request-inspector", summing), 900) : 0;
  try {
    for (const [id, parts] of Object.entries(await ask(`/api/${kind}`, query, kind))) fill(id, parts);
  } catch (error) {
    overtaken(error) || say(error.message);
  } finally {
    clearTimeout(slow);
  }
}

// Questions to the server. One that was overtaken by a newer one of its kind is given up.

const pending = new Map();

export async function ask(path, query = {}, kind = null) {
  let signal;
  if (kind) {
    pending.get(kind)?.abort();
    const controller = new AbortController();
    pending.set(kind, controller);
    signal = controller.signal;
  }
  const at = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== null && value !== undefined));
  return answer(await fetch(`${path}?${at}`, { signal }));
}

export async function post(path, body) {
  return answer(await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) }));
}

// A file, with the name that the server gives it.
export async function fetched(address) {
  const response = await fetch(address);
  if (!response.ok) return answer(response);
  const name = /filename="([^"]+)"/.exec(response.headers.get("content-disposition"))?.[1] ?? "radixflow";
  return { name, content: await response.blob() };
}

async function answer(response) {
  if (response.status === 414) throw new Error("An id this long can't be asked about.");
  const data = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(data.error || `the server answered ${response.status}`);
  return data;
}

export const overtaken = (error) => error?.name === "AbortError";

// A list whose items are put in order by dragging, or by Alt and an arrow key.

export function createOrder(host, onChange) {
  let dragged = null;

  const ids = () => [...host.children].map((item) => item.dataset.id);
  const number = () => [...host.children].forEach((item, k) => item.setAttribute("aria-label", `${item.dataset.id}, place ${k + 1} of ${host.children.length}`));

  function show(requests) {
    host.replaceChildren(
      ...requests.map((request) => {
        const item = document.createElement("li");
        item.draggable = true;
        item.tabIndex = 0;
        item.dataset.id = request.id;
        item.style.setProperty("--fill", request.colour);
        const name = document.createElement("b");
        name.textContent = request.id;
        const parts = document.createElement("span");
        parts.textContent = request.segments.map(([label, n]) => `${label} ${n.toLocaleString("en-US")}`).join(" + ");
        item.title = parts.textContent;
        item.append(name, parts);
        return item;
      }),
    );
    number();
  }

  function move(item, before) {
    if (before === item) return;
    host.insertBefore(item, before);
    number();
  }

  host.addEventListener("dragstart", (event) => {
    dragged = event.target.closest("li");
    if (!dragged) return;
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", dragged.dataset.id);
    requestAnimationFrame(() => dragged?.classList.add("dragged"));
  });
  host.addEventListener("dragover", (event) => {
    if (!dragged) return;
    event.preventDefault();
    const over = event.target.closest("li");
    if (!over || over === dragged) return;
    const box = over.getBoundingClientRect();
    const after = event.clientX > box.left + box.width / 2;
    move(dragged, after ? over.nextSibling : over);
  });
  host.addEventListener("drop", (event) => event.preventDefault());
  host.addEventListener("dragend", () => {
    dragged?.classList.remove("dragged");
    if (dragged) onChange(ids());
    dragged = null;
  });
  host.addEventListener("keydown", (event) => {
    const item = event.target.closest("li");
    if (!item) return;
    const back = event.key === "ArrowLeft" || event.key === "ArrowUp";
    if (!back && event.key !== "ArrowRight" && event.key !== "ArrowDown") return;
    event.preventDefault();
    const other = back ? item.previousElementSibling : item.nextElementSibling;
    if (!other) return;
    if (!event.altKey) return other.focus();
    if (back) move(item, other);
    else move(other, item);
    item.focus();
    onChange(ids());
  });

  return { show, ids };
}

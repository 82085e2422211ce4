// Each visible piece of text against the colour behind it (WCAG 2, 1.4.3), its size, and a name for every control.
() => {
  const luminance = (c) => c.slice(0, 3).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const colour = (text) => { const v = (text.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number); return v.length < 4 ? [...v, 1] : v; };
  const over = (top, below) => [0, 1, 2].map((k) => top[k] * top[3] + below[k] * (1 - top[3]));
  const behind = (node) => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) { const c = colour(getComputedStyle(at).backgroundColor); if (c[3] > 0) layers.push(c); if (c[3] === 1) break; }
    return layers.reverse().reduce((below, c) => over(c, below), [255, 255, 255]);
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !node.checkVisibility({ visibilityProperty: true }) || node.closest("script,style,svg,option,.rf-hidden,.skip,.ag-root-wrapper,.rf-tip")) continue;
    const style = getComputedStyle(node);
    const size = parseFloat(style.fontSize);
    const back = behind(node);
    const [a, b] = [luminance(over(colour(style.color), back)), luminance(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const what = walker.currentNode.textContent.trim().slice(0, 40);
    if (size < 12) found.push(`${what}: ${size} px`);
    if (ratio < (size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5)) found.push(`${what}: contrast ${ratio.toFixed(2)}`);
  }
  for (const control of document.querySelectorAll("button, select, input, a, [tabindex='0']")) {
    if (!control.checkVisibility() || control.closest(".ag-root-wrapper")) continue;
    const named = control.getAttribute("aria-label") || control.textContent.trim() || control.labels?.length || control.title;
    if (!named) found.push(`no name: ${control.outerHTML.slice(0, 80)}`);
  }
  if (document.documentElement.scrollWidth > innerWidth + 1) found.push(`wider than the window: ${document.documentElement.scrollWidth}`);
  return found;
}

// Runs before anything is painted, so that a dark page never flashes white.
{
  const kept = localStorage.getItem("radixflow-theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    document.documentElement.dataset.theme = localStorage.getItem("radixflow-theme") || (dark.matches ? "dark" : "light");
  };
  document.documentElement.dataset.theme = kept || (dark.matches ? "dark" : "light");
  dark.addEventListener("change", apply);
}

/* The theme: the system's, light, or dark. Stored in the browser. This is not a module, and loads
   before the page is drawn, so that the page does not flash in another theme first. */

(() => {
  const KEY = "penstock-theme";
  const THEMES = ["system", "light", "dark"];
  const WORDS = { system: "as the system has it", light: "light", dark: "dark" };
  const root = document.documentElement;

  function remembered() {
    try {
      const theme = localStorage.getItem(KEY);
      return THEMES.includes(theme) ? theme : "system";
    } catch {
      return "system"; // the browser stores nothing
    }
  }

  function show(theme) {
    root.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (button) {
      button.setAttribute("aria-label", `Theme: ${WORDS[theme]}`);
      button.title = `Theme: ${WORDS[theme]}`;
    }
    document.dispatchEvent(new Event("penstock:theme"));
  }

  function next() {
    const theme = THEMES[(THEMES.indexOf(root.dataset.theme) + 1) % THEMES.length];
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // It lasts until the page is left.
    }
    show(theme);
  }

  show(remembered());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
    show(root.dataset.theme),
  );
  document.addEventListener("DOMContentLoaded", () => {
    show(root.dataset.theme);
    document.getElementById("theme")?.addEventListener("click", next);
  });
})();

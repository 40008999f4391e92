/* Keys that work in all views, except while the focus is in a field. */

import { go } from "./routes.js";

const PLACES = {
  ...{ t: "overview", f: "findings", a: "agents", l: "loads", b: "brokers", h: "health" },
  r: "alerts",
};
const PATIENCE = 1500; // between g and the next key

export function listenToKeys() {
  const help = document.getElementById("help");
  document.getElementById("help-open").addEventListener("click", () => help.showModal());
  let going = 0;

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || help.open)
      return;
    if (event.target.closest("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const place = Date.now() - going < PATIENCE ? PLACES[event.key] : undefined;
    going = 0;
    if (place) go(place, {});
    else if (event.key === "g") going = Date.now();
    else if (event.key === "/") document.querySelector("main input[type=search]")?.focus();
    else if (event.key === "?") help.showModal();
    else if (event.key === "z") document.getElementById("zone").click();
    else if (event.key === "d") document.getElementById("theme").click();
    else if (event.key === "u") document.querySelector(".crumbs li:last-child a")?.click();
    else if (event.key === "j") row(1);
    else if (event.key === "k") row(-1);
    else if (event.key === "n") document.querySelector("main [data-focus$='next-page']")?.click();
    else if (event.key === "p")
      document.querySelector("main [data-focus$='previous-page']")?.click();
    else return;
    event.preventDefault();
  });
}

/** Moves to the next or the previous row that leads somewhere. */
function row(step) {
  const links = [...document.querySelectorAll("main [data-row]")];
  if (links.length === 0) return;
  const now = links.indexOf(document.activeElement);
  const next = now < 0 ? (step > 0 ? 0 : links.length - 1) : now + step;
  links[Math.min(Math.max(next, 0), links.length - 1)].focus();
}

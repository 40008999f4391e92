/* The time zone of the page: UTC, as in commands, files and logs, or the browser's. Stored in the
   browser. */

const KEY = "penstock-zone";
const HERE = Intl.DateTimeFormat().resolvedOptions().timeZone;
let isLocal = remembered();

function remembered() {
  try {
    return localStorage.getItem(KEY) === "browser";
  } catch {
    return false; // the browser stores nothing
  }
}

/** The name for `Intl`. */
export const zone = () => (isLocal ? HERE : "UTC");

/** The short name, such as UTC, CET, GMT+1. */
export function zoneName(millis = Date.now()) {
  const parts = new Intl.DateTimeFormat("en-GB", {
    timeZone: zone(),
    timeZoneName: "short",
  }).formatToParts(millis);
  return parts.find((part) => part.type === "timeZoneName").value;
}

/** Shows the zone on the button in the head of the page, which changes it; then `changed()`. */
export function listenToZone(changed) {
  const button = document.getElementById("zone");
  const show = () => {
    const other = isLocal ? "UTC" : HERE;
    button.textContent = zoneName();
    button.title = `All times are ${zone()}. Show ${other}.`;
    button.setAttribute("aria-label", `${zoneName()}, time zone ${zone()}; show ${other}`);
  };
  button.addEventListener("click", () => {
    isLocal = !isLocal;
    try {
      localStorage.setItem(KEY, isLocal ? "browser" : "utc");
    } catch {
      // It lasts until the page is left.
    }
    show();
    changed();
  });
  show();
}

/* Times, in the viewer's zone, with UTC on hover. Those that say how long ago they are keep saying
   so truly: one clock goes over them. */

import { h } from "./dom.js";
import { UNKNOWN, duration } from "./figures.js";

const AFRESH = 5000;
const TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const SECONDS = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
});
const DATE = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const WEEKDAY = new Intl.DateTimeFormat("en-GB", {
  weekday: "short",
  day: "numeric",
  month: "short",
});

/** 14:05 */
export const clock = (millis) => TIME.format(millis);
/** 14:05:09 */
export const seconds = (millis) => SECONDS.format(millis);
/** 3 Nov */
export const date = (millis) => DATE.format(millis);
/** Mon, 3 Nov */
export const weekday = (millis) => WEEKDAY.format(millis);

export function sameDay(one, other) {
  return new Date(one).toDateString() === new Date(other).toDateString();
}

/** 2026-11-03 14:05:09 UTC */
export function utc(millis) {
  return `${new Date(millis).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** A time of today by its clock, any other with its date. */
export function moment(millis) {
  const day = sameDay(millis, Date.now()) ? "" : `${date(millis)}, `;
  return `${day}${clock(millis)}`;
}

/** "3 Nov, 14:00 to 15:00" */
export function stretch(from, to) {
  const first = sameDay(from, Date.now()) && sameDay(to, Date.now()) ? "" : `${date(from)}, `;
  const last = sameDay(from, to) ? "" : `${date(to)}, `;
  return `${first}${clock(from)} to ${last}${clock(to)}`;
}

function shown(millis) {
  return Number.isFinite(millis) && millis > 0 && millis < 8.64e15;
}

/** A moment as an element. */
export function at(millis, text = moment) {
  if (!shown(millis)) return h("span", { class: "soft" }, UNKNOWN);
  return h("time", { datetime: new Date(millis).toISOString(), title: utc(millis) }, text(millis));
}

/** How long ago something was, kept true. */
export function ago(millis) {
  if (!shown(millis)) return h("span", { class: "soft" }, UNKNOWN);
  return h(
    "time",
    { datetime: new Date(millis).toISOString(), title: utc(millis), "data-ago": millis },
    agoWords(millis),
  );
}

function agoWords(millis) {
  const passed = Date.now() - millis;
  if (passed < -AFRESH) return `in ${duration(-passed)}`;
  return passed < AFRESH ? "just now" : `${duration(passed)} ago`;
}

setInterval(() => {
  for (const each of document.querySelectorAll("[data-ago]")) {
    const said = agoWords(Number(each.dataset.ago));
    if (each.textContent !== said) each.textContent = said;
  }
}, AFRESH);

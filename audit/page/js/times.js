/* Times, in the page's zone, with UTC on hover. A clock updates those that say how long ago they
   are. */

import { h } from "./dom.js";
import { UNKNOWN, duration } from "./figures.js";
import { zone, zoneName } from "./zone.js";

const AFRESH = 5000;
const TWO = "2-digit";
const formats = new Map();

/** Formats, made once for each zone, as making one takes longer than using it. */
function format(locale, options, millis) {
  const key = JSON.stringify([zone(), locale, options]);
  if (!formats.has(key))
    formats.set(key, new Intl.DateTimeFormat(locale, { timeZone: zone(), ...options }));
  return formats.get(key).format(millis);
}

/** 14:05 */
export const clock = (millis) => format("en-GB", { hour: TWO, minute: TWO }, millis);
/** 14:05:09 */
export const seconds = (millis) => format("en-GB", { hour: TWO, minute: TWO, second: TWO }, millis);
/** 3 Nov */
export const date = (millis) => format("en-GB", { day: "numeric", month: "short" }, millis);
/** Mon, 3 Nov */
export const weekday = (millis) =>
  format("en-GB", { weekday: "short", day: "numeric", month: "short" }, millis);
/** 2026-11-03 */
export const day = (millis) => format("sv-SE", {}, millis);
/** 0 to 23 */
export const hourOfDay = (millis) => Number(clock(millis).slice(0, 2));
/** 2026-11-03 14:05:09 */
const exact = (millis) => `${day(millis)} ${seconds(millis)}`;

/** As milliseconds since 1970 in the page's zone: a multiple of a day is its midnight. */
export const wallClock = (millis) => Date.parse(`${day(millis)}T${seconds(millis)}Z`);

/** Parses `2026-11-03T14:05` in the page's zone; NaN if it is not a time. */
export function momentOf(text) {
  const shown = Date.parse(`${text}Z`);
  if (Number.isNaN(shown)) return shown;
  const near = 2 * shown - wallClock(shown); // may be on the other side of a clock change
  return shown + near - wallClock(near);
}

export function sameDay(one, other) {
  return day(one) === day(other);
}

// Times in the service's sentences, but not in names or paths.
const IN_WORDS =
  /(?<![\w/.:-])(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?: to (?:(\d{4}-\d\d-\d\d) )?(\d\d:\d\d:\d\d))?( UTC)?(?![\w/-])/g;

// The same in a headline: `up to 21:14 UTC` is today, other times have their date.
const UP_TO = /\bup to (?:(\d{4}-\d\d-\d\d) )?(\d\d:\d\d(?::\d\d)?) UTC/;

/** The sentence with its times converted from UTC to the page's zone. */
export function inZone(sentence) {
  if (zone() === "UTC") return sentence;
  if (UP_TO.test(sentence)) return sentence.replace(UP_TO, upTo);
  return sentence.replace(IN_WORDS, (whole, begins, from, ends, to, utc) => {
    const first = Date.parse(`${begins}T${from}Z`);
    const last = to ? Date.parse(`${ends ?? begins}T${to}Z`) : first;
    if (Number.isNaN(first) || Number.isNaN(last)) return whole;
    const named = utc ? ` ${zoneName(first)}` : "";
    if (!to) return exact(first) + named;
    return `${exact(first)} to ${sameDay(first, last) ? seconds(last) : exact(last)}${named}`;
  });
}

function upTo(whole, onDay, time) {
  const today = new Date().toISOString().slice(0, 10);
  const until = Date.parse(`${onDay ?? today}T${time}Z`);
  if (Number.isNaN(until)) return whole;
  const shown = time.length > 5 ? seconds(until) : clock(until);
  const named = sameDay(until, Date.now()) ? shown : `${day(until)} ${shown}`;
  return `up to ${named} ${zoneName(until)}`;
}

/** 2026-11-03 14:05:09 UTC */
export function utc(millis) {
  return `${new Date(millis).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** The time, with its date unless that is today. */
export function moment(millis) {
  const day = sameDay(millis, Date.now()) ? "" : `${date(millis)}, `;
  return `${day}${clock(millis)}`;
}

export function momentToSecond(millis) {
  const day = sameDay(millis, Date.now()) ? "" : `${date(millis)}, `;
  return `${day}${seconds(millis)}`;
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

/** How long ago something was, kept up to date. */
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
  for (const element of document.querySelectorAll("[data-ago]")) {
    const text = agoWords(Number(element.dataset.ago));
    if (element.textContent !== text) element.textContent = text;
  }
}, AFRESH);

/* Numbers, sizes and durations as text. An unknown one (-1) is a dash. */

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export const UNKNOWN = "–";

/** 1,204,331 */
export function count(number) {
  return number < 0 ? UNKNOWN : WHOLE.format(number);
}

/** 1.2M */
export function short(number) {
  return number < 0 ? UNKNOWN : SHORT.format(number);
}

/** "1 event", "2 events" */
export function counted(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** 8.2 kB */
export function bytes(number) {
  if (number < 0) return UNKNOWN;
  if (number < 1000) return `${number} B`;
  let rest = number;
  for (const unit of ["kB", "MB", "GB", "TB", "PB"]) {
    rest /= 1000;
    if (rest < 999.5 || unit === "PB")
      return `${rest < 10 ? rest.toFixed(1) : Math.round(rest)} ${unit}`;
  }
  return UNKNOWN;
}

/** 250 ms, 3.2 s, 2 min, 4 h, 3 days */
export function duration(millis) {
  if (millis < 0) return UNKNOWN;
  if (millis < SECOND) return `${Math.round(millis)} ms`;
  if (millis < 10 * SECOND) return `${(millis / SECOND).toFixed(1).replace(/\.0$/, "")} s`;
  if (millis < MINUTE - SECOND / 2) return `${Math.round(millis / SECOND)} s`;
  if (millis < HOUR - MINUTE / 2) return `${Math.round(millis / MINUTE)} min`;
  if (millis < 10 * HOUR) return `${(millis / HOUR).toFixed(1).replace(/\.0$/, "")} h`;
  if (millis < 2 * DAY) return `${Math.round(millis / HOUR)} h`;
  return `${Math.round(millis / DAY)} days`;
}

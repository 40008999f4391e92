/* The hours of a topic at its destination: a row for each day, a cell for each hour. */

import { h, replace } from "../dom.js";
import { count, counted } from "../figures.js";
import { words } from "../names.js";
import { LETTERS, STATES, WORDS, stateBadge } from "../signs.js";
import { ago, day, hourOfDay, stretch, weekday } from "../times.js";

const HOUR = 3_600_000;

export function hourGrid(hours) {
  const byDay = new Map();
  for (const row of hours) {
    const key = day(row.hour);
    const hour = hourOfDay(row.hour);
    if (!byDay.has(key)) byDay.set(key, { first: row.hour, cells: new Map() });
    const cells = byDay.get(key).cells;
    cells.set(hour, [...(cells.get(hour) ?? []), row]);
  }
  const days = [...byDay.values()].sort((one, other) => other.first - one.first);
  const reading = h(
    "p",
    { class: "reading", role: "status" },
    "Point at an hour, or move to it, to read it.",
  );
  const read = (row) => () => replace(reading, description(row));
  return [
    h(
      "div",
      { class: "hours" },
      days.map(({ first, cells }) => [
        h("span", { class: "day" }, weekday(first)),
        Array.from({ length: 24 }, (_, hour) => cell(cells.get(hour), read)),
      ]),
      h("span", { class: "corner" }),
      Array.from({ length: 24 }, (_, hour) =>
        h("span", { class: "mark" }, hour % 6 === 0 ? String(hour) : ""),
      ),
    ),
    reading,
  ];
}

// Several destinations, or a clock put back, give several rows for an hour: the worst counts.
const ORDER = [...STATES].reverse();

function cell(rows, read) {
  if (!rows) return h("span", { class: "hour" });
  const worst = rows.reduce((one, other) =>
    ORDER.indexOf(other.state) > ORDER.indexOf(one.state) ? other : one,
  );
  const checked = worst.checked > 0 && worst.state === "complete";
  return h(
    "button",
    {
      type: "button",
      class: `hour state-${worst.state}${checked ? " checked" : ""}`,
      "data-focus": `hour-${worst.hour}`,
      "aria-label": `${stretch(worst.hour, worst.hour + HOUR)}: ${WORDS[worst.state]}, ${counted(worst.rows, "row")}`,
      onpointerenter: read(worst),
      onfocus: read(worst),
      onclick: read(worst),
    },
    LETTERS[worst.state],
  );
}

function description(row) {
  return [
    stateBadge(row.state),
    ` ${stretch(row.hour, row.hour + HOUR)}: ${count(row.events)} events, ${count(row.rows)} rows. `,
    words(row.words),
    row.checked > 0 ? [" Files checked ", ago(row.checked), "."] : null,
  ];
}

/* The current rate of events, which is updated on its own. */

import { h, replace } from "../dom.js";
import { short } from "../figures.js";
import { seconds, utc } from "../times.js";

/** 1.2K, 38, 0.4 */
function figure(events) {
  return events > 0 && events < 10 ? events.toFixed(1).replace(/\.0$/, "") : short(Math.round(events));
}

/** The time and length of the measurement, in words. */
function origin({ measured, over }) {
  return `Messages appended to the logs, the mean of ${Math.round(over / 1000)} s up to ${utc(measured)}`;
}

/** The place of a row's rate in a table, for `showRowRates` to fill. */
export const rateCell = (row) =>
  h("span", { class: "under", "data-rate": JSON.stringify([row.cluster, row.topic, row.topic_id]) });

export function showRowRates(root, rows) {
  const byRow = new Map(
    rows.map((row) => [JSON.stringify([row.cluster, row.topic, row.topic_id]), row.rate]),
  );
  for (const cell of root.querySelectorAll("[data-rate]")) {
    const rate = byRow.get(cell.dataset.rate);
    const known = rate !== undefined && rate.events >= 0;
    cell.textContent = known ? `${figure(rate.events)}/s` : "";
    cell.title = known ? origin(rate) : "";
  }
}

/** "38 events/s at 14:05:09"; nothing while it is unknown. */
export function showRates(node, { rate }) {
  if (rate.events < 0) return replace(node);
  replace(
    node,
    h(
      "span",
      { title: origin(rate) },
      h("b", {}, figure(rate.events)),
      ` events/s at ${seconds(rate.measured)}`,
    ),
  );
}

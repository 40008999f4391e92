/* A file of a host: its shipped, landed and missing events, as a strip and in words. */

import { h, svg } from "../dom.js";
import { bytes, count, counted } from "../figures.js";
import { name, words } from "../names.js";
import { sign, stateBadge } from "../signs.js";
import { ago } from "../times.js";

const WIDTH = 1000;
const LEAST = 3; // so that one event among millions is visible
const MOST_PARTS = 500;

export function file(row, marked) {
  const shipped = total(row.shipped);
  const missing = total(row.missing);
  const faulty = !["complete", "pending"].includes(row.state);
  return h(
    "li",
    { class: marked ? "file marked" : "file", "data-source": marked ? "" : null },
    h("div", { class: "file-head" }, name(row.path || row.source), stateBadge(row.state)),
    h(
      "div",
      { class: "file-figures" },
      figure(count(shipped), "shipped"),
      figure(count(total(row.landed)), "landed"),
      missing > 0 ? figure(count(missing), "missing") : null,
      row.filtered > 0 ? figure(count(row.filtered), "filtered") : null,
      row.dead > 0 ? figure(count(row.dead), "dead-lettered") : null,
      row.lost_bytes > 0 ? figure(bytes(row.lost_bytes), "lost") : null,
      row.position >= 0 ? h("span", {}, "up to byte ", h("b", {}, count(row.position))) : null,
      h("span", {}, row.gone ? "its end is gone" : row.finished ? "finished" : "still growing"),
      h("span", {}, ago(row.last)),
      h(
        "span",
        { title: "Source: the incarnation of the file" },
        "source ",
        name(row.source, { class: "name mono" }),
      ),
    ),
    strip(row),
    faulty || row.words.length > 0
      ? h(
          "ul",
          { class: `said state-${row.state}` },
          (row.words.length > 0 ? row.words : ranges(row)).map((text) =>
            h("li", {}, sign(row.state, 16), words(text)),
          ),
        )
      : null,
  );
}

function figure(number, word) {
  return h("span", {}, h("b", {}, number), ` ${word}`);
}

function total(intervals) {
  return intervals.reduce((sum, [first, next]) => sum + next - first, 0);
}

/** The missing ranges in words, if the service has none. */
function ranges(row) {
  const seqs = row.missing.map(
    ([first, next]) =>
      `${counted(next - first, "event")} missing: ${count(first)} to ${count(next - 1)}`,
  );
  const places = row.missing_bytes.map(
    ([first, next]) => `bytes ${count(first)} to ${count(next)} are missing`,
  );
  return [...seqs, ...places];
}

function strip(row) {
  const all = [...row.shipped, ...row.landed, ...row.missing];
  if (all.length === 0) return null;
  const first = Math.min(...all.map(([from]) => from));
  const next = Math.max(...all.map(([, to]) => to));
  const scale = WIDTH / Math.max(1, next - first);
  const part =
    (kind, top, height) =>
    ([from, to]) =>
      svg("rect", {
        class: kind,
        x: (from - first) * scale,
        y: top,
        width: Math.max(LEAST, (to - from) * scale),
        height,
      });
  return [
    svg(
      "svg",
      {
        class: "range",
        viewBox: `0 0 ${WIDTH} 20`,
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": `Events ${count(first)} to ${count(next - 1)}: ${count(total(row.missing))} missing`,
      },
      svg("rect", { class: "whole", x: 0, y: 2, width: WIDTH, height: 16 }),
      row.shipped.slice(0, MOST_PARTS).map(part("shipped", 3, 14)),
      row.landed.slice(0, MOST_PARTS).map(part("landed", 3, 14)),
      row.missing.slice(0, MOST_PARTS).map(part("absent", 0, 20)),
    ),
    h(
      "div",
      { class: "range-scale", "aria-hidden": "true" },
      h("span", {}, `event ${count(first)}`),
      h("span", {}, count(next - 1)),
    ),
  ];
}

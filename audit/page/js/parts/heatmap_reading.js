/* A column of the heat map in figures: the events of each tier, and differences. */

import { h } from "../dom.js";
import { count, counted } from "../figures.js";
import { plain } from "../names.js";
import { WORDS, stateBadge, tierName } from "../signs.js";
import { stretch, utc } from "../times.js";
import { markWords } from "./marks.js";
import { eventsOf, references, tierCell } from "./tiers.js";

const ON = {
  agent: "an agent",
  broker: "a broker",
  hdfs: "the loader",
  ledger: "an entry of the ledger",
};

const MOST_MARKS = 5;

export function reading({ start, end, cell, marks }, tiers) {
  const head = h(
    "div",
    { class: "tip-head" },
    h("span", { title: `${utc(start)} to ${utc(end)}` }, stretch(start, end)),
    cell ? stateBadge(cell.state) : null,
  );
  if (!cell) return [head, h("p", { class: "soft" }, "Nothing happened here."), changed(marks)];
  const against = references(tiers);
  const rows = tiers.map((tier, index) => {
    const { state, difference } = tierCell(cell, index, against[index]);
    const fault = difference !== 0 && state !== "foreign";
    return [
      h(
        "dt",
        {},
        tierName(tier.tier),
        tier.destination ? h("span", { class: "under" }, plain(tier.destination)) : null,
      ),
      h(
        "dd",
        { class: fault ? `fault state-${state}` : null },
        fault ? `(${difference > 0 ? "+" : "−"}${count(Math.abs(difference))}) ` : "",
        count(eventsOf(cell.sums[index])),
      ),
    ];
  });
  return [
    head,
    h("dl", {}, rows, h("div", { class: "rule" }), parts(cell)),
    cell.waits.length > 0
      ? h(
          "p",
          { class: "soft" },
          `Waits for ${cell.waits.map((wait) => ON[wait] ?? plain(wait)).join(", ")}.`,
        )
      : null,
    cell.accepted ? h("p", { class: "soft" }, "A fault here is accepted or harmless.") : null,
    changed(marks),
  ];
}

function changed(marks) {
  const more = marks.length - MOST_MARKS;
  return [
    marks.slice(0, MOST_MARKS).map((mark) => h("p", { class: "change" }, markWords(mark))),
    more > 0 ? h("p", { class: "soft" }, `and ${counted(more, "more change")}`) : null,
  ];
}

function parts(cell) {
  const differences = [
    [WORDS.missing, cell.missing, "missing"],
    [WORDS.duplicated, cell.excess, "duplicated"],
    ["Still under way", cell.pending, "pending"],
    ["Of other producers", cell.unclaimed - cell.unclaimed_yet],
    ["Not reported yet", cell.unclaimed_yet],
    ["Late", cell.late],
    ["Duplicates dropped", cell.duplicates],
    ["Dead-lettered", cell.dead],
    ["Filtered", cell.filtered],
    ["Lost lines", cell.lost, "missing"],
  ].filter(([, number]) => number !== 0);
  if (cell.changed) differences.unshift(["Bytes differ", null, "changed"]);
  if (differences.length === 0) return [h("dt", {}, "All adds up"), h("dd", {}, "✓")];
  return differences.map(([word, number, state]) => [
    h("dt", {}, word),
    h(
      "dd",
      { class: state ? `fault state-${state}` : null },
      number === null ? "≠" : number < 0 ? "unknown" : count(number),
    ),
  ]);
}

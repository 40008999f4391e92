/* The balance of all lines: read = shipped + filtered + dead-lettered + lost, and the events at each
   tier. The service computes the figures; they are only shown here. */

import { h } from "../dom.js";
import { bytes, count, counted } from "../figures.js";
import { name } from "../names.js";
import { kindState, sign, tierName } from "../signs.js";
import { tierNumber } from "./chart.js";
import { differences, references } from "./tiers.js";

export function lines(flow) {
  const parts = [
    ["shipped", flow.shipped, "much"],
    ["filtered", flow.filtered, "pending"],
    ["dead-lettered", flow.dead, "unknown"],
    ["lost", flow.lost, "missing"],
  ];
  const shown = parts.filter(([, number], index) => index === 0 || number > 0);
  return h(
    "div",
    { class: "lines" },
    h(
      "div",
      { class: "bar-of-parts", "aria-hidden": "true" },
      shown.map(([, number, state]) =>
        h("span", { class: `state-${state}`, vars: { part: number } }),
      ),
    ),
    h(
      "div",
      { class: "sum" },
      part(flow.read, "lines read"),
      parts.map(([word, number, state], index) => [
        h("span", { class: "operator" }, index === 0 ? "=" : "+"),
        part(number, word, state),
      ]),
    ),
    flow.lost_bytes > 0
      ? h("p", { class: "soft" }, `${bytes(flow.lost_bytes)} were lost before they were read.`)
      : null,
    flow.events !== flow.shipped
      ? h("p", { class: "soft" }, `The lines shipped became ${counted(flow.events, "event")}.`)
      : null,
  );
}

function part(number, word, state) {
  return h(
    "div",
    { class: state ? `part state-${state}` : "part" },
    h("b", {}, number < 0 ? "?" : count(number)),
    h("span", {}, word),
    state ? h("i", {}) : null,
  );
}

/** The tiers in order, each compared with the one before. */
export function passage(answer) {
  const against = references(answer.tiers);
  return h(
    "div",
    { class: "passage" },
    answer.tiers.map((tier, index) => {
      const before = answer.tiers[against[index]];
      return h(
        "div",
        { class: `tier tier-${tierNumber(index)}` },
        h("h3", {}, tierName(tier.tier)),
        h("b", {}, tier.at_least ? "≥ " : null, count(tier.events)),
        h(
          "span",
          { class: "under" },
          tier.destination ? name(tier.destination) : `${bytes(tier.bytes)} in batches`,
        ),
        besides(tier),
        before
          ? outcomes(
              differences(answer.cells, index, against[index]),
              tierName(before.tier).toLowerCase(),
              faultsAt(tier, answer.findings),
            )
          : null,
      );
    }),
  );
}

function besides(tier) {
  const parts = [
    [tier.late, "late"],
    [tier.duplicates, "duplicates dropped"],
    [tier.dead, "dead-lettered"],
  ].filter(([number]) => number > 0);
  return parts.length
    ? h(
        "span",
        { class: "under" },
        parts.map(([number, word]) => `${count(number)} ${word}`).join(", "),
      )
    : null;
}

/** The faults of a tier, whatever its sums are; and rows of missing or duplicated files, which are in
    no window's sums. */
function faultsAt(tier, findings) {
  const open = findings.filter(
    (fault) =>
      fault.tier === tier.tier &&
      fault.destination === tier.destination &&
      !fault.accepted &&
      !fault.harmless,
  );
  const states = open.map((fault) => kindState(fault.kind));
  const rows = (kind) =>
    open
      .filter((fault) => fault.kind === kind && fault.path && !fault.source && fault.events > 0)
      .reduce((sum, fault) => sum + fault.events, 0);
  const isFiles = tier.tier === "hdfs";
  return {
    count: open.length,
    state: states[0],
    missing: isFiles ? rows("missing") : 0,
    duplicated: isFiles ? rows("duplicated") : 0,
  };
}

function outcomes(differ, than, faults) {
  const outcomes = [
    ["missing", differ.missing + faults.missing, `missing, which ${than} have`],
    ["pending", differ.pending, "still under way"],
    ["duplicated", differ.duplicated + faults.duplicated, `more than ${than} have`],
    [
      "changed",
      differ.changed,
      differ.changed === 1 ? "stretch with other bytes" : "stretches with other bytes",
    ],
    ["unknown", differ.foreign, "that no agent has reported"],
    ["pending", differ.unclaimed, "that no earlier tier has reported yet"],
  ].filter(([, number]) => number > 0);
  if (outcomes.length === 0 && faults.count > 0) {
    const what = faults.count === 1 ? "fault, listed below" : "faults, listed below";
    return outcome(faults.state, `${count(faults.count)} ${what}`);
  }
  if (outcomes.length === 0) return outcome("complete", `all that ${than} have`);
  return outcomes.map(([state, number, text]) => outcome(state, `${count(number)} ${text}`));
}

function outcome(state, text) {
  return h("span", { class: `outcome state-${state}` }, sign(state, 15), text);
}

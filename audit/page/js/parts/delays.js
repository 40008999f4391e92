/* Delays of events at each tier: the median, 99 %, and the maximum, on a logarithmic scale, so that
   seconds and hours fit side by side. */

import { h, svg } from "../dom.js";
import { duration } from "../figures.js";
import { name } from "../names.js";
import { tierName } from "../signs.js";
import { tierNumber } from "./chart.js";

const WIDTH = 1000;
const SCALE = [1, 1000, 60_000, 3_600_000, 86_400_000];
const WORDS = ["1 ms", "1 s", "1 min", "1 h", "1 day"];
const LEAST = SCALE[0];
const MOST = 2 * SCALE.at(-1);

/** The position on the scale, between 0 and 1. */
function place(millis) {
  const inside = Math.min(Math.max(millis, LEAST), MOST);
  return Math.log(inside / LEAST) / Math.log(MOST / LEAST);
}

export function delays(tiers) {
  return h(
    "div",
    { class: "delays" },
    tiers.map((tier, index) =>
      ["origin", "mirror", "broker"].includes(tier.tier)
        ? null // brokers count at intervals of their own, which is no delay
        : [
            h("div", {}, tierName(tier.tier)),
            tier.p50 < 0 ? h("div", { class: "soft" }, "not measured here") : bar(tier, index),
            tier.p50 < 0 ? null : figures(tier),
          ],
    ),
    h(
      "div",
      { class: "scale", "aria-hidden": "true" },
      SCALE.map((delay, index) => h("span", { vars: { x: place(delay) } }, WORDS[index])),
    ),
  );
}

function bar(tier, index) {
  const x = (millis) => place(millis) * WIDTH;
  return svg(
    "svg",
    {
      class: `delay tier-${tierNumber(index)}`,
      viewBox: `0 0 ${WIDTH} 18`,
      preserveAspectRatio: "none",
      "aria-hidden": "true",
    },
    svg("rect", { class: "track", x: 0, y: 6, width: WIDTH, height: 6, rx: 3 }),
    svg("rect", {
      class: "most",
      x: x(tier.p50),
      y: 4,
      width: Math.max(4, x(tier.p99) - x(tier.p50)),
      height: 10,
    }),
    svg("rect", { class: "half", x: x(tier.p50) - 3, y: 1, width: 6, height: 16 }),
    svg("rect", { class: "half", x: x(tier.p95) - 2, y: 4, width: 4, height: 10 }),
    svg("rect", { class: "last", x: Math.min(x(tier.max), WIDTH - 3), y: 3, width: 3, height: 12 }),
  );
}

function figures(tier) {
  const figures = [
    ["half within", tier.p50],
    ["95 % within", tier.p95],
    ["99 % within", tier.p99],
    ["the last in less than", tier.max],
  ];
  return h(
    "div",
    { class: "figures" },
    figures.map(([word, millis]) => h("span", {}, `${word} `, h("b", {}, duration(millis)))),
    tier.destination ? name(tier.destination) : null,
  );
}

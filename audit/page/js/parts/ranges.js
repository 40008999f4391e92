/* The time range of a topic's view: a preset, which moves on with the clock, or two times; and the
   length of its cells. */

import { h, replace } from "../dom.js";
import { duration } from "../figures.js";
import { stretch, utc } from "../times.js";
import { zoneName } from "../zone.js";
import { timeField } from "./time_field.js";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const USUAL = { "1h": HOUR, "6h": 6 * HOUR, "24h": 24 * HOUR, "7d": 168 * HOUR };
const STEPS = [1, 2, 5, 10, 15, 20, 30, 60, 120, 180, 240, 360, 480, 720, 1440].map(
  (minutes) => minutes * MINUTE,
);
const SHORTEST = 5 * MINUTE;
const LONGEST = 31 * 24 * HOUR;

/** From, to and step, all multiples of the step, in at most so many pieces. */
export function rangeOf(params, pieces) {
  const from = Number(params.from);
  const to = Number(params.to);
  const fixed = Number.isSafeInteger(from) && Number.isSafeInteger(to) && from > 0 && to > from;
  const length = fixed ? Math.min(to - from, LONGEST) : (USUAL[params.range] ?? USUAL["24h"]);
  const step = STEPS.find((millis) => length / millis <= pieces) ?? STEPS.at(-1);
  const end = Math.ceil((fixed ? from + length : Date.now()) / step) * step;
  const start = Math.floor((fixed ? from : end - length) / step) * step;
  return { from: start, to: end, step, fixed };
}

/** The parameters of a range, which has a minimal length. */
export function zoomed(from, to) {
  const more = Math.max(0, SHORTEST - (to - from)) / 2;
  const first = Math.floor((from - more) / MINUTE) * MINUTE;
  return {
    from: first,
    to: Math.min(Math.ceil((to + more) / MINUTE) * MINUTE, first + LONGEST),
    range: null,
  };
}

/** Fields for two times, in the page's zone. What was typed stays until another range is chosen. */
function typed(page) {
  let isTyped = false;
  const [from, to] = [timeField("From"), timeField("To")];
  const node = h(
    "form",
    { class: "typed" },
    from.node,
    "to",
    to.node,
    zoneName(),
    h("button", { class: "button" }, "Show"),
  );
  node.addEventListener("submit", (event) => {
    event.preventDefault();
    const [begin, end] = [from.moment(), to.moment()];
    if (begin >= end) to.node.setCustomValidity("This must be after the beginning.");
    if (!node.reportValidity()) return;
    isTyped = false;
    page.change({ from: begin, to: Math.min(end, begin + LONGEST), range: null });
  });
  node.addEventListener("input", () => {
    isTyped = true;
  });
  const show = (begin, end) => {
    if (isTyped || node.contains(document.activeElement)) return;
    from.show(begin);
    to.show(end);
  };
  const forget = () => {
    isTyped = false;
  };
  return { node, show, forget };
}

/** Buttons for ranges. `range()` returns the current one, with `cells` or without. */
export function rangeBar(page, range, { cells = true } = {}) {
  const node = h("div", { class: "toolbar", role: "group", "aria-label": "Time" });
  const move = (by) => () => {
    const { from, to } = range();
    const length = to - from;
    page.change({
      ...zoomed(from + by * length, Math.min(to + by * length, Date.now() + length)),
      range: null,
    });
  };
  const out = () => {
    const { from, to } = range();
    const half = (to - from) / 2;
    page.change(zoomed(from - half, Math.min(to + half, Date.now() + MINUTE)));
  };
  const button = (focus, text, label, onclick) =>
    h(
      "button",
      {
        type: "button",
        class: "button",
        "data-focus": focus,
        "aria-label": label,
        title: label,
        onclick,
      },
      text,
    );
  const times = typed(page);
  node.addEventListener("click", (event) => {
    if (!times.node.contains(event.target)) times.forget();
  }, { capture: true });
  const show = () => {
    const { from, to, fixed, step } = range();
    times.show(from, to);
    replace(
      node,
      h(
        "div",
        { class: "segments" },
        Object.keys(USUAL).map((range) =>
          h(
            "button",
            {
              type: "button",
              "data-focus": `range-${range}`,
              "aria-pressed": String(!fixed && (page.params.range ?? "24h") === range),
              onclick: () => page.change({ range, from: null, to: null }),
            },
            range.replace(/(\d+)/, "$1 "),
          ),
        ),
      ),
      button("earlier", "‹", "Earlier", move(-1)),
      button("later", "›", "Later", move(1)),
      button("out", "−", "Zoom out", out),
      times.node,
      h(
        "span",
        { class: "soft", title: `${utc(from)} to ${utc(to)}` },
        cells
          ? `${stretch(from, to)} · each cell ${duration(step).replace(" ", " ")}`
          : stretch(from, to),
      ),
    );
  };
  return { node, show, out };
}

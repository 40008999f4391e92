/* A topic's hours as a small chart: events and verdict of each. Faulty hours, also those without
   events, stand out by their colour and by a mark below. */

import { svg } from "../dom.js";
import { counted } from "../figures.js";
import { FAULTS, WORDS } from "../signs.js";
import { moment } from "../times.js";

const HOUR = 3_600_000;
const WIDTH = 168;
const HEIGHT = 30;

export function sparkline(counts, states, fromHour) {
  const most = Math.max(1, ...counts);
  const step = WIDTH / Math.max(counts.length, 1);
  const faults = states.filter((state) => FAULTS.includes(state)).length;
  const total = counts.reduce((sum, events) => sum + Math.max(events, 0), 0);
  return svg(
    "svg",
    {
      class: "spark",
      viewBox: `0 0 ${WIDTH} ${HEIGHT + 4}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `${counted(total, "event")} in ${counted(counts.length, "hour")}; ${counted(faults, "hour")} at fault`,
    },
    svg("line", { class: "floor", x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT, "stroke-width": 1 }),
    counts.map((events, index) => {
      const height = events > 0 ? Math.max(1.5, (events / most) * (HEIGHT - 2)) : 0;
      const x = index * step;
      const width = Math.max(step - Math.min(1.5, step / 4), 0.8);
      const state = states[index];
      return svg(
        "g",
        {},
        svg(
          "title",
          {},
          `${moment(fromHour + index * HOUR)}: ${counted(events, "event")}, ${(WORDS[state] ?? "nothing").toLowerCase()}`,
        ),
        svg("rect", { x, y: 0, width: step, height: HEIGHT + 4, fill: "transparent" }),
        svg("rect", { class: `bar state-${state}`, x, y: HEIGHT - height, width, height, rx: 1 }),
        FAULTS.includes(state)
          ? svg("rect", { class: `mark state-${state}`, x, y: HEIGHT + 1, width, height: 3 })
          : null,
      );
    }),
  );
}

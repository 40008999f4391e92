/* Events over time, a line for each tier, and what is missing below them. Drawn by uPlot on a
   canvas: colours are asked of the style sheet, again whenever the theme changes. Dragging zooms. */

import uPlot from "../../vendor/uplot/uPlot.esm.js";
import { h, replace } from "../dom.js";
import { count, short } from "../figures.js";
import { plain } from "../names.js";
import { tierName } from "../signs.js";
import { clock, date, stretch } from "../times.js";
import { zone } from "../zone.js";
import { columnsOf, eventsOf } from "./tiers.js";

const HEIGHT = 220;
const MARK = 7; // pixels

export class Chart {
  #zoom;
  #plot = null;
  #answer = null;
  #columns = [];
  #box = h("div", { class: "chart" });
  #legend = h("div", { class: "chart-legend" });
  #watch = new ResizeObserver(() => this.#fit());
  #themed = () => this.#draw();

  constructor(zoom) {
    this.#zoom = zoom;
    this.node = h("div", {}, this.#box, this.#legend);
    this.#watch.observe(this.#box);
    document.addEventListener("penstock:theme", this.#themed);
  }

  show(answer) {
    const drawn = this.#answer;
    this.#answer = answer;
    const shape = (each) => each?.tiers.map((tier) => tier.tier + tier.destination).join();
    if (
      this.#plot &&
      shape(drawn) === shape(answer) &&
      drawn.from_time === answer.from_time &&
      drawn.step === answer.step
    ) {
      this.#plot.setData(this.#data());
    } else this.#draw();
    this.#say(null);
  }

  close() {
    this.#watch.disconnect();
    document.removeEventListener("penstock:theme", this.#themed);
    this.#plot?.destroy();
  }

  #data() {
    this.#columns = columnsOf(this.#answer);
    return [
      this.#columns.map(({ start }) => start / 1000),
      ...this.#answer.tiers.map((_, index) =>
        this.#columns.map(({ cell }) => eventsOf(cell?.sums[index])),
      ),
    ];
  }

  #draw() {
    this.#plot?.destroy();
    this.#plot = null;
    if (!this.#answer || this.#box.clientWidth === 0) return;
    const ink = colour(this.#box, "--soft");
    const grid = { stroke: colour(this.#box, "--line"), width: 1 };
    const axis = { stroke: ink, grid, ticks: grid, font: "12px system-ui, sans-serif" };
    const stepped = uPlot.paths.stepped({ align: 1 });
    const lines = this.#answer.tiers.map((tier, index) => {
      const stroke = colour(this.#box, `--tier-${tierNumber(index)}`);
      const fill =
        index === 0 ? stroke.replace("rgb(", "rgba(").replace(")", ", 0.10)") : undefined;
      return {
        stroke,
        fill,
        width: index === 0 ? 2 : 1.6,
        dash: index === 0 ? [] : [6 - index, 3],
        paths: stepped,
        points: { show: false },
      };
    });
    const missing = colour(this.#box, "--missing-fill");
    this.#plot = new uPlot(
      {
        width: this.#box.clientWidth,
        height: HEIGHT,
        legend: { show: false },
        tzDate: (time) => uPlot.tzDate(new Date(time * 1000), zone()),
        cursor: { y: false, drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
        scales: { y: { range: (_, __, most) => [0, Math.max(1, most * 1.08)] } },
        axes: [
          { ...axis, values: (_, times) => times.map(tick), space: 70 },
          {
            ...axis,
            size: 52,
            values: (_, numbers) => numbers.map((each) => (each % 1 ? "" : short(each))),
          },
        ],
        series: [{}, ...lines],
        hooks: {
          draw: [(plot) => this.#markMissing(plot, missing)],
          setCursor: [(plot) => this.#say(plot.cursor.idx)],
          setSelect: [(plot) => this.#selected(plot)],
        },
      },
      this.#data(),
      this.#box,
    );
  }

  /** Where something is missing, however little it is beside all that is there. */
  #markMissing(plot, paint) {
    const { top, height, left, width } = plot.bbox;
    const mark = MARK * devicePixelRatio;
    plot.ctx.fillStyle = paint;
    for (const [index, { cell }] of this.#columns.entries()) {
      if (!cell?.missing) continue;
      const x = left + (width * index) / Math.max(1, this.#columns.length - 1);
      const wide = Math.max(mark / 2, width / this.#columns.length);
      plot.ctx.fillRect(Math.min(x, left + width - wide), top + height - mark, wide, mark);
    }
  }

  #selected(plot) {
    const { left, width } = plot.select;
    if (width < 4) return;
    const [from, to] = [left, left + width].map((x) => plot.posToVal(x, "x") * 1000);
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    this.#zoom(from, to);
  }

  #fit() {
    const width = this.#box.clientWidth;
    if (width === 0) return;
    if (!this.#plot) this.#draw();
    else if (this.#plot.width !== width) this.#plot.setSize({ width, height: HEIGHT });
  }

  /** What is under the cursor, or the names of the lines. */
  #say(index) {
    const { tiers } = this.#answer;
    const known = index !== null && index !== undefined && this.#plot;
    const figure = (series) =>
      known ? h("b", {}, ` ${count(this.#plot.data[series][index] ?? 0)}`) : "";
    replace(
      this.#legend,
      tiers.map((tier, number) =>
        h(
          "span",
          { class: `tier-${tierNumber(number)}` },
          h("i", {}),
          tier.destination
            ? `${tierName(tier.tier)} in ${plain(tier.destination)}`
            : tierName(tier.tier),
          figure(number + 1),
        ),
      ),
      known && this.#columns[index].cell?.missing
        ? h("span", { class: "bad" }, `Missing ${count(this.#columns[index].cell.missing)}`)
        : null,
      known ? h("span", {}, stretch(this.#columns[index].start, this.#columns[index].end)) : null,
    );
  }
}

/** Which of the four colours a tier has. */
export function tierNumber(index) {
  return Math.min(index, 4) + 1;
}

/** Midnight by its date, any other time by its clock. */
function tick(time) {
  const said = clock(time * 1000);
  return said === "00:00" ? date(time * 1000) : said;
}

function colour(element, property) {
  const probe = h("span", {});
  probe.style.color = `var(${property})`;
  element.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

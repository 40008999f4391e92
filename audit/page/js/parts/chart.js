/* Lines over time, drawn by uPlot on a canvas. Colours come from the style sheet, and change with the
   theme. Dragging zooms. Marks are dashed vertical lines; the one next to the cursor is named below,
   with the figures. */

import uPlot from "../../vendor/uplot/uPlot.esm.js";
import { h, replace } from "../dom.js";
import { count, short } from "../figures.js";
import { plain } from "../names.js";
import { tierName } from "../signs.js";
import { clock, date, stretch } from "../times.js";
import { zone } from "../zone.js";
import { markWords } from "./marks.js";
import { columnsOf, eventsOf } from "./tiers.js";

const HEIGHT = 220;
const MARK = 7; // pixels
const NEAR = 8; // pixels between the cursor and a mark that is named

/** The chart of a time range:
    { shape, label, times, values, lines, figure, tick, range, draw(plot, colour), reading(index) };
    with `isLog`, the axis shows `steps(least, most)`. `times` are in seconds, `range` is in
    milliseconds; `lines` have a `name`, the `number` of their colour, and may have `fill` and
    `isStepped`. A drawing of the same `shape` only gets new values. */
export class TimePlot {
  #zoom;
  #plot = null;
  #drawing = null;
  #marks = [];
  #box = h("div", { class: "chart", role: "img" });
  #legend = h("div", { class: "chart-legend" });
  #watch = new ResizeObserver(() => this.#fit());
  #themed = () => this.#draw();

  constructor(zoom) {
    this.#zoom = zoom;
    this.node = h("div", {}, this.#box, this.#legend);
    this.#watch.observe(this.#box);
    document.addEventListener("penstock:theme", this.#themed);
  }

  show(drawing) {
    const drawn = this.#drawing;
    this.#drawing = drawing;
    this.#box.setAttribute("aria-label", drawing.label);
    if (this.#plot && drawn.shape === drawing.shape) this.#plot.setData(this.#data());
    else this.#draw();
    this.#sendStatement(null);
  }

  /** Marks of this time. */
  mark(marks) {
    this.#marks = marks;
    this.#plot?.redraw(false);
  }

  close() {
    this.#watch.disconnect();
    document.removeEventListener("penstock:theme", this.#themed);
    this.#plot?.destroy();
  }

  #data() {
    return [this.#drawing.times, ...this.#drawing.values];
  }

  #draw() {
    this.#plot?.destroy();
    this.#plot = null;
    if (!this.#drawing || this.#box.clientWidth === 0) return;
    const { lines, isLog, steps, tick, range } = this.#drawing;
    const paint = (property) => colour(this.#box, property);
    const ink = paint("--soft");
    const grid = { stroke: paint("--line"), width: 1 };
    const axis = { stroke: ink, grid, ticks: grid, font: "12px system-ui, sans-serif" };
    const stepped = uPlot.paths.stepped({ align: 1 });
    const series = lines.map((line, index) => {
      const stroke = paint(`--tier-${line.number}`);
      return {
        stroke,
        fill: line.fill ? stroke.replace("rgb(", "rgba(").replace(")", ", 0.10)") : undefined,
        width: index === 0 ? 2 : 1.6,
        dash: index === 0 ? [] : [Math.max(2, 6 - index), 3],
        paths: line.isStepped ? stepped : undefined,
        points: { show: !line.isStepped, size: 5 },
      };
    });
    const marked = paint("--accent");
    this.#plot = new uPlot(
      {
        width: this.#box.clientWidth,
        height: HEIGHT,
        legend: { show: false },
        tzDate: (time) => uPlot.tzDate(new Date(time * 1000), zone()),
        cursor: { y: false, drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
        scales: {
          x: range ? { range: () => range.map((millis) => millis / 1000) } : {},
          y: isLog ? { distr: 3 } : { range: (_, __, most) => [0, Math.max(1, most * 1.08)] },
        },
        axes: [
          { ...axis, values: (_, times) => times.map(tickOf), space: 70 },
          {
            ...axis,
            size: 60,
            ...(isLog
              ? {
                  splits: (_, __, least, most) => steps(least, most),
                  filter: (_, chosen) => chosen,
                }
              : {}),
            values: (_, numbers) => numbers.map((number) => (number === null ? "" : tick(number))),
          },
        ],
        series: [{}, ...series],
        hooks: {
          draw: [
            (plot) => this.#drawing.draw?.(plot, paint),
            (plot) => this.#drawMarks(plot, marked),
          ],
          setCursor: [(plot) => this.#sendStatement(plot.cursor.idx)],
          setSelect: [(plot) => this.#selected(plot)],
        },
      },
      this.#data(),
      this.#box,
    );
  }

  #drawMarks(plot, paint) {
    const { top, height, left, width } = plot.bbox;
    const { ctx } = plot;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = paint;
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    for (const { time } of this.#marks) {
      const x = Math.round(plot.valToPos(time / 1000, "x", true));
      if (x < left || x > left + width) continue;
      ctx.beginPath();
      ctx.moveTo(x, top);
      ctx.lineTo(x, top + height);
      ctx.stroke();
      const half = 4 * devicePixelRatio;
      ctx.beginPath();
      ctx.moveTo(x - half, top);
      ctx.lineTo(x + half, top);
      ctx.lineTo(x, top + half * 1.5);
      ctx.fill();
    }
    ctx.restore();
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

  /** The mark at the cursor. */
  #near() {
    const at = this.#plot?.cursor.left ?? -1;
    if (at < 0) return null;
    const away = ({ time }) => Math.abs(this.#plot.valToPos(time / 1000, "x") - at);
    const mark = this.#marks.reduce(
      (one, other) => (one === null || away(other) < away(one) ? other : one),
      null,
    );
    return mark !== null && away(mark) <= NEAR ? mark : null;
  }

  /** The figures at the cursor, or the names of the lines. */
  #sendStatement(index) {
    const { lines, figure, reading } = this.#drawing;
    const known = index !== null && index !== undefined && this.#plot;
    const near = known ? this.#near() : null;
    replace(
      this.#legend,
      lines.map((line, number) =>
        h(
          "span",
          { class: `tier-${line.number}` },
          h("i", {}),
          line.name,
          known ? h("b", {}, ` ${figure(this.#plot.data[number + 1][index])}`) : "",
        ),
      ),
      known ? reading(index) : null,
      near ? h("span", { class: "near" }, markWords(near)) : null,
    );
  }
}

/** Events over time, a line for each tier, with missing events below them. */
export class Chart {
  #plot;

  constructor(zoom) {
    this.#plot = new TimePlot(zoom);
    this.node = this.#plot.node;
  }

  show(answer) {
    const columns = columnsOf(answer);
    this.#plot.show({
      shape: [answer.from_time, answer.step, ...answer.tiers.map(nameOf)].join(),
      label: "Events over time by tier",
      times: columns.map(({ start }) => start / 1000),
      values: answer.tiers.map((_, index) =>
        columns.map(({ cell }) => eventsOf(cell?.sums[index])),
      ),
      lines: answer.tiers.map((tier, index) => ({
        name: nameOf(tier),
        number: tierNumber(index),
        fill: index === 0,
        isStepped: true,
      })),
      figure: (number) => count(number ?? 0),
      tick: (number) => (number % 1 ? "" : short(number)),
      draw: (plot, paint) => markMissing(plot, columns, paint("--missing-fill")),
      reading: (index) => [
        columns[index].cell?.missing
          ? h("span", { class: "bad" }, `Missing ${count(columns[index].cell.missing)}`)
          : null,
        h("span", {}, stretch(columns[index].start, columns[index].end)),
      ],
    });
  }

  mark(marks) {
    this.#plot.mark(marks);
  }

  close() {
    this.#plot.close();
  }
}

function nameOf(tier) {
  const title = tierName(tier.tier);
  return tier.destination ? `${title} in ${plain(tier.destination)}` : title;
}

/** Marks missing events, however few they are. */
function markMissing(plot, columns, paint) {
  const { top, height, left, width } = plot.bbox;
  const mark = MARK * devicePixelRatio;
  plot.ctx.fillStyle = paint;
  for (const [index, { cell }] of columns.entries()) {
    if (!cell?.missing) continue;
    const x = left + (width * index) / Math.max(1, columns.length - 1);
    const wide = Math.max(mark / 2, width / columns.length);
    plot.ctx.fillRect(Math.min(x, left + width - wide), top + height - mark, wide, mark);
  }
}

/** Which of the five colours a tier has. */
export function tierNumber(index) {
  return Math.min(index, 4) + 1;
}

/** The date at midnight, else the time. */
function tickOf(time) {
  const text = clock(time * 1000);
  return text === "00:00" ? date(time * 1000) : text;
}

function colour(element, property) {
  const probe = h("span", {});
  probe.style.color = `var(${property})`;
  element.append(probe);
  const color = getComputedStyle(probe).color;
  probe.remove();
  return color;
}

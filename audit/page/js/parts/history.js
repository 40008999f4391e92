/* Delays and lags over time. Lags are measured once a minute: the line is interrupted where no
   measurement exists, and at zero where nothing lagged. */

import { ask } from "../api.js";
import { h } from "../dom.js";
import { bytes, count, duration, short } from "../figures.js";
import { plain } from "../names.js";
import { tierName } from "../signs.js";
import { moment, stretch } from "../times.js";
import { TimePlot, tierNumber } from "./chart.js";
import { Pane, card, empty } from "./pane.js";

const HOUR = 3_600_000;
const MINUTE = 60_000;
const STEPS = [
  ...[1, 10, 100, 1_000, 10_000, MINUTE, 10 * MINUTE, HOUR, 10 * HOUR],
  ...[2, 10, 30].map((days) => days * 24 * HOUR),
];
const UNITS = {
  agent: { figure: bytes, tick: (size) => (size % 1 ? "" : bytes(size)), what: "not shipped yet" },
  messages: {
    figure: count,
    tick: (number) => (number % 1 ? "" : short(number)),
    what: "messages behind",
  },
};

/** Cards with the charts of a topic (if `query()` names one) or of a host. */
export class HistoryPane {
  #pane;
  #delays;
  #lags;
  #query;

  constructor(query, zoom) {
    this.#query = query;
    this.#delays = new TimePlot(zoom);
    this.#lags = new TimePlot(zoom);
    const delays = holder("Delay over time", this.#delays);
    const lags = holder(
      query().topic ? "Lag of readers and loads over time" : "Not shipped yet, over time",
      this.#lags,
    );
    this.#pane = new Pane(
      (signal) => ask("history", query(), signal),
      (answer) =>
        h(
          "div",
          { class: "columns" },
          query().topic ? delays(this.#showDelays(answer), NO_DELAYS) : null,
          lags(this.#showLags(answer), NO_LAGS),
        ),
    );
    this.node = this.#pane.node;
  }

  refresh(force) {
    this.#pane.refresh(force);
  }

  mark(marks) {
    this.#delays.mark(marks);
    this.#lags.mark(marks);
  }

  close() {
    this.#pane.close();
    this.#delays.close();
    this.#lags.close();
  }

  /** Whether there is anything to show. */
  #showDelays({ from_time: from, to_time: to, delays }) {
    if (delays.length === 0) return false;
    const first = Math.floor(from / HOUR) * HOUR;
    const hours = Array.from({ length: Math.ceil((to - first) / HOUR) }, (_, at) => first + at * HOUR);
    const lines = delays.flatMap((tier, index) => {
      const byHour = new Map(tier.points.map((point) => [point.hour, point]));
      return [
        ["p50", "half within"],
        ["p99", "99 % within"],
      ].map(([field, word], at) => ({
        name: `${tierLine(tier)}, ${word}`,
        number: tierNumber(2 * index + at),
        values: hours.map((hour) => byHour.get(hour)?.[field] ?? null),
      }));
    });
    this.#delays.show({
      shape: ["delays", from, to, ...lines.map((line) => line.name)].join(),
      label: `Delay after the event, by hour. ${greatest(lines, hours, duration)}`,
      times: hours.map((hour) => hour / 1000),
      values: lines.map((line) => line.values),
      lines,
      range: [from, to],
      isLog: true,
      steps: (least, most) => STEPS.filter((step) => step >= least && step <= most),
      figure: (millis) => (millis === null ? "–" : duration(millis)),
      tick: (millis) => duration(millis),
      reading: (index) => h("span", {}, stretch(hours[index], hours[index] + HOUR)),
    });
    return true;
  }

  #showLags({ from_time: from, to_time: to, step, lags, measured }) {
    const kinds = this.#query().topic ? ["group", "files"] : ["agent"];
    const times = [...new Set(kinds.flatMap((kind) => measured[kind] ?? []))].sort((a, b) => a - b);
    if (times.length === 0) return false;
    const whole = [];
    for (const time of times) {
      if (whole.length > 0 && time - whole.at(-1) > step) whole.push(whole.at(-1) + step);
      whole.push(time);
    }
    const lines = lags.map((series, index) => {
      const byTime = new Map(series.points.map((point) => [point.time, point.amount]));
      const were = new Set(measured[series.kind] ?? []);
      return {
        name: lagLine(series),
        number: tierNumber(index),
        isStepped: true,
        fill: index === 0,
        values: whole.map((time) => (were.has(time) ? (byTime.get(time) ?? 0) : null)),
      };
    });
    if (lines.length === 0) {
      const were = new Set(times);
      const values = whole.map((time) => (were.has(time) ? 0 : null));
      lines.push({ name: "nothing lagged", number: 1, isStepped: true, values });
    }
    const { figure, tick, what } = this.#query().topic ? UNITS.messages : UNITS.agent;
    this.#lags.show({
      shape: ["lags", from, to, whole.length, ...lines.map((line) => line.name)].join(),
      label: `Lag over time, ${what}. ${greatest(lines, whole, figure)}`,
      times: whole.map((time) => time / 1000),
      values: lines.map((line) => line.values),
      lines,
      range: [from, to],
      figure: (amount) => (amount === null ? "not measured" : figure(amount)),
      tick,
      reading: (index) => h("span", {}, moment(whole[index])),
    });
    return true;
  }
}

const NO_DELAYS = () => empty("pending", "No delay was measured in this time");
const NO_LAGS = () =>
  empty("pending", "No lag was measured in this time", "The audit measures once a minute.");

/** A card that stays for all responses, so that its chart keeps its place. */
function holder(title, plot) {
  return (there, otherwise) =>
    card(title, null, h("div", { class: "card-body" }, there ? plot.node : otherwise()));
}

/** The maximum of each line, for screen readers. */
function greatest(lines, times, figure) {
  return lines
    .map(({ name, values }) => {
      const most = Math.max(...values.map((value) => value ?? -1));
      return most < 0 ? null : `${name}: at most ${figure(most)}, ${moment(times[values.indexOf(most)])}`;
    })
    .filter(Boolean)
    .join("; ");
}

function tierLine({ tier, destination }) {
  return destination ? `${tierName(tier)} in ${plain(destination)}` : tierName(tier);
}

function lagLine({ kind, name }) {
  if (kind === "files") return `loads into ${plain(name)}`;
  return kind === "group" ? `group ${plain(name)}` : plain(name);
}

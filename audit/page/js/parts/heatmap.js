/* The heat map: a row for the verdict and one for each tier, a column for each cell of time; and a
   row of marks, if there are any.
   One cell at a time can be reached with Tab, arrows move from there. Selecting columns, by dragging
   or with Shift and arrows, and Enter zooms. A cell that is pointed at or focused is read out in
   figures below. */

import { h, replace, setVars } from "../dom.js";
import { count } from "../figures.js";
import { name, plain } from "../names.js";
import { FAULTS, LETTERS, WORDS, tierName } from "../signs.js";
import { clock, date, sameDay, stretch, wallClock } from "../times.js";
import { reading } from "./heatmap_reading.js";
import { markSign, markWords } from "./marks.js";
import { columnsOf, eventsOf, references, tierCell } from "./tiers.js";

const HOUR = 3_600_000;
const TICK_WIDTH = 84; // pixels that a time on the axis needs
const SHADES = 5;

export class HeatMap {
  #zoom;
  #out;
  #answer = null;
  #columns = [];
  #marks = [];
  #rows = [];
  #at = { row: 0, column: -1 };
  #anchor = null;
  #released = (event) => this.#release(event);
  #width = new ResizeObserver(() => this.#scale());
  #axis = h("div", { class: "heat-axis", "aria-hidden": "true" });
  #tip = h("div", { class: "tip", role: "status" });
  #grid = h("div", { class: "heat-grid", role: "grid", "aria-label": "Windows and tiers" });

  /** `zoom(from, to)` shows a shorter time, `out()` a longer one. */
  constructor(zoom, out) {
    this.#zoom = zoom;
    this.#out = out;
    this.#tip.hidden = true;
    this.node = h("div", { class: "heat" }, this.#grid, this.#tip);
    this.#width.observe(this.#axis);
    this.#listen();
  }

  close() {
    this.#width.disconnect();
    window.removeEventListener("pointerup", this.#released);
  }

  show(answer) {
    const same = this.#answer?.from_time === answer.from_time && this.#answer?.step === answer.step;
    this.#answer = answer;
    this.#columns = columnsOf(answer);
    if (!same) {
      this.#at = { row: 0, column: this.#firstOfInterest() };
      this.#anchor = null;
      this.#tip.hidden = true;
    }
    this.#place();
    this.#rows = [this.#verdictRow(), ...this.#tierRows(), ...this.#markRow()];
    this.#at.row = Math.min(this.#at.row, this.#rows.length - 1);
    setVars(this.#grid, { columns: this.#columns.length });
    replace(
      this.#grid,
      this.#rows.map((row) => [row.label, row.node]),
      this.#axis,
    );
    this.#scale();
    this.#mark();
    if (!this.#tip.hidden) this.#read();
  }

  /** Marks of this time. */
  mark(marks) {
    this.#marks = marks;
    if (this.#answer !== null) this.show(this.#answer);
  }

  /** Each mark in the column of its time. */
  #place() {
    for (const column of this.#columns) column.marks = [];
    const first = this.#columns[0]?.start;
    for (const mark of this.#marks)
      this.#columns[Math.floor((mark.time - first) / this.#answer.step)]?.marks.push(mark);
  }

  #markRow() {
    if (this.#columns.every(({ marks }) => marks.length === 0)) return [];
    const label = h("div", { class: "heat-label", "aria-hidden": "true" }, "What changed");
    const row = this.#answer.tiers.length + 1;
    return [
      this.#row(row, label, "changes", ({ marks }) =>
        marks.length === 0
          ? ["", "", "nothing changed"]
          : ["marked", markSign(marks), marks.map(markWords).join("; ")],
      ),
    ];
  }

  #firstOfInterest() {
    const index = this.#columns.findIndex(({ cell }) => cell && FAULTS.includes(cell.state));
    return index < 0 ? this.#columns.length - 1 : index;
  }

  #verdictRow() {
    const label = h("div", { class: "heat-label", "aria-hidden": "true" }, "Verdict");
    return this.#row(0, label, "verdicts", ({ cell }) => {
      if (!cell) return ["", "", "nothing happened"];
      const state = `state-${cell.state}${cell.accepted ? " accepted" : ""}`;
      return [
        state,
        LETTERS[cell.state],
        WORDS[cell.state] + (cell.accepted ? ", a fault is accepted or harmless" : ""),
      ];
    });
  }

  #tierRows() {
    const tiers = this.#answer.tiers;
    const against = references(tiers);
    return tiers.map((tier, index) => {
      const most = Math.max(1, ...this.#columns.map(({ cell }) => eventsOf(cell?.sums[index])));
      const label = h(
        "div",
        { class: "heat-label", "aria-hidden": "true" },
        tierName(tier.tier),
        tier.destination ? h("span", { class: "under" }, name(tier.destination)) : null,
      );
      return this.#row(index + 1, label, "", ({ cell }) => {
        if (!cell) return ["", "", "nothing"];
        const events = eventsOf(cell.sums[index]);
        const { state, difference } = tierCell(cell, index, against[index]);
        const text = `${count(events)} events`;
        if (state === "complete" || state === "foreign") return [shade(events, most), "", text];
        const less = difference
          ? `, ${count(Math.abs(difference))} ${WORDS[state].toLowerCase()}`
          : ", changed";
        const accepted = cell.accepted && state !== "pending" ? " accepted" : "";
        return [`state-${state}${accepted}`, LETTERS[state], text + less];
      });
    });
  }

  #row(row, label, kind, look) {
    const wide = this.#columns.length <= 130;
    const cells = this.#columns.map((column, index) => {
      const [looks, letter, text] = look(column);
      return h(
        "div",
        {
          class: `cell ${looks}`,
          role: "gridcell",
          tabindex: "-1",
          "data-focus": `cell-${row}-${index}`,
          "data-row-index": row,
          "data-column": index,
          "aria-label": `${plain(label.textContent)}, ${stretch(column.start, column.end)}: ${text}`,
        },
        wide ? letter : "",
      );
    });
    const node = h(
      "div",
      { class: `heat-row ${kind}`, role: "row", "aria-label": plain(label.textContent) },
      cells,
    );
    return { label, node, cells };
  }

  /** Times below the columns, as many as there is room for. */
  #scale() {
    const width = this.#axis.clientWidth;
    if (width === 0 || this.#answer === null) return;
    const every = Math.max(
      1,
      Math.ceil(this.#columns.length / Math.max(2, Math.floor(width / TICK_WIDTH))),
    );
    const step = roundStep(every * this.#answer.step);
    const ticks = [];
    for (const [index, { start }] of this.#columns.entries()) {
      const local = wallClock(start);
      if (local % step !== 0 || index > this.#columns.length * 0.94) continue;
      const fresh = ticks.length === 0 || !sameDay(start, ticks.at(-1).start);
      ticks.push({
        start,
        index,
        text:
          step >= 24 * HOUR || (fresh && local % (24 * HOUR) === 0) ? date(start) : clock(start),
      });
    }
    replace(
      this.#axis,
      ticks.map(({ index, text }) =>
        h("span", { vars: { x: index / this.#columns.length } }, text),
      ),
    );
  }

  #listen() {
    const cellOf = (event) => {
      const cell = document.elementFromPoint(event.clientX, event.clientY)?.closest(".cell");
      return cell && this.#grid.contains(cell)
        ? { row: Number(cell.dataset.rowIndex), column: Number(cell.dataset.column) }
        : null;
    };
    this.#grid.addEventListener("pointermove", (event) => {
      const at = cellOf(event);
      if (!at) return;
      this.#at = at;
      this.#mark();
      this.#read();
    });
    this.#grid.addEventListener("pointerdown", (event) => {
      const at = cellOf(event);
      if (!at || event.button !== 0) return;
      this.#at = at;
      this.#anchor = event.pointerType === "mouse" ? at.column : null;
      if (this.#anchor !== null) this.node.dataset.held = "";
      this.#mark();
      this.#read();
    });
    window.addEventListener("pointerup", this.#released);
    this.#grid.addEventListener("pointerleave", () => {
      if (!this.#grid.contains(document.activeElement)) this.#tip.hidden = true;
    });
    this.#grid.addEventListener("focusin", (event) => {
      const cell = event.target.closest(".cell");
      if (!cell) return;
      this.#at = { row: Number(cell.dataset.rowIndex), column: Number(cell.dataset.column) };
      this.#mark();
      this.#read();
    });
    this.#grid.addEventListener("focusout", (event) => {
      if (!this.#grid.contains(event.relatedTarget)) this.#tip.hidden = true;
    });
    this.#grid.addEventListener("keydown", (event) => this.#key(event));
  }

  #release(event) {
    if (this.node.dataset.held === undefined) return;
    delete this.node.dataset.held;
    const anchor = this.#anchor;
    if (anchor === null) return;
    const [first, last] = [Math.min(anchor, this.#at.column), Math.max(anchor, this.#at.column)];
    const dragged = last > first && this.#grid.contains(event.target);
    if (dragged) this.#zoomInto(first, last);
    else {
      this.#anchor = null;
      this.#focus();
    }
  }

  #key(event) {
    const { row, column } = this.#at;
    const moves = {
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      Home: [row, 0],
      End: [row, this.#columns.length - 1],
    };
    if (event.key in moves) {
      if (event.shiftKey) this.#anchor ??= column;
      else this.#anchor = null;
      const [toRow, toColumn] = moves[event.key];
      this.#at = {
        row: Math.min(Math.max(toRow, 0), this.#rows.length - 1),
        column: Math.min(Math.max(toColumn, 0), this.#columns.length - 1),
      };
      this.#focus();
    } else if (event.key === "Enter") {
      const anchor = this.#anchor ?? column;
      this.#zoomInto(Math.min(anchor, column), Math.max(anchor, column));
    } else if (event.key === "Escape") {
      this.#anchor = null;
      this.#mark();
    } else if (event.key === "-") this.#out();
    else return;
    event.preventDefault();
  }

  #zoomInto(first, last) {
    this.#anchor = null;
    this.#tip.hidden = true;
    this.#zoom(this.#columns[first].start, this.#columns[last].end);
  }

  #focus() {
    this.#mark();
    this.#rows[this.#at.row]?.cells[this.#at.column]?.focus({ preventScroll: true });
  }

  /** Which cell Tab reaches, and which columns are selected. */
  #mark() {
    const { row, column } = this.#at;
    const anchor = this.#anchor ?? column;
    const [first, last] = [Math.min(anchor, column), Math.max(anchor, column)];
    for (const [rowIndex, gridRow] of this.#rows.entries()) {
      for (const [index, cell] of gridRow.cells.entries()) {
        cell.tabIndex = rowIndex === row && index === column ? 0 : -1;
        cell.classList.toggle("at", index === column && !this.#tip.hidden && rowIndex === row);
        cell.classList.toggle("in", this.#anchor !== null && index >= first && index <= last);
      }
    }
  }

  #read() {
    const column = this.#columns[this.#at.column];
    const cell = this.#rows[this.#at.row]?.cells[this.#at.column];
    if (!column || !cell) return;
    replace(this.#tip, reading(column, this.#answer.tiers));
    const x = cell.getBoundingClientRect().left - this.node.getBoundingClientRect().left;
    setVars(this.#tip, { x: Math.round(x) });
    this.#tip.hidden = false;
  }
}

/** Shades from few events to many. No events have no shade. */
function shade(events, most) {
  return events > 0
    ? `much-${Math.min(SHADES, 1 + Math.floor((events / most) * (SHADES - 0.01)))}`
    : "";
}

/** The shortest round step that is not below this one. */
function roundStep(millis) {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720, 1440, 2880, 10_080];
  return (steps.find((minutes) => minutes * 60_000 >= millis) ?? 10_080) * 60_000;
}

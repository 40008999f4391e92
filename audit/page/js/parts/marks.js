/* Marks on the time axis: restarts, releases, changes of leaders, rebalances, loads, accepted faults.
   They are signs on the heat map and charts, and here a list, for users without a pointer. */

import { ask } from "../api.js";
import { h } from "../dom.js";
import { count, counted } from "../figures.js";
import { plain, words } from "../names.js";
import { at, momentToSecond } from "../times.js";
import { Pane, card } from "./pane.js";

const SHOWN = 6;

// By kind: a sign and a name.
const KINDS = {
  release: ["▲", "Release"],
  start: ["↻", "Restart"],
  leader: ["⇅", "Leader"],
  broker: ["◆", "Broker"],
  group: ["⇄", "Group"],
  load: ["↓", "Load"],
  accepted: ["✓", "Accepted"],
  retired: ["✕", "Retired"],
};
const known = (kind) => KINDS[kind] ?? ["•", kind];

/** One sign for all marks in a cell: of their kind, or of several. */
export function markSign(marks) {
  const kinds = new Set(marks.map(({ kind }) => kind));
  return kinds.size === 1 ? known(marks[0].kind)[0] : "•";
}

/** A mark in one sentence, as text. */
export function markWords(mark) {
  return `${momentToSecond(mark.time)} ${plain(mark.words)}`;
}

/** The signs that these marks have, with their meaning. */
export function markLegend(marks) {
  const kinds = Object.keys(KINDS).filter((kind) => marks.some((mark) => mark.kind === kind));
  return kinds.map((kind) =>
    h(
      "li",
      {},
      h("span", { class: "mark-sign", "aria-hidden": "true" }, known(kind)[0]),
      known(kind)[1].toLowerCase(),
    ),
  );
}

/** A list of the marks that `query()` selects. `shown(marks)` is called with each answer. */
export class MarksPane {
  #pane;

  constructor(query, shown) {
    this.#pane = new Pane(
      (signal) => ask("marks", query(), signal),
      (answer) => {
        shown(answer.marks);
        return answer.marks.length > 0 ? list(answer) : null;
      },
      { bones: 0 },
    );
    this.node = this.#pane.node;
  }

  refresh(force) {
    this.#pane.refresh(force);
  }

  close() {
    this.#pane.close();
  }
}

function list({ marks, total }) {
  const rest = marks.slice(SHOWN);
  const unsaid = total - marks.length;
  return card(
    "What changed",
    h("span", { class: "soft" }, count(total)),
    h("ul", { class: "marks" }, marks.slice(0, SHOWN).map(item)),
    rest.length > 0
      ? h(
          "details",
          { "data-focus": "more-marks" },
          h("summary", { class: "list-foot" }, `${count(rest.length)} more`),
          h("ul", { class: "marks" }, rest.map(item)),
          unsaid > 0
            ? h("p", { class: "list-foot soft" }, `and ${counted(unsaid, "earlier change")}`)
            : null,
        )
      : null,
  );
}

function item(mark) {
  const [sign, word] = known(mark.kind);
  return h(
    "li",
    {},
    h("span", { class: "mark-kind" }, h("span", { "aria-hidden": "true" }, `${sign} `), word),
    words(mark.words),
    at(mark.time, momentToSecond),
  );
}

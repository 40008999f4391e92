/* What was raised, and when it was resolved. */

import { ask } from "../asking.js";
import { h } from "../dom.js";
import { name, words } from "../names.js";
import { chips } from "../parts/controls.js";
import { Pane, empty } from "../parts/pane.js";
import { pager, table } from "../parts/table.js";
import { link } from "../routes.js";
import { sign } from "../signs.js";
import { ago, at, stretch } from "../times.js";

const SIZE = 50;
const HOUR = 3_600_000;
const SIGNS = {
  missing: "missing",
  duplicated: "duplicated",
  changed: "changed",
  late: "pending",
  silent: "unknown",
};
const KINDS = {
  missing: "Missing",
  duplicated: "Duplicated",
  changed: "Changed",
  late: "Late",
  silent: "Silent",
};

export function alerts(page) {
  const states = chips(page, "State", "state");
  const list = new Pane(
    (signal) =>
      ask("alerts", { state: page.params.state, page: page.params.page, size: SIZE }, signal),
    (answer) => {
      if (answer.items.length === 0) {
        return empty(
          "complete",
          page.params.state === "resolved" ? "Nothing was resolved" : "No alert is raised",
          "Each kind of fault is raised once for an hour of a topic, and resolved once.",
        );
      }
      return [
        table(page, { label: "Alerts", rows: answer.items, columns: COLUMNS }),
        pager(page, answer.page, "alert"),
      ];
    },
  );
  return {
    title: "Alerts",
    nodes: [
      h(
        "div",
        { class: "heading" },
        h("h1", {}, "Alerts"),
        h("span", { class: "aside" }, "each raised once, and resolved once"),
      ),
      h("div", { class: "toolbar" }, states.node),
      h("section", { class: "card", "aria-label": "Alerts" }, list.node),
    ],
    update(anew) {
      states.show([
        ["raised", sign("missing", 16), "Raised"],
        ["resolved", sign("complete", 16), "Resolved"],
      ]);
      list.refresh(anew);
    },
    close: () => list.close(),
  };
}

/** The topic, and the hour that it is about. */
function place({ cluster, topic, hour }) {
  return hour >= 0
    ? { cluster, topic, from: hour, to: hour + HOUR }
    : { cluster, topic };
}

const COLUMNS = [
  {
    title: "Kind",
    class: "tight judged",
    cell: (row) =>
      h(
        "span",
        { class: `badge state-${SIGNS[row.kind] ?? "unknown"}` },
        sign(SIGNS[row.kind] ?? "unknown", 15),
        KINDS[row.kind] ?? row.kind,
      ),
  },
  {
    title: "State",
    class: "tight",
    cell: (row) =>
      row.resolved > 0
        ? h("span", { class: "soft" }, "resolved ", ago(row.resolved))
        : h("span", { class: "bad" }, "still holds"),
  },
  {
    title: "About",
    class: "lead",
    cell: (row) =>
      row.topic
        ? [
            h("a", { href: link("topic", place(row)), "data-row": true }, name(row.topic)),
            row.hour >= 0
              ? h("span", { class: "under" }, stretch(row.hour, row.hour + HOUR))
              : null,
          ]
        : name(row.host),
  },
  { title: "What", class: "wide", cell: (row) => words(row.words) },
  { title: "Raised", class: "tight", cell: (row) => at(row.raised) },
];

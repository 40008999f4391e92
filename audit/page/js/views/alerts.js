/* Raised and resolved alerts, with operators' notes: acknowledgements and silences. */

import { ask } from "../api.js";
import { h, replace } from "../dom.js";
import { count, counted } from "../figures.js";
import { name, words } from "../names.js";
import { chips } from "../parts/controls.js";
import { cure } from "../parts/cure.js";
import { began, hourOf } from "../parts/headline.js";
import { downloads } from "../parts/downloads.js";
import { noteForms, noteRows, silencesCard } from "../parts/alert_notes.js";
import { Pane, empty } from "../parts/pane.js";
import { pager, table } from "../parts/table.js";
import { link } from "../routes.js";
import { alertBadge, sign } from "../signs.js";
import { ago, at, moment, sameDay, seconds, stretch } from "../times.js";

const SIZE = 50;
const HOUR = 3_600_000;

export function alerts(page) {
  const states = chips(page, "State", "state");
  const silences = h("div", {});
  const done = () => list.refresh();
  const list = new Pane(
    (signal) =>
      ask("alerts", { state: page.params.state, page: page.params.page, size: SIZE }, signal),
    (answer) => {
      if (!silences.querySelector("[data-held]")) {
        replace(silences, silencesCard(answer.silences, done));
      }
      const soon = page.params.state === "resolved" ? null : waiting(answer);
      if (answer.items.length === 0) {
        if (soon) return soon;
        return empty(
          "complete",
          page.params.state === "resolved" ? "Nothing was resolved" : "No alert is raised",
          "Each kind of fault is raised once for an hour of a topic, and resolved once.",
        );
      }
      return [
        soon,
        table(page, { label: "Alerts", rows: answer.items, columns: columns(done) }),
        pager(page, answer.page, "alert", { files: downloads("alerts", { state: page.params.state }) }),
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
      silences,
    ],
    update(force) {
      states.show([
        ["raised", sign("missing", 16), "Raised"],
        ["resolved", sign("complete", 16), "Resolved"],
      ]);
      list.refresh(force);
    },
    close: () => list.close(),
  };
}

/** Conditions that are not raised yet, as they may be transient. */
function waiting({ waiting: list, waiting_total: total }) {
  if (total === 0) return null;
  return [
    h(
      "p",
      { class: "list-head" },
      `${counted(total, "fault")} ${total === 1 ? "is" : "are"} known, and not old enough yet to be raised.`,
    ),
    h(
      "ul",
      { class: "findings" },
      list.map((alert) =>
        h(
          "li",
          { class: "finding" },
          h("span", {}, alertBadge(alert.kind)),
          h(
            "div",
            { class: "text" },
            words(alert.words),
            h(
              "div",
              { class: "meta" },
              h("span", {}, "known since ", at(alert.since, exact)),
              h("span", {}, "raised at ", at(alert.due, exact), " if it stands until then"),
            ),
          ),
          alert.topic
            ? h("a", { class: "onward", href: link("topic", hourOf(alert)), "data-row": true }, "Topic ›")
            : h("span", {}),
        ),
      ),
    ),
    total > list.length
      ? h("p", { class: "list-foot soft" }, `and ${count(total - list.length)} more`)
      : null,
  ];
}

const heard = ({ acknowledged, silenced }) =>
  acknowledged ? "acknowledged" : silenced ? "silenced" : "";

const exact = (millis) => (sameDay(millis, Date.now()) ? seconds(millis) : moment(millis));

const columns = (done) => [
  {
    title: "Kind",
    class: "tight judged",
    cell: (row) => alertBadge(row.kind),
  },
  {
    title: "State",
    class: "tight",
    cell: (row) =>
      row.resolved > 0
        ? h("span", { class: "soft" }, "resolved ", ago(row.resolved))
        : [h("span", { class: "bad" }, "still holds"), h("span", { class: "under" }, heard(row))],
  },
  {
    title: "About",
    class: "lead",
    cell: (row) =>
      row.topic
        ? [
            h("a", { href: link("topic", hourOf(row)), "data-row": true }, name(row.topic)),
            row.hour >= 0
              ? h("span", { class: "under" }, stretch(row.hour, row.hour + HOUR))
              : null,
          ]
        : name(row.host || row.cluster),
  },
  {
    title: "What",
    class: "wide",
    cell: (row) => [
      words(row.words),
      row.holds_up ? h("div", {}, words(`Holds up: ${row.holds_up}`)) : null,
      noteRows(row),
      cure(row.kind, row),
      noteForms(row, done),
    ],
  },
  { title: "Since", class: "tight", cell: (row) => at(began(row)) },
];

/* The headline of the service, the worst findings, and the raised alerts, except those about a
   finding that is shown. */

import { h } from "../dom.js";
import { count, counted } from "../figures.js";
import { name, words } from "../names.js";
import { link } from "../routes.js";
import { alertBadge, sign } from "../signs.js";
import { ago } from "../times.js";
import { cure } from "./cure.js";
import { finding } from "./finding.js";
import { noteRows } from "./alert_notes.js";
import { card } from "./pane.js";

const HOUR = 3_600_000;
/** Looks of headlines that differ from those of their state. */
const SIGNS = { "!": "unloaded", "✓": "complete" };

/** `note`: nodes below the sentence. */
export function headline({ state, mark, title, more }, note) {
  return [
    sign(SIGNS[mark] ?? state, 44),
    h("div", {}, h("h1", {}, words(title)), more ? h("p", {}, words(more)) : null, note),
  ];
}

/** `raised`: alerts that are open. */
export function worstCard({ worst, badge }, raised) {
  if (worst.length === 0) return null;
  const since = new Map(raised.map((alert) => [alert.finding, alert.raised]));
  const total = Number(badge.split(" ")[1] ?? worst.length);
  const rest = total - worst.length;
  return card(
    worst.length === 1 ? "The finding" : "The worst findings",
    rest > 0
      ? h("a", { class: "aside", href: link("findings", { accepted: "false" }) }, `All ${count(total)} findings ›`)
      : null,
    h(
      "ul",
      { class: "findings" },
      worst.map(({ finding: fault, cluster, topic, topic_id: topicId }) =>
        finding(fault, { cluster, topic, topicId, named: true, row: false, raised: since.get(fault.id) }),
      ),
    ),
  );
}

export function alertsCard({ items, page }, shown) {
  const others = items.filter((alert) => !shown.has(alert.finding));
  if (others.length === 0) return null;
  const rest = page.total - items.length;
  return card(
    counted(others.length + rest, "open alert"),
    rest > 0
      ? h("a", { class: "aside", href: link("alerts", { state: "raised" }) }, "All alerts ›")
      : null,
    h("ul", { class: "findings" }, others.map(alert)),
  );
}

function alert(row) {
  return h(
    "li",
    { class: "finding" },
    h("span", {}, alertBadge(row.kind)),
    h(
      "div",
      { class: "text" },
      words(row.words),
      row.holds_up ? h("div", {}, words(`Holds up: ${row.holds_up}`)) : null,
      h(
        "div",
        { class: "meta" },
        row.topic ? h("span", {}, "topic ", name(row.topic)) : null,
        row.host ? h("span", {}, row.kind === "away" ? "" : "host ", name(row.host)) : null,
        h("span", {}, "since ", ago(began(row))),
      ),
      noteRows(row),
      cure(row.kind, row),
    ),
    row.topic
      ? h("a", { class: "onward", href: link("topic", hourOf(row)) }, "Topic ›")
      : h("a", { class: "onward", href: placeOf(row) }, "See ›"),
  );
}

/** The view for an alert that is not about a topic. */
function placeOf({ kind, host }) {
  return kind === "silent" ? link("agents", { search: host }) : link("health");
}

/** When the condition of an alert began, if that is known. */
export function began({ since, raised }) {
  return since > 0 ? since : raised;
}

/** The topic and hour of an alert. */
export function hourOf({ cluster, topic, hour }) {
  return hour >= 0 ? { cluster, topic, from: hour, to: hour + HOUR } : { cluster, topic };
}

/* Operators' notes about alerts: acknowledgements and silences. They change no verdict; receivers
   get no messages meanwhile. */

import { isOperator } from "../account.js";
import { Refusal, sendStatement } from "../api.js";
import { h, replace } from "../dom.js";
import { name, plain, quoted } from "../names.js";
import { ALERT_KINDS, alertBadge, alertWord } from "../signs.js";
import { at, momentToSecond } from "../times.js";
import { card } from "./pane.js";
import { statementForm } from "./statement_form.js";

const HOUR = 3_600_000;
const TIMES = [
  [1, "1 hour"],
  [8, "8 hours"],
  [24, "1 day"],
  [7 * 24, "1 week"],
  [30 * 24, "30 days"],
];
const LONGEST = 500; // characters of a pattern, as in the service

/** The notes about an alert: author, end and reason. */
export function noteRows({ acknowledged, silenced }) {
  return [note("Acknowledged", acknowledged), note("Silenced", silenced)];
}

function note(what, entry) {
  if (!entry) return null;
  return h("div", { class: "meta" }, h("b", {}, what), meta(entry));
}

function meta({ by, reason, time, until }) {
  return [
    h("span", {}, "by ", quoted(by), ", ", at(time, momentToSecond)),
    h("span", {}, "until ", until < 0 ? "it is resolved" : at(until, momentToSecond)),
    h("span", {}, "reason: ", quoted(reason)),
  ];
}

/** Forms for notes about a raised alert. `done` is called once one is stored. */
export function noteForms(row, done) {
  if (row.resolved >= 0) return null;
  return [row.acknowledged ? null : acknowledging(row, done), row.silenced ? null : muting(row, done)];
}

function acknowledging({ id, kind, cluster, topic }, done) {
  const until = times([["", "until it is resolved"], ...TIMES.map(lasting)]);
  return statementForm({
    statement: "acknowledge",
    title: "Acknowledge…",
    what: `Receivers get no more messages about ${about(kind, cluster, topic)} meanwhile. Nothing counts as repaired.`,
    button: "Acknowledge",
    fields: [until],
    body: () => ({ id, ...(until.value ? { until: end(until) } : {}) }),
    done,
  });
}

function muting({ kind, cluster, topic, host }, done) {
  const until = times(TIMES.map(lasting));
  return statementForm({
    statement: "silence",
    title: "Silence…",
    what: `Receivers get no messages about ${about(kind, cluster, topic, host)} until then, future ones included.`,
    button: "Silence",
    fields: [until],
    body: () => ({ kind, cluster, topic, host: literal(host), until: end(until) }),
    done,
  });
}

/** Current silences, and for operators a form for a new one; nothing if there is neither. */
export function silencesCard(silences, done) {
  if (silences.length === 0 && !isOperator()) return null;
  return card(
    "Silences",
    null,
    silences.length > 0
      ? h("ul", { class: "findings" }, silences.map((entry) => silence(entry, done)))
      : null,
    h("div", { class: "list-foot" }, silences.length > 0 ? null : "No alert is silenced.", silencing(done)),
  );
}

function silence(entry, done) {
  const matched = ["cluster", "topic", "host"].filter((field) => entry[field]);
  return h(
    "li",
    { class: "finding" },
    h("span", {}, entry.kind ? alertBadge(entry.kind) : "Any kind"),
    h(
      "div",
      { class: "text" },
      matched.length > 0
        ? matched.map((field) => h("div", {}, `${field} `, name(entry[field])))
        : "of everything",
      h("div", { class: "meta" }, meta(entry)),
    ),
    isOperator() ? ending(entry.id, done) : h("span", {}),
  );
}

function ending(id, done) {
  const status = h("span", { role: "status" });
  const button = h(
    "button",
    {
      type: "button",
      class: "button",
      "aria-label": "End this silence",
      onclick: async () => {
        button.disabled = true;
        try {
          await sendStatement("unsilence", { id });
          done();
        } catch (error) {
          if (!(error instanceof Refusal)) throw error;
          replace(status, error.message);
          button.disabled = false;
        }
      },
    },
    "End",
  );
  return h("div", {}, button, status);
}

function silencing(done) {
  const kind = options("Kind", [["", "any kind"], ...ALERT_KINDS.map((value) => [value, alertWord(value)])]);
  const [cluster, topic, host] = ["Cluster", "Topic", "Host"].map((label) =>
    h("input", { "aria-label": label, placeholder: label, maxlength: LONGEST, autocomplete: "off" }),
  );
  const until = times(TIMES.map(lasting));
  return statementForm({
    statement: "silence",
    title: "Silence others…",
    what: "Receivers get no messages about alerts that match all of this; * and ? match any characters.",
    button: "Silence",
    fields: [kind, cluster, topic, host, until],
    body: () => ({
      kind: kind.value,
      cluster: cluster.value.trim(),
      topic: topic.value.trim(),
      host: host.value.trim(),
      until: end(until),
    }),
    done,
  });
}

function options(label, list) {
  return h(
    "select",
    { class: "pick", "aria-label": label },
    list.map(([value, text]) => h("option", { value }, text)),
  );
}

const times = (list) => options("How long", list);
const lasting = ([hours, text]) => [hours, `for ${text}`];
const end = (until) => Date.now() + Number(until.value) * HOUR;

function about(kind, cluster, topic, host = "") {
  const place = [cluster, topic, host].filter(Boolean).map(plain).join("/");
  return `alerts “${alertWord(kind)}” of ${place}`;
}

/** A pattern that matches only this name. */
function literal(text) {
  return text.replace(/[[*?]/g, "[$&]");
}

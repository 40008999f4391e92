/* Messages of a partition, from an offset or a time on. They are read on request, and never
   refreshed: the log records each reading and its user. */

import { ask } from "../api.js";
import { h, replace } from "../dom.js";
import { bytes, count } from "../figures.js";
import { content, name, plain, words } from "../names.js";
import { Pane, empty } from "../parts/pane.js";
import { table } from "../parts/table.js";
import { timeField } from "../parts/time_field.js";
import { link } from "../routes.js";
import { sign, stateBadge } from "../signs.js";
import { at, momentToSecond } from "../times.js";

const SHOWN = 1000; // characters that are shown at first
const BADGES = { damaged: ["changed", "Damaged"], long: ["pending", "Too long"] };
const NOWHERE = { offset: null, before: null, time: null };

export function messages(page) {
  const { cluster, topic } = page.params;
  const aside = h("span", { class: "aside" });
  const list = new Pane(
    async (signal) => {
      const { topic_id, partition, offset, before, time, mark, marked } = page.params;
      const place = { topic_id, partition, offset, before, time };
      const answer = await ask("messages", { cluster, topic, ...place }, signal);
      return { ...answer, asked: { offset, mark, marked } };
    },
    (answer) => {
      replace(
        aside,
        "cluster ",
        name(answer.cluster, { class: "" }),
        ` · partition ${count(answer.partition)} of ${count(answer.partitions)} · `,
        answer.end > answer.first
          ? `its log has offsets ${count(answer.first)} to ${count(answer.end - 1)}`
          : "its log is empty",
      );
      steps.show(answer);
      return shown(page, answer);
    },
    { bones: 9 },
  );
  const move = (patch) => {
    const before = location.hash;
    page.change({ ...NOWHERE, ...patch });
    if (location.hash === before) list.refresh();
  };
  const steps = stepping(move);
  const places = [typedOffset(move), typedTime(move), typedPartition(page, move)];
  return {
    title: `Messages of ${plain(topic ?? "")}`,
    stays: (params) => params.cluster === cluster && params.topic === topic,
    nodes: [
      h(
        "div",
        { class: "heading" },
        h(
          "ul",
          { class: "crumbs" },
          h("li", {}, h("a", { href: link("overview") }, "Topics")),
          h("li", {}, h("a", { href: link("topic", { cluster, topic }) }, name(topic ?? ""))),
        ),
        h("h1", {}, "Messages"),
        aside,
      ),
      h("div", { class: "toolbar" }, steps.node, places.map((field) => field.node)),
      h("section", { class: "card", "aria-label": "Messages" }, list.node),
    ],
    update(force = true) {
      if (!force) return; // changes in the ledger do not concern messages
      places.forEach((field) => field.sync(page.params));
      list.refresh();
    },
    close: () => list.close(),
  };
}

/** To the first, the ones before, the ones after, the last. */
function stepping(move) {
  const node = h("div", { class: "segments", role: "group", "aria-label": "Through the log" });
  const button = (text, focus, patch, disabled) =>
    h(
      "button",
      { type: "button", "data-focus": `messages-${focus}`, disabled, onclick: () => move(patch) },
      text,
    );
  const show = ({ first, end, from_offset: from, to_offset: to }) =>
    replace(
      node,
      button("Oldest", "oldest", { offset: first }, from <= first),
      button("‹ Older", "previous-page", { before: from }, from <= first),
      button("Newer ›", "next-page", { offset: to }, to >= end),
      button("Newest", "newest", {}, false),
    );
  return { node, show };
}

function typed(label, input, submit) {
  const node = h("form", { class: "typed" }, input, h("button", { class: "button" }, label));
  node.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  return node;
}

function typedOffset(move) {
  const input = h("input", {
    type: "search", // the key / focuses it
    inputmode: "numeric",
    pattern: "[0-9]{1,18}",
    required: true,
    size: 12,
    "aria-label": "Offset",
    placeholder: "Offset",
    autocomplete: "off",
  });
  const sync = ({ offset }) => {
    if (document.activeElement !== input) input.value = offset ?? "";
  };
  return { node: typed("Go to offset", input, () => move({ offset: input.value })), sync };
}

function typedTime(move) {
  const field = timeField("Time", { toSecond: true });
  const sync = ({ time }) => {
    if (document.activeElement !== field.node) field.show(Number(time ?? NaN));
  };
  return { node: typed("Go to time", field.node, () => move({ time: field.moment() })), sync };
}

function typedPartition(page, move) {
  const input = h("input", {
    type: "number",
    min: 0,
    max: 2 ** 31 - 1,
    required: true,
    "aria-label": "Partition",
  });
  const sync = ({ partition }) => {
    if (document.activeElement !== input) input.value = partition ?? 0;
  };
  const submit = () => move({ partition: input.value, mark: null, marked: null });
  return { node: typed("Go to partition", input, submit), sync };
}

function shown(page, answer) {
  if (answer.items.length === 0) return empty("empty", "There are no messages here");
  const { offset, mark, marked } = answer.asked;
  const asked = Number(offset ?? NaN);
  const elsewhere =
    Number.isFinite(asked) && answer.from_offset !== asked
      ? h(
          "p",
          { class: "notice state-pending" },
          sign("pending", 18),
          `Offset ${count(asked)} is not in the log. These are the nearest messages.`,
        )
      : null;
  const first = Number(mark ?? NaN);
  return [
    elsewhere,
    table(page, {
      label: "Messages",
      rows: answer.items,
      columns: columns(page),
      marked: (row) => row.end > first && row.offset < first + Number(marked ?? 1),
    }),
  ];
}

const columns = (page) => [
  {
    title: "Offset",
    class: "lead tight top",
    cell: (row) =>
      h(
        "a",
        {
          href: link("messages", { ...page.params, ...NOWHERE, offset: row.offset }),
          "data-row": true,
          "data-focus": `offset-${row.offset}`,
        },
        row.end - row.offset > 1
          ? `${count(row.offset)} to ${count(row.end - 1)}`
          : count(row.offset),
      ),
  },
  {
    title: "Time",
    class: "tight top",
    cell: (row) => (row.time >= 0 ? at(row.time, momentToSecond) : none()),
  },
  { title: "From", class: "top origin", cell: (row) => origin(page, row) },
  { title: "Key", class: "top keyed", cell: (row) => (row.key ? content(row.key) : none()) },
  { title: "Value", class: "wide top value", cell: value },
];

const none = () => h("span", { class: "none soft" }, "–");

/** The host, and the file with the position in it. */
function origin({ params: { cluster, topic } }, row) {
  if (!row.source) return none();
  const original = topic.replace(/\.dead$/, "");
  return [
    h(
      "a",
      { href: link("host", { cluster, topic: original, host: row.host, source: row.source }) },
      name(row.host),
    ),
    h(
      "span",
      { class: "under" },
      name(row.path || row.source, { class: "name mono" }),
      ` byte ${count(row.position)}, event ${count(row.seq)}`,
    ),
  ];
}

function value(row) {
  const known = BADGES[row.kind];
  return [
    known ? stateBadge(...known) : null,
    row.kind === "dead" ? stateBadge("unknown", "Dead letter") : null,
    row.remark ? h("p", { class: known ? "" : "soft" }, words(row.remark)) : null,
    row.fields.length > 0 ? h("dl", { class: "fields" }, row.fields.map(field)) : null,
    row.text ? long(row.text, ["bytes", "damaged"].includes(row.kind) ? "mono" : "") : null,
    row.kind === "empty" ? h("span", { class: "soft" }, "no value") : null,
    row.kind === "text" && !row.text ? h("span", { class: "soft" }, "empty text") : null,
    row.headers.length > 0
      ? h(
          "details",
          { "data-focus": `headers-${row.offset}` },
          h("summary", {}, "Headers"),
          h("dl", { class: "fields" }, row.headers.map(field)),
        )
      : null,
    row.cut ? h("p", { class: "soft" }, `Shown in part: the message has ${bytes(row.size)}.`) : null,
  ];
}

const field = ({ name: title, text }) => [
  title ? h("dt", {}, plain(title)) : null,
  h("dd", {}, text === "" ? h("span", { class: "soft" }, "empty") : long(text)),
];

/** A text whose end is shown on request. */
function long(text, looks = "") {
  if (text.length <= SHOWN) return content(text, { class: `content ${looks}` });
  return [
    content(`${text.slice(0, SHOWN)}…`, { class: `content ${looks}` }),
    h(
      "details",
      {},
      h("summary", {}, `All ${count(text.length)} characters`),
      content(text, { class: `content ${looks}` }),
    ),
  ];
}

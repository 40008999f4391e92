/* Consumer groups: who reads a topic, and with what lag. They are not part of the verdict, so only
   this card reports what could not be polled of them. */

import { ask } from "../api.js";
import { h, replace } from "../dom.js";
import { UNKNOWN, count, counted, duration, short } from "../figures.js";
import { name, plain, words } from "../names.js";
import { link } from "../routes.js";
import { sign } from "../signs.js";
import { searchBox } from "./controls.js";
import { Pane, card, empty } from "./pane.js";
import { pager, table } from "./table.js";

const SIZE = 25;

/** The card, for the topic that `query()` names, or for all. */
export class GroupsPane {
  #pane;
  #aside;
  #search = null;

  constructor(page, query) {
    const ofTopic = query().topic !== undefined;
    this.#aside = h("span", { class: "soft" });
    if (!ofTopic) this.#search = searchBox(page, "Search groups");
    this.#pane = new Pane(
      (signal) => ask("groups", { ...query(), size: SIZE }, signal),
      (answer) => {
        replace(this.#aside, answer.page.total > 0 ? count(answer.page.total) : null);
        return shown(page, answer, { ofTopic, wanted: query().search });
      },
      { bones: 3 },
    );
    const aside = this.#search === null ? this.#aside : this.#search.node;
    this.card = card(ofTopic ? "Read by" : "Consumer groups", aside, this.#pane.node);
  }

  refresh(force) {
    this.#search?.sync();
    this.#pane.refresh(force);
  }

  close() {
    this.#pane.close();
  }
}

function shown(page, answer, { ofTopic, wanted }) {
  return [
    answer.notices.map((text) =>
      h("p", { class: "notice state-unknown" }, sign("unknown", 18), words(text)),
    ),
    answer.items.length > 0
      ? [
          table(page, {
            label: ofTopic ? "Consumer groups of this topic" : "Consumer groups",
            rows: answer.items,
            columns: columns(ofTopic, new Set(answer.items.map((row) => row.cluster)).size > 1),
          }),
          ofTopic ? more(page, answer.page) : pager(page, answer.page, "row"),
        ]
      : nothing(answer, ofTopic, wanted),
  ];
}

function nothing(answer, ofTopic, wanted) {
  if (!answer.looks) {
    return empty(
      "pending",
      "Groups are not polled",
      "groups.interval of the audit's configuration is 0.",
    );
  }
  if (wanted) return empty("unknown", "No group matches");
  if (answer.as_of === 0) return empty("pending", "Groups were not polled yet");
  if (answer.notices.length > 0) return null;
  return empty(
    "pending",
    ofTopic ? "No consumer group reads this topic" : "No consumer group is known",
    "Groups appear once they have committed an offset.",
  );
}

function more({ params }, where) {
  const rest = where.total - SIZE;
  if (rest <= 0) return null;
  return h(
    "p",
    { class: "list-foot" },
    h(
      "a",
      { href: link("brokers", { cluster: params.cluster, search: params.topic }) },
      `${counted(rest, "group")} more ›`),
  );
}

function columns(ofTopic, several) {
  const topic = {
    title: "Topic",
    cell: (row) => [
      h(
        "a",
        {
          href: link("topic", { cluster: row.cluster, topic: row.topic }),
          "data-row": true,
          "data-focus": `group-${row.cluster}/${row.topic}/${row.group}`,
        },
        name(row.topic),
      ),
      several ? h("span", { class: "under" }, name(row.cluster, { class: "" })) : null,
    ],
  };
  return [
    {
      title: "Group",
      class: "lead wide",
      cell: (row) => [
        name(row.group),
        row.state ? h("span", { class: "under" }, stateWords(row.state)) : null,
      ],
    },
    ...(ofTopic ? [] : [topic]),
    { title: "Behind", class: "number", cell: behind },
    { title: "Messages", class: "number", cell: messages },
    {
      title: "Furthest",
      class: "number minor",
      cell: (row) =>
        row.furthest < 0
          ? h("span", { class: "zero none" }, UNKNOWN)
          : `partition ${count(row.furthest)}`,
    },
    { title: "Partitions", class: "number minor", cell: (row) => count(row.partitions) },
  ];
}

const STATES = {
  Stable: "running",
  Empty: "no members",
  Dead: "gone",
  PreparingRebalance: "rebalancing",
  CompletingRebalance: "rebalancing",
};

function stateWords(state) {
  return STATES[state] ?? plain(state);
}

function behind(row) {
  const lag =
    row.behind < 0
      ? h("span", { class: "soft", title: plain(row.unknown) }, "not known")
      : h(
          "span",
          { class: row.behind === 0 ? "zero" : null },
          row.behind === 0 ? "nothing" : duration(row.behind),
        );
  return [lag, lacking(row)];
}

function messages(row) {
  return [
    h(
      "span",
      { title: count(row.messages), class: row.messages === 0 ? "zero" : null },
      row.messages < 1e6 ? count(row.messages) : short(row.messages),
    ),
    row.unread > 0
      ? h(
          "span",
          { class: "under bad", title: "Retention removed them before the group had read them" },
          `${count(row.unread)} gone unread`,
        )
      : null,
  ];
}

/** The number of partitions with unknown lag, if there are any. */
function lacking(row) {
  if (row.unknown_partitions === 0 || row.behind < 0) return null;
  return h(
    "span",
    { class: "under", title: plain(row.unknown) },
    `${counted(row.unknown_partitions, "partition")} not known`,
  );
}

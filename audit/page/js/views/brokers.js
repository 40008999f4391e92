/* The brokers of all clusters, their loaders, and the consumer groups. */

import { ask } from "../api.js";
import { h } from "../dom.js";
import { count, short } from "../figures.js";
import { name, words } from "../names.js";
import { GroupsPane } from "../parts/groups.js";
import { Pane, card, empty } from "../parts/pane.js";
import { table } from "../parts/table.js";
import { link } from "../routes.js";
import { sign, signatureMark } from "../signs.js";
import { ago } from "../times.js";

export function brokers(page) {
  const all = new Pane(
    (signal) => ask("brokers", { cluster: page.params.cluster }, signal),
    (answer) => [
      Object.entries(answer.unreachable).map(([cluster, why]) =>
        h(
          "p",
          { class: "notice state-missing" },
          sign("missing", 18),
          h("span", {}, name(cluster), ": ", words(why)),
        ),
      ),
      card(
        "Brokers",
        h("span", { class: "soft" }, count(answer.brokers.length)),
        answer.brokers.length > 0
          ? table(page, { label: "Brokers", rows: answer.brokers, columns: BROKERS })
          : empty("pending", "No broker is known"),
      ),
      card(
        "Loaders",
        h("span", { class: "soft" }, count(answer.consumers.length)),
        answer.consumers.length > 0
          ? table(page, { label: "Loaders", rows: answer.consumers, columns: LOADERS })
          : empty(
              "pending",
              "No loader is known",
              "Loaders appear once they have reported their progress in the ledger.",
            ),
      ),
    ],
  );
  all.node.classList.add("stack");
  const groups = new GroupsPane(page, () => ({
    cluster: page.params.cluster,
    search: page.params.search,
    page: page.params.page,
  }));
  return {
    title: "Brokers",
    nodes: [
      h("div", { class: "heading" }, h("h1", {}, "Brokers and consumers")),
      all.node,
      groups.card,
    ],
    update(force) {
      all.refresh(force);
      groups.refresh(force);
    },
    close() {
      all.close();
      groups.close();
    },
  };
}

const BROKERS = [
  {
    title: "Broker",
    class: "lead wide",
    cell: (row) => [
      name(`${row.id}`),
      " ",
      row.controller ? h("span", { class: "tag" }, "controller") : null,
      h("span", { class: "under" }, name(row.address, { class: "mono" })),
      signatureMark(row.signature),
    ],
  },
  { title: "Cluster", cell: (row) => name(row.cluster, { class: "" }) },
  {
    title: "Rack",
    cell: (row) => (row.rack ? name(row.rack, { class: "" }) : h("span", { class: "soft" }, "–")),
  },
  { title: "Leads", class: "number", cell: (row) => count(row.leads) },
  { title: "Partitions", class: "number", cell: (row) => count(row.partitions) },
  {
    title: "Last counted",
    class: "tight",
    cell: (row) =>
      row.counted > 0 ? ago(row.counted) : h("span", { class: "soft" }, "keeps no ledger"),
  },
];

const LOADERS = [
  { title: "Files", class: "lead wide", cell: (row) => name(row.consumer) },
  {
    title: "Topic",
    class: "wide",
    cell: (row) =>
      h(
        "a",
        { href: link("topic", { cluster: row.cluster, topic: row.topic }), "data-row": true },
        name(row.topic),
      ),
  },
  { title: "Cluster", cell: (row) => name(row.cluster, { class: "" }) },
  { title: "Partitions", class: "number", cell: (row) => count(row.partitions) },
  {
    title: "Behind",
    class: "number",
    cell: (row) =>
      h(
        "span",
        { title: count(row.lag), class: row.lag === 0 ? "zero" : null },
        row.lag < 1e6 ? count(row.lag) : short(row.lag),
      ),
  },
  { title: "Last read", class: "tight", cell: (row) => ago(row.read) },
];

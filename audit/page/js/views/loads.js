/* The runs of loaders, and for one topic its complete hours. */

import { ask } from "../api.js";
import { h, replace } from "../dom.js";
import { bytes, count } from "../figures.js";
import { name } from "../names.js";
import { choice } from "../parts/controls.js";
import { hourGrid } from "../parts/hours.js";
import { downloads } from "../parts/downloads.js";
import { Pane, card, empty } from "../parts/pane.js";
import { notable, pager, table } from "../parts/table.js";
import { unloadedCard } from "../parts/unloaded.js";
import { link } from "../routes.js";
import { at } from "../times.js";

const SIZE = 50;
const TOPICS = 500;

export function loads(page) {
  const destination = choice(page, "Destination", "destination", "All destinations");
  const topic = h("select", {
    class: "pick",
    "aria-label": "Topic",
    onchange: () => {
      const [cluster, chosen] = topic.value ? JSON.parse(topic.value) : [null, null];
      page.change({ cluster, topic: chosen });
    },
  });
  const hours = h("div", {});
  const unloaded = h("div", { hidden: true });
  const list = new Pane(
    (signal) =>
      ask("loads", { ...asked(page.params), page: page.params.page, size: SIZE }, signal),
    (answer) => {
      destination.show(answer.destinations);
      unloaded.hidden = answer.failing_loads.length === 0;
      replace(unloaded, unloadedCard(answer.failing_loads, { named: true }));
      replace(
        hours,
        answer.hours.length > 0
          ? card("Hours", null, h("div", { class: "card-body" }, hourGrid(answer.hours)))
          : null,
      );
      if (answer.items.length === 0)
        return empty(
          "pending",
          "Nothing was loaded yet",
          "Each load reports in the ledger what it committed.",
        );
      return [
        table(page, { label: "Runs", rows: answer.items, columns: COLUMNS }),
        pager(page, answer.page, "load", { files: downloads("loads", asked(page.params)) }),
      ];
    },
    { bones: 8 },
  );
  const topics = new Pane(
    (signal) => ask("topics", { size: TOPICS, sort: "topic", hours: 1 }, signal),
    (answer) => {
      showTopics(topic, answer.items, page.params);
      return null;
    },
    { bones: 0 },
  );
  return {
    title: "Loads",
    nodes: [
      h(
        "div",
        { class: "heading" },
        h("h1", {}, "Loads"),
        h("span", { class: "aside" }, "what each run of the loader committed"),
      ),
      h("div", { class: "toolbar" }, topic, destination.node),
      unloaded,
      hours,
      h("section", { class: "card", "aria-label": "Runs" }, list.node),
    ],
    update(force) {
      topics.refresh(force);
      topics.redraw();
      list.refresh(force);
    },
    close() {
      list.close();
      topics.close();
    },
  };
}

function showTopics(select, items, params) {
  if (document.activeElement === select) return;
  const chosen = params.topic ? JSON.stringify([params.cluster ?? "", params.topic]) : "";
  const pairs = items.map((row) => [row.cluster, row.topic]);
  if (chosen && !pairs.some((pair) => JSON.stringify(pair) === chosen))
    pairs.push(JSON.parse(chosen));
  replace(
    select,
    h("option", { value: "" }, "All topics"),
    pairs.map((pair) => h("option", { value: JSON.stringify(pair) }, name(pair[1]).textContent)),
  );
  select.value = chosen;
}

const asked = ({ cluster, topic, destination }) => ({ cluster, topic, destination });

const COLUMNS = [
  { title: "Run", class: "number tight judged", cell: (row) => count(row.run) },
  { title: "Time", class: "tight", cell: (row) => at(row.time) },
  {
    title: "Topic",
    class: "lead",
    cell: (row) =>
      h(
        "a",
        { href: link("topic", { cluster: row.cluster, topic: row.topic }), "data-row": true },
        name(row.topic),
      ),
  },
  {
    title: "Destination",
    class: "wide",
    cell: (row) => [
      name(row.destination, { class: "mono" }),
      row.rebuilt ? h("span", { class: "tag" }, "rebuilt") : null,
    ],
  },
  { title: "Rows", class: "number", cell: (row) => count(row.rows) },
  { title: "Read", class: "number", cell: (row) => bytes(row.bytes) },
  { title: "Partitions", class: "number minor", cell: (row) => count(row.partitions) },
  { title: "Late", class: "number", cell: (row) => notable(row.late, "") },
  { title: "Duplicates", class: "number", cell: (row) => notable(row.duplicates, "") },
  { title: "Dead-lettered", class: "number", cell: (row) => notable(row.dead, "") },
];

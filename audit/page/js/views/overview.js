/* All topics: the verdict over everything in one sentence, then each topic with its hours. */

import { ask } from "../asking.js";
import { h, replace } from "../dom.js";
import { count, counted, duration, short } from "../figures.js";
import { name, plain, words } from "../names.js";
import { chips, choice, searchBox } from "../parts/controls.js";
import { Pane, empty } from "../parts/pane.js";
import { sparkline } from "../parts/sparkline.js";
import { notable, pager, table } from "../parts/table.js";
import { altered } from "../parts/remarks.js";
import { unloadedCard } from "../parts/unloaded.js";
import { link } from "../routes.js";
import { FAULTS, STATES, WORDS, sign, stateBadges, unloadedBadge } from "../signs.js";
import { ago } from "../times.js";

const SIZE = 50;

export function overview(page) {
  const verdict = h("div", { class: "verdict" }, h("h1", {}, "Topics"));
  const unloaded = h("div", { hidden: true });
  const search = searchBox(page, "Search topics");
  const states = chips(page, "Verdict", "state");
  const cluster = choice(page, "Cluster", "cluster", "All clusters");
  const several = () => cluster.node.options.length > 2;
  const load = (signal) => {
    const { cluster: chosen, search: text, state, sort, page: number } = page.params;
    return ask(
      "topics",
      { cluster: chosen, search: text, state, sort, page: number, size: SIZE },
      signal,
    );
  };
  const list = new Pane(
    load,
    (answer) => {
      const [mark, text] = sentence(answer);
      if (answer.altered.length > 0)
        text.append(h("p", {}, `In the last 24 hours, ${altered(answer.altered)}.`));
      replace(verdict, mark, text);
      unloaded.hidden = answer.failing_loads.length === 0;
      replace(unloaded, unloadedCard(answer.failing_loads, { named: true }));
      states.show(
        STATES.map((each) => [each, sign(each, 16), WORDS[each], answer.having[each] ?? 0]),
      );
      cluster.show(answer.clusters);
      if (answer.items.length === 0) return nothing(page.params, answer);
      return [
        table(page, { label: "Topics", rows: answer.items, columns: columns(several()) }),
        pager(page, answer.page, "topic"),
      ];
    },
    { bones: 10 },
  );
  return {
    title: "Topics",
    nodes: [
      verdict,
      unloaded,
      h("div", { class: "toolbar" }, search.node, cluster.node, states.node),
      h("section", { class: "card", "aria-label": "Topics" }, list.node),
    ],
    update(anew) {
      search.sync();
      list.refresh(anew);
    },
    close: () => list.close(),
  };
}

function sentence(answer) {
  const { by_state: byState, failing_loads: failing, partly_unseen: unseen } = answer;
  const of = (state) => byState[state] ?? 0;
  const having = (state) => answer.having[state] ?? 0;
  const all = STATES.reduce((sum, each) => sum + of(each), 0);
  const faults = FAULTS.filter((each) => having(each) > 0);
  const topics = counted(all, "topic");
  if (all === 0)
    return said(
      "pending",
      "No topics yet",
      "They appear as soon as an agent, a broker or the loader speaks of them.",
    );
  if (faults.length > 0) {
    const parts = faults.map((each) => `${count(having(each))} ${WORDS[each].toLowerCase()}`);
    return said(
      faults[0],
      faults[0] === "unknown"
        ? `Nothing is known to be missing; ${count(having("unknown"))} of ${topics} cannot be proven`
        : "Not every line is accounted for",
      `Of ${topics}: ${[...parts, `${count(of("pending"))} pending`, `${count(of("complete"))} complete`].join(", ")}.`,
    );
  }
  if (failing.length > 0) {
    return said(
      "unloaded",
      "Not everything is loaded",
      "Nothing is known to be lost. What cannot be loaded, and what to do, is said below.",
    );
  }
  if (of("empty") === all) {
    return said(
      "empty",
      "No events in the last 24 hours",
      `Of ${topics} nothing was read, so nothing is missing.`,
    );
  }
  if (of("pending") > 0) {
    return said(
      "pending",
      "Nothing is missing so far",
      `${count(of("complete"))} of ${topics} complete, ${count(of("pending"))} still waiting for somebody.`,
    );
  }
  if (unseen > 0) {
    return said(
      "complete",
      "Every line is accounted for, as far as anybody was watching",
      `${topics}, and all of it adds up. Of ${counted(unseen, "topic")} there was a time in which ` +
        "nobody was, which is accepted.",
    );
  }
  return said("complete", "Every line is accounted for", `${topics}, and all of it adds up.`);
}

function said(state, title, text) {
  return [sign(state, 44), h("div", {}, h("h1", {}, title), h("p", {}, text))];
}

function nothing(params, answer) {
  if (params.search || params.state || params.cluster || answer.page.page > 1) {
    return empty("unknown", "No topic is like that", "Search for something else, or for less.");
  }
  return empty(
    "pending",
    "Nothing here yet",
    "The audit has read no entry of the ledger that names a topic.",
  );
}

/** The first in whole, as half of a time is of no use; the others when they are asked for. */
function waits(text) {
  const [first, ...others] = text.split("; ");
  return h(
    "div",
    { class: "waits" },
    words(first),
    others.length > 0
      ? h("span", { class: "under", title: plain(others.join("; ")) }, `and ${count(others.length)} more`)
      : null,
  );
}

function columns(several) {
  return [
    {
      title: "Verdict",
      sort: "state",
      class: "tight judged",
      cell: (row) =>
        row.load_fails && row.state === "pending"
          ? unloadedBadge()
          : stateBadges(row.having, row.state),
    },
    {
      title: "Topic",
      sort: "topic",
      class: "lead",
      cell: (row) => [
        h(
          "a",
          {
            href: link("topic", { cluster: row.cluster, topic: row.topic }),
            "data-row": true,
            "data-focus": `topic-${row.cluster}/${row.topic}${row.deleted ? row.topic_id : ""}`,
          },
          name(row.topic),
        ),
        several ? h("span", { class: "under" }, name(row.cluster, { class: "" })) : null,
        row.deleted
          ? h("span", { class: "under", title: `Topic id ${plain(row.topic_id)}` }, "deleted")
          : null,
        row.partly_unseen
          ? h(
              "span",
              { class: "under", title: "That is accepted. The topic's page says when it was." },
              "not watched for a time",
            )
          : null,
      ],
    },
    {
      title: "Last 24 hours",
      class: "wide",
      cell: (row) => sparkline(row.counts, row.states, row.from_hour),
    },
    {
      title: "Events",
      sort: "events",
      class: "number",
      cell: (row) =>
        h(
          "span",
          { title: count(row.events) },
          row.events < 1e6 ? count(row.events) : short(row.events),
        ),
    },
    { title: "Missing", sort: "missing", class: "number", cell: (row) => notable(row.missing) },
    { title: "Extra", sort: "excess", class: "number", cell: (row) => notable(row.excess, "more") },
    {
      title: "Agents",
      sort: "agents",
      class: "number minor",
      cell: (row) => [
        count(row.agents),
        row.agents_behind > 0
          ? h("span", { class: "under" }, `${count(row.agents_behind)} behind`)
          : null,
      ],
    },
    {
      title: "Read by",
      class: "number minor",
      cell: (row) =>
        row.groups > 0
          ? [
              counted(row.groups, "group"),
              row.group_behind > 0
                ? h("span", { class: "under" }, `${duration(row.group_behind)} behind`)
                : null,
            ]
          : h("span", { class: "zero none" }, "–"),
    },
    { title: "Last event", class: "tight minor", cell: (row) => ago(row.last_event) },
    {
      title: "Waits for",
      class: "wide",
      cell: (row) =>
        row.waits
          ? waits(row.waits)
          : h("span", { class: "zero none" }, "–"),
    },
  ];
}

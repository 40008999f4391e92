/* All topics: the verdict in one sentence, then each topic with its hours. */

import { ask } from "../api.js";
import { h, replace } from "../dom.js";
import { count, counted, duration, short } from "../figures.js";
import { name, plain, words } from "../names.js";
import { chips, choice, searchBox } from "../parts/controls.js";
import { downloads } from "../parts/downloads.js";
import { Pane, empty } from "../parts/pane.js";
import { rateCell, showRates, showRowRates } from "../parts/rates.js";
import { sparkline } from "../parts/sparkline.js";
import { notable, pager, table } from "../parts/table.js";
import { altered } from "../parts/remarks.js";
import { alertsCard, headline, worstCard } from "../parts/headline.js";
import { unloadedCard } from "../parts/unloaded.js";
import { link } from "../routes.js";
import { FAULTS, STATES, WORDS, sign, stateBadges, unloadedBadge } from "../signs.js";
import { ago } from "../times.js";
import { healthLine } from "./health.js";

const SIZE = 50;
const ALERTS = 20;

export function overview(page) {
  const verdict = h("div", { class: "verdict" }, h("h1", {}, "Topics"));
  const worst = h("div", {});
  const alerts = h("div", {});
  const unloaded = h("div", { hidden: true });
  const search = searchBox(page, "Search topics");
  const states = chips(page, "Verdict", "state");
  const cluster = choice(page, "Cluster", "cluster", "All clusters");
  const rate = h("span", { class: "rate" });
  const several = () => cluster.node.options.length > 2;
  const load = async (signal) => {
    const [topics, raised, programs] = await Promise.all([
      ask(
        "topics",
        { ...asked(page.params), page: page.params.page, size: SIZE },
        signal,
      ),
      ask("alerts", { state: "raised", size: ALERTS }, signal),
      ask("health", { size: 1 }, signal),
    ]);
    return { ...topics, raised, programs: { state: programs.state, summary: programs.summary } };
  };
  const list = new Pane(
    load,
    (answer) => {
      const note = [
        h("p", {}, census(answer), " ", rate),
        answer.altered.length > 0
          ? h("p", {}, `In the last 24 hours, ${altered(answer.altered)}.`)
          : null,
        healthLine(answer.programs),
      ];
      replace(verdict, headline(answer.headline, note));
      replace(worst, worstCard(answer.headline, answer.raised.items));
      const shown = new Set(answer.headline.worst.map((row) => row.finding.id));
      replace(alerts, alertsCard(answer.raised, shown));
      unloaded.hidden = answer.failing_loads.length === 0;
      replace(unloaded, unloadedCard(answer.failing_loads, { named: true }));
      states.show(
        STATES.map((state) => [state, sign(state, 16), WORDS[state], answer.matching[state] ?? 0]),
      );
      cluster.show(answer.clusters);
      if (answer.items.length === 0) return nothing(page.params, answer);
      return [
        table(page, { label: "Topics", rows: answer.items, columns: columns(several()) }),
        pager(page, answer.page, "topic", { files: downloads("topics", asked(page.params)) }),
      ];
    },
    {
      bones: 10,
      always(answer) {
        showRates(rate, answer);
        showRowRates(list.node, answer.items);
      },
    },
  );
  return {
    title: "Topics",
    nodes: [
      verdict,
      unloaded,
      worst,
      alerts,
      h("div", { class: "toolbar" }, search.node, cluster.node, states.node),
      h("section", { class: "card", "aria-label": "Topics" }, list.node),
    ],
    update(force) {
      search.sync();
      list.refresh(force);
    },
    close: () => list.close(),
  };
}

const asked = ({ cluster, search, state, sort }) => ({ cluster, search, state, sort });

/** The number of topics in each state. */
function census({ by_state: byState, having }) {
  const all = STATES.reduce((sum, state) => sum + (byState[state] ?? 0), 0);
  if (all === 0) return "Topics appear as soon as an agent, a broker or the loader reports them.";
  const parts = [...FAULTS.map((state) => [state, having]), ["pending", byState], ["complete", byState]]
    .map(([state, numbers]) => [numbers[state] ?? 0, WORDS[state].toLowerCase()])
    .filter(([number]) => number > 0)
    .map(([number, word]) => `${count(number)} ${word}`);
  return `Of ${counted(all, "topic")}: ${parts.join(", ") || "none with events"}.`;
}

function nothing(params, answer) {
  if (params.search || params.state || params.cluster || answer.page.page > 1) {
    return empty("unknown", "No topic matches", "Search for something else, or for less.");
  }
  return empty(
    "pending",
    "Nothing here yet",
    "The audit has read no entry about a topic in the ledger.",
  );
}

const ADDRESS = /\S+:\/\/\S+\/(?=\S)/g;

/** The first wait, uncut, with addresses shortened to their last folder, which tells roots apart; the
    others on request. */
function waits(text) {
  const [first, ...others] = text.split("; ");
  const short = first.replace(ADDRESS, "…/");
  return h(
    "div",
    { class: "waits" },
    words(short, short === first ? {} : { title: plain(first) }),
    others.length > 0
      ? h("span", { class: "under", title: plain(others.join("; ")) }, `and ${count(others.length)} more`)
      : null,
  );
}

/** The places of a topic's dead letters. */
function deadPlaces({ topic, dead }) {
  const places = [
    dead.lines > 0 ? `${count(dead.lines)} in ${topic}.dead` : "",
    dead.events > 0 ? `${count(dead.events)} in _dead/${topic}` : "",
  ];
  return plain(places.filter(Boolean).join(", "));
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
          ? h("span", { class: "under", title: `Topic id ${plain(row.topic_id)}` }, "deleted or retired")
          : null,
        row.accepted.some(({ kind }) => kind === "unknown")
          ? h(
              "span",
              { class: "under", title: "Accepted. The topic's page shows when it was." },
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
      cell: (row) => [
        h(
          "span",
          { title: count(row.events) },
          row.events < 1e6 ? count(row.events) : short(row.events),
        ),
        row.dead.lines + row.dead.events > 0
          ? h(
              "span",
              { class: "under", title: deadPlaces(row) },
              counted(row.dead.lines + row.dead.events, "dead letter"),
            )
          : null,
        rateCell(row),
      ],
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

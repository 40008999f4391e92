/* A host: its agents, its findings, and its part of each topic. */

import { ask } from "../api.js";
import { h, replace } from "../dom.js";
import { bytes, count, counted } from "../figures.js";
import { name } from "../names.js";
import { finding } from "../parts/finding.js";
import { HistoryPane } from "../parts/history.js";
import { MarksPane } from "../parts/marks.js";
import { Pane, card, empty } from "../parts/pane.js";
import { rangeBar, rangeOf, zoomed } from "../parts/ranges.js";
import { notable, table } from "../parts/table.js";
import { link } from "../routes.js";
import { agentBadge, hostBadges } from "../signs.js";
import { ago } from "../times.js";

const FINDINGS = 25;
const PIECES = 120;

export function hostTopics(page) {
  const { cluster, host: hostName } = page.params;
  const badges = h("span", { class: "badges" });
  const aside = h("span", { class: "aside" });
  const topics = new Pane(
    (signal) => ask("host", { cluster, host: hostName }, signal),
    (answer) => {
      replace(badges, answer.agents.map((agent) => agentBadge(agent.state)));
      replace(aside, answer.agents.map(agent));
      if (answer.items.length === 0)
        return empty("pending", "No topic is known", "No agent of this host has shipped anything.");
      const rest = answer.topics_total - answer.items.length;
      return [
        table(page, { label: "Topics", rows: answer.items, columns: columns(hostName) }),
        rest > 0 ? h("p", { class: "list-foot soft" }, `and ${counted(rest, "topic")} more`) : null,
      ];
    },
  );
  const faults = new Pane(
    (signal) => ask("findings", { cluster, host: hostName, size: FINDINGS }, signal),
    (answer) => {
      if (answer.items.length === 0) return null;
      return card(
        "Findings",
        answer.page.total > answer.items.length
          ? h("a", { href: link("findings", { cluster, host: hostName }) }, "All findings ›")
          : null,
        h(
          "ul",
          { class: "findings" },
          answer.items.map((fault, index) => {
            const [of, topic] = answer.topics[index].split("/");
            const place = { cluster: of, topic, topicId: answer.topic_ids[index] };
            return finding(fault, { ...place, named: true, here: hostName });
          }),
        ),
      );
    },
    { bones: 2 },
  );
  const range = () => rangeOf(page.params, PIECES);
  const bar = rangeBar(page, range, { cells: false });
  const over = () => {
    const { from, to } = range();
    return { cluster, host: hostName, from, to };
  };
  const past = new HistoryPane(over, (from, to) => page.change(zoomed(from, to)));
  const marks = new MarksPane(over, (list) => past.mark(list));
  return {
    title: hostName ?? "",
    stays: (params) => params.host === hostName && params.cluster === cluster && !params.topic,
    nodes: [
      h(
        "div",
        { class: "heading" },
        h("ul", { class: "crumbs" }, h("li", {}, h("a", { href: link("agents") }, "Agents"))),
        h("h1", {}, name(hostName ?? "")),
        badges,
        aside,
      ),
      faults.node,
      card("Topics", null, topics.node),
      bar.node,
      past.node,
      marks.node,
    ],
    update(force) {
      faults.refresh(force);
      topics.refresh(force);
      bar.show();
      past.refresh(force);
      marks.refresh(force);
    },
    close() {
      faults.close();
      topics.close();
      past.close();
      marks.close();
    },
  };
}

function agent(row) {
  return h(
    "span",
    {},
    " agent ",
    name(row.agent, { class: "mono" }),
    " heard ",
    ago(row.heard),
    row.lag_bytes > 0 ? `, ${bytes(row.lag_bytes)} behind` : "",
  );
}

const columns = (hostName) => [
  { title: "Verdict", class: "tight judged", cell: ({ part }) => hostBadges(part) },
  {
    title: "Topic",
    class: "lead",
    cell: ({ cluster, topic }) =>
      h(
        "a",
        { href: link("host", { cluster, topic, host: hostName }), "data-row": true },
        name(topic),
      ),
  },
  { title: "Files", class: "number minor", cell: ({ part }) => count(part.files) },
  { title: "Shipped", class: "number", cell: ({ part }) => count(part.shipped) },
  { title: "Landed", class: "number", cell: ({ part }) => count(part.landed) },
  { title: "Missing", class: "number", cell: ({ part }) => notable(part.missing) },
  { title: "Last", class: "tight minor", cell: ({ part }) => ago(part.last) },
];

/* The fleet: all expected agents, their progress, and when they were last heard. */

import { ask } from "../api.js";
import { h } from "../dom.js";
import { bytes, count, counted } from "../figures.js";
import { name, plain, quoted } from "../names.js";
import { chips, searchBox } from "../parts/controls.js";
import { downloads } from "../parts/downloads.js";
import { Pane, empty } from "../parts/pane.js";
import { statementForm } from "../parts/statement_form.js";
import { pager, table } from "../parts/table.js";
import { link } from "../routes.js";
import {
  AGENT_STATES,
  SIGNATURE_STATES,
  agentBadge,
  agentSign,
  agentWord,
  signatureMark,
  signatureSign,
  signatureWord,
} from "../signs.js";
import { ago } from "../times.js";

const SIZE = 50;
const TOPICS = 3;

export function agents(page) {
  const search = searchBox(page, "Search hosts and agents");
  const states = chips(page, "State", "state");
  const signatures = chips(page, "Signatures", "signature");
  const expected = h("span", { class: "aside" });
  const list = new Pane(
    (signal) =>
      ask("agents", { ...queryOf(page.params), page: page.params.page, size: SIZE }, signal),
    (answer) => {
      states.show(
        AGENT_STATES.map((state) => [
          state,
          agentSign(state),
          agentWord(state),
          answer.by_state[state] ?? 0,
        ]),
      );
      const counts = answer.by_signature ?? {};
      const allSigned = !counts.unsigned && !counts.rejected && !page.params.signature;
      signatures.node.hidden = allSigned;
      signatures.show(
        SIGNATURE_STATES.map((state) => [
          state,
          signatureSign(state),
          signatureWord(state),
          counts[state] ?? 0,
        ]),
      );
      expected.textContent = answer.expected_hosts
        ? `${counted(answer.expected_hosts, "host")} in the inventory`
        : "the audit has no inventory of hosts";
      if (answer.items.length === 0) {
        return page.params.search || page.params.state || page.params.signature
          ? empty("unknown", "No agent matches")
          : empty(
              "pending",
              "No agent was heard yet",
              "An agent is known from its first entry in the ledger, or from the inventory.",
            );
      }
      return [
        table(page, { label: "Agents", rows: answer.items, columns: COLUMNS }),
        pager(page, answer.page, "agent", { files: downloads("agents", queryOf(page.params)) }),
      ];
    },
    { bones: 10 },
  );
  return {
    title: "Agents",
    nodes: [
      h(
        "div",
        { class: "heading" },
        h("h1", {}, "Agents"),
        expected,
      ),
      h("div", { class: "toolbar" }, search.node, states.node, signatures.node),
      h("section", { class: "card", "aria-label": "Agents" }, list.node),
    ],
    update(force) {
      search.sync();
      list.refresh(force);
    },
    close: () => list.close(),
  };
}

const queryOf = ({ cluster, state, signature, search, sort }) => ({
  cluster,
  state,
  signature,
  search,
  sort,
});

const COLUMNS = [
  {
    title: "State",
    sort: "state",
    class: "tight judged",
    cell: (row) => [
      agentBadge(row.state),
      signatureMark(row.signature),
      row.state === "silent" ? h("span", { class: "under" }, "since ", ago(row.heard)) : null,
      row.reason ? h("span", { class: "under clip" }, quoted(row.reason)) : null,
      retiring(row),
    ],
  },
  {
    title: "Host",
    sort: "host",
    class: "lead",
    cell: (row) => [
      h(
        "a",
        { href: link("host", { host: row.host }), "data-row": true, "data-focus": `host-${row.host}` },
        name(row.host),
      ),
      h(
        "span",
        { class: "under" },
        row.agent ? name(row.agent, { class: "mono" }) : "only in the inventory",
      ),
    ],
  },
  { title: "Cluster", class: "minor", cell: (row) => name(row.cluster, { class: "" }) },
  { title: "Topics", class: "wide roomy", cell: topics },
  {
    title: "Behind",
    sort: "lag",
    class: "number",
    cell: (row) => (row.lag_bytes === 0 ? h("span", { class: "zero" }, "0") : bytes(row.lag_bytes)),
  },
  { title: "Complete up to", sort: "until", class: "tight", cell: (row) => ago(row.until) },
  { title: "Last heard", sort: "heard", class: "tight", cell: (row) => ago(row.heard) },
  {
    title: "Version",
    class: "tight minor",
    cell: (row) => h("span", { class: "soft" }, row.version ? plain(row.version) : "–"),
  },
];

/** The form that retires a host which is gone for good, from the end of its agent's progress. */
function retiring(row) {
  if (!["silent", "never"].includes(row.state)) return null;
  return statementForm({
    statement: "retire",
    title: "Retire…",
    what: `Expects nothing more of ${plain(row.host)} until it is heard again.`,
    button: "Retire",
    body: {
      cluster: row.cluster,
      host: row.host,
      ...(row.agent ? { agent: row.agent } : {}),
      since: Math.max(row.until, 0),
    },
  });
}

function topics(row) {
  const shown = row.topics.slice(0, TOPICS);
  const more = row.topics.length - shown.length;
  return [
    shown.map((topic, index) => [
      index > 0 ? ", " : "",
      h(
        "a",
        { href: link("topic", { cluster: row.cluster, topic }) },
        name(topic, { class: "" }),
      ),
    ]),
    more > 0
      ? h(
          "span",
          { class: "soft", title: row.topics.slice(0, 100).map(plain).join(", ") },
          ` and ${count(more)} more`,
        )
      : null,
    row.topics.length === 0 ? h("span", { class: "soft none" }, "–") : null,
  ];
}

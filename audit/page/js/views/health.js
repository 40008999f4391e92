/* The health of the programs of all clusters, those in trouble first. */

import { ask } from "../api.js";
import { h } from "../dom.js";
import { bytes } from "../figures.js";
import { name, plain, words } from "../names.js";
import { chips } from "../parts/controls.js";
import { cure } from "../parts/cure.js";
import { downloads } from "../parts/downloads.js";
import { Pane, empty } from "../parts/pane.js";
import { pager, table } from "../parts/table.js";
import { link } from "../routes.js";
import {
  PROGRAM_STATES,
  programBadge,
  programSign,
  programWord,
  signatureMark,
} from "../signs.js";
import { ago, day } from "../times.js";

const SIZE = 50;
const PERCENT = 100;

export function health(page) {
  const states = chips(page, "State", "state");
  const summary = h("p", { class: "health-line" });
  const list = new Pane(
    (signal) =>
      ask("health", { ...queryOf(page.params), page: page.params.page, size: SIZE }, signal),
    (answer) => {
      summary.replaceChildren(programSign(answer.state, 20), words(answer.summary));
      states.show(
        PROGRAM_STATES.map((state) => [
          state,
          programSign(state),
          programWord(state),
          answer.by_state[state] ?? 0,
        ]),
      );
      if (answer.items.length === 0) return empty("unknown", "No program matches");
      return [
        table(page, { label: "Programs", rows: answer.items, columns: COLUMNS }),
        pager(page, answer.page, "row", { files: downloads("health", queryOf(page.params)) }),
      ];
    },
    { bones: 8 },
  );
  return {
    title: "Health",
    nodes: [
      h("div", { class: "heading" }, h("h1", {}, "Health")),
      summary,
      h("div", { class: "toolbar" }, states.node),
      h("section", { class: "card", "aria-label": "Programs" }, list.node),
    ],
    update(force) {
      list.refresh(force);
    },
    close: () => list.close(),
  };
}

/** The summary in one sentence, with links to details. */
export function healthLine({ state, summary }) {
  return h(
    "p",
    { class: "health-line" },
    programSign(state, 20),
    h("a", { href: link("health") }, "Health"),
    words(summary),
  );
}

const queryOf = ({ cluster, state }) => ({ cluster, state });

const TITLES = {
  agents: "Agents",
  agent: "Agent",
  broker: "Broker",
  zookeeper: "ZooKeeper",
  registry: "Registry",
  mirror: "Mirror",
  loader: "Loader",
  audit: "This audit",
};
const NAMED = new Set(["broker", "mirror"]); // whose names are short

const COLUMNS = [
  { title: "State", class: "tight judged", cell: (row) => [programBadge(row.state), mark(row)] },
  { title: "Program", class: "lead", cell: program },
  {
    title: "How it is",
    class: "wide roomy",
    cell: (row) => [words(row.words), row.kind ? cure(row.kind, row) : null],
  },
  { title: "Started", class: "tight", cell: (row) => time(row.started) },
  { title: "Last heard", class: "tight", cell: (row) => time(row.heard) },
  {
    title: "Free disk",
    class: "number",
    cell: (row) =>
      row.disk_free < 0
        ? dash()
        : h(
            "span",
            { title: plain(row.disk) },
            bytes(row.disk_free),
            h("span", { class: "under" }, share(row)),
          ),
  },
  {
    title: "Certificate expires",
    class: "tight",
    cell: (row) =>
      row.certificate_ends < 0
        ? dash()
        : h("span", { title: plain(row.certificate) }, day(row.certificate_ends)),
  },
  {
    title: "Version",
    class: "tight minor",
    cell: (row) => (row.version ? h("span", { class: "soft" }, plain(row.version)) : dash()),
  },
];

const dash = () => h("span", { class: "soft none" }, "–");
const time = (millis) => (millis > 0 ? ago(millis) : dash());
const share = (row) =>
  `${Math.floor((PERCENT * row.disk_free) / Math.max(1, row.disk_total))} % of ${bytes(row.disk_total)}`;

/** Of rejected statements, the words tell. */
const mark = (row) => (row.signature === "rejected" ? null : signatureMark(row.signature));

function program(row) {
  const title = TITLES[row.program] ?? plain(row.program);
  const named = NAMED.has(row.program) && row.name;
  const place = {
    agents: row.name,
    registry: row.name,
    loader: row.name,
  }[row.program];
  return [
    h("span", { class: "name" }, title, named ? [" ", name(row.name, { class: "" })] : null),
    place ? h("span", { class: "under" }, name(place, { class: "" })) : null,
    row.host ? h("span", { class: "under" }, name(row.host, { class: "" })) : null,
    row.cluster ? h("span", { class: "under" }, name(row.cluster, { class: "" })) : null,
  ];
}

/* A topic over a time range: heat map, faults, waits, the balance of its lines, delays, and hosts. */

import { showsMessages } from "../account.js";
import { ask } from "../api.js";
import { h, replace } from "../dom.js";
import { bytes, count, counted } from "../figures.js";
import { name, plain } from "../names.js";
import { Chart } from "../parts/chart.js";
import { searchBox } from "../parts/controls.js";
import { delays } from "../parts/delays.js";
import { HistoryPane } from "../parts/history.js";
import { MarksPane, markLegend } from "../parts/marks.js";
import { showRates } from "../parts/rates.js";
import { finding, wait } from "../parts/finding.js";
import { lines, passage } from "../parts/flow.js";
import { HeatMap } from "../parts/heatmap.js";
import { GroupsPane } from "../parts/groups.js";
import { downloads } from "../parts/downloads.js";
import { Pane, card, empty } from "../parts/pane.js";
import { remarksCard, reservationsCard } from "../parts/remarks.js";
import { unloadedCard } from "../parts/unloaded.js";
import { rangeBar, rangeOf, zoomed } from "../parts/ranges.js";
import { notable, pager, table } from "../parts/table.js";
import { link } from "../routes.js";
import { hostBadges, stateBadges, statesOf, unloadedBadge } from "../signs.js";
import { ago } from "../times.js";

const CELL_WIDTH = 11; // pixels, about
const NARROW_CELL_WIDTH = 6.5; // on a phone
const HOSTS = 25;

export function topic(page) {
  const { cluster, topic: topicName } = page.params;
  const badge = h("span", {});
  const aside = h("span", { class: "aside" });
  const range = () => rangeOf(page.params, pieces());
  const zoom = (from, to) => page.change(zoomed(from, to));
  const bar = rangeBar(page, range);
  const heat = new HeatMap(zoom, () => bar.out());
  const chart = new Chart(zoom);
  const signs = h("ul", { class: "legend" });
  const windows = windowCard(heat, signs);
  const rate = h("span", { class: "rate" });
  const over = () => {
    const { from, to } = range();
    return { cluster, topic: topicName, from, to };
  };
  const past = new HistoryPane(over, zoom);
  const marks = new MarksPane(over, (list) => {
    heat.mark(list);
    chart.mark(list);
    past.mark(list);
    replace(signs, legend(list));
  });
  const overTime = card("Events over time", null, h("div", { class: "card-body" }, chart.node));
  const body = new Pane(
    (signal) => {
      const { from, to, step } = range();
      return ask("topic", { cluster, topic: topicName, from, to, step }, signal);
    },
    (answer) => {
      const unloaded = answer.failing_loads.length > 0 && answer.state === "pending";
      replace(badge, unloaded ? unloadedBadge() : stateBadges(statesOf(answer.kinds), answer.state));
      replace(aside, about(answer));
      heat.show(answer);
      chart.show(answer);
      return cards(answer, windows(answer), overTime, page.params);
    },
    { bones: 9, always: (answer) => showRates(rate, answer) },
  );
  const search = searchBox(page, "Search hosts");
  const hosts = new Pane(
    (signal) =>
      ask(
        "hosts",
        {
          cluster,
          topic: topicName,
          search: page.params.search,
          page: page.params.page,
          size: HOSTS,
        },
        signal,
      ),
    (answer) => hostTable(page, answer),
  );
  const readers = new GroupsPane(page, () => ({ cluster, topic: topicName }));
  const hostCard = card("Hosts", search.node, hosts.node);
  body.node.classList.add("stack");
  return {
    title: topicName ?? "",
    stays: (params) => params.cluster === cluster && params.topic === topicName,
    nodes: [
      h(
        "div",
        { class: "heading" },
        h("ul", { class: "crumbs" }, h("li", {}, h("a", { href: link("overview") }, "Topics"))),
        h("h1", {}, name(topicName ?? "")),
        badge,
        rate,
        aside,
      ),
      bar.node,
      body.node,
      past.node,
      marks.node,
      readers.card,
      hostCard,
    ],
    update(force) {
      bar.show();
      search.sync();
      body.refresh(force);
      past.refresh(force);
      marks.refresh(force);
      readers.refresh(force);
      hosts.refresh(force);
    },
    close() {
      body.close();
      past.close();
      marks.close();
      readers.close();
      hosts.close();
      chart.close();
      heat.close();
    },
  };
}

/** The number of cells that fit. */
function pieces() {
  const width = Math.min(document.documentElement.clientWidth, 1320) - 48;
  return Math.floor(width < 700 ? width / NARROW_CELL_WIDTH : (width - 160) / CELL_WIDTH);
}

function about(answer) {
  const former = answer.former_ids.length;
  return [
    answer.cluster ? ["cluster ", name(answer.cluster, { class: "" })] : null,
    answer.topic_id
      ? h("span", { title: "Topic id" }, " · ", name(answer.topic_id, { class: "mono" }))
      : null,
    answer.deleted ? " · deleted or retired: no more reports are expected" : null,
    checked(answer.checks),
    messagesOf(answer, answer.topic, "Messages ›", {}),
    answer.tiers.some((tier) => tier.dead > 0)
      ? messagesOf(answer, `${answer.topic}.dead`, "Dead letters ›", { time: answer.from_time })
      : null,
    former > 0
      ? h(
          "span",
          { title: answer.former_ids.map(plain).join(", ") },
          ` · was deleted ${former === 1 ? "once" : `${count(former)} times`} before`,
        )
      : null,
  ];
}

function messagesOf({ cluster }, topic, text, from) {
  if (!showsMessages(topic)) return null;
  return [" · ", h("a", { class: "inline", href: link("messages", { cluster, topic, ...from }) }, text)];
}

/** When the brokers last checked the topic's stored data. */
function checked(checks) {
  if (checks.logs_total === 0) return null;
  const when = (time) => (time < 0 ? "never" : ago(time));
  return h(
    "span",
    { class: "checked" },
    h("span", { title: "Data of the last day, read again from the brokers' disks" }, " · checked "),
    when(checks.recent),
    ", all of it ",
    when(checks.whole),
  );
}

/** A card that stays for all responses, so that the focus in it is kept. */
function windowCard(heat, signs) {
  const body = h("div", { class: "card-body" });
  const whole = card("Windows by tier", null, body);
  replace(signs, legend([]));
  return (answer) => {
    const nothing = answer.cells.length === 0;
    replace(body, nothing ? empty("pending", "Nothing happened in this time") : [heat.node, signs]);
    return whole;
  };
}

function cards(answer, windows, overTime, params) {
  return [
    unloadedCard(answer.failing_loads),
    windows,
    faults(answer, params),
    remarksCard(answer),
    reservationsCard(answer),
    answer.waits.length > 0 ? waits(answer) : null,
    card(
      "Where every line went",
      null,
      h("div", { class: "card-body" }, lines(answer.flow), passage(answer)),
    ),
    answer.cells.length > 0
      ? h(
          "div",
          { class: "columns" },
          overTime,
          card(
            "Delay after the event",
            null,
            h("div", { class: "card-body" }, delays(answer.tiers)),
          ),
        )
      : null,
  ];
}

function legend(marks) {
  const cell = (looks, letter = "") =>
    h("span", { class: `cell ${looks}`, "aria-hidden": "true" }, letter);
  return [
    h(
      "li",
      {},
      h(
        "span",
        { class: "scale" },
        [1, 2, 3, 4, 5].map((level) => cell(`much-${level}`)),
      ),
      "few to many events",
    ),
    h("li", {}, cell("state-pending", "·"), "not there yet"),
    h("li", {}, cell("state-unknown", "?"), "unknown"),
    h("li", {}, cell("state-missing", "−"), "missing"),
    h("li", {}, cell("state-duplicated", "+"), "more than once"),
    h("li", {}, cell("state-changed", "≠"), "other bytes"),
    markLegend(marks),
  ];
}

function faults(answer, params) {
  const { cluster, topic: topicName } = params;
  if (answer.findings.length === 0) return null;
  const more = answer.findings_total - answer.findings.length;
  return card(
    "Findings",
    h("span", { class: "soft" }, counted(answer.findings_total, "finding")),
    h(
      "ul",
      { class: "findings" },
      answer.findings.map((fault) =>
        finding(fault, { cluster, topic: topicName, topicId: answer.topic_id }),
      ),
    ),
    more > 0
      ? h(
          "p",
          { class: "list-foot" },
          h(
            "a",
            {
              href: link("findings", {
                cluster,
                topic: topicName,
                from: answer.from_time,
                to: answer.to_time,
              }),
            },
            `All ${counted(answer.findings_total, "finding")} ›`,
          ),
        )
      : null,
  );
}

const SHOWN_WAITS = 6;

function waits(answer) {
  const [first, rest] = [answer.waits.slice(0, SHOWN_WAITS), answer.waits.slice(SHOWN_WAITS)];
  const unsaid = answer.waits_total - answer.waits.length;
  return card(
    "Still waits for",
    h("span", { class: "soft" }, count(answer.waits_total)),
    h("ul", { class: "waiting" }, first.map(wait)),
    rest.length > 0
      ? h(
          "details",
          { "data-focus": "more-waits" },
          h("summary", { class: "list-foot" }, `${count(rest.length)} more`),
          h("ul", { class: "waiting" }, rest.map(wait)),
          unsaid > 0 ? h("p", { class: "list-foot soft" }, `and ${count(unsaid)} more`) : null,
        )
      : null,
  );
}

function hostTable(page, answer) {
  const { cluster, topic: topicName } = page.params;
  if (answer.items.length === 0) {
    return page.params.search
      ? empty("unknown", "No host matches")
      : empty(
          "pending",
          "No host is known",
          "Agents name themselves when they ship to this topic.",
        );
  }
  return [
    table(page, {
      label: "Hosts",
      rows: answer.items,
      columns: [
        {
          title: "Verdict",
          class: "tight judged",
          cell: (row) => [
            hostBadges(row),
            row.agent_state === "silent"
              ? h("span", { class: "under" }, "since ", ago(row.heard))
              : null,
          ],
        },
        {
          title: "Host",
          class: "lead",
          cell: (row) =>
            h(
              "a",
              {
                href: link("host", { cluster, topic: topicName, host: row.host }),
                "data-row": true,
                "data-focus": `host-${row.host}`,
              },
              name(row.host),
            ),
        },
        { title: "Files", class: "number minor", cell: (row) => count(row.files) },
        { title: "Shipped", class: "number", cell: (row) => count(row.shipped) },
        { title: "Landed", class: "number", cell: (row) => count(row.landed) },
        { title: "Missing", class: "number", cell: (row) => notable(row.missing) },
        {
          title: "Lost",
          class: "number",
          cell: (row) =>
            row.lost_bytes > 0
              ? h("span", { class: "bad" }, bytes(row.lost_bytes))
              : h("span", { class: "zero" }, "0"),
        },
        { title: "Filtered", class: "number minor", cell: (row) => count(row.filtered) },
        { title: "Dead", class: "number minor", cell: (row) => count(row.dead) },
        { title: "Last", class: "tight minor", cell: (row) => ago(row.last) },
      ],
    }),
    pager(page, answer.page, "host", {
      files: downloads("hosts", { cluster, topic: topicName, search: page.params.search }),
    }),
  ];
}

/* A host's part of a topic: its files, with what each lacks, in words. */

import { ask } from "../api.js";
import { h, replace } from "../dom.js";
import { name } from "../names.js";
import { searchBox } from "../parts/controls.js";
import { file } from "../parts/file.js";
import { finding } from "../parts/finding.js";
import { downloads } from "../parts/downloads.js";
import { Pane, card, empty } from "../parts/pane.js";
import { pager } from "../parts/table.js";
import { link } from "../routes.js";
import { hostBadges } from "../signs.js";

const FILES = 25;
const FINDINGS = 25;
const MOST_HOSTS = 500; // whose names have this one in them

export function host(page) {
  const { cluster, topic, host: hostName, source } = page.params;
  const badge = h("span", {});
  const search = searchBox(page, "Search files");
  let brought = source === undefined;
  const files = new Pane(
    (signal) =>
      ask(
        "sources",
        {
          cluster,
          topic,
          host: hostName,
          search: page.params.search,
          page: page.params.page,
          size: FILES,
        },
        signal,
      ),
    (answer) => {
      if (answer.items.length === 0) {
        return page.params.search
          ? empty("unknown", "No file matches")
          : empty(
              "pending",
              "No file is known",
              "Agents report files as they ship them; only faulty ones are kept.",
            );
      }
      return [
        h(
          "ul",
          { class: "files" },
          answer.items.map((row) => file(row, row.source === source)),
        ),
        legend(),
        pager(page, answer.page, "file", {
          files: downloads("sources", {
            ...{ cluster, topic, host: hostName, search: page.params.search },
          }),
        }),
      ];
    },
  );
  const faults = new Pane(
    async (signal) => {
      const [answer, hosts] = await Promise.all([
        ask("findings", { cluster, topic, host: hostName, size: FINDINGS }, signal),
        ask("hosts", { cluster, topic, search: hostName, size: MOST_HOSTS }, signal),
      ]);
      return { ...answer, host: hosts.items.find((host) => host.host === hostName) };
    },
    (answer) => {
      replace(badge, hostBadges(answer.host));
      if (answer.items.length === 0) return null;
      return card(
        "Findings",
        null,
        h(
          "ul",
          { class: "findings" },
          answer.items.map((fault, index) =>
            finding(fault, { cluster, topic, topicId: answer.topic_ids[index], here: hostName }),
          ),
        ),
        answer.page.total > answer.items.length
          ? h(
              "p",
              { class: "list-foot" },
              h(
                "a",
                { href: link("findings", { cluster, topic, host: hostName }) },
                `All ${answer.page.total} findings ›`,
              ),
            )
          : null,
      );
    },
    { bones: 2 },
  );
  return {
    title: hostName ?? "",
    stays: (params) =>
      ["cluster", "topic", "host", "source"].every((field) => params[field] === page.params[field]),
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
        h("h1", {}, name(hostName ?? "")),
        badge,
        h("a", { class: "aside", href: link("host", { host: hostName }) }, "All its topics ›"),
      ),
      faults.node,
      card("Files", search.node, files.node),
    ],
    async update(force) {
      search.sync();
      faults.refresh(force);
      await files.refresh(force);
      if (brought) return;
      brought = true;
      files.node.querySelector("[data-source]")?.scrollIntoView({ block: "center" });
    },
    close() {
      files.close();
      faults.close();
    },
  };
}

function legend() {
  const sample = (kind, text) =>
    h("span", {}, h("i", { class: kind, "aria-hidden": "true" }), text);
  return h(
    "div",
    { class: "range-legend" },
    sample("landed", "landed"),
    sample("shipped", "shipped, not landed yet"),
    sample("absent", "missing"),
  );
}

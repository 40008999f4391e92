/* All faults by name, of all topics or of a selection. */

import { ask } from "../api.js";
import { h } from "../dom.js";
import { plain } from "../names.js";
import { chips } from "../parts/controls.js";
import { finding } from "../parts/finding.js";
import { downloads } from "../parts/downloads.js";
import { Pane, empty } from "../parts/pane.js";
import { pager } from "../parts/table.js";
import { KIND_NAMES, kindSign, kindWord } from "../signs.js";
import { stretch } from "../times.js";

const SIZE = 50;

export function findings(page) {
  const kinds = chips(page, "Kind", "kind");
  const accepted = chips(page, "Accepted", "accepted");
  const narrowed = h("div", { class: "chips" });
  let numbers = null; // by kind, of all kinds
  const number = (kind) => (numbers ? (numbers[kind] ?? 0) : undefined);
  const showKinds = () =>
    kinds.show(KIND_NAMES.map((kind) => [kind, kindSign(kind), kindWord(kind), number(kind)]));
  const list = new Pane(
    (signal) => {
      return ask(
        "findings",
        { ...queryOf(page.params), page: page.params.page, size: SIZE },
        signal,
      );
    },
    (answer) => {
      numbers = answer.by_kind;
      showKinds();
      if (answer.items.length === 0)
        return page.params.accepted === "true"
          ? empty("complete", "Nothing found", "No accepted fault matches.")
          : empty("complete", "Nothing to do", "Accepted faults are listed under “Accepted”.");
      return [
        h(
          "ul",
          { class: "findings" },
          answer.items.map((fault, index) =>
            finding(fault, {
              ...placeOf(answer.topics[index]),
              topicId: answer.topic_ids[index],
              named: true,
            }),
          ),
        ),
        pager(page, answer.page, "finding", { files: downloads("findings", queryOf(page.params)) }),
      ];
    },
  );
  return {
    title: "Findings",
    nodes: [
      h(
        "div",
        { class: "heading" },
        h("h1", {}, "Findings"),
        h("span", { class: "aside" }, "what is missing, duplicated, changed, or not known, by name"),
      ),
      h("div", { class: "toolbar" }, kinds.node, accepted.node, narrowed),
      h("section", { class: "card", "aria-label": "Findings" }, list.node),
    ],
    update(force) {
      showKinds();
      accepted.show([
        ["false", null, "Not accepted"],
        ["true", null, "Accepted"],
      ]);
      narrowed.replaceChildren(...narrowing(page));
      list.refresh(force);
    },
    close: () => list.close(),
  };
}

const queryOf = ({ cluster, topic, host, kind, from, to, accepted }) => ({
  ...{ cluster, topic, host, kind, from, to, accepted },
});

/** Topics are given as cluster/topic; neither has a slash. */
function placeOf(text) {
  const slash = text.indexOf("/");
  return { cluster: text.slice(0, slash), topic: text.slice(slash + 1) };
}

/** Further filters in the URL, each with a button that removes it. */
function narrowing(page) {
  const { topic, host, from, to } = page.params;
  const chip = (text, patch) =>
    h(
      "button",
      { type: "button", class: "chip", "aria-pressed": "true", onclick: () => page.change(patch) },
      text,
      " ×",
    );
  return [
    topic ? chip(plain(topic), { topic: null, cluster: null }) : null,
    host ? chip(plain(host), { host: null }) : null,
    from && to ? chip(stretch(Number(from), Number(to)), { from: null, to: null }) : null,
  ].filter(Boolean);
}

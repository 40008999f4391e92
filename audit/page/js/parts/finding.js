/* A fault in words, with a link to its file; and waits. */

import { showsMessages } from "../account.js";
import { h } from "../dom.js";
import { counted } from "../figures.js";
import { name, quoted, words } from "../names.js";
import { link } from "../routes.js";
import { kindBadge, sign } from "../signs.js";
import { ago, at, momentToSecond } from "../times.js";
import { acceptanceForm } from "./acceptance_form.js";
import { cure } from "./cure.js";

const HOUR = 3_600_000;
const LONGEST = 30 * 24 * HOUR; // the longest time of a request

/** `row`: the keys j and k reach it. `named`: shows the topic. `here`: the host of this view. */
export function finding(fault, { cluster, topic, topicId, named = false, here = "", row = true, raised = 0 }) {
  const isOpen = !fault.accepted && !fault.harmless;
  const meta = [
    named ? h("a", { href: link("topic", { cluster, topic, ...hoursOf(fault) }) }, name(topic)) : null,
    fault.events > 0 ? h("span", {}, counted(fault.events, fault.kind === "lost" ? "line" : "event")) : null,
    fault.host && fault.host !== here && !fault.words.includes(fault.host)
      ? h("span", {}, "host ", name(fault.host))
      : null,
    fault.from_time >= 0 && fault.to_time >= 0
      ? h("span", {}, at(fault.from_time, momentToSecond), " to ", at(fault.to_time, momentToSecond))
      : null,
    raised > 0 ? h("span", {}, "alert raised ", ago(raised)) : null,
    fault.agent ? h("span", {}, "agent ", name(fault.agent)) : null,
    fault.accepted ? h("span", {}, "accepted: ", quoted(fault.accepted)) : null,
    fault.harmless ? h("span", {}, "harmless: ", quoted(fault.harmless)) : null,
    toMessages(fault, { cluster, topic, topicId }),
  ];
  return h(
    "li",
    { class: isOpen ? "finding" : "finding accepted" },
    h("span", {}, kindBadge(fault.kind)),
    h(
      "div",
      { class: "text" },
      words(fault.words),
      h("div", { class: "meta" }, meta),
      isOpen ? cure(fault.kind, fault) : null,
      acceptanceForm(fault, { cluster, topic, topicId }),
    ),
    fault.host && fault.host !== here
      ? h(
          "a",
          {
            class: "onward",
            "data-row": row,
            href: link("host", { cluster, topic, host: fault.host, source: fault.source }),
            "aria-label": "To the files of this host",
          },
          "Files ›",
        )
      : h("span", {}),
  );
}

const BEFORE = 3; // messages before the fault that are shown, too

/** A link to the messages at its offsets, if the user may see them. */
function toMessages({ partition, offset, offsets }, { cluster, topic, topicId }) {
  if (partition < 0 || offset < 0 || !showsMessages(topic)) return null;
  const at = { partition, offset: Math.max(0, offset - BEFORE), mark: offset, marked: Math.max(1, offsets) };
  const href = link("messages", { cluster, topic, topic_id: topicId, ...at });
  return h("a", { href }, "Show the messages");
}

/** The hours that it may be about, for the URL of a view. */
function hoursOf({ from_time: from, to_time: to }) {
  if (from < 0) return {};
  const end = Math.min(Math.max(to, from + 1), from + LONGEST);
  return { from: Math.floor(from / HOUR) * HOUR, to: Math.ceil(end / HOUR) * HOUR };
}

export function wait(entry) {
  return h(
    "li",
    { class: "wait" },
    sign("pending", 18),
    h(
      "div",
      {},
      words(entry.words),
      entry.since > 0 ? h("div", { class: "meta" }, "there up to ", at(entry.since)) : null,
    ),
  );
}

/* Remarks about altered text, about files that were not read, and about statements without proof.
   They do not change the verdict. */

import { h } from "../dom.js";
import { bytes, count, counted } from "../figures.js";
import { name, words } from "../names.js";
import { ago } from "../times.js";
import { card } from "./pane.js";

const SHOWN = 5;

const were = (number, what) => `${counted(number, what)} ${number === 1 ? "was" : "were"}`;

const WORDS = { replaced: "Replaced", cut: "Cut", dropped: "Dropped", unread: "Not read" };
const SUMMARIES = {
  replaced: (remark) => `${counted(remark.lines, "line")} had invalid characters`,
  cut: (remark) => `${were(remark.lines, "line")} cut`,
  dropped: (remark) => `${were(remark.count, "field value")} dropped`,
  unread: (remark) => `${were(remark.count, "archive")} not read`,
};
const summary = (remark) => (SUMMARIES[remark.kind] ?? other)(remark);
const other = (remark) => `${were(remark.lines, "line")} altered`;

/** "9 lines had invalid characters, 1 line was cut"; empty if nothing was altered. */
export const altered = (totals) => totals.map(summary).join(", ");

export function remarksCard({ altered: totals, remarks }) {
  if (totals.length === 0) return null;
  const rest = remarks.slice(SHOWN);
  return card(
    "Altered on the way",
    h("span", { class: "soft" }, altered(totals)),
    h("ul", { class: "findings" }, remarks.slice(0, SHOWN).map(item)),
    rest.length > 0
      ? h(
          "details",
          { "data-focus": "more-remarks" },
          h("summary", { class: "list-foot" }, counted(rest.length, "more", "more")),
          h("ul", { class: "findings" }, rest.map(item)),
        )
      : null,
  );
}

/** What the verdict rests on although no signature or digest proves it. */
export function reservationsCard({ reservations }) {
  if (!reservations?.length) return null;
  return card(
    "Taken on trust",
    null,
    h(
      "ul",
      { class: "findings" },
      reservations.map((sentence) =>
        h("li", { class: "finding" }, h("span", {}), h("div", { class: "text soft" }, words(sentence))),
      ),
    ),
  );
}

function item(remark) {
  return h(
    "li",
    { class: "finding" },
    h("span", { class: "soft" }, WORDS[remark.kind] ?? "Altered"),
    h(
      "div",
      { class: "text" },
      h("div", {}, remark.path ? name(remark.path, { class: "name mono" }) : "Other files"),
      what(remark),
      h(
        "div",
        { class: "meta" },
        remark.host ? h("span", {}, "host ", name(remark.host)) : null,
        remark.input ? h("span", {}, "input ", name(remark.input)) : null,
        h("span", {}, "last ", ago(remark.last_time)),
      ),
    ),
    h("span", {}),
  );
}

function what(remark) {
  switch (remark.kind) {
    case "replaced":
      return [
        `${counted(remark.lines, "line")} had ${counted(remark.count, "invalid character")}, `,
        "replaced by U+FFFD",
        remark.hint
          ? ["; it looks like ", name(remark.hint), ": set ", h("code", {}, "encoding")]
          : null,
      ];
    case "cut":
      return `${were(remark.lines, "line")} cut at max_line_bytes, ${bytes(remark.count)} left out`;
    case "dropped":
      return [
        counted(remark.count, "value"),
        remark.name ? [" of field ", name(remark.name)] : " of other fields",
        " dropped: not in the topic's schema",
      ];
    case "unread":
      return remark.count === 1 ? "archive not read" : `${count(remark.count)} archives not read`;
    default:
      return other(remark);
  }
}

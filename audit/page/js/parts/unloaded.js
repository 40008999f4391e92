/* Tables whose loads fail: since when, why, and what to do. They come first on a page, as waiting
   does not help. */

import { h } from "../dom.js";
import { counted } from "../figures.js";
import { name, plain, quoted } from "../names.js";
import { link } from "../routes.js";
import { unloadedBadge } from "../signs.js";
import { ago } from "../times.js";
import { cure } from "./cure.js";
import { statementForm } from "./statement_form.js";
import { card } from "./pane.js";

const SHOWN = 5;

/** Nothing if all tables are loaded. */
export function unloadedCard(loads, { named = false } = {}) {
  if (loads.length === 0) return null;
  const tables = new Set(loads.map((load) => JSON.stringify([load.cluster, load.topic]))).size;
  const rest = loads.slice(SHOWN);
  return card(
    tables === 1 ? "This table cannot be loaded" : `${counted(tables, "table")} cannot be loaded`,
    null,
    h(
      "ul",
      { class: "findings" },
      loads.slice(0, SHOWN).map((load) => item(load, named)),
    ),
    rest.length > 0
      ? h(
          "details",
          { "data-focus": "more-unloaded" },
          h("summary", { class: "list-foot" }, counted(rest.length, "more", "more")),
          h(
            "ul",
            { class: "findings" },
            rest.map((load) => item(load, named)),
          ),
        )
      : null,
  );
}

function item(load, named) {
  return h(
    "li",
    { class: "finding" },
    h("span", {}, unloadedBadge()),
    h(
      "div",
      { class: "text" },
      named
        ? h(
            "div",
            {},
            h(
              "a",
              { href: link("topic", { cluster: load.cluster, topic: load.topic }) },
              name(load.topic),
            ),
          )
        : null,
      quoted(load.reason),
      load.cure ? h("div", {}, h("b", {}, "What to do: "), quoted(load.cure)) : null,
      cure("unloaded", load),
      retiring(load),
      h(
        "div",
        { class: "meta" },
        h("span", {}, "fails since ", ago(load.since)),
        h("span", {}, "into ", name(load.destination, { class: "name mono" })),
        h("span", {}, "reported ", ago(load.said)),
      ),
    ),
    h("span", {}),
  );
}

/** A form that retires a topic, such as one made by a typo, which loads would wait for. */
function retiring({ cluster, topic }) {
  return statementForm({
    statement: "accept",
    title: "Retire this topic…",
    what: `Expects nothing more of ${plain(topic)} until an agent ships to it. Its faults so far count as accepted. This cannot be undone.`,
    button: "Retire",
    body: { cluster, topic, from_time: 0 },
  });
}

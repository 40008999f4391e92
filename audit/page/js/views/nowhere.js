/* The view for an unknown URL. */

import { h } from "../dom.js";
import { empty } from "../parts/pane.js";
import { link } from "../routes.js";

const PLACES = [
  ["overview", "Topics"],
  ["findings", "Findings"],
  ["agents", "Agents"],
  ["loads", "Loads"],
  ["brokers", "Brokers"],
  ["alerts", "Alerts"],
];

export function nowhere() {
  return {
    title: "No such page",
    nodes: [
      h("div", { class: "heading" }, h("h1", {}, "There is no such page")),
      h(
        "section",
        { class: "card" },
        empty(
          "unknown",
          "The audit has no view for this URL",
          "Existing views:",
          h(
            "p",
            {},
            PLACES.map(([view, title], index) => [
              index > 0 ? " · " : "",
              h("a", { href: link(view), "data-row": true }, title),
            ]),
          ),
        ),
      ),
    ],
    update() {},
  };
}

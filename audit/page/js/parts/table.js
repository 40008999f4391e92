/* Tables that the service pages and sorts. On a phone each row becomes a card, so every cell has its
   column's name. */

import { h } from "../dom.js";
import { count, counted } from "../figures.js";

/** `columns`: title, cell(row), and optionally `sort` (the service's name for it), `class`. */
export function table(page, { label, columns, rows, marked = () => false }) {
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      { class: "stacks" },
      h("caption", { class: "visually-hidden" }, label),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          columns.map((column) => heading(page, column)),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map((row) =>
          h(
            "tr",
            { class: marked(row) ? "marked" : null },
            columns.map((column) => cell(column, row)),
          ),
        ),
      ),
    ),
  );
}

function heading(page, column) {
  if (!column.sort) return h("th", { scope: "col", class: column.class }, column.title);
  const now = page.params.sort ?? "";
  const key = now.replace(/^-/, "");
  const order = key !== column.sort ? "none" : now.startsWith("-") ? "descending" : "ascending";
  // Numbers are sorted from the largest; a third press ends sorting.
  const steps = column.class?.includes("number")
    ? [`-${column.sort}`, column.sort, null]
    : [column.sort, `-${column.sort}`, null];
  const next = steps[(steps.indexOf(now) + 1) % steps.length];
  return h(
    "th",
    { scope: "col", class: column.class, "aria-sort": order },
    h(
      "button",
      {
        type: "button",
        "data-focus": `sort-${column.sort}`,
        onclick: () => page.change({ sort: next }),
      },
      column.title,
    ),
  );
}

function cell(column, row) {
  return h("td", { class: column.class, "data-label": column.title }, column.cell(row));
}

/** The position in the list, links to other pages, and `files` for downloads. */
export function pager(page, where, noun, { param = "page", nouns = `${noun}s`, files = null } = {}) {
  const last = Math.max(1, Math.ceil(where.total / where.size));
  if (last === 1 && where.page === 1) {
    return where.total < 2 && files === null
      ? null
      : h("div", { class: "pager" }, h("span", {}, counted(where.total, noun, nouns)), files);
  }
  const first = (where.page - 1) * where.size;
  const turn = (to) => () => page.change({ [param]: to === 1 ? null : to });
  const button = (text, focus, to) =>
    h(
      "button",
      {
        type: "button",
        class: "button",
        "data-focus": `${param}-${focus}`,
        disabled: to < 1 || to > last,
        onclick: turn(to),
      },
      text,
    );
  return h(
    "div",
    { class: "pager", role: "navigation", "aria-label": "Pages" },
    h(
      "span",
      {},
      `${count(Math.min(first + 1, where.total))} to ${count(Math.min(first + where.size, where.total))} of ${counted(where.total, noun, nouns)}`,
    ),
    button("Previous", "previous-page", where.page - 1),
    button("Next", "next-page", where.page + 1),
    files,
  );
}

/** A number that stands out unless it is 0. */
export function notable(number, as = "bad") {
  return h("span", { class: number > 0 ? as : "zero" }, count(number));
}

/* Filters of a view: a search, chips, a choice. Each stands for a parameter of the view, and shows
   its value in the URL. */

import { h, replace, svg } from "../dom.js";
import { count } from "../figures.js";
import { plain } from "../names.js";

const PAUSE = 250;
let ids = 0;

/** A search field that filters while typing. */
export function searchBox(page, label, param = "search") {
  let typing = null;
  const input = h("input", {
    type: "search",
    "aria-label": label,
    placeholder: label,
    autocomplete: "off",
    spellcheck: "false",
    maxlength: 200,
    oninput: () => {
      clearTimeout(typing);
      typing = setTimeout(() => {
        typing = null;
        page.change({ [param]: input.value.trim() }, { instead: true });
      }, PAUSE);
    },
  });
  const glass = svg(
    "svg",
    { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" },
    svg("circle", {
      cx: 7,
      cy: 7,
      r: 4.6,
      fill: "none",
      stroke: "currentColor",
      "stroke-width": 1.6,
    }),
    svg("path", {
      d: "M10.6 10.6L14 14",
      stroke: "currentColor",
      "stroke-width": 1.6,
      "stroke-linecap": "round",
    }),
  );
  const node = h(
    "div",
    { class: "search", role: "search" },
    glass,
    input,
    h("kbd", { "aria-hidden": "true" }, "/"),
  );
  const sync = () => {
    const value = page.params[param] ?? "";
    if (typing === null && input.value.trim() !== value) input.value = value;
  };
  return { node, sync };
}

/** Chips; at most one is pressed. `options`: [value, node or text, number]. */
export function chips(page, label, param) {
  const node = h("div", { class: "chips", role: "group", "aria-label": label });
  const show = (options) => {
    const chosen = page.params[param] ?? "";
    replace(
      node,
      options.map(([value, sign, text, number]) =>
        h(
          "button",
          {
            type: "button",
            class: "chip",
            "data-focus": `${param}-${value}`,
            "data-none": number === 0,
            "aria-pressed": String(chosen === value),
            onclick: () => page.change({ [param]: chosen === value ? null : value }),
          },
          sign,
          text,
          number === undefined ? null : h("b", {}, count(number)),
        ),
      ),
    );
  };
  return { node, show };
}

/** A choice of one value or all. Hidden if there is only one value. */
export function choice(page, label, param, all) {
  ids += 1;
  const select = h("select", {
    class: "pick",
    "aria-label": label,
    id: `choice-${ids}`,
    onchange: () => page.change({ [param]: select.value || null }),
  });
  select.hidden = true;
  const show = (values) => {
    const chosen = page.params[param] ?? "";
    const known = chosen && !values.includes(chosen) ? [...values, chosen] : values;
    select.hidden = known.length < 2 && !chosen;
    if (document.activeElement === select) return;
    replace(
      select,
      h("option", { value: "" }, all),
      known.map((value) => h("option", { value, selected: value === chosen }, plain(value))),
    );
    select.value = chosen;
  };
  return { node: select, show };
}

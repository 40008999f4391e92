/* A field for a date and a time of 24 hours, in any locale, in the page's zone. */

import { h } from "../dom.js";
import { clock, day, momentOf, seconds } from "../times.js";
import { zoneName } from "../zone.js";

const MINUTES = { form: "2026-11-03 14:05", hint: "YYYY-MM-DD hh:mm", text: clock };
const SECONDS = { form: "2026-11-03 14:05:09", hint: "YYYY-MM-DD hh:mm:ss", text: seconds };

export function timeField(label, { toSecond = false } = {}) {
  const { form, hint, text } = toSecond ? SECONDS : MINUTES;
  const node = h("input", {
    type: "text",
    class: "time-field",
    "aria-label": label,
    "aria-description": `${hint}, 24 hours, ${zoneName()}`,
    title: `${hint}, 24 hours, ${zoneName()}`,
    placeholder: hint,
    size: hint.length,
    maxlength: 40,
    required: true,
    autocomplete: "off",
    spellcheck: "false",
  });
  const moment = () => momentOf(node.value.trim().replace(" ", "T"));
  node.addEventListener("input", () => {
    const isTime = node.value.trim() === "" || Number.isFinite(moment());
    node.setCustomValidity(isTime ? "" : `This must be a time such as ${form}.`);
  });
  const show = (millis) => {
    node.value = Number.isFinite(millis) ? `${day(millis)} ${text(millis)}` : "";
    node.setCustomValidity("");
  };
  return { node, moment, show };
}

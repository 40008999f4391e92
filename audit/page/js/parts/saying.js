/* What an operator says: a form that asks for the reason, and what becomes of it. While it is open
   the view is held as it is, so that nothing is taken away under who types. */

import { isOperator } from "../account.js";
import { Refusal, say } from "../asking.js";
import { h, replace } from "../dom.js";

const LONGEST = 1_000;

/** Nothing for who only reads. `body` is what is said, but for the reason, or makes it of what
    `fields` hold then. `done` is called once it is kept; without it, it counts later. */
export function saying({ statement, title, what, button, body, fields = [], done = null }) {
  if (!isOperator() || body === null) return null;
  const said = h("p", { role: "status" });
  const reason = h("input", {
    name: "reason",
    required: true,
    pattern: ".*\\S.*",
    maxlength: LONGEST,
    autocomplete: "off",
    "aria-label": "Reason",
    placeholder: "Reason: it is shown",
  });
  const send = h("button", { type: "submit", class: "button" }, button);
  const form = h("form", {}, h("p", {}, what), fields, reason, send, said);
  const whole = h("details", { class: "saying" }, h("summary", {}, title), form);
  whole.addEventListener("toggle", () => {
    whole.toggleAttribute("data-held", whole.open);
    if (whole.open) reason.focus();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    send.disabled = true;
    replace(said, "Writing…");
    try {
      const given = typeof body === "function" ? body() : body;
      await say(statement, { ...given, reason: reason.value.trim() });
      const counts = done ? "Kept." : "Written: it counts once it has been read back.";
      replace(form, h("p", { role: "status" }, counts));
      whole.removeAttribute("data-held");
      done?.();
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      replace(said, error.message);
      send.disabled = false;
    }
  });
  return whole;
}

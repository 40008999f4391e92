/* The form for an operator's statement, with its reason and result. While it is open the view does
   not change, so that nothing moves under a user who types. */

import { isOperator } from "../account.js";
import { Refusal, sendStatement } from "../api.js";
import { h, replace } from "../dom.js";

const LONGEST = 1_000;

/** Null for readers. `body` is the statement without its reason, or a function that makes it from
    `fields`. `done` is called once it is stored; without `done`, it takes effect later. */
export function statementForm({ statement, title, what, button, body, fields = [], done = null }) {
  if (!isOperator() || body === null) return null;
  const status = h("p", { role: "status" });
  const reason = h("input", {
    name: "reason",
    required: true,
    pattern: ".*\\S.*",
    maxlength: LONGEST,
    autocomplete: "off",
    "aria-label": "Reason",
    placeholder: "Reason (is shown)",
  });
  const send = h("button", { type: "submit", class: "button" }, button);
  const form = h("form", {}, h("p", {}, what), fields, reason, send, status);
  const whole = h("details", { class: "saying" }, h("summary", {}, title), form);
  whole.addEventListener("toggle", () => {
    whole.toggleAttribute("data-held", whole.open);
    if (whole.open) reason.focus();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    send.disabled = true;
    replace(status, "Writing…");
    try {
      const given = typeof body === "function" ? body() : body;
      await sendStatement(statement, { ...given, reason: reason.value.trim() });
      const counts = done ? "Stored." : "Written: it takes effect once the audit has read it back.";
      replace(form, h("p", { role: "status" }, counts));
      whole.removeAttribute("data-held");
      done?.();
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      replace(status, error.message);
      send.disabled = false;
    }
  });
  return whole;
}

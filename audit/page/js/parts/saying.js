/* What an operator says: a form that asks for the reason, and what becomes of it. While it is open
   the view is held as it is, so that nothing is taken away under who types. */

import { isOperator } from "../account.js";
import { Refusal, say } from "../asking.js";
import { h, replace } from "../dom.js";

const LONGEST = 1_000;

/** Nothing for who only reads. `body` is what is said, but for the reason. */
export function saying({ statement, title, what, button, body }) {
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
  const form = h("form", {}, h("p", {}, what), reason, send, said);
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
      await say(statement, { ...body, reason: reason.value.trim() });
      replace(form, h("p", { role: "status" }, "Written: it counts once it has been read back."));
      whole.removeAttribute("data-held");
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      replace(said, error.message);
      send.disabled = false;
    }
  });
  return whole;
}

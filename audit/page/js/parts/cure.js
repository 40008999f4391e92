/* The cure of a fault: a command to copy, and a link to the runbook. */

import { h } from "../dom.js";
import { quoted } from "../names.js";

const SHOWN = 2000; // milliseconds

const LEADS = {
  accepts: "If no copy can be shipped again, accept it:",
  looks: "To see more:",
};

/** `kind`: of a finding or an alert, as in the runbook. `row`: has the command. */
export function cure(kind, { command, command_kind }) {
  const isOfArrived = command_kind === "accepts" && ["duplicated", "changed"].includes(kind);
  const lead = isOfArrived ? "If it cannot be repaired, accept it:" : LEADS[command_kind];
  return h(
    "div",
    { class: "cure" },
    lead ? h("span", {}, lead) : null,
    command ? commandLine(command) : null,
    h("a", { href: `runbook#${encodeURIComponent(kind)}`, target: "_blank", rel: "noopener" }, "Runbook"),
  );
}

/** A command with a button that copies it. */
export function commandLine(command) {
  return [h("code", {}, quoted(command, { class: "command" })), copying(command)];
}

function copying(text) {
  const button = h(
    "button",
    { type: "button", class: "button", "aria-label": "Copy the command", onclick: () => copy() },
    "Copy",
  );
  const copy = async () => {
    button.textContent = (await copied(text)) ? "Copied" : "Select it and copy";
    setTimeout(() => {
      button.textContent = "Copy";
    }, SHOWN);
  };
  return button;
}

/** Copies text; returns whether that worked. Over plain HTTP browsers offer only the old way. */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = h("textarea", { class: "visually-hidden", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

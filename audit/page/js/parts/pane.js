/* A part of a view that is asked of the service, and shown when it has come. What was shown stays
   until then, and if asking fails. An answer that says the same as before changes nothing, so that
   whoever reads or hovers is not disturbed; and one that was on its way when somebody began to type
   waits until he has ended. */

import { Refusal } from "../asking.js";
import { h, replace } from "../dom.js";
import { words } from "../names.js";
import { sign } from "../signs.js";
import { commandLine } from "./cure.js";

const HELD = 1000; // how often somebody who types is looked after

export class Pane {
  #load;
  #render;
  #said = null;
  #given = null;
  #asking = null;
  #again = false;
  #always;

  /** `load(signal)` promises an answer, `render(answer)` makes nodes of it. `always(answer)` is told
      of each: rates are other ones each time, and nothing else is made again for them. */
  constructor(load, render, { bones = 6, always = () => {} } = {}) {
    this.#load = load;
    this.#render = render;
    this.#always = always;
    this.node = h("div", { class: "pane" }, skeleton(bones));
  }

  /** Asks again. With `anew`, whatever was asked before is of no interest any more; without it, a
      question that is still open is waited for, and asked once more: its answer may be older. */
  async refresh(anew = true) {
    if (this.#asking && !anew) {
      this.#again = true;
      return;
    }
    this.#again = false;
    this.#asking?.abort();
    const asking = new AbortController();
    this.#asking = asking;
    if (anew && this.#said !== null) this.node.setAttribute("aria-busy", "true");
    try {
      const answer = await this.#load(asking.signal);
      if (!anew) await this.#released(asking.signal);
      if (asking.signal.aborted) return;
      this.#show(answer);
    } catch (error) {
      if (!anew) await this.#released(asking.signal);
      if (asking.signal.aborted) return;
      if (!(error instanceof Refusal)) throw error;
      if (this.#said === null || anew) this.#fail(error);
    } finally {
      if (this.#asking === asking) {
        this.#asking = null;
        this.node.removeAttribute("aria-busy");
        if (this.#again) this.refresh(false);
      }
    }
  }

  async #released(signal) {
    while (!signal.aborted && this.node.querySelector("[data-held]")) {
      await new Promise((resolve) => setTimeout(resolve, HELD));
    }
  }

  #show(answer) {
    const said = JSON.stringify(answer, (key, value) =>
      key === "as_of" || key === "now" || key === "rate" ? 0 : value,
    );
    if (said !== this.#said) {
      this.#said = said;
      this.#given = answer;
      replace(this.node, this.#render(answer));
    }
    this.#always(answer);
  }

  /** Shows the same answer again: something else has changed. */
  redraw() {
    if (this.#given !== null) replace(this.node, this.#render(this.#given));
  }

  #fail(refusal) {
    this.#said = null;
    replace(
      this.node,
      failure(refusal, () => this.refresh()),
    );
  }

  close() {
    this.#again = false;
    this.#asking?.abort();
  }
}

function skeleton(lines) {
  const bones = Array.from({ length: lines }, () => h("div", { class: "bone" }));
  return h("div", { class: "bones", role: "status", "aria-label": "Loading" }, bones);
}

function failure({ message, command }, again) {
  return h(
    "div",
    { class: "empty", role: "alert" },
    sign("missing", 28),
    h("strong", {}, words(message)),
    command ? h("div", { class: "cure" }, commandLine(command)) : null,
    h("p", {}, h("button", { type: "button", class: "button", onclick: again }, "Ask again")),
  );
}

/** What stands where there is nothing to show. */
export function empty(state, title, ...text) {
  return h("div", { class: "empty" }, sign(state, 28), h("strong", {}, title), text);
}

/** A frame around a part, with its title. */
export function card(title, aside, ...children) {
  const id = `card-${title.toLowerCase().replace(/\W+/g, "-")}`;
  return h(
    "section",
    { class: "card", "aria-labelledby": id },
    h("div", { class: "card-head" }, h("h2", { id }, title), aside),
    children,
  );
}

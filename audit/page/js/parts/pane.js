/* A part of a view that is requested from the service. The former content stays until the response
   arrives, and if the request fails. An equal response changes nothing, so that it does not disturb
   a reader; and a response that arrives while a form is open waits until it is closed. */

import { Refusal } from "../api.js";
import { h, replace } from "../dom.js";
import { words } from "../names.js";
import { sign } from "../signs.js";
import { commandLine } from "./cure.js";

const HELD = 1000; // between two checks whether a form is still open

export class Pane {
  #load;
  #render;
  #text = null;
  #answer = null;
  #request = null;
  #repeats = false;
  #always;

  /** `load(signal)` promises an answer, `render(answer)` makes nodes. `always(answer)` is called with
      every answer, as rates always differ and do not cause a rendering. */
  constructor(load, render, { bones = 6, always = () => {} } = {}) {
    this.#load = load;
    this.#render = render;
    this.#always = always;
    this.node = h("div", { class: "pane" }, skeleton(bones));
  }

  /** Requests again. With `force`, a pending request is aborted; without it, it is awaited and then
      repeated, as its answer may be older. */
  async refresh(force = true) {
    if (this.#request && !force) {
      this.#repeats = true;
      return;
    }
    this.#repeats = false;
    this.#request?.abort();
    const request = new AbortController();
    this.#request = request;
    if (force && this.#text !== null) this.node.setAttribute("aria-busy", "true");
    try {
      const answer = await this.#load(request.signal);
      if (!force) await this.#released(request.signal);
      if (request.signal.aborted) return;
      this.#show(answer);
    } catch (error) {
      if (!force) await this.#released(request.signal);
      if (request.signal.aborted) return;
      if (!(error instanceof Refusal)) throw error;
      if (this.#text === null || force) this.#fail(error);
    } finally {
      if (this.#request === request) {
        this.#request = null;
        this.node.removeAttribute("aria-busy");
        if (this.#repeats) this.refresh(false);
      }
    }
  }

  async #released(signal) {
    while (!signal.aborted && this.node.querySelector("[data-held]")) {
      await new Promise((resolve) => setTimeout(resolve, HELD));
    }
  }

  #show(answer) {
    const text = JSON.stringify(answer, (key, value) =>
      key === "as_of" || key === "now" || key === "rate" ? 0 : value,
    );
    if (text !== this.#text) {
      this.#text = text;
      this.#answer = answer;
      replace(this.node, this.#render(answer));
    }
    this.#always(answer);
  }

  /** Renders the same answer again, after another change. */
  redraw() {
    if (this.#answer !== null) replace(this.node, this.#render(this.#answer));
  }

  #fail(refusal) {
    this.#text = null;
    replace(
      this.node,
      failure(refusal, () => this.refresh()),
    );
  }

  close() {
    this.#repeats = false;
    this.#request?.abort();
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

/** The placeholder where there is nothing to show. */
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

/* Says when something has changed: the service's stream tells it; while there is none, the page
   asks every few seconds. A page that nobody looks at keeps no stream open. */

const POLL = 5000;
const RECONNECT = 60_000;

export class Live {
  #changed;
  #said;
  #source = null;
  #poll = null;
  #again = null;

  /** `changed()` when there may be something new, `said(state)`: live, polling, paused. */
  constructor(changed, said) {
    this.#changed = changed;
    this.#said = said;
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) this.#pause();
      else this.start();
    });
  }

  start() {
    this.#close();
    this.#changed();
    this.#source = new EventSource("api/v1/stream");
    this.#source.onopen = () => {
      this.#stopPolling();
      this.#said("live");
    };
    this.#source.onmessage = () => this.#changed();
    this.#source.onerror = () => this.#lost();
  }

  #lost() {
    this.#startPolling();
    if (this.#source?.readyState !== EventSource.CLOSED) return; // it tries again by itself
    clearTimeout(this.#again);
    this.#again = setTimeout(() => this.start(), RECONNECT);
  }

  #startPolling() {
    this.#said("polling");
    this.#poll ??= setInterval(() => this.#changed(), POLL);
  }

  #stopPolling() {
    clearInterval(this.#poll);
    this.#poll = null;
  }

  #pause() {
    this.#close();
    this.#said("paused");
  }

  #close() {
    this.#source?.close();
    this.#source = null;
    clearTimeout(this.#again);
    this.#stopPolling();
  }
}

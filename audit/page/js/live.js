/* Says when something has changed: the service's stream tells it; while there is none, the page
   asks every few seconds. A stream in which nothing is said any more is no sign of life. A page that nobody looks at keeps no stream open. */

const POLL = 5000;
const RECONNECT = 60_000;
const SILENCE = 35_000; // the service gives a sign of life every fifteen seconds
const WATCH = 5000;

export class Live {
  #changed;
  #said;
  #source = null;
  #poll = null;
  #again = null;
  #watch = null;
  #heard = 0;

  /** `changed()` when there may be something new, `said(state)`: live, polling, silent, paused. */
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
    this.#source.onopen = () => this.#hear();
    this.#source.onmessage = () => {
      this.#hear();
      this.#changed();
    };
    this.#source.onerror = () => this.#lost();
  }

  #hear() {
    this.#heard = Date.now();
    this.#stopPolling();
    this.#said("live");
    this.#watch ??= setInterval(() => this.#listen(), WATCH);
  }

  /** A service that stands still keeps its connections: its silence is all that tells. */
  #listen() {
    if (Date.now() - this.#heard < SILENCE) return;
    this.#said("silent");
    this.#changed();
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
    clearInterval(this.#watch);
    this.#watch = null;
    this.#stopPolling();
  }
}

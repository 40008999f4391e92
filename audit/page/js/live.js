/* Reports changes, by the service's stream, or else by polling every few seconds. A stream that has
   fallen silent counts as broken. A hidden page keeps no stream open, and a visible one only after a
   pointer moved, a key was pressed or it was scrolled: programs that take screenshots wait for the
   end of all requests. */

const POLL = 5000;
const RECONNECT = 60_000;
const SILENCE = 35_000; // the service sends a line at least every fifteen seconds
const WATCH = 5000;
const SIGNS = ["pointermove", "pointerdown", "keydown", "wheel", "touchstart"];

export class Live {
  #changed;
  #report;
  #source = null;
  #poll = null;
  #again = null;
  #watch = null;
  #heard = 0;
  #isRead = false; // the page has been used

  /** Calls `changed()` when something may be new, and `report(state)`: live, polling, silent, paused. */
  constructor(changed, report) {
    this.#changed = changed;
    this.#report = report;
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) this.#pause();
      else this.start();
    });
    const read = () => {
      for (const sign of SIGNS) window.removeEventListener(sign, read);
      this.#isRead = true;
      if (!document.hidden) this.start();
    };
    for (const sign of SIGNS) window.addEventListener(sign, read, { passive: true });
  }

  start() {
    this.#close();
    this.#changed();
    if (!this.#isRead) {
      this.#poll = setInterval(() => this.#changed(), POLL);
      this.#report("live");
      return;
    }
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
    this.#report("live");
    this.#watch ??= setInterval(() => this.#listen(), WATCH);
  }

  /** A service that hangs keeps its connections: only its silence shows it. */
  #listen() {
    if (Date.now() - this.#heard < SILENCE) return;
    this.#report("silent");
    this.#changed();
  }

  #lost() {
    this.#startPolling();
    if (this.#source?.readyState !== EventSource.CLOSED) return; // it reconnects by itself
    clearTimeout(this.#again);
    this.#again = setTimeout(() => this.start(), RECONNECT);
  }

  #startPolling() {
    this.#report("polling");
    this.#poll ??= setInterval(() => this.#changed(), POLL);
  }

  #stopPolling() {
    clearInterval(this.#poll);
    this.#poll = null;
  }

  #pause() {
    this.#close();
    this.#report("paused");
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

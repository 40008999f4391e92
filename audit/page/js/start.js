/* The entry point of the page: shows the view that the URL names, and keeps it fresh. A view is made
   once, and updated when its parameters change, until another view replaces it. */

import { showAccount } from "./account.js";
import { ask } from "./api.js";
import { h, replace } from "./dom.js";
import { duration, short } from "./figures.js";
import { listenToKeys } from "./keyboard.js";
import { Live } from "./live.js";
import { plain, words } from "./names.js";
import { go, here } from "./routes.js";
import {
  ALERT_KINDS,
  MEANINGS,
  STATES,
  alertBadge,
  alertMeaning,
  sign,
  stateBadge,
} from "./signs.js";
import { seconds, utc } from "./times.js";
import { listenToZone } from "./zone.js";
import { agents } from "./views/agents.js";
import { alerts } from "./views/alerts.js";
import { brokers } from "./views/brokers.js";
import { findings } from "./views/findings.js";
import { health } from "./views/health.js";
import { host } from "./views/host.js";
import { hostTopics } from "./views/host_topics.js";
import { loads } from "./views/loads.js";
import { messages } from "./views/messages.js";
import { nowhere } from "./views/nowhere.js";
import { overview } from "./views/overview.js";
import { topic } from "./views/topic.js";

const VIEWS = {
  ...{ overview, topic, host: ofHost, findings, agents, loads, brokers, health, alerts, messages, nowhere },
};
/** A host's part of one topic, or of all. */
function ofHost(page) {
  return page.params.topic ? host(page) : hostTopics(page);
}

const PARENTS = { topic: "overview", host: "overview", messages: "overview" };
const content = document.getElementById("content");
let shown = null; // { name, page, view }
let badge = "";

/** The context of a view: its parameters, and functions that change them. */
function pageOf(name, params) {
  return {
    name,
    params,
    /** Other parameters, and the first page again unless one is named. */
    change(patch, options) {
      go(name, { ...this.params, page: null, ...patch }, options);
    },
  };
}

function show() {
  const { view: requestedName, params } = here();
  const name = Object.hasOwn(VIEWS, requestedName) ? requestedName : "nowhere";
  if (shown?.name === name && shown.view.stays(params)) {
    shown.page.params = params;
    shown.view.update();
    return;
  }
  const first = shown === null;
  shown?.view.close();
  const page = pageOf(name, params);
  const view = { stays: () => true, close: () => {}, ...VIEWS[name](page) };
  shown = { name, page, view };
  content.replaceChildren(...view.nodes);
  sayTitle();
  markCurrent(PARENTS[name] ?? name);
  view.update();
  if (first) return;
  window.scrollTo(0, 0);
  content.focus({ preventScroll: true });
}

/** The tab shows the state of all topics, in every view. */
function sayTitle() {
  document.title = [badge, plain(shown.view.title), "· Penstock audit"].filter(Boolean).join(" ");
}

function markCurrent(name) {
  for (const tab of document.querySelectorAll("nav a")) {
    if (tab.dataset.view === name) {
      tab.setAttribute("aria-current", "page");
      tab.scrollIntoView({ block: "nearest", inline: "nearest" });
    } else tab.removeAttribute("aria-current");
  }
}

// The head of the page: whether it is live, and the time up to which the ledger has been read.

const live = document.getElementById("live");
const liveWords = document.getElementById("live-words");
const OLD = 60_000; // a ledger that was read since then counts as current
let how = "connecting";
let asOf = 0; // by the service's clock
let ahead = 0; // how far that clock is ahead of ours, at most
let answers = true;

/** The age of the shown data. */
function age() {
  return asOf > 0 ? Date.now() + ahead - asOf : 0;
}

function showAge() {
  const old = age() > OLD;
  live.dataset.live = !answers || how === "silent" ? "lost" : old ? "old" : how;
  const read = asOf > 0 ? (old ? `${duration(age())} old` : seconds(asOf)) : "";
  liveWords.textContent = read || (answers ? how : "no answer");
  const known = asOf > 0 ? `the ledger has been read up to ${utc(asOf)}` : "nothing is known yet";
  live.title = `${answers ? how : "no answer"}; ${known}`;
}

setInterval(showAge, 5000); // data also ages while nothing happens

async function look() {
  const requested = Date.now(); // a slow response is not fresh
  try {
    const answer = await ask("topics", { size: 1 });
    answers = true;
    asOf = answer.as_of;
    ahead = answer.now - requested;
    badge = answer.headline.badge;
    sayTitle();
    const raised = document.getElementById("alerts-raised");
    raised.hidden = answer.alerts === 0;
    raised.textContent = short(answer.alerts);
    notice(answer.notices.map((text) => ["unknown", text]));
  } catch (refusal) {
    answers = false;
    const shown = asOf > 0 ? `This data is ${duration(age())} old` : "Nothing is known yet";
    notice([["missing", `${refusal.message} ${shown}; the page keeps trying.`]]);
  }
  showAge();
}

function notice(list) {
  replace(
    document.getElementById("notices"),
    list.map(([state, text]) =>
      h("p", { class: `notice state-${state}` }, sign(state, 18), words(text)),
    ),
  );
}

/** Renders everything again, with times in another zone. */
function showAnew() {
  shown.view.close();
  shown = null;
  show();
  look();
}

const AT_MOST_EVERY = 1000;
let due = null;
let last = 0;

/** Refreshes, at most once a second, and not during a selection. */
function changed() {
  if (due !== null) return;
  due = setTimeout(
    () => {
      due = null;
      last = Date.now();
      if (content.querySelector("[data-held]") || selecting()) {
        changed();
        return;
      }
      look();
      shown?.view.update(false);
    },
    Math.max(0, last + AT_MOST_EVERY - Date.now()),
  );
}

function selecting() {
  const selection = getSelection();
  return selection !== null && !selection.isCollapsed && content.contains(selection.anchorNode);
}

replace(
  document.getElementById("help-signs"),
  STATES.map((state) => h("li", {}, stateBadge(state), MEANINGS[state])),
);
replace(
  document.getElementById("help-alerts"),
  ALERT_KINDS.map((kind) => h("li", { "data-kind": kind }, alertBadge(kind), alertMeaning(kind))),
);
listenToKeys();
listenToZone(showAnew);
await showAccount(); // views depend on the user
window.addEventListener("hashchange", show);
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the fragment of the URL is the view
  content.focus();
});
show();
new Live(changed, (state) => {
  how = state;
  showAge();
}).start();

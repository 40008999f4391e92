/* The look of each state and kind: a sign, a word, a colour. The sign suffices without the colour. */

import { h, svg } from "./dom.js";

const PATHS = {
  complete: "M5.5 10.4l3 3 6-6.6",
  pending: "M10 6v4.2l2.8 1.8",
  missing: "M6 10h8",
  duplicated: "M6 10h8M10 6v8",
  changed: "M6 8.2h8M6 11.8h8M12 5.6L8 14.4",
  unknown: "M7.8 8a2.2 2.2 0 1 1 3 2c-.6.3-.8.6-.8 1.4M10 14h0",
  unloaded: "M10 5.4v5.4M10 14.2h0",
  empty: "M10 10h0",
};

export const STATES = ["changed", "duplicated", "missing", "unknown", "pending", "complete", "empty"];
/** States that need attention, the worst first. */
export const FAULTS = ["changed", "duplicated", "missing", "unknown"];

export const WORDS = {
  empty: "Empty",
  complete: "Complete",
  pending: "Pending",
  unknown: "Unknown",
  missing: "Missing",
  duplicated: "Duplicated",
  changed: "Changed",
};

export const MEANINGS = {
  empty: "no events, so nothing is proven",
  complete: "every line is accounted for",
  pending: "something is still expected",
  unknown: "no agent was watching for a while, so something may be lost",
  missing: "an earlier tier has events that a later one lacks",
  duplicated: "a tier has events more than once",
  changed: "the same events, with other bytes",
};

/** A single character, for a narrow cell. */
export const LETTERS = {
  empty: "",
  complete: "",
  pending: "·",
  unknown: "?",
  missing: "−",
  duplicated: "+",
  changed: "≠",
};

const KINDS = {
  lost: ["missing", "Lost"],
  missing: ["missing", "Missing"],
  duplicated: ["duplicated", "Duplicated"],
  changed: ["changed", "Changed"],
  unproven: ["missing", "Unproven"],
  unnamed: ["missing", "Unnamed"],
  unknown: ["unknown", "Unknown"],
};
/** The state that a finding of this kind makes. */
export const kindState = (kind) => KINDS[kind]?.[0] ?? "missing";
export const KIND_NAMES = Object.keys(KINDS);

const AGENTS = {
  ok: ["complete", "OK"],
  behind: ["pending", "Behind"],
  silent: ["missing", "Silent"],
  never: ["missing", "Never heard"],
  retired: ["retired", "Retired"],
};
export const AGENT_STATES = Object.keys(AGENTS);

// Whether the statements of a program are signed.
const SIGNATURES = {
  signed: ["complete", "Signed"],
  unsigned: ["pending", "Unsigned"],
  rejected: ["missing", "Rejected"],
};
export const SIGNATURE_STATES = Object.keys(SIGNATURES);
export const signatureWord = (state) => SIGNATURES[state]?.[1] ?? state;
export const signatureSign = (state) => sign(SIGNATURES[state]?.[0] ?? "unknown", 15);

/** Nothing for signed statements, a quiet word for unsigned ones. */
export function signatureMark(state) {
  if (state === "unsigned") {
    const title = "Nobody can check whether its statements are its own: a release without signatures";
    return h("span", { class: "under", title }, "unsigned");
  }
  return state === "rejected" ? badge("missing", "Rejected") : null;
}

/** The round sign of a state. */
export function sign(state, size = 20) {
  return svg(
    "svg",
    {
      class: `sign state-${known(state)}`,
      viewBox: "0 0 20 20",
      width: size,
      height: size,
      "aria-hidden": "true",
    },
    svg("circle", { cx: 10, cy: 10, r: 9 }),
    svg("path", { d: PATHS[state] ?? PATHS.unknown }),
  );
}

const COLOURS = { unloaded: "missing", empty: "pending" };

function known(state) {
  if (COLOURS[state]) return COLOURS[state];
  return WORDS[state] || state === "retired" ? state : "unknown";
}

function badge(state, word) {
  return h("span", { class: `badge state-${known(state)}` }, sign(state, 15), word);
}

export const unloadedBadge = () => badge("unloaded", "Not loaded");
export const stateBadge = (state, word) => badge(state, word ?? WORDS[state] ?? state);
export const kindBadge = (kind) => badge(...(KINDS[kind] ?? ["unknown", kind]));
export const agentBadge = (state) => badge(...(AGENTS[state] ?? ["unknown", state]));
export const kindWord = (kind) => KINDS[kind]?.[1] ?? kind;
export const agentWord = (state) => AGENTS[state]?.[1] ?? state;
export const agentSign = (state) => sign(AGENTS[state]?.[0] ?? "unknown", 15);
export const kindSign = (kind) => sign(KINDS[kind]?.[0] ?? "unknown", 15);

// By kind: the sign's state, the word, the meaning.
const ALERTS = {
  ...Object.fromEntries(FAULTS.map((state) => [state, [state, WORDS[state], MEANINGS[state]]])),
  unloaded: ["unloaded", "Not loaded", "the loads of a table fail"],
  late: ["pending", "Late", "hours wait longer than they should"],
  silent: ["missing", "Silent", "an agent has not been heard from"],
  dead: ["unknown", "Dead letters", "many lines of a topic do not parse"],
  altered: ["pending", "Altered", "many lines of a topic had to be altered"],
  away: ["missing", "Away", "a broker, a registry or a ledger cannot be reached"],
  signatures: ["missing", "Signatures", "statements are not signed as they must be"],
  clock: ["missing", "Clock", "the clock of a host is wrong"],
  mirror: ["missing", "Mirror", "a mirror has not been heard from"],
  loader: ["unloaded", "Loader", "a loader has begun no load for too long"],
  zookeeper: ["missing", "ZooKeeper", "a broker has lost ZooKeeper, or a server of it is down"],
  certificate: ["unloaded", "Certificate", "a certificate expires soon"],
  disk: ["unloaded", "Disk", "a disk is full or nearly full"],
  inputs: ["missing", "Inputs", "an agent does not read all of its inputs"],
};
export const ALERT_KINDS = Object.keys(ALERTS);
export const alertBadge = (kind) => badge(...(ALERTS[kind] ?? ["unknown", kind]).slice(0, 2));
export const alertWord = (kind) => ALERTS[kind]?.[1] ?? kind;
export const alertMeaning = (kind) => ALERTS[kind]?.[2] ?? "";

const PROGRAMS = {
  away: ["missing", "Away"],
  warning: ["unloaded", "Needs attention"],
  unknown: ["unknown", "Unknown"],
  ok: ["complete", "OK"],
};
/** States of programs, the worst first. */
export const PROGRAM_STATES = Object.keys(PROGRAMS);
export const programBadge = (state) => badge(...(PROGRAMS[state] ?? ["unknown", state]));
export const programWord = (state) => PROGRAMS[state]?.[1] ?? state;
export const programSign = (state, size = 15) => sign(PROGRAMS[state]?.[0] ?? "unknown", size);

/** A badge for each fault among these states, the worst first; without faults, the worst state. */
export function stateBadges(having, state, ...others) {
  const faults = having.filter((state) => FAULTS.includes(state));
  const shown = faults.length > 0 || others.length > 0 ? faults : [state];
  return h("span", { class: "badges" }, shown.map((state) => stateBadge(state)), others);
}
/** The states that these counts of kinds make, the worst first. */
export const statesOf = (kinds) =>
  STATES.filter((state) => kinds.some((count) => kindState(count.kind) === state));

/** The problems of a host; a silent agent is always one of them. */
export function hostBadges(row) {
  if (!row) return null;
  const silent = row.agent_state === "silent" ? [agentBadge("silent")] : [];
  return stateBadges(statesOf(row.kinds), row.state, ...silent);
}

/** The name of a tier for readers. */
export function tierName(tier) {
  const names = { agent: "Agents", origin: "Origin brokers", mirror: "Mirror", hdfs: "Files" };
  return { ...names, broker: "Brokers" }[tier] ?? tier;
}

/* The form that accepts a fault, by the most exact names that the audit has for it. */

import { plain } from "../names.js";
import { stretch } from "../times.js";
import { statementForm } from "./statement_form.js";

/** `topicId`: by now another topic may have this name. */
export function acceptanceForm(fault, { cluster, topic, topicId }) {
  if (fault.accepted || fault.harmless) return null;
  return statementForm({
    statement: "accept",
    title: "Accept…",
    what: `Accepts ${what(fault)}: it counts as complete, and stays shown. This cannot be undone.`,
    button: "Accept",
    body: named(fault, { cluster, topic, topic_id: topicId }),
  });
}

/** The names to match, all together; null if none is known. */
function named(fault, place) {
  if (fault.tier === "hdfs" && fault.path && !fault.source) {
    return { ...place, file: `${fault.destination.replace(/\/+$/, "")}/${fault.path}` };
  }
  const host = fault.host ? { host: fault.host } : {};
  const runs = runsOf(fault);
  if (runs.length > 0) return { ...place, ...host, runs };
  if (fault.partition >= 0 && fault.offset >= 0 && fault.offsets > 0) {
    const offsets = [{ first: fault.offset, count: fault.offsets }];
    return { ...place, ...host, partition: fault.partition, offsets };
  }
  if (fault.from_time < 0 || fault.to_time <= fault.from_time) return null;
  return { ...place, ...host, from_time: fault.from_time, to_time: fault.to_time };
}

/** Runs of its file: by events, and by bytes where only part of these is meant. */
function runsOf({ source, seq, events, position, end_position: endPosition, unseen_end: unseenEnd, kind }) {
  const end = unseenEnd ? endPosition + 1 : endPosition;
  const runs = [];
  if (source && seq >= 0 && events > 0) runs.push({ source, seq, events });
  if (source && position >= 0 && end > position) {
    runs.push({ source, position, end_position: end });
  } else if (source && position >= 0 && kind === "unknown") {
    runs.push({ source, position, end_position: position + 1 }); // the end is unknown
  }
  return runs;
}

function what(fault) {
  if (fault.tier === "hdfs" && fault.path && !fault.source) return `the file ${plain(fault.path)}`;
  const isTimed = fault.from_time >= 0 && fault.to_time > fault.from_time;
  const where = fault.host ? ` of ${plain(fault.host)}` : "";
  return `this fault${where}${isTimed ? `, ${stretch(fault.from_time, fault.to_time)}` : ""}`;
}

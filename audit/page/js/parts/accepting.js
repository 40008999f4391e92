/* That a fault is accepted: by the names that the audit has for it, the most exact that there are. */

import { plain } from "../names.js";
import { stretch } from "../times.js";
import { saying } from "./saying.js";

/** `topicId`: another topic of that name may be there by now. */
export function accepting(fault, { cluster, topic, topicId }) {
  if (fault.accepted) return null;
  return saying({
    statement: "accept",
    title: "Accept…",
    what: `It counts as complete then, and stays shown: ${what(fault)}. Nobody can undo that.`,
    button: "Accept",
    body: named(fault, { cluster, topic, topic_id: topicId }),
  });
}

/** All that is given must apply; null where nothing is known that it could be told by. */
function named(fault, whose) {
  if (fault.tier === "hdfs" && fault.path && !fault.source) {
    return { ...whose, file: `${fault.destination.replace(/\/+$/, "")}/${fault.path}` };
  }
  const host = fault.host ? { host: fault.host } : {};
  const runs = runsOf(fault);
  if (runs.length > 0) return { ...whose, ...host, runs };
  if (fault.partition >= 0 && fault.offset >= 0 && fault.offsets > 0) {
    const offsets = [{ first: fault.offset, count: fault.offsets }];
    return { ...whose, ...host, partition: fault.partition, offsets };
  }
  if (fault.from_time < 0 || fault.to_time <= fault.from_time) return null;
  return { ...whose, ...host, from_time: fault.from_time, to_time: fault.to_time };
}

/** Of its file: by events, and by bytes where only a part of those is meant. */
function runsOf({ source, seq, events, position, end_position: end, kind }) {
  const runs = [];
  if (source && seq >= 0 && events > 0) runs.push({ source, seq, events });
  if (source && position >= 0 && end > position) {
    runs.push({ source, position, end_position: end });
  } else if (source && position >= 0 && kind === "unknown") {
    runs.push({ source, position, end_position: position + 1 }); // nobody knows where it ends
  }
  return runs;
}

function what(fault) {
  if (fault.tier === "hdfs" && fault.path && !fault.source) return `the file ${plain(fault.path)}`;
  const isTimed = fault.from_time >= 0 && fault.to_time > fault.from_time;
  const where = fault.host ? ` of ${plain(fault.host)}` : "";
  return `this fault${where}${isTimed ? `, ${stretch(fault.from_time, fault.to_time)}` : ""}`;
}

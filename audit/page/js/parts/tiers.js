/* Compares the tiers of one window. Each is compared with the tier that its events come from: brokers
   with agents, each root of files with the brokers, or with the agents where no broker counts; the
   brokers of a copy, and the mirror, with those of its origin. The service decides whether a
   difference is a fault; the cell has its decision. */

const FILES = "hdfs";
const [EVENTS, , CRC_SUM, , DUPLICATES, DEAD] = [0, 1, 2, 3, 4, 5];

/** The columns of an answer, each with its cell if it has events. Cells begin at multiples of the
    step. */
export function columnsOf({ from_time: from, to_time: to, step, cells }) {
  const byTime = new Map(cells.map((cell) => [cell.start, cell]));
  const columns = [];
  for (let start = Math.floor(from / step) * step; start < to; start += step) {
    columns.push({ start, end: start + step, cell: byTime.get(start) ?? null });
  }
  return columns;
}

/** The events that a tier accounts for. */
function accounted(sums) {
  return sums ? sums[EVENTS] + sums[DUPLICATES] + sums[DEAD] : 0;
}

export const eventsOf = (sums) => (sums ? sums[EVENTS] : 0);

/** The index of the tier that each one is compared with; -1 for the first. */
export function references(tiers) {
  let passing = -1;
  const counted = tiers.some((tier) => tier.tier === "broker");
  return tiers.map((tier, index) => {
    const reference = passing;
    if (tier.tier !== FILES && !(tier.tier === "mirror" && counted)) passing = index;
    return reference;
  });
}

/** The content of a tier's cell: its difference to the one before, and the kind of that. */
export function tierCell(cell, index, reference) {
  const sums = cell.sums[index];
  const before = cell.sums[reference];
  if (!before) return { difference: 0, state: "complete" };
  const difference = accounted(sums) - eventsOf(before);
  if (difference < 0) return { difference, state: cell.missing > 0 ? "missing" : "pending" };
  if (difference > 0) return { difference, state: cell.excess > 0 ? "duplicated" : "foreign" };
  const changed = cell.changed && sums && sums[CRC_SUM] !== before[CRC_SUM];
  return { difference, state: changed ? "changed" : "complete" };
}

/** A tier's differences over all cells, by kind. A cell can have missing events and pending ones. */
export function differences(cells, index, reference) {
  const sum = { missing: 0, pending: 0, duplicated: 0, foreign: 0, unclaimed: 0, changed: 0 };
  for (const cell of cells) {
    const { difference, state } = tierCell(cell, index, reference);
    if (state === "missing") {
      const missing = Math.min(cell.missing, -difference);
      sum.missing += missing;
      sum.pending += -difference - missing;
    } else if (state === "changed") sum.changed += 1;
    else if (state === "foreign") {
      const unclaimed = Math.min(cell.unclaimed_yet, difference);
      sum.unclaimed += unclaimed;
      sum.foreign += difference - unclaimed;
    }
    else if (difference !== 0) sum[state] += Math.abs(difference);
  }
  return sum;
}

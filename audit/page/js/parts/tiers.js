/* How the tiers of one window compare. Each is held against the tier that it gets its events from:
   brokers against agents, every root of files against the brokers, or the agents where no broker
   counts; the brokers of a copy, and the mirror, against those of its origin. Whether a difference is a fault is the service's to say, and stands in the cell. */

const FILES = "hdfs";
const [EVENTS, , CRC_SUM, , DUPLICATES, DEAD] = [0, 1, 2, 3, 4, 5];

/** The stretches of time that an answer is about, each with its cell if anything happened in it.
    Cells begin at multiples of the step. */
export function columnsOf({ from_time: from, to_time: to, step, cells }) {
  const byTime = new Map(cells.map((cell) => [cell.start, cell]));
  const columns = [];
  for (let start = Math.floor(from / step) * step; start < to; start += step) {
    columns.push({ start, end: start + step, cell: byTime.get(start) ?? null });
  }
  return columns;
}

/** All that a tier can say of the events that it was given. */
function accounted(sums) {
  return sums ? sums[EVENTS] + sums[DUPLICATES] + sums[DEAD] : 0;
}

export const eventsOf = (sums) => (sums ? sums[EVENTS] : 0);

/** The index of the tier that each one is held against; -1 for the first. */
export function references(tiers) {
  let passing = -1;
  const counted = tiers.some((tier) => tier.tier === "broker");
  return tiers.map((tier, index) => {
    const reference = passing;
    if (tier.tier !== FILES && !(tier.tier === "mirror" && counted)) passing = index;
    return reference;
  });
}

/** What a tier's cell shows: its difference to the one before, and what that is. */
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

/** What a tier lacks or has too much of in all cells: by what that is. A cell can lack some events
    for good, and others that may still come. */
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

"""Stores losses of logs that brokers report, and finds those that no tier had counted before.

Rule 1: Each report is a cut (generations.py): earlier claims of these offsets are about a log that
        is gone.
Rule 2: Offsets that a broker had acknowledged, and that no tier has claimed under a lower leader
        epoch, are missing. An agent may still claim them, naming their lines, and a loader may
        report that it had read them; then these reports replace the loss.
Rule 3: A loss of unknown size is reported as unknown only in a topic with other producers than
        agents. Agents report what they shipped, so if all that was ever counted is theirs, nothing
        is unknown.
"""

import sqlite3
from collections.abc import Sequence
from typing import Final

from audit.reconciling.picture import PartitionPicture, TierKind, UncountedLoss
from audit.store.entries.chunks import Chunk
from audit.store.folding.columns import MOST_EPOCH
from audit.store.partitions import generations
from audit.store.partitions.generations import FOR_EVER, STRIDE, Generations, Truncation
from audit.store.statements.rare_statements import HOUR, statements_of
from ground.intervals import Intervals, minus, union

_MOST_OFFSET: Final = 1 << 53
_MOST_LOSSES: Final = 1_000  # of a topic; the newest are kept
_UNKNOWN: Final = -1
_UNCOUNTED: Final = 600_000  # milliseconds: brokers count more often
_NO_REASON: Final = "the broker reports that they are gone"

_KEEP: Final = """
INSERT INTO withdrawn VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET time = min(time, excluded.time), reason = min(reason, excluded.reason)
"""
_LOSSES: Final = """
SELECT partition, epoch, first, count, reason, time FROM withdrawn WHERE topic = ?
    ORDER BY time DESC, partition, epoch, first, count LIMIT ?
"""
# The latest report of offsets before these; else the time of the first event, as far as known.
_SPOKEN: Final = """
SELECT coalesce(max(CASE WHEN time <= ?5 THEN time END), min(hour), ?5) FROM placed
    WHERE topic = ?1 AND partition = ?2 AND epoch < ?3 AND first < ?4
"""


def keep(chunk: Chunk) -> None:
    """Stores reported losses; must be called before offsets are stored."""
    for row, statement in statements_of(chunk, "withdrawn", "broker"):
        epoch, first = statement["leader_epoch"], statement["first"]
        if not (0 <= epoch <= MOST_EPOCH and 0 <= first <= _MOST_OFFSET):
            continue
        (name,) = chunk.topic_names([statement["topic"]])
        (topic,) = chunk.numbers.topics.of([statement["topic_id"]], name)
        partition, reason = statement["partition"], statement["reason"] or _NO_REASON
        time = int(chunk.entries.time[row])
        count = min(statement["count"], _MOST_OFFSET) if statement["count"] > 0 else _UNKNOWN
        end = first + statement["count"]
        if (
            not first < end < statement["resumes"]
        ):  # nothing is between them and where the log continues
            end = FOR_EVER
        generations.cut(chunk, topic, partition, Truncation(epoch, end, first, reason, time))
        chunk.connection.execute(_KEEP, (topic, partition, epoch, first, count, reason, time))
        chunk.cut_topics.add(topic)
        chunk.touched.add((topic, time - time % HOUR))


def uncounted(
    connection: sqlite3.Connection,
    topic: int,
    partitions: Sequence[PartitionPicture],
    generations: Generations,
) -> list[UncountedLoss]:
    """Returns losses that no tier has claimed; most topics have none."""
    losses = connection.execute(_LOSSES, (topic, _MOST_LOSSES)).fetchall()
    if not losses:
        return []
    claimed_offsets = {
        partition.number: union(*partition.claimed.values()) for partition in partitions
    }
    is_known_elsewhere = any(_is_of_others(partition) for partition in partitions)
    uncounted_losses = []
    for partition, epoch, first, count, reason, time in losses:
        ((last_claim,),) = connection.execute(
            _SPOKEN, (topic, partition, epoch, first, time)
        ).fetchall()
        times = max(0, min(last_claim, time) - _UNCOUNTED), time + 1
        if count == _UNKNOWN:
            if is_known_elsewhere:
                uncounted_losses.append(UncountedLoss(partition, first, _UNKNOWN, reason, *times))
            continue
        for part in generations.parts(partition, epoch - 1, first, first + count):
            if part.number >= STRIDE:
                unclaimed_offsets = minus(
                    ((part.first, part.end),), claimed_offsets.get(part.number, ())
                )
                uncounted_losses += [
                    UncountedLoss(partition, begin, end - begin, reason, *times)
                    for begin, end in unclaimed_offsets
                ]
    return sorted(uncounted_losses)


def _is_of_others(partition: PartitionPicture) -> bool:
    """Whether other producers than agents have written to a partition."""
    agent_offsets: Intervals = ()
    counted_offsets: list[Intervals] = []
    for tier, offsets in partition.claimed.items():
        if tier.kind is TierKind.AGENT:
            agent_offsets = offsets
        else:
            counted_offsets.append(offsets)
    return bool(minus(union(*counted_offsets), agent_offsets))

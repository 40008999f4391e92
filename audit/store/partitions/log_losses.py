"""What logs have lost, as brokers say, and what of it nobody had spoken of before.

Rule 1: each such statement is a cut (generations.py): what was said of these offsets is of a log
        that is there no more.
Rule 2: offsets that a broker had acknowledged, and of which no tier has spoken under a lower leader
        epoch, are missing all the same. An agent may still say that they were its own, with the
        names of lines, and a loader that it had read them; then these are taken from there.
Rule 3: of a loss of which nobody knows how much it is, as little is known in a topic to which
        others than agents write. Agents say by themselves what they have shipped, so where all that
        was ever counted is theirs, nothing is unknown.
"""

import sqlite3
from collections.abc import Sequence
from typing import Final

from audit.picture import PartitionPicture, TierKind, UncountedLoss
from audit.store.entries.chunks import Chunk
from audit.store.folding.columns import MOST_EPOCH
from audit.store.partitions import generations
from audit.store.partitions.generations import FOR_EVER, STRIDE, Generations, Truncation
from audit.store.statements.rare_statements import HOUR, said_by_tier
from ground.intervals import Intervals, minus, union

_MOST_OFFSET: Final = 1 << 53
_MOST_LOSSES: Final = 1_000  # of a topic: the newest
_UNKNOWN: Final = -1
_UNCOUNTED: Final = 600_000  # milliseconds: brokers count more often
_NO_REASON: Final = "the broker says that they are gone"

_KEEP: Final = """
INSERT INTO withdrawn VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET time = min(time, excluded.time), reason = min(reason, excluded.reason)
"""
_LOSSES: Final = """
SELECT partition, epoch, first, count, reason, time FROM withdrawn WHERE topic = ?
    ORDER BY time DESC, partition, epoch, first, count LIMIT ?
"""
# When somebody last spoke of what lies before these offsets; else when the first event was, as far
# as it is known.
_SPOKEN: Final = """
SELECT coalesce(max(CASE WHEN time <= ?5 THEN time END), min(hour), ?5) FROM placed
    WHERE topic = ?1 AND partition = ?2 AND epoch < ?3 AND first < ?4
"""


def keep(chunk: Chunk) -> None:
    """Before anything is said of offsets."""
    for row, said in said_by_tier(chunk, "withdrawn", "broker"):
        epoch, first = said["leader_epoch"], said["first"]
        if not (0 <= epoch <= MOST_EPOCH and 0 <= first <= _MOST_OFFSET):
            continue
        (name,) = chunk.topic_names([said["topic"]])
        (topic,) = chunk.numbers.topics.of([said["topic_id"]], name)
        partition, reason = said["partition"], said["reason"] or _NO_REASON
        time = int(chunk.entries.time[row])
        count = min(said["count"], _MOST_OFFSET) if said["count"] > 0 else _UNKNOWN
        end = first + said["count"]
        if not first < end < said["resumes"]:  # nothing lies between them and where it goes on
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
    """Of which nobody has spoken. Most topics have lost nothing, and cost nothing."""
    losses = connection.execute(_LOSSES, (topic, _MOST_LOSSES)).fetchall()
    if not losses:
        return []
    spoken = {each.number: union(*each.claimed.values()) for each in partitions}
    known_by_others = any(_is_of_others(each) for each in partitions)
    found = []
    for partition, epoch, first, count, reason, time in losses:
        ((before,),) = connection.execute(
            _SPOKEN, (topic, partition, epoch, first, time)
        ).fetchall()
        times = max(0, min(before, time) - _UNCOUNTED), time + 1
        if count == _UNKNOWN:
            if known_by_others:
                found.append(UncountedLoss(partition, first, _UNKNOWN, reason, *times))
            continue
        for part in generations.parts(partition, epoch - 1, first, first + count):
            if part.number >= STRIDE:
                rest = minus(((part.first, part.end),), spoken.get(part.number, ()))
                found += [
                    UncountedLoss(partition, begin, end - begin, reason, *times)
                    for begin, end in rest
                ]
    return sorted(found)


def _is_of_others(partition: PartitionPicture) -> bool:
    """Whether anything was counted there that no agent has shipped."""
    agents: Intervals = ()
    counted: list[Intervals] = []
    for tier, claimed in partition.claimed.items():
        if tier.kind is TierKind.AGENT:
            agents = claimed
        else:
            counted.append(claimed)
    return bool(minus(union(*counted), agents))

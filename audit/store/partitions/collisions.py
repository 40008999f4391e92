"""Stores events that loaders made dead letters because other events have the same source and
sequence number but other content. If an agent claims the offsets of such events, they are missing:
the verdict compares both statements, whichever came first.

What a run reports here is void once a later run has rebuilt the time of these events.
"""

import sqlite3
from typing import Any, Final

import numpy as np

from audit.reconciling.picture import Collided, Tier
from audit.store.entries.chunks import Chunk
from audit.store.folding.columns import MOST, MOST_EPOCH, MOST_PARTITION, MOST_TIME
from audit.store.partitions.generations import Generations
from audit.store.statements.rare_statements import statements_of

_MOST_OFFSET: Final = 1 << 53
_KEEP: Final = "INSERT OR IGNORE INTO collided VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
# The file's agent is known from agents' reports; for a copy, from its origin's.
_OF_TOPIC: Final = """
SELECT each.tier, each.partition, each.epoch, each.first, each.events, each.source, each.seq,
    each.kept_partition, each.kept, each.from_time, each.to_time, said,
    journal, hosts.text, paths.text FROM collided AS each
    LEFT JOIN sources ON sources.id = (SELECT id FROM sources
        WHERE sources.source = each.source AND agent > 0 LIMIT 1)
    LEFT JOIN journals ON journals.id = sources.agent
    LEFT JOIN names AS hosts ON hosts.id = sources.host
    LEFT JOIN names AS paths ON paths.id = sources.path
    WHERE each.topic = ?1 AND each.from_time < ?3 AND each.to_time > ?2
    AND (each.topic, each.tier) NOT IN replaced
    AND NOT EXISTS (SELECT 1 FROM voided WHERE voided.topic = each.topic
        AND voided.tier = each.tier AND voided.run > each.run
        AND voided.from_time <= each.from_time AND voided.to_time >= each.to_time)
    ORDER BY each.partition, each.first, each.tier
"""


def keep(chunk: Chunk) -> None:
    for row, statement in statements_of(chunk, "collided", "hdfs"):
        _keep(chunk, row, statement)


def _keep(chunk: Chunk, row: int, statement: dict[str, Any]) -> None:
    (name,) = chunk.topic_names([statement["topic"]])
    (topic,) = chunk.numbers.topics.of([statement["topic_id"]], name)
    from_time = _within(statement["from_time"], MOST_TIME - 1)
    to_time = max(_within(statement["to_time"], MOST_TIME), from_time + 1)
    chunk.connection.execute(
        _KEEP,
        (
            *(topic, int(chunk.tier[row]), int(chunk.entries.run[row])),
            _within(statement["partition"], MOST_PARTITION),
            max(-1, min(statement["leader_epoch"], MOST_EPOCH)),
            _within(statement["first"], _MOST_OFFSET),
            max(1, min(statement["events"], MOST)),
            *(statement["source"], _within(statement["seq"], _MOST_OFFSET)),
            _within(statement["kept_partition"], MOST_PARTITION),
            max(-1, min(statement["kept"], _MOST_OFFSET)),
            *(from_time, to_time, int(chunk.entries.time[row])),
        ),
    )
    hour = np.array([from_time - from_time % 3_600_000])
    chunk.touch(np.array([topic]), hour)


def _within(value: int, most: int) -> int:
    return max(0, min(value, most))


def of(
    connection: sqlite3.Connection,
    topic: int,
    tiers: dict[int, Tier],
    generations: Generations,
    *,
    between: tuple[int, int],
) -> list[Collided]:
    collisions = []
    for tier, partition, epoch, first, events, source, seq, *rest in connection.execute(
        _OF_TOPIC, (topic, *between)
    ):
        other_partition, kept_offset, from_time, to_time, said, *names = rest
        for number, begin, end in generations.parts(partition, epoch, first, first + events):
            skipped_events = begin - first
            collisions.append(
                Collided(
                    tier=tiers[tier],
                    number=number,
                    partition=partition,
                    first=begin,
                    events=end - begin,
                    source=source,
                    seq=seq + skipped_events,
                    kept_partition=other_partition,
                    kept=kept_offset + skipped_events if kept_offset >= 0 else -1,
                    from_time=from_time,
                    to_time=to_time,
                    said=said,
                    **dict(
                        zip(("agent", "host", "path"), (text or "" for text in names), strict=True)
                    ),
                )
            )
    return collisions

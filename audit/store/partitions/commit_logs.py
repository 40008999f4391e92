"""Which of several commit logs holds for a topic at a destination.

A table's commit log is known by its journal. Where the table was lost together with it, or a topic
goes to another table, somebody begins to read anew, and numbers runs from 1 again. What lies in the
files is what the newer log says, and nothing of what the former said.

Rule 1: what is said is kept by commit log, as tiers of their own. Which holds is found when another
        has spoken, so entries may come in any order.
Rule 2: of a topic and a destination, that holds which spoke of the topic last: who goes back to the
        former table goes on there. Nothing of the others counts (`replaced`).
Rule 3: what all tiers had passed is not kept to the window for long. Where another log begins, this
        is open again, as exactly as it is known where offsets lie: to the hour.
"""

import sqlite3
from typing import Final

import numpy as np

from audit.picture import TierKind
from audit.store.entries.chunks import Chunk
from audit.store.folding.keyed_intervals import grouped
from audit.store.partitions.offsets import tiers_of

# What holds of rows that have a source and a tier.
OF_SOURCES: Final = (
    " AND ((SELECT topic FROM sources WHERE sources.id = source), tier) NOT IN replaced"
)
_SAID: Final = """
INSERT INTO histories VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET said = max(said, excluded.said)
"""
_HISTORIES: Final = """
SELECT tier, destination, (topic, tier) IN replaced FROM histories JOIN tiers ON tiers.id = tier
WHERE topic = ? ORDER BY said, history
"""
_OPEN: Final = """
INSERT INTO spans (topic, tier, partition, from_time, epoch, to_time, first, next_offset, said,
    events) SELECT topic, ?2, partition, hour, epoch, max(to_time), min(first), max(next_offset),
    max(said), 0 FROM placed WHERE topic = ?1 GROUP BY partition, hour, epoch
ON CONFLICT DO UPDATE SET to_time = max(to_time, excluded.to_time),
    first = min(first, excluded.first), next_offset = max(next_offset, excluded.next_offset),
    said = max(said, excluded.said)
"""


def keep(chunk: Chunk) -> None:
    """Once what the chunk says of offsets is kept."""
    at = np.flatnonzero(chunk.passages_of("hdfs"))
    if not len(at):
        return
    entry = chunk.passages.entry[at]
    together = grouped(chunk.topic[at], chunk.tier[entry])
    columns = (*together.keys, together.most(chunk.entries.time[entry]))
    chunk.connection.executemany(_SAID, zip(*(each.tolist() for each in columns), strict=True))
    for topic in np.unique(together.keys[0]).tolist():
        if _replace(chunk.connection, topic):
            chunk.replaced.add(topic)


def _replace(connection: sqlite3.Connection, topic: int) -> bool:
    """Whether another one holds than before."""
    rows = connection.execute(_HISTORIES, (topic,)).fetchall()
    newest = {destination: tier for tier, destination, _ in rows}
    before = {tier for tier, _, was_replaced in rows if was_replaced}
    now = {tier for tier, *_ in rows} - set(newest.values())
    if now == before:
        return False
    connection.execute("DELETE FROM replaced WHERE topic = ?", (topic,))
    connection.executemany("INSERT INTO replaced VALUES (?, ?)", [(topic, tier) for tier in now])
    tiers = tiers_of(connection, [topic])[topic]
    kind = TierKind.BROKER if TierKind.BROKER in tiers.values() else TierKind.AGENT
    connection.executemany(_OPEN, [(topic, tier) for tier in tiers if tiers[tier] is kind])
    return True

"""Decides which of several commit logs is valid for a topic at a destination.

A table's commit log is identified by its journal. If the table was lost with its commit log, or a
topic is loaded into another table, loading starts again, with runs numbered from 1. The files then
hold what the newer log reports, and nothing of the former.

Rule 1: Reports are kept by commit log, each as a tier. The valid one is chosen whenever another log
        reports, so entries may arrive in any order.
Rule 2: For a topic and destination, the log that reported the topic last is valid: after a return
        to the former table, its log continues. The others do not count (`replaced`).
Rule 3: A retired root counts for nothing until a load into it is reported again.
Rule 4: Spans that all tiers have passed are dropped. When another log begins, they are open again,
        to the precision that is still known: the hour.
"""

import sqlite3
from collections.abc import Iterable
from typing import Final

import numpy as np

from audit.reconciling.authors import with_author
from audit.reconciling.picture import TierKind
from audit.store.entries.chunks import Chunk
from audit.store.folding.keyed_intervals import grouped
from audit.store.partitions.offsets import tiers_of

# The condition for valid rows with a source and a tier.
OF_SOURCES: Final = (
    " AND ((SELECT topic FROM sources WHERE sources.id = source), tier) NOT IN replaced"
)
_SAID: Final = """
INSERT INTO histories VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET said = max(said, excluded.said)
"""
_HISTORIES: Final = """
SELECT tier, destination, (histories.topic, tier) IN replaced, EXISTS (SELECT 1 FROM retired
    WHERE retired.cluster = topic_names.cluster AND host = destination AND agent = ''
    AND time >= said) FROM histories JOIN tiers ON tiers.id = tier
    JOIN topics ON topics.id = histories.topic JOIN topic_names ON topic_names.id = name
    WHERE histories.topic = ? ORDER BY said, history
"""
_TOPICS_OF_ROOT: Final = """
SELECT DISTINCT histories.topic FROM histories JOIN tiers ON tiers.id = tier
    JOIN topics ON topics.id = histories.topic JOIN topic_names ON topic_names.id = name
    WHERE destination = ? AND cluster = ?
"""
_RETIRED_ROOTS: Final = """
SELECT destination, reason, operator, max(retired.time) FROM histories
    JOIN tiers ON tiers.id = tier JOIN topics ON topics.id = histories.topic
    JOIN topic_names ON topic_names.id = name
    JOIN retired ON host = destination AND retired.cluster = topic_names.cluster AND agent = ''
    WHERE histories.topic = ? GROUP BY destination HAVING min((histories.topic, tier) IN replaced)
    ORDER BY destination
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
    """Stores the latest reports of commit logs; must be called after offsets are stored."""
    rows = np.flatnonzero(chunk.passages_of("hdfs"))
    if not len(rows):
        return
    entry = chunk.passages.entry[rows]
    grouping = grouped(chunk.topic[rows], chunk.tier[entry])
    columns = (*grouping.keys, grouping.most(chunk.entries.time[entry]))
    chunk.connection.executemany(_SAID, zip(*(column.tolist() for column in columns), strict=True))
    _choose(chunk, np.unique(grouping.keys[0]).tolist())


def retire(chunk: Chunk, root: str) -> None:
    """Chooses the valid commit logs again for all topics that were loaded into a retired root. Does
    nothing if `root` is not a root."""
    rows = chunk.connection.execute(_TOPICS_OF_ROOT, (root, chunk.cluster)).fetchall()
    _choose(chunk, [topic for (topic,) in rows])


def retired_roots(connection: sqlite3.Connection, topic: int) -> list[str]:
    """Returns the retired roots of a topic, each with the reason and operator."""
    return [
        f"{root} is retired: {with_author(reason or 'retired', operator, time)}"
        for root, reason, operator, time in connection.execute(_RETIRED_ROOTS, (topic,))
    ]


def _choose(chunk: Chunk, topics: Iterable[int]) -> None:
    for topic in topics:
        if _replace(chunk.connection, topic):
            chunk.replaced.add(topic)


def _replace(connection: sqlite3.Connection, topic: int) -> bool:
    """Chooses the valid logs of a topic, and returns whether they have changed."""
    rows = connection.execute(_HISTORIES, (topic,)).fetchall()
    newest = {destination: (tier, retired) for tier, destination, _, retired in rows}
    valid_tiers = {tier for tier, retired in newest.values() if not retired}
    replaced_tiers = {tier for tier, _, was_replaced, _ in rows if was_replaced}
    newly_replaced = {tier for tier, *_ in rows} - valid_tiers
    if newly_replaced == replaced_tiers:
        return False
    connection.execute("DELETE FROM replaced WHERE topic = ?", (topic,))
    connection.executemany(
        "INSERT INTO replaced VALUES (?, ?)", [(topic, tier) for tier in newly_replaced]
    )
    retired_tiers = {tier for tier, destination, *_ in rows if newest[destination][1]}
    if replaced_tiers <= newly_replaced <= replaced_tiers | retired_tiers:
        return True  # no log begins
    tiers = tiers_of(connection, [topic])[topic]
    kind = TierKind.BROKER if TierKind.BROKER in tiers.values() else TierKind.AGENT
    connection.executemany(_OPEN, [(topic, tier) for tier in tiers if tiers[tier] is kind])
    return True

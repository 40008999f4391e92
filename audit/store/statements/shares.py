"""Reads the share of a topic's lines that became dead letters or were altered."""

import sqlite3
from typing import Final

from audit.store.rows import TopicShare

# The order of the joins is fixed, so that only the newest windows of each topic are read.
_SHARES: Final = """
SELECT cluster, topic_names.topic, sum(shipped + filtered + flows.dead + flows.lost),
    sum(flows.dead),
    (SELECT coalesce(sum(lines), 0) FROM altered
        WHERE altered.name = topics.name AND last >= ?1 AND kind <> 'unread'),
    topics.id
    FROM topics CROSS JOIN flows ON flows.topic = topics.id AND flows.start >= ?1
    JOIN topic_names ON topic_names.id = topics.name GROUP BY topics.id ORDER BY 1, 2
"""


_UNDECODED: Final = """
SELECT sum(dead), destination FROM sums JOIN tiers ON tiers.id = tier
    WHERE topic = ? AND start >= ? AND dead AND (topic, tier) NOT IN replaced
    AND NOT EXISTS (SELECT 1 FROM voided WHERE voided.topic = sums.topic AND voided.tier = sums.tier
        AND voided.run > sums.run AND start >= from_time AND start < to_time)
    GROUP BY tier ORDER BY 1 DESC, 2 LIMIT 1
"""


def shares(connection: sqlite3.Connection, from_time: int) -> list[TopicShare]:
    topic_shares = []
    for *columns, topic in connection.execute(_SHARES, (from_time,)):
        undecoded = connection.execute(_UNDECODED, (topic, from_time)).fetchone() or ()
        topic_shares.append(TopicShare(*columns, *undecoded))
    return topic_shares

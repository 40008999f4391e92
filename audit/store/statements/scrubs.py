"""Stores when brokers last scrubbed their logs: the latest times of each partition."""

import sqlite3
from typing import Any, Final

from audit.api.answers import CheckedLog, LogChecks
from audit.store.entries.chunks import Chunk
from audit.store.folding.columns import MOST_PARTITION

_MOST_SHOWN: Final = 100
_KEEP: Final = """
INSERT INTO scrubbed VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    recent = max(recent, excluded.recent), whole = max(whole, excluded.whole),
    time = max(time, excluded.time)
"""
_LOGS: Final = """
SELECT partition, coalesce(recent, 0), coalesce(whole, 0)
FROM (SELECT DISTINCT partition FROM claimed JOIN tiers ON tiers.id = tier
        WHERE topic = ?1 AND kind = 'broker' AND partition >= 0
    UNION SELECT partition FROM scrubbed JOIN topics USING (name, topic_id) WHERE topics.id = ?1)
    LEFT JOIN (SELECT partition, recent, whole FROM scrubbed JOIN topics USING (name, topic_id)
        WHERE topics.id = ?1) USING (partition)
ORDER BY 2, 3, partition
"""


def keep(chunk: Chunk, row: int, statement: dict[str, Any]) -> None:
    """Stores a broker's report about one log. Times are limited to the time of the entry."""
    if not 0 <= statement["partition"] < MOST_PARTITION:
        return
    (name,) = chunk.topic_names([statement["topic"]])
    time = int(chunk.entries.time[row])
    times = [max(0, min(statement[field], time)) for field in ("recent", "whole")]
    chunk.connection.execute(
        _KEEP, (name, statement["topic_id"], statement["partition"], *times, time)
    )


def checks(connection: sqlite3.Connection, topic: int) -> LogChecks:
    """Returns when the log of each partition with broker claims was last checked, recently and as a
    whole."""
    logs = [
        CheckedLog(partition, *(time or -1 for time in times))
        for partition, *times in connection.execute(_LOGS, (topic,))
    ]
    return LogChecks(
        recent=min((log.recent for log in logs), default=-1),
        whole=min((log.whole for log in logs), default=-1),
        logs=logs[:_MOST_SHOWN],
        logs_total=len(logs),
    )

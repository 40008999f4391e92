"""How the last load of a topic ended, as its loader has said it: kept is the latest word of each
destination, whichever comes first. What is kept of a load that succeeded only keeps older words of
failures away.
"""

import sqlite3
from typing import Any, Final

import numpy as np

from audit.folding.columns import MOST_TIME
from audit.store.chunks import Chunk
from audit.store.rows import FailingLoad

_KEEP: Final = """
INSERT INTO loads_tried VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET time = excluded.time, said = excluded.said, journal = excluded.journal,
    seq = excluded.seq, failed = excluded.failed, since = excluded.since, reason = excluded.reason,
    cure = excluded.cure
WHERE (excluded.said, excluded.journal, excluded.seq) >= (said, journal, seq)
"""
_FAILING: Final = """
SELECT cluster, topic, destination, since, time, reason, cure
FROM loads_tried JOIN topic_names ON topic_names.id = loads_tried.name
    JOIN tiers ON tiers.id = loads_tried.tier WHERE failed
ORDER BY since, cluster, topic, destination
"""


def keep(chunk: Chunk, row: int, said: dict[str, Any]) -> None:
    """What the loader that wrote the entry of this row says of one topic."""
    (name,) = chunk.topic_names([said["topic"]])
    entries = chunk.entries
    (journal,) = entries.journal.take(np.array([row]))
    chunk.connection.execute(
        _KEEP,
        (
            name,
            int(chunk.tier[row]),
            int(entries.time[row]),
            int(entries.said[row]),
            journal,
            int(entries.seq[row]),
            bool(said["failed"]),
            max(0, min(said["since"], MOST_TIME)),
            said["reason"].removeprefix(f"table {said['topic']}: "),  # which it is, is known
            said["cure"],
        ),
    )


def failing(connection: sqlite3.Connection) -> list[FailingLoad]:
    """What fails longest comes first."""
    return [FailingLoad(*row) for row in connection.execute(_FAILING)]


def unloaded(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    """Clusters and topics of which some loads fail."""
    return {(each.cluster, each.topic) for each in failing(connection)}

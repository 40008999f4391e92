"""Stores the results of loads, and lists loads, loaders' positions and failing tables.

The latest result of each topic and destination is kept, in whichever order they arrive. A success
is kept only to supersede older failures. A run that was committed after a failure proves success as
well, since loaders report success only when all tables are done.
"""

import sqlite3
from typing import Any, Final

import msgspec
import numpy as np

from audit.api.answers import ConsumerRow, FailingLoad, HourRow, LoadRow, Loads
from audit.api.queries import LoadsQuery
from audit.reconciling.findings import State
from audit.store.entries.chunks import Chunk
from audit.store.folding.columns import MOST_TIME
from audit.store.rows import LoadEnd

_LOADS: Final = """
FROM loads JOIN tiers ON tiers.id = loads.tier JOIN topics ON topics.id = loads.topic
    JOIN topic_names ON topic_names.id = name
    WHERE (?1 = '' OR cluster = ?1) AND (?2 = '' OR topic_names.topic = ?2)
    AND (?3 = '' OR destination = ?3)
"""
_HOURS: Final = """
SELECT all_hours.hour, coalesce((SELECT state FROM judged
        WHERE judged.topic = ?1 AND judged.hour = all_hours.hour), ''),
    coalesce((SELECT max(events) FROM hours JOIN tiers ON tiers.id = tier
        WHERE hours.topic = ?1 AND hours.hour = all_hours.hour AND kind <> 'hdfs'), 0),
    coalesce((SELECT sum(events) FROM sums WHERE sums.topic = ?1 AND start >= all_hours.hour
        AND start < all_hours.hour + 3600000
        AND sums.tier IN (SELECT id FROM tiers WHERE kind = 'hdfs' AND destination = ?2)
        AND (sums.topic, sums.tier) NOT IN replaced AND NOT EXISTS (
            SELECT 1 FROM voided WHERE voided.topic = ?1 AND voided.tier = sums.tier
            AND voided.run > sums.run AND start >= from_time AND start < to_time)), 0),
    coalesce(time, -1), coalesce(faults, CAST('[]' AS BLOB)),
    coalesce((SELECT waits FROM judged
        WHERE judged.topic = ?1 AND judged.hour = all_hours.hour), '')
FROM (SELECT DISTINCT hour FROM hours WHERE topic = ?1 AND hour >= ?4 AND hour < ?5) AS all_hours
LEFT JOIN checked ON checked.hour = all_hours.hour AND checked.name = ?3 AND checked.tier = (
        SELECT id FROM tiers WHERE kind = 'hdfs' AND destination = ?2 AND history = '')
    ORDER BY all_hours.hour DESC
"""
_CONSUMERS: Final = """
SELECT cluster, destination, topic_names.topic, count(*), sum(max(0, coalesce(
        (SELECT max(upto) FROM claimed AS others JOIN tiers AS kinds ON kinds.id = others.tier
        WHERE others.topic = claimed.topic AND others.partition = claimed.partition
        AND kinds.kind <> 'hdfs'), 0) - upto)),
    coalesce((SELECT max(time) FROM loads
        WHERE loads.topic = claimed.topic AND loads.tier = claimed.tier), -1),
    sum(upto)
FROM (SELECT topic, partition, tier, max(upto) AS upto FROM claimed
        WHERE (topic, tier) NOT IN replaced GROUP BY topic, partition, tier) AS claimed
    JOIN tiers ON tiers.id = claimed.tier JOIN topics ON topics.id = claimed.topic
    JOIN topic_names ON topic_names.id = name WHERE kind = 'hdfs' AND (?1 = '' OR cluster = ?1)
    GROUP BY claimed.topic, claimed.tier ORDER BY cluster, topic_names.topic, destination
"""
_KEEP: Final = """
INSERT INTO loads_tried VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET time = excluded.time, said = excluded.said, journal = excluded.journal,
    seq = excluded.seq, failed = excluded.failed, reason = excluded.reason, cure = excluded.cure,
    since = CASE WHEN failed AND excluded.failed AND NOT EXISTS ({loaded})
        THEN min(since, excluded.since) ELSE excluded.since END
WHERE (excluded.said, excluded.journal, excluded.seq) >= (said, journal, seq)
"""
# A run that was committed after the loader's report.
_LOADED: Final = """
SELECT 1 FROM topics JOIN loads ON loads.topic = topics.id
    JOIN tiers AS others ON others.id = loads.tier
    WHERE topics.name = loads_tried.name AND others.kind = 'hdfs' AND loads.time > loads_tried.time
    AND others.destination = (SELECT destination FROM tiers WHERE tiers.id = loads_tried.tier)
"""
_ENDS: Final = """
FROM loads_tried JOIN topic_names ON topic_names.id = loads_tried.name
    JOIN tiers ON tiers.id = loads_tried.tier
"""
_FAILING: Final = f"""
SELECT cluster, topic, destination, since, time, reason, cure {_ENDS}
    WHERE failed AND NOT EXISTS ({_LOADED}) AND NOT EXISTS (SELECT 1 FROM retired
        WHERE retired.cluster = topic_names.cluster AND host = destination AND agent = ''
        AND retired.time >= loads_tried.time) ORDER BY since, cluster, topic, destination
"""  # noqa: S608


def loads(connection: sqlite3.Connection, query: LoadsQuery) -> Loads:
    """Returns a page of loads, the newest first, without hours."""
    filters = query.cluster, query.topic, query.destination
    ((total,),) = connection.execute("SELECT count(*) " + _LOADS, filters).fetchall()
    rows = connection.execute(
        "SELECT destination, cluster, topic_names.topic, run, time, rows, bytes, late, duplicates,"
        f" dead, partitions, rebuilt {_LOADS} ORDER BY time DESC, run DESC LIMIT ?4 OFFSET ?5",
        (*filters, query.size, query.skipped),
    )
    return Loads(
        destinations=destinations(connection),
        page=query.of(total),
        items=[LoadRow(*(*row[:-1], bool(row[-1]))) for row in rows],
        hours=[],
    )


def destinations(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute(
        "SELECT DISTINCT destination FROM tiers WHERE kind = 'hdfs' ORDER BY 1"
    )
    return [destination for (destination,) in rows]


def hours(
    connection: sqlite3.Connection,
    topic: int,
    name: int,
    *,
    destination: str,
    from_time: int,
    to_time: int,
) -> list[HourRow]:
    if destination not in destinations(connection):
        return []
    rows = connection.execute(_HOURS, (topic, destination, name, from_time, to_time))
    return [_hour(row) for row in rows]


def _hour(row: tuple[Any, ...]) -> HourRow:
    hour, state, events, rows, checked_time, faults, waits = row
    wrong_files = msgspec.json.decode(faults)
    texts = [waits] if waits else []
    if wrong_files:
        files = "1 file is" if len(wrong_files) == 1 else f"{len(wrong_files):,} files are"
        texts.append(f"{files} not as committed")
    return HourRow(
        hour=hour,
        state=State(state) if state else State.COMPLETE,  # if never judged
        events=events,
        rows=max(0, rows + sum(map(_more_than_committed, wrong_files))),
        checked=checked_time,
        words="; ".join(texts),
    )


def _more_than_committed(fault: dict[str, Any]) -> int:
    """Returns how many more rows a file has than were committed; 0 if unknown."""
    committed_rows, found_rows = fault["committed_rows"], fault["found_rows"]
    return found_rows - committed_rows if min(committed_rows, found_rows) >= 0 else 0


def consumers(connection: sqlite3.Connection, cluster: str) -> list[ConsumerRow]:
    return [ConsumerRow(*row) for row in connection.execute(_CONSUMERS, (cluster,))]


def keep(chunk: Chunk, row: int, statement: dict[str, Any]) -> None:
    """Stores the result of a load of one topic, from the entry in this row."""
    (name,) = chunk.topic_names([statement["topic"]])
    entries = chunk.entries
    (journal,) = entries.journal.take(np.array([row]))
    chunk.connection.execute(
        _KEEP.format(loaded=_LOADED),
        (
            name,
            int(chunk.tier[row]),
            int(entries.time[row]),
            int(entries.said[row]),
            journal,
            int(entries.seq[row]),
            bool(statement["failed"]),
            max(0, min(statement["since"], MOST_TIME)),
            statement["reason"].removeprefix(f"table {statement['topic']}: "),  # the table is known
            statement["cure"],
        ),
    )


def failing(connection: sqlite3.Connection) -> list[FailingLoad]:
    """Returns failing loads, those that have been failing longest first."""
    return [FailingLoad(*row) for row in connection.execute(_FAILING)]


def ends(connection: sqlite3.Connection) -> list[LoadEnd]:
    """Returns the result of the last load of each table and destination."""
    rows = connection.execute(f"SELECT cluster, topic, destination, failed, since, time {_ENDS}")
    return [LoadEnd(*row) for row in rows]


def advice(connection: sqlite3.Connection, cluster: str, topic: str) -> dict[str, str]:
    """Returns, by destination, the advice in a topic's last load on how to load the topic."""
    rows = connection.execute(
        f"SELECT destination, cure {_ENDS} WHERE cluster = ? AND topic = ?",
        (cluster, topic),
    )
    return dict(rows.fetchall())


def unloaded(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    """Returns clusters and topics with failing loads."""
    return {(load.cluster, load.topic) for load in failing(connection)}

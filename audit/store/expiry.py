"""Deletes data older than the retention, in one transaction.

Windows, lines, hours, delays and loads expire by their own time; those in the future by when they
were first seen. Files expire, with all that is known of them, by their latest report. Agents and
journals expire after not being heard for as long as agents are expected or windows are kept; the
end and the key of a journal are kept for some years. Topics and texts expire when nothing refers to
them; only a limited number of texts is checked each time.
"""

import sqlite3
from typing import Final

from audit.store.database import changed
from audit.store.fleet import lags, marks

AGENTS_KEPT: Final = 31 * 86_400_000
_SILENT_KEPT: Final = 731 * 86_400_000
_DAY: Final = 86_400_000
_HOUR: Final = 3_600_000
_SWEPT: Final = 50_000  # texts

_BY_TIME: Final = (
    "DELETE FROM sums WHERE start < ?1 AND topic = ?2",
    "DELETE FROM flows WHERE start < ?1 AND topic = ?2",
    "DELETE FROM uncounted WHERE start < ?1 AND topic = ?2",
    "DELETE FROM hours WHERE hour < ?1 AND topic = ?2",
    "DELETE FROM delays WHERE hour < ?1 AND topic = ?2",
    "DELETE FROM judged WHERE hour < ?1 AND topic = ?2",
    "DELETE FROM voided WHERE to_time < ?1 AND topic = ?2",
    "DELETE FROM placed WHERE said < ?1 AND topic = ?2",
    "DELETE FROM spans WHERE said < ?1 AND topic = ?2",
    "DELETE FROM details WHERE said < ?1 AND topic = ?2",
    "DELETE FROM inexact WHERE said < ?1 AND topic = ?2",
    "DELETE FROM collided WHERE said < ?1 AND topic = ?2",
    "DELETE FROM signed WHERE said < ?1 AND topic = ?2",
    "DELETE FROM uncompared WHERE time < ?1 AND topic = ?2",
    "DELETE FROM compared WHERE time < ?1 AND topic = ?2",
)
_OLD: Final = (
    "DELETE FROM loads WHERE time < ?",
    "DELETE FROM entry_digests WHERE said < ?",
    "DELETE FROM listed WHERE said < ?",
    "DELETE FROM checked WHERE hour < ?",
    "DELETE FROM damaged WHERE time < ?",
    "DELETE FROM scrubbed WHERE time < ?",
    "DELETE FROM withdrawn WHERE time < ?",
    "DELETE FROM loads_tried WHERE time < ?",
    "DELETE FROM finished WHERE time < ?",
    "DELETE FROM unwatched WHERE to_time < ?",
    "DELETE FROM altered WHERE last < ?",
    "DELETE FROM undigested WHERE last < ?",
    "DELETE FROM files WHERE time < ?1 AND NOT EXISTS (SELECT 1 FROM sources"
    " JOIN topics ON topics.id = sources.topic WHERE topics.name = files.name"
    " AND sources.source = files.source)",
    "DELETE FROM former WHERE ?1 > 0 AND NOT EXISTS (SELECT 1 FROM files"
    " WHERE files.name = former.name AND files.source = former.source)",
    "DELETE FROM alerts WHERE resolved >= 0 AND resolved < ?",
)
_SOURCES: Final = """
SELECT id FROM sources WHERE last < ?1
AND NOT EXISTS (SELECT 1 FROM landed WHERE source = sources.id AND first_time >= ?1)
"""
_UNHEARD: Final = (
    "DELETE FROM agent_topics WHERE journal IN (SELECT journal FROM agents WHERE heard < ?)",
    "DELETE FROM heads WHERE journal IN (SELECT journal FROM agents WHERE heard < ?)",
    "DELETE FROM agents WHERE heard < ?",
    "DELETE FROM health WHERE time < ?",
    "DELETE FROM retired WHERE time < ? AND host NOT IN (SELECT destination FROM tiers)",
    "DELETE FROM accepted WHERE time < ?",
    "DELETE FROM disputed WHERE said < ?",
    "DELETE FROM proof_faults WHERE said < ?",
    "DELETE FROM journal_topics WHERE journal IN (SELECT id FROM journals WHERE last_time < ?)",
    "DELETE FROM counted_under WHERE journal IN (SELECT id FROM journals WHERE last_time < ?)",
    "INSERT OR REPLACE INTO silent SELECT cluster, journal, first_seq, first_time, end_seq,"
    " last_time FROM journals WHERE last_time < ? AND seen IS NOT NULL",
    "DELETE FROM journals WHERE last_time < ?",
)
_SILENT: Final = (
    "DELETE FROM silent WHERE last_time < ?",
    "DELETE FROM journal_keys WHERE time < ?",
)
# An hour in the year 4000 does not tell when it may expire.
_AHEAD: Final = """
INSERT OR IGNORE INTO ahead SELECT ?1, hour, ?2 FROM (
    SELECT hour FROM hours WHERE topic = ?1 AND hour > ?3
    UNION SELECT hour FROM judged WHERE topic = ?1 AND hour > ?3
    UNION SELECT start - start % 3600000 FROM flows WHERE topic = ?1 AND start > ?3
    UNION SELECT start - start % 3600000 FROM uncounted WHERE topic = ?1 AND start > ?3)
"""
_OF_HOUR: Final = (
    "DELETE FROM sums WHERE topic = ?1 AND start >= ?2 AND start < ?3",
    "DELETE FROM flows WHERE topic = ?1 AND start >= ?2 AND start < ?3",
    "DELETE FROM uncounted WHERE topic = ?1 AND start >= ?2 AND start < ?3",
    "DELETE FROM hours WHERE topic = ?1 AND hour >= ?2 AND hour < ?3",
    "DELETE FROM delays WHERE topic = ?1 AND hour >= ?2 AND hour < ?3",
    "DELETE FROM judged WHERE topic = ?1 AND hour >= ?2 AND hour < ?3",
)
_BY_TOPIC: Final = (
    "sums",
    "flows",
    "uncounted",
    "judged",
    "voided",
    "spans",
    "details",
    "sources",
    "loads",
    "withdrawn",
    "collided",
    "signed",
    "uncompared",
    "compared",
)
_BY_NAME: Final = (
    "altered",
    "agent_topics",
    "accepted",
    "checked",
    "damaged",
    "loads_tried",
    "scrubbed",
    "unwatched",
)
_UNSPOKEN: Final = " ".join(
    (
        "DELETE FROM topics WHERE last < ?",
        *(f"AND NOT EXISTS (SELECT 1 FROM {part} WHERE topic = topics.id)" for part in _BY_TOPIC),  # noqa: S608
        *(
            f"AND NOT EXISTS (SELECT 1 FROM {part} WHERE {part}.name = topics.name)"  # noqa: S608
            for part in _BY_NAME
        ),
    )
)
_OF_TOPICS: Final = (
    "DELETE FROM claimed WHERE topic NOT IN (SELECT id FROM topics)",
    "DELETE FROM cuts WHERE topic NOT IN (SELECT id FROM topics)",
    "DELETE FROM counted_under WHERE topic NOT IN (SELECT id FROM topics)",
    "DELETE FROM begun WHERE topic NOT IN (SELECT id FROM topics)",
    "DELETE FROM files WHERE name NOT IN (SELECT name FROM topics)",
    "DELETE FROM former WHERE name NOT IN (SELECT name FROM topics)",
    "DELETE FROM topic_tiers WHERE topic NOT IN (SELECT id FROM topics)",
    "DELETE FROM histories WHERE topic NOT IN (SELECT id FROM topics)",
    "DELETE FROM replaced WHERE topic NOT IN (SELECT id FROM topics)",
    "DELETE FROM origins WHERE topic NOT IN (SELECT id FROM topics)",
    "DELETE FROM marked WHERE topic NOT IN (SELECT id FROM topics)",
    "DELETE FROM opened WHERE topic NOT IN (SELECT id FROM topics)",
    "DELETE FROM undigested WHERE name NOT IN (SELECT name FROM topics)",
    "DELETE FROM journal_topics WHERE name NOT IN (SELECT name FROM topics)",
    "DELETE FROM topic_names WHERE id NOT IN (SELECT name FROM topics)",
)
_NAMES: Final = """
DELETE FROM names WHERE id > ?1 AND id <= ?1 + ?2
AND NOT EXISTS (SELECT 1 FROM sources WHERE path = names.id)
AND NOT EXISTS (SELECT 1 FROM topic_hosts WHERE host = names.id)
AND id NOT IN (SELECT host FROM agents)
AND id NOT IN (SELECT host FROM files)
AND id NOT IN (SELECT host FROM journals WHERE host IS NOT NULL)
"""


def expire(connection: sqlite3.Connection, now: int, retention_millis: int) -> int:
    """Deletes old data, and returns the number of deleted rows."""
    floor = now - retention_millis
    hour = floor - floor % _HOUR
    count = 0
    for (topic,) in connection.execute("SELECT id FROM topics").fetchall():
        for statement in _BY_TIME:
            count += changed(connection, statement, (hour, topic))
        connection.execute(_AHEAD, (topic, now, now + _DAY))
    count += _expire_ahead(connection, now, hour)
    for statement in _OLD:
        count += changed(connection, statement, (hour,))
    count += _expire_sources(connection, hour)
    for statement in _UNHEARD:
        count += changed(connection, statement, (min(hour, now - AGENTS_KEPT),))
    for statement in _SILENT:
        count += changed(connection, statement, (min(hour, now - _SILENT_KEPT),))
    count += lags.expire(connection, now, hour) + marks.expire(connection, hour)
    count += _expire_topics(connection, hour) + _expire_names(connection)
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('floor', ?)", (hour,))
    return count


def _expire_sources(connection: sqlite3.Connection, before: int) -> int:
    connection.execute("CREATE TEMP TABLE IF NOT EXISTS gone (id INTEGER PRIMARY KEY)")
    connection.execute("DELETE FROM gone")
    count = changed(connection, f"INSERT INTO gone {_SOURCES}", (before,))
    if not count:
        return 0
    connection.execute("DELETE FROM landed WHERE source IN gone")
    connection.execute("DELETE FROM lost WHERE source IN gone")
    connection.execute("DELETE FROM twice WHERE source IN gone")
    connection.execute("DELETE FROM landed_twice WHERE source IN gone")
    connection.execute("DELETE FROM copies WHERE source IN gone OR original IN gone")
    connection.execute("DELETE FROM sources WHERE id IN gone")
    connection.execute(
        "DELETE FROM topic_hosts WHERE NOT EXISTS (SELECT 1 FROM sources"
        " WHERE sources.topic = topic_hosts.topic AND sources.host = topic_hosts.host)"
    )
    return count


def _expire_ahead(connection: sqlite3.Connection, now: int, before: int) -> int:
    connection.execute("DELETE FROM ahead WHERE hour <= ?", (now + _DAY,))
    rows = connection.execute("SELECT topic, hour FROM ahead WHERE since < ?", (before,)).fetchall()
    count = 0
    for topic, hour in rows:
        for statement in _OF_HOUR:
            count += changed(connection, statement, (topic, hour, hour + _HOUR))
    connection.execute("DELETE FROM ahead WHERE since < ?", (before,))
    return count


def _expire_topics(connection: sqlite3.Connection, before: int) -> int:
    count = changed(connection, _UNSPOKEN, (before,))
    if count:
        for statement in _OF_TOPICS:
            count += changed(connection, statement)
    return count


def _expire_names(connection: sqlite3.Connection) -> int:
    """Checks the next texts, continuing after the last ones; at the end, from the beginning."""
    rows = connection.execute("SELECT value FROM meta WHERE name = 'names_swept'").fetchall()
    swept_id = rows[0][0] if rows else 0
    count = changed(connection, _NAMES, (swept_id, _SWEPT))
    ((remaining_names,),) = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM names WHERE id > ?)", (swept_id + _SWEPT,)
    ).fetchall()
    connection.execute(
        "INSERT OR REPLACE INTO meta VALUES ('names_swept', ?)",
        (swept_id + _SWEPT if remaining_names else 0,),
    )
    return count

"""What is older than the audit keeps: gone, a piece at a time. Within a transaction.

Windows, lines, hours, delays and loads go by their own time; files by when they were last spoken
of, with all that is known of them; agents and journals when they were not heard for as long as
agents are expected, or windows kept.
"""

import sqlite3
from typing import Final

AGENTS_KEPT: Final = 31 * 86_400_000

_BY_TIME: Final = (
    "DELETE FROM sums WHERE start < ?1 AND topic = ?2",
    "DELETE FROM flows WHERE start < ?1 AND topic = ?2",
    "DELETE FROM hours WHERE hour < ?1 AND topic = ?2",
    "DELETE FROM delays WHERE hour < ?1 AND topic = ?2",
    "DELETE FROM judged WHERE hour < ?1 AND topic = ?2",
    "DELETE FROM voided WHERE to_time < ?1 AND topic = ?2",
    "DELETE FROM spans WHERE said < ?1 AND topic = ?2",
    "DELETE FROM details WHERE said < ?1 AND topic = ?2",
)
_OLD: Final = (
    "DELETE FROM loads WHERE time < ?",
    "DELETE FROM checked WHERE hour < ?",
    "DELETE FROM damaged WHERE time < ?",
    "DELETE FROM finished WHERE time < ?",
    "DELETE FROM alerts WHERE resolved >= 0 AND resolved < ?",
)
_SOURCES: Final = """
SELECT id FROM sources WHERE last < ?1
AND NOT EXISTS (SELECT 1 FROM landed WHERE source = sources.id AND first_time >= ?1)
"""
_UNHEARD: Final = (
    "DELETE FROM agent_topics WHERE journal IN (SELECT journal FROM agents WHERE heard < ?)",
    "DELETE FROM agents WHERE heard < ?",
    "DELETE FROM retired WHERE time < ?",
    "DELETE FROM accepted WHERE time < ?",
    "DELETE FROM journal_topics WHERE journal IN (SELECT id FROM journals WHERE last_time < ?)",
    "DELETE FROM journals WHERE last_time < ?",
)


def expire(connection: sqlite3.Connection, now: int, retention_millis: int) -> int:
    """Returns how many rows are gone."""
    floor = now - retention_millis
    hour = floor - floor % 3_600_000
    gone = 0
    for (topic,) in connection.execute("SELECT id FROM topics").fetchall():
        for statement in _BY_TIME:
            gone += connection.execute(statement, (hour, topic)).rowcount
    for statement in _OLD:
        gone += connection.execute(statement, (hour,)).rowcount
    gone += _expire_sources(connection, hour)
    for statement in _UNHEARD:
        gone += connection.execute(statement, (min(hour, now - AGENTS_KEPT),)).rowcount
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('floor', ?)", (hour,))
    return gone


def _expire_sources(connection: sqlite3.Connection, before: int) -> int:
    connection.execute("CREATE TEMP TABLE IF NOT EXISTS gone (id INTEGER PRIMARY KEY)")
    connection.execute("DELETE FROM gone")
    count = connection.execute(f"INSERT INTO gone {_SOURCES}", (before,)).rowcount
    if not count:
        return 0
    connection.execute("DELETE FROM landed WHERE source IN gone")
    connection.execute("DELETE FROM lost WHERE source IN gone")
    connection.execute("DELETE FROM sources WHERE id IN gone")
    connection.execute(
        "DELETE FROM topic_hosts WHERE NOT EXISTS (SELECT 1 FROM sources"
        " WHERE sources.topic = topic_hosts.topic AND sources.host = topic_hosts.host)"
    )
    return count

"""Stores agents' reports of text that was altered in transit, and of files that were not read.

Counts add up by hour, host, input, file, kind and field; an unread file has one row, however often
it is reported. The rows of a topic and hour are capped; the rest is added to one row of its kind,
without host, file and field. Times are kept close to those of the entries, so that everything
expires.
"""

import sqlite3
from typing import Any, Final

import numpy as np

from audit.api.answers import AlteredTotal, Remark
from audit.store.entries.chunks import Chunk
from audit.store.folding.columns import MOST, cut
from audit.store.statements.rare_statements import statements_of

MOST_ROWS: Final = 500  # of a topic and hour
MOST_REMARKS: Final = 100  # that are shown
_HOUR: Final = 3_600_000
_DAY: Final = 86_400_000
_UNREAD: Final = "unread"
_LONGEST: Final = 200  # characters of a field's name, or of an encoding's

_KNOWN: Final = """
SELECT 1 FROM altered WHERE name = ? AND hour = ? AND host = ? AND input = ? AND path = ?
    AND kind = ? AND field = ?
"""
_UNREAD_BEFORE: Final = """
SELECT 1 FROM altered WHERE name = ? AND host = ? AND input = ? AND path = ? AND kind = 'unread'
"""
_ADD: Final = """
INSERT INTO altered VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    lines = min(lines + excluded.lines, 1 << 50), count = min(count + excluded.count, 1 << 50),
    first = min(first, excluded.first), last = max(last, excluded.last),
    hint = CASE excluded.hint WHEN '' THEN hint ELSE excluded.hint END
"""
_IN_TIME: Final = """
FROM altered WHERE name = (SELECT name FROM topics WHERE id = ?1) AND first < ?3 AND last >= ?2
"""


def keep(chunk: Chunk) -> None:
    for row, statement in statements_of(chunk, "altered", "agent"):
        _keep(chunk, row, statement)


def _keep(chunk: Chunk, row: int, statement: dict[str, Any]) -> None:
    connection = chunk.connection
    (name,) = chunk.topic_names([cut(statement["topic"])])
    (host,) = chunk.entries.host.take(np.array([row]))
    written_time = int(chunk.entries.time[row])
    last_time = max(0, min(statement["to_time"] or 0, written_time + _DAY))
    first_time = max(0, last_time - 31 * _DAY, min(statement["from_time"] or 0, last_time))
    hour = first_time - first_time % _HOUR
    place = (host, cut(statement["input"]), cut(statement["path"]))
    kind, field = statement["kind"], statement["name"][:_LONGEST]
    if kind == _UNREAD and _is_there(connection, _UNREAD_BEFORE, (name, *place)):
        return
    key = (name, hour, *place, kind, field)
    if not _is_there(connection, _KNOWN, key) and _rows(connection, name, hour) >= MOST_ROWS:
        key = (name, hour, "", "", "", kind, "")
    counts = (max(0, min(statement[count_name], MOST)) for count_name in ("lines", "count"))
    connection.execute(_ADD, (*key, *counts, first_time, last_time, statement["hint"][:_LONGEST]))


def _is_there(connection: sqlite3.Connection, query: str, key: tuple[str | int, ...]) -> bool:
    return connection.execute(query, key).fetchone() is not None


def _rows(connection: sqlite3.Connection, name: int, hour: int) -> int:
    ((count,),) = connection.execute(
        "SELECT count(*) FROM altered WHERE name = ? AND hour = ?", (name, hour)
    ).fetchall()
    return int(count)


def remarks(
    connection: sqlite3.Connection, topic: int, from_time: int, to_time: int
) -> tuple[list[AlteredTotal], list[Remark]]:
    """Returns the altered text of a period: totals by kind, and remarks by file, the files with the
    most lines first."""
    parameters = (topic, from_time, to_time)
    totals = connection.execute(
        f"SELECT kind, sum(lines), sum(count) {_IN_TIME} GROUP BY kind ORDER BY kind", parameters
    )
    rows = connection.execute(
        "SELECT kind, input, path, host, sum(lines), sum(count), min(first), max(last), field,"
        f" max(hint) {_IN_TIME} GROUP BY kind, input, path, host, field"
        " ORDER BY sum(lines) DESC, sum(count) DESC, kind, host, path, field LIMIT ?4",
        (*parameters, MOST_REMARKS),
    )
    return [AlteredTotal(*row) for row in totals], [Remark(*row) for row in rows]


def totals(connection: sqlite3.Connection, from_time: int) -> list[tuple[str, str, str, int, int]]:
    """Returns the cluster, topic, kind, lines and count of altered text since this time."""
    return connection.execute(
        "SELECT cluster, topic, kind, sum(lines), sum(count) FROM altered"
        " JOIN topic_names ON topic_names.id = altered.name WHERE last >= ?"
        " GROUP BY cluster, topic, kind ORDER BY cluster, topic, kind",
        (from_time,),
    ).fetchall()

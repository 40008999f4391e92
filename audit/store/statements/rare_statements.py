"""Stores rare statements, one by one: rebuilt hours, retired hosts, accepted faults, compared
files, damaged batches, results of loads, and unwatched periods. Losses of logs are in
partitions/log_losses.py."""

import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow.compute as pc

from audit.store.entries.chunks import Chunk
from audit.store.folding.columns import MOST_TIME, cut, numbers
from audit.store.statements import loads, scrubs

HOUR: Final = 3_600_000
_MOST_HOURS: Final = 10_000  # of one comparison
_MOST_OFFSET: Final = 1 << 53

_MOST_UNWATCHED: Final = 10_000  # of one agent and topic

_UNWATCHED: Final = "INSERT OR IGNORE INTO unwatched VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_MORE_UNWATCHED: Final = """
INSERT INTO unwatched VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    time = max(time, excluded.time), from_time = min(from_time, excluded.from_time),
    to_time = max(to_time, excluded.to_time)
"""
_CHECKED: Final = """
INSERT INTO checked VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET time = excluded.time, said = excluded.said, journal = excluded.journal,
    seq = excluded.seq, files = excluded.files, rows = excluded.rows, faults = excluded.faults
WHERE (excluded.said, excluded.journal, excluded.seq) >= (said, journal, seq)
"""

_NOT_GIVEN: Final[tuple[object, ...]] = (None, "", [], -1)
_LONGEST_LINE: Final = 1_000

Json = dict[str, Any]

log = logging.getLogger(__name__)


def keep(chunk: Chunk) -> None:
    for topic in chunk.cut_topics | chunk.replaced:
        rows = chunk.connection.execute(
            "SELECT DISTINCT topic, hour FROM placed WHERE topic = ?"
            " UNION SELECT topic, hour FROM hours WHERE topic = ?",
            (topic, topic),
        )
        chunk.touched.update(rows.fetchall())
    counts_by_entry: Counter[int] = Counter()
    for row, statement in statements_of(chunk, "unwatched", "agent"):
        _keep_unwatched(chunk, row, counts_by_entry[row], statement)
        counts_by_entry[row] += 1
    for row, statement in statements_of(chunk, "rebuilt", "hdfs"):
        _keep_rebuilt(chunk, row, statement)
    for number, (row, statement) in enumerate(statements_of(chunk, "accepted", "operator")):
        _keep_accepted(chunk, row, number, statement)
    for row, statement in statements_of(chunk, "checked", "hdfs"):
        _keep_checked(chunk, row, statement)
    for row, statement in statements_of(chunk, "damaged", ""):
        _keep_damaged(chunk, row, statement)
    for row, statement in statements_of(chunk, "loads", "hdfs"):
        loads.keep(chunk, row, statement)
    for row, statement in statements_of(chunk, "scrubbed", "broker"):
        scrubs.keep(chunk, row, statement)


def keep_retired(chunk: Chunk) -> list[str]:
    """Stores retired hosts and roots, and returns their names."""
    names = []
    for row, statement in statements_of(chunk, "retired", "operator"):
        _keep_retired(chunk, row, statement)
        names.append(statement["host"])
    return names


def statements_of(chunk: Chunk, name: str, tier: str) -> Iterator[tuple[int, Json]]:
    list_column = chunk.entries.body.field(name)
    if not len(list_column.flatten()):
        return
    has_any = numbers(pc.list_value_length(list_column)) > 0
    if tier:
        has_any &= chunk.entries.of_tier(tier)
    for row in np.flatnonzero(has_any).tolist():
        for statement in list_column[row].as_py():
            yield row, _cut(statement)


def _cut(value: Any) -> Any:
    """Limits the length of all texts in a statement."""
    if isinstance(value, str):
        return cut(value)
    if isinstance(value, list):
        return [_cut(element) for element in value]
    if isinstance(value, dict):
        return {name: _cut(element) for name, element in value.items()}
    return value


def _keep_rebuilt(chunk: Chunk, row: int, statement: Json) -> None:
    (name,) = chunk.topic_names([statement["topic"]])
    (topic,) = chunk.numbers.topics.of([statement["topic_id"]], name)
    from_time, to_time = _times(statement["from_time"], statement["to_time"])
    chunk.connection.execute(
        "INSERT OR IGNORE INTO voided VALUES (?, ?, ?, ?, ?)",
        (topic, int(chunk.tier[row]), int(chunk.entries.run[row]), from_time, to_time),
    )
    _touch(chunk, topic, from_time, to_time)


def _keep_retired(chunk: Chunk, row: int, statement: Json) -> None:
    cursor = chunk.connection.execute(
        "INSERT OR IGNORE INTO retired VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            chunk.cluster,
            statement["host"],
            statement["agent"],
            _times(statement["since"], 0)[0],
            int(chunk.entries.time[row]),
            statement["reason"],
            statement["operator"],
        ),
    )
    if cursor.rowcount == 1:
        _log_operator(chunk, row, "retired", statement)


def _keep_accepted(chunk: Chunk, row: int, number: int, statement: Json) -> None:
    (name,) = chunk.topic_names([statement["topic"]])
    entries = chunk.entries
    rows = np.array([row])
    cursor = chunk.connection.execute(
        "INSERT OR IGNORE INTO accepted VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            name,
            *entries.journal.take(rows),
            int(entries.seq[row]),
            number,
            int(entries.time[row]),
            statement["topic_id"],
            msgspec.json.encode(statement),
        ),
    )
    _touch_all(chunk, name)
    if cursor.rowcount == 1:
        _log_operator(chunk, row, "accepted", statement)


def _log_operator(chunk: Chunk, row: int, what: str, statement: Json) -> None:
    """Logs a change by an operator: who, when, from which machine, and its conditions. These are
    rare, and names in the ledger can be any text, so each is one short, escaped line."""
    (host,) = chunk.entries.host.take(np.array([row]))
    conditions = {name: value for name, value in statement.items() if value not in _NOT_GIVEN}
    log.info(
        "operator %s cluster=%s operator=%a from=%a time=%d given=%s",
        *(what, chunk.cluster, statement["operator"], host, int(chunk.entries.time[row])),
        ascii(conditions)[:_LONGEST_LINE],
    )


def _keep_checked(chunk: Chunk, row: int, statement: Json) -> None:
    (name,) = chunk.topic_names([statement["topic"]])
    from_time, to_time = _times(statement["from_time"], statement["to_time"])
    first_hour = from_time - from_time % HOUR
    hours = range(first_hour, min(to_time, first_hour + _MOST_HOURS * HOUR), HOUR)
    by_hour: dict[int, list[Json]] = {hour: [] for hour in hours}
    for fault in statement["faults"]:
        hour = fault["hour"] - fault["hour"] % HOUR
        if hour in by_hour:
            by_hour[hour].append(fault)
    entries = chunk.entries
    (journal,) = entries.journal.take(np.array([row]))
    origin = int(entries.time[row]), int(entries.said[row]), journal, int(entries.seq[row])
    sizes = statement["files"], statement["rows"]
    chunk.connection.executemany(
        _CHECKED,
        [
            (name, int(chunk.tier[row]), hour, *origin, *sizes, msgspec.json.encode(faults))
            for hour, faults in by_hour.items()
        ],
    )
    for (topic,) in _topics(chunk, name):
        _touch(chunk, topic, from_time, min(to_time, first_hour + _MOST_HOURS * HOUR))


def _keep_damaged(chunk: Chunk, row: int, statement: Json) -> None:
    (name,) = chunk.topic_names([statement["topic"]])
    offsets = statement["offsets"]
    chunk.connection.execute(
        "INSERT INTO damaged VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE"
        " SET reason = min(reason, excluded.reason), time = min(time, excluded.time),"
        " last = max(last, excluded.last)",
        (
            name,
            statement["topic_id"],
            statement["partition"],
            max(0, min(offsets["first"], _MOST_OFFSET)),
            max(1, min(offsets["count"], _MOST_OFFSET)),
            statement["reason"],
            time := int(chunk.entries.time[row]),
            time,
        ),
    )
    _touch_all(chunk, name)
    for (topic,) in _topics(chunk, name):
        chunk.touched.add((topic, time - time % HOUR))
        chunk.damaged_topics.add(topic)


def _keep_unwatched(chunk: Chunk, row: int, number: int, statement: Json) -> None:
    """Keeps an unwatched time. One without traces counts as watched."""
    from_time, to_time = _times(statement["from_time"], statement["to_time"])
    to_time = max(to_time, from_time + 1)
    if statement["traces"] == "unchanged":
        return
    (name,) = chunk.topic_names([statement["topic"]])
    entries = chunk.entries
    rows = np.array([row])
    (journal,), (host,) = entries.journal.take(rows), entries.host.take(rows)
    values = (
        int(entries.time[row]),
        host,
        statement["path"],
        statement["source"],
        max(-1, statement["position"]) if statement["source"] else -1,
        from_time,
        to_time,
        statement["traces"],
        statement["reason"],
    )
    ((count,),) = chunk.connection.execute(
        "SELECT count(*) FROM unwatched WHERE name = ? AND journal = ?", (name, journal)
    ).fetchall()
    if count < _MOST_UNWATCHED:
        key = (name, journal, int(entries.seq[row]), number)
        chunk.connection.execute(_UNWATCHED, (*key, *values))
    else:
        is_brief = statement["traces"] == "brief"
        traces, number = ("brief", 1) if is_brief else ("changed", 0)
        brief_values = (values[0], host, "several folders", "", -1, from_time, to_time, traces, "")
        chunk.connection.execute(_MORE_UNWATCHED, (name, journal, -1, number, *brief_values))
    first_hour = from_time - from_time % HOUR
    hours = range(first_hour, min(to_time, first_hour + _MOST_HOURS * HOUR), HOUR)
    for (topic,) in _topics(chunk, name):
        chunk.touched.update((topic, hour) for hour in hours)


def _times(first: int, after: int) -> tuple[int, int]:
    return max(0, min(first, MOST_TIME)), max(0, min(after, MOST_TIME))


def _topics(chunk: Chunk, name: int) -> list[tuple[int]]:
    return chunk.connection.execute("SELECT id FROM topics WHERE name = ?", (name,)).fetchall()


def _touch(chunk: Chunk, topic: int, from_time: int, to_time: int) -> None:
    rows = chunk.connection.execute(
        "SELECT DISTINCT hour FROM hours WHERE topic = ? AND hour >= ? AND hour < ?",
        (topic, from_time - from_time % HOUR, to_time),
    )
    chunk.touched.update((topic, hour) for (hour,) in rows)
    chunk.touched.add((topic, from_time - from_time % HOUR))


def _touch_all(chunk: Chunk, name: int) -> None:
    """Touches all hours of a topic, as the affected ones are unknown."""
    rows = chunk.connection.execute(
        "SELECT DISTINCT topic, hour FROM hours JOIN topics ON id = topic WHERE name = ?", (name,)
    )
    chunk.touched.update(rows.fetchall())

"""What is said seldom, one by one: hours that were rebuilt, hosts that were retired, faults that
were accepted, files that were compared, batches that are damaged, loads that fail, times in which
nobody watched. Of logs that have lost what they had, partitions/log_losses.py.
"""

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
_MOST_HOURS: Final = 10_000  # that one comparison can be about
_MOST_OFFSET: Final = 1 << 53

_MOST_UNWATCHED: Final = 10_000  # of one agent and topic, one by one

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
    in_entry: Counter[int] = Counter()
    for row, each in said_by_tier(chunk, "unwatched", "agent"):
        _keep_unwatched(chunk, row, in_entry[row], each)
        in_entry[row] += 1
    for row, each in said_by_tier(chunk, "rebuilt", "hdfs"):
        _keep_rebuilt(chunk, row, each)
    for row, each in said_by_tier(chunk, "retired", "operator"):
        _keep_retired(chunk, row, each)
    for number, (row, each) in enumerate(said_by_tier(chunk, "accepted", "operator")):
        _keep_accepted(chunk, row, number, each)
    for row, each in said_by_tier(chunk, "checked", "hdfs"):
        _keep_checked(chunk, row, each)
    for row, each in said_by_tier(chunk, "damaged", ""):
        _keep_damaged(chunk, row, each)
    for row, each in said_by_tier(chunk, "loads", "hdfs"):
        loads.keep(chunk, row, each)
    for row, each in said_by_tier(chunk, "scrubbed", "broker"):
        scrubs.keep(chunk, row, each)


def said_by_tier(chunk: Chunk, name: str, tier: str) -> Iterator[tuple[int, Json]]:
    lists = chunk.entries.body.field(name)
    if not len(lists.flatten()):
        return
    some = numbers(pc.list_value_length(lists)) > 0
    if tier:
        some &= chunk.entries.of_tier(tier)
    for row in np.flatnonzero(some).tolist():
        for each in lists[row].as_py():
            yield row, _cut(each)


def _cut(said: Any) -> Any:
    """With all texts in it cut to size."""
    if isinstance(said, str):
        return cut(said)
    if isinstance(said, list):
        return [_cut(each) for each in said]
    if isinstance(said, dict):
        return {name: _cut(each) for name, each in said.items()}
    return said


def _keep_rebuilt(chunk: Chunk, row: int, said: Json) -> None:
    (name,) = chunk.topic_names([said["topic"]])
    (topic,) = chunk.numbers.topics.of([said["topic_id"]], name)
    from_time, to_time = _times(said["from_time"], said["to_time"])
    chunk.connection.execute(
        "INSERT OR IGNORE INTO voided VALUES (?, ?, ?, ?, ?)",
        (topic, int(chunk.tier[row]), int(chunk.entries.run[row]), from_time, to_time),
    )
    _touch(chunk, topic, from_time, to_time)


def _keep_retired(chunk: Chunk, row: int, said: Json) -> None:
    made = chunk.connection.execute(
        "INSERT OR IGNORE INTO retired VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            chunk.cluster,
            said["host"],
            said["agent"],
            _times(said["since"], 0)[0],
            int(chunk.entries.time[row]),
            said["reason"],
            said["operator"],
        ),
    )
    if made.rowcount == 1:
        _log_operator(chunk, row, "retired", said)


def _keep_accepted(chunk: Chunk, row: int, number: int, said: Json) -> None:
    (name,) = chunk.topic_names([said["topic"]])
    entries = chunk.entries
    at = np.array([row])
    made = chunk.connection.execute(
        "INSERT OR IGNORE INTO accepted VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            name,
            *entries.journal.take(at),
            int(entries.seq[row]),
            number,
            int(entries.time[row]),
            said["topic_id"],
            msgspec.json.encode(said),
        ),
    )
    _touch_all(chunk, name)
    if made.rowcount == 1:
        _log_operator(chunk, row, "accepted", said)


def _log_operator(chunk: Chunk, row: int, what: str, said: Json) -> None:
    """Who has changed what is judged, when, from which machine, and all that he gave. As nothing of
    the kind is said often, and a name in the ledger can be any text, each is one short line."""
    (machine,) = chunk.entries.host.take(np.array([row]))
    given = {name: each for name, each in said.items() if each not in _NOT_GIVEN}
    log.info(
        "operator %s cluster=%s operator=%a from=%a time=%d given=%s",
        *(what, chunk.cluster, said["operator"], machine, int(chunk.entries.time[row])),
        ascii(given)[:_LONGEST_LINE],
    )


def _keep_checked(chunk: Chunk, row: int, said: Json) -> None:
    (name,) = chunk.topic_names([said["topic"]])
    from_time, to_time = _times(said["from_time"], said["to_time"])
    first = from_time - from_time % HOUR
    hours = range(first, min(to_time, first + _MOST_HOURS * HOUR), HOUR)
    by_hour: dict[int, list[Json]] = {hour: [] for hour in hours}
    for fault in said["faults"]:
        hour = fault["hour"] - fault["hour"] % HOUR
        if hour in by_hour:
            by_hour[hour].append(fault)
    entries = chunk.entries
    (journal,) = entries.journal.take(np.array([row]))
    who = int(entries.time[row]), int(entries.said[row]), journal, int(entries.seq[row])
    size = said["files"], said["rows"]
    chunk.connection.executemany(
        _CHECKED,
        [
            (name, int(chunk.tier[row]), hour, *who, *size, msgspec.json.encode(faults))
            for hour, faults in by_hour.items()
        ],
    )
    for (topic,) in _topics(chunk, name):
        _touch(chunk, topic, from_time, min(to_time, first + _MOST_HOURS * HOUR))


def _keep_damaged(chunk: Chunk, row: int, said: Json) -> None:
    (name,) = chunk.topic_names([said["topic"]])
    offsets = said["offsets"]
    chunk.connection.execute(
        "INSERT INTO damaged VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE"
        " SET reason = min(reason, excluded.reason), time = min(time, excluded.time),"
        " last = max(last, excluded.last)",
        (
            name,
            said["topic_id"],
            said["partition"],
            max(0, min(offsets["first"], _MOST_OFFSET)),
            max(1, min(offsets["count"], _MOST_OFFSET)),
            said["reason"],
            time := int(chunk.entries.time[row]),
            time,
        ),
    )
    _touch_all(chunk, name)
    for (topic,) in _topics(chunk, name):
        chunk.touched.add((topic, time - time % HOUR))
        chunk.damaged_topics.add(topic)


def _keep_unwatched(chunk: Chunk, row: int, number: int, said: Json) -> None:
    """What has left no traces is as if it had been watched."""
    from_time, to_time = _times(said["from_time"], said["to_time"])
    to_time = max(to_time, from_time + 1)
    if said["traces"] == "unchanged":
        return
    (name,) = chunk.topic_names([said["topic"]])
    entries = chunk.entries
    at = np.array([row])
    (journal,), (host,) = entries.journal.take(at), entries.host.take(at)
    values = (
        int(entries.time[row]),
        host,
        said["path"],
        said["source"],
        max(-1, said["position"]) if said["source"] else -1,
        from_time,
        to_time,
        said["traces"],
        said["reason"],
    )
    ((count,),) = chunk.connection.execute(
        "SELECT count(*) FROM unwatched WHERE name = ? AND journal = ?", (name, journal)
    ).fetchall()
    if count < _MOST_UNWATCHED:
        key = (name, journal, int(entries.seq[row]), number)
        chunk.connection.execute(_UNWATCHED, (*key, *values))
    else:
        is_brief = said["traces"] == "brief"
        traces, number = ("brief", 1) if is_brief else ("changed", 0)
        rest = (values[0], host, "several folders", "", -1, from_time, to_time, traces, "")
        chunk.connection.execute(_MORE_UNWATCHED, (name, journal, -1, number, *rest))
    first = from_time - from_time % HOUR
    hours = range(first, min(to_time, first + _MOST_HOURS * HOUR), HOUR)
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
    """Nobody knows which hours it is about."""
    rows = chunk.connection.execute(
        "SELECT DISTINCT topic, hour FROM hours JOIN topics ON id = topic WHERE name = ?", (name,)
    )
    chunk.touched.update(rows.fetchall())

"""Stores marks on the time axis: starts of agents and brokers with their versions, beginnings of
leader epochs, loads, acceptances, retirements, and changes of groups and brokers that this audit
saw.

All but the last are in the ledger, and are read from its tables. Changes seen by this audit are
nowhere else, and are lost with the database; the newest `MOST_SEEN` are kept.

Events of one kind within a minute are one mark, as a release is rolled out on many hosts at once. A
load is a mark if loads are rare, or if it rebuilt hours.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from audit.api.answers import Mark
from audit.reconciling.authors import with_author
from audit.store.database import changed
from audit.store.entries.chunks import Chunk
from audit.store.folding.columns import cut, numbers, parents, texts

MOST_SEEN: Final = 20_000
MOST_STARTS: Final = 100  # of an agent; the newest are kept
_MOST_READ: Final = 20_000  # rows of a table, for an answer
_MINUTE: Final = 60_000
_HOUR: Final = 3_600_000
_FEW: Final = 3  # names in a sentence

# ?1 and ?2 are times, ?3 a cluster, ?4 a topic, ?5 a host; empty for any.
_STARTS: Final = """
SELECT started, cluster, coalesce(text, ''), tier, version,
    coalesce((SELECT before.version FROM starts AS before WHERE before.journal = starts.journal
        AND before.started < starts.started ORDER BY before.started DESC LIMIT 1), '-')
    FROM starts JOIN journals ON journals.id = starts.journal LEFT JOIN names ON names.id = host
    WHERE started >= ?1 AND started < ?2 AND ?3 IN ('', cluster) AND ?5 IN ('', text)
    AND (?4 = '' OR starts.journal IN (SELECT journal_topics.journal FROM journal_topics
        JOIN topic_names ON topic_names.id = name WHERE topic = ?4))
    ORDER BY started DESC LIMIT ?6
"""
_LEADERS: Final = """
SELECT begun.time, topic_names.cluster, topic_names.topic, begun.partition, begun.epoch,
    coalesce((SELECT text FROM counted_under JOIN journals ON journals.id = counted_under.journal
        JOIN names ON names.id = journals.host WHERE counted_under.topic = begun.topic
        AND counted_under.partition = begun.partition AND counted_under.epoch = begun.epoch
        ORDER BY counted_under.time LIMIT 1), '')
    FROM begun JOIN topics ON topics.id = begun.topic JOIN topic_names ON topic_names.id = name
    WHERE begun.time >= ?1 AND begun.time < ?2 AND begun.epoch > 0
    AND ?3 IN ('', topic_names.cluster) AND ?4 IN ('', topic_names.topic)
    ORDER BY begun.time DESC LIMIT ?6
"""
_LOADS: Final = """
SELECT time, cluster, topic_names.topic, destination, rows, rebuilt FROM loads
    JOIN tiers ON tiers.id = loads.tier JOIN topics ON topics.id = loads.topic
    JOIN topic_names ON topic_names.id = name
    WHERE time >= ?1 AND time < ?2 AND ?3 IN ('', cluster) AND ?4 IN ('', topic_names.topic)
    ORDER BY time DESC LIMIT ?6
"""
_ACCEPTED: Final = """
SELECT time, cluster, topic, statement FROM accepted JOIN topic_names ON topic_names.id = name
    WHERE time >= ?1 AND time < ?2 AND ?3 IN ('', cluster) AND ?4 IN ('', topic)
    ORDER BY time DESC LIMIT ?6
"""
_RETIRED: Final = """
SELECT time, cluster, host, reason, operator FROM retired
    WHERE time >= ?1 AND time < ?2 AND ?3 IN ('', cluster) AND ?5 IN ('', host)
    AND (?4 = '' OR EXISTS (SELECT 1 FROM histories JOIN tiers ON tiers.id = tier
        JOIN topics ON topics.id = histories.topic JOIN topic_names ON topic_names.id = name
        WHERE destination = host AND topic_names.cluster = retired.cluster
        AND topic_names.topic = ?4))
    ORDER BY time DESC LIMIT ?6
"""
_SEEN: Final = """
SELECT time, kind, cluster, topic, name, words FROM seen_marks
    WHERE time >= ?1 AND time < ?2 AND ?3 IN ('', cluster)
    AND (?4 IN ('', topic) OR kind = 'broker') ORDER BY time DESC LIMIT ?6
"""
_OLD: Final = """
DELETE FROM starts WHERE (journal, started) IN (SELECT journal, started FROM (
    SELECT journal, started, row_number() OVER (PARTITION BY journal ORDER BY started DESC) AS place
    FROM starts) WHERE place > ?1 OR (place > 1 AND started < ?2))
"""
_FORGOTTEN: Final = "DELETE FROM starts WHERE journal NOT IN (SELECT id FROM journals)"
_TOO_MANY: Final = """
DELETE FROM seen_marks WHERE time < ?1
    OR time < (SELECT min(time) FROM (SELECT time FROM seen_marks ORDER BY time DESC LIMIT ?2))
"""


class MarksQuery(NamedTuple):
    """A query for marks. Empty texts match everything."""

    from_time: int
    to_time: int
    cluster: str
    topic: str
    host: str


def keep_starts(chunk: Chunk) -> None:
    """Stores the starts of agents and brokers, from their health reports."""
    entries = chunk.entries
    list_column = entries.body.field("health")
    health = list_column.flatten()
    if not len(health):
        return
    entry = parents(list_column)
    start_times = np.clip(numbers(health.field("started")), 0, entries.latest)
    is_marked = entries.of_tier("agent") | entries.of_tier("broker")
    row_ids = np.flatnonzero((start_times > 0) & is_marked[entry])
    version = texts(health.field("program_version").take(row_ids)).take(np.arange(len(row_ids)))
    rows = zip(
        chunk.journal[entry[row_ids]].tolist(), start_times[row_ids].tolist(), version, strict=True
    )
    chunk.connection.executemany("INSERT OR IGNORE INTO starts VALUES (?, ?, ?)", set(rows))


def keep_seen(connection: sqlite3.Connection, marks: Iterable[Mark]) -> None:
    connection.executemany(
        "INSERT OR REPLACE INTO seen_marks VALUES (?, ?, ?, ?, ?, ?)",
        [
            (mark.time, mark.kind, mark.cluster, cut(mark.topic), cut(mark.group), cut(mark.words))
            for mark in marks
        ],
    )


def expire(connection: sqlite3.Connection, before: int) -> int:
    """Deletes old marks, except the last start of each agent, whose version is compared with the
    one after the next upgrade."""
    deleted_rows = changed(connection, _OLD, (MOST_STARTS, before)) + changed(
        connection, _FORGOTTEN
    )
    return deleted_rows + changed(connection, _TOO_MANY, (before, MOST_SEEN))


def marks(connection: sqlite3.Connection, query: MarksQuery) -> list[Mark]:
    """Returns marks, the newest first."""
    parameters = (*query, _MOST_READ)

    def rows(statement: str) -> list[tuple[Any, ...]]:
        return connection.execute(statement, parameters).fetchall()

    all_marks = [*_starts(rows(_STARTS)), *_leaders(rows(_LEADERS), query.host)]
    all_marks += [_retired(row) for row in rows(_RETIRED)]
    if not query.host:
        hours = (query.to_time - query.from_time) // _HOUR
        all_marks += _loads(rows(_LOADS), most=hours + 1)
        all_marks += [_accepted(row) for row in rows(_ACCEPTED)]
        all_marks += _seen(rows(_SEEN))
    return sorted(all_marks, key=lambda mark: (-mark.time, mark.kind, mark.words))


def _together(
    rows: Iterable[tuple[Any, ...]], key: Callable[[tuple[Any, ...]], tuple[Any, ...]]
) -> Iterator[list[tuple[Any, ...]]]:
    """Yields groups of rows of one minute and key. The first column is the time."""

    def place(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return row[0] // _MINUTE, *key(row)

    for _, group in groupby(sorted(rows, key=lambda row: (*place(row), row)), place):
        yield list(group)


def _starts(rows: Iterable[tuple[Any, ...]]) -> Iterator[Mark]:
    """`rows`: times, clusters, hosts, tiers, versions, former versions; `-` without an earlier
    start."""
    for group in _together(rows, lambda row: (row[1], *row[3:])):
        time, cluster, host, tier, version, old_version = group[0]
        hosts = sorted({row[2] for row in group})
        program = tier.capitalize() if len(hosts) == 1 else f"{tier.capitalize()}s"
        subject = f"{program} on {_listed(hosts)}"
        is_upgrade = old_version not in {"-", version}
        if old_version == "-":
            event = f"started, version {version}" if version else "started"
        else:
            event = (
                f"restarted: version {version}, before {old_version}" if is_upgrade else "restarted"
            )
        yield Mark(
            time=time,
            kind="release" if is_upgrade else "start",
            cluster=cluster,
            host=host if len(hosts) == 1 else "",
            words=f"{subject} {event}",
        )


def _leaders(rows: Iterable[tuple[Any, ...]], chosen_host: str) -> Iterator[Mark]:
    """`rows`: times, clusters, topics, partitions, epochs, hosts."""
    chosen_rows = (row for row in rows if chosen_host in {"", row[5]})
    for group in _together(chosen_rows, lambda row: (row[1], row[5])):
        time, cluster, topic, _, epoch, host = group[0]
        partitions = sorted({f"{row[2]}-{row[3]}" for row in group})
        event = f"the broker on {host} leads" if host else "a new leader epoch began for"
        suffix = f" (leader epoch {epoch})" if len(partitions) == 1 else ""
        topics = {row[2] for row in group}
        yield Mark(
            time=time,
            kind="leader",
            cluster=cluster,
            topic=topic if len(topics) == 1 else "",
            host=host,
            words=f"Change of leader: {event} {_listed(partitions)}{suffix}",
        )


def _loads(rows: Sequence[tuple[Any, ...]], most: int) -> Iterator[Mark]:
    """`rows`: times, clusters, topics, destinations, rows, rebuilt. If there are more than `most`,
    only rebuilds are marks."""
    row_groups = list(_together(rows, lambda row: (row[1], row[3], row[5])))
    for group in row_groups:
        time, cluster, topic, destination, _, is_rebuild = group[0]
        if len(row_groups) > most and not is_rebuild:
            continue
        topics = sorted({row[2] for row in group})
        count = sum(row[4] for row in group)
        event = "rebuilt hours with" if is_rebuild else "landed"
        events = "1 row" if count == 1 else f"{count:,} rows"
        yield Mark(
            time=time,
            kind="load",
            cluster=cluster,
            topic=topic if len(topics) == 1 else "",
            words=f"A load {event} {events} of {_listed(topics)} in {destination}",
        )


def _accepted(row: tuple[Any, ...]) -> Mark:
    time, cluster, topic, statement = row
    acceptance = msgspec.json.decode(statement)
    reason = with_author(acceptance["reason"], acceptance["operator"], time)
    words = f"A fault of {topic} was accepted: {reason}"
    return Mark(time=time, kind="accepted", cluster=cluster, topic=topic, words=words)


def _retired(row: tuple[Any, ...]) -> Mark:
    time, cluster, host, reason, operator = row
    subject = host if "/" in host else f"Host {host}"  # or a root
    words = f"{subject} was retired: {with_author(reason, operator, time)}"
    return Mark(time=time, kind="retired", cluster=cluster, host=host, words=words)


def _seen(rows: Iterable[tuple[Any, ...]]) -> Iterator[Mark]:
    """Yields seen changes; one of a group that reads several topics is kept for each, but shown
    once."""
    shown_marks = set()
    for time, kind, cluster, topic, name, words in rows:
        if (time, kind, cluster, name) not in shown_marks:
            shown_marks.add((time, kind, cluster, name))
            group = name if kind == "group" else ""
            yield Mark(time=time, kind=kind, cluster=cluster, topic=topic, group=group, words=words)


def _listed(names: Sequence[str]) -> str:
    """Lists the first few names, and the number of others."""
    hidden_count = len(names) - _FEW
    first_names = ", ".join(names[:_FEW])
    return f"{first_names} and {hidden_count:,} more" if hidden_count > 0 else first_names

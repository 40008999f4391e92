"""Marks on the time axis: when agents and brokers started and in which version, when leader epochs
began, what was loaded, accepted and retired, and what this audit saw of groups and brokers.

All but the last are in the ledger, and read from the tables that are made of it. What was seen is
told nowhere else, and is gone with the database; `MOST_SEEN` of it are kept, the newest.

What happened to several of a kind within a minute is one mark: a release is rolled out on many
hosts at once. A load is a mark where loads are seldom, or if it has rebuilt hours.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from audit.api.answers import Mark
from audit.api.attribution import said_by
from audit.store.database import changed
from audit.store.entries.chunks import Chunk
from audit.store.folding.columns import cut, numbers, parents, texts

MOST_SEEN: Final = 20_000
MOST_STARTS: Final = 100  # of an agent: the newest
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


class MarksAsked(NamedTuple):
    """Texts are empty for any."""

    from_time: int
    to_time: int
    cluster: str
    topic: str
    host: str


def keep_starts(chunk: Chunk) -> None:
    """Keeps when agents and brokers were started, as their statements of health say."""
    entries = chunk.entries
    lists = entries.body.field("health")
    health = lists.flatten()
    if not len(health):
        return
    entry = parents(lists)
    started = np.clip(numbers(health.field("started")), 0, entries.latest)
    speaks = entries.of_tier("agent") | entries.of_tier("broker")
    at = np.flatnonzero((started > 0) & speaks[entry])
    version = texts(health.field("program_version").take(at)).take(np.arange(len(at)))
    rows = zip(chunk.journal[entry[at]].tolist(), started[at].tolist(), version, strict=True)
    chunk.connection.executemany("INSERT OR IGNORE INTO starts VALUES (?, ?, ?)", set(rows))


def keep_seen(connection: sqlite3.Connection, marks: Iterable[Mark]) -> None:
    connection.executemany(
        "INSERT OR REPLACE INTO seen_marks VALUES (?, ?, ?, ?, ?, ?)",
        [
            (each.time, each.kind, each.cluster, cut(each.topic), cut(each.group), cut(each.words))
            for each in marks
        ],
    )


def expire(connection: sqlite3.Connection, before: int) -> int:
    """The last start of an agent stays: it says which version the next one replaces."""
    gone = changed(connection, _OLD, (MOST_STARTS, before)) + changed(connection, _FORGOTTEN)
    return gone + changed(connection, _TOO_MANY, (before, MOST_SEEN))


def marks(connection: sqlite3.Connection, asked: MarksAsked) -> list[Mark]:
    """The newest first."""
    given = (*asked, _MOST_READ)

    def rows(statement: str) -> list[tuple[Any, ...]]:
        return connection.execute(statement, given).fetchall()

    found = [*_starts(rows(_STARTS)), *_leaders(rows(_LEADERS), asked.host)]
    found += [_retired(row) for row in rows(_RETIRED) if not asked.topic]
    if not asked.host:
        hours = (asked.to_time - asked.from_time) // _HOUR
        found += _loads(rows(_LOADS), most=hours + 1)
        found += [_accepted(row) for row in rows(_ACCEPTED)]
        found += _seen(rows(_SEEN))
    return sorted(found, key=lambda mark: (-mark.time, mark.kind, mark.words))


def _together(
    rows: Iterable[tuple[Any, ...]], key: Callable[[tuple[Any, ...]], tuple[Any, ...]]
) -> Iterator[list[tuple[Any, ...]]]:
    """Those of one minute that have the same key; the time of a row comes first."""

    def place(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return row[0] // _MINUTE, *key(row)

    for _, several in groupby(sorted(rows, key=lambda row: (*place(row), row)), place):
        yield list(several)


def _starts(rows: Iterable[tuple[Any, ...]]) -> Iterator[Mark]:
    """Times, clusters, hosts, tiers, versions, versions before; `-` where no start before is
    known."""
    for several in _together(rows, lambda row: (row[1], *row[3:])):
        time, cluster, host, tier, version, before = several[0]
        hosts = sorted({row[2] for row in several})
        program = tier.capitalize() if len(hosts) == 1 else f"{tier.capitalize()}s"
        subject = f"{program} on {_listed(hosts)}"
        release = before not in {"-", version}
        if before == "-":
            what = f"started, version {version}" if version else "started"
        else:
            what = f"restarted: version {version}, before {before}" if release else "restarted"
        yield Mark(
            time=time,
            kind="release" if release else "start",
            cluster=cluster,
            host=host if len(hosts) == 1 else "",
            words=f"{subject} {what}",
        )


def _leaders(rows: Iterable[tuple[Any, ...]], wanted: str) -> Iterator[Mark]:
    """Times, clusters, topics, partitions, epochs, hosts."""
    mine = (row for row in rows if wanted in {"", row[5]})
    for several in _together(mine, lambda row: (row[1], row[5])):
        time, cluster, topic, _, epoch, host = several[0]
        partitions = sorted({f"{row[2]}-{row[3]}" for row in several})
        where = f"the broker on {host} leads" if host else "a new leader epoch began for"
        which = f" (leader epoch {epoch})" if len(partitions) == 1 else ""
        topics = {row[2] for row in several}
        yield Mark(
            time=time,
            kind="leader",
            cluster=cluster,
            topic=topic if len(topics) == 1 else "",
            host=host,
            words=f"Change of leader: {where} {_listed(partitions)}{which}",
        )


def _loads(rows: Sequence[tuple[Any, ...]], most: int) -> Iterator[Mark]:
    """Times, clusters, topics, destinations, rows, rebuilt. Of more than so many, only those that
    have rebuilt hours."""
    several_loads = list(_together(rows, lambda row: (row[1], row[3], row[5])))
    for several in several_loads:
        time, cluster, topic, destination, _, rebuilt = several[0]
        if len(several_loads) > most and not rebuilt:
            continue
        topics = sorted({row[2] for row in several})
        count = sum(row[4] for row in several)
        what = "rebuilt hours with" if rebuilt else "landed"
        events = "1 row" if count == 1 else f"{count:,} rows"
        yield Mark(
            time=time,
            kind="load",
            cluster=cluster,
            topic=topic if len(topics) == 1 else "",
            words=f"A load {what} {events} of {_listed(topics)} in {destination}",
        )


def _accepted(row: tuple[Any, ...]) -> Mark:
    time, cluster, topic, statement = row
    said = msgspec.json.decode(statement)
    reason = said_by(said["reason"], said["operator"], time)
    words = f"A fault of {topic} was accepted: {reason}"
    return Mark(time=time, kind="accepted", cluster=cluster, topic=topic, words=words)


def _retired(row: tuple[Any, ...]) -> Mark:
    time, cluster, host, reason, operator = row
    words = f"Host {host} was retired: {said_by(reason, operator, time)}"
    return Mark(time=time, kind="retired", cluster=cluster, host=host, words=words)


def _seen(rows: Iterable[tuple[Any, ...]]) -> Iterator[Mark]:
    """A group that reads several topics is seen in each of them."""
    known = set()
    for time, kind, cluster, topic, name, words in rows:
        if (time, kind, cluster, name) not in known:
            known.add((time, kind, cluster, name))
            group = name if kind == "group" else ""
            yield Mark(time=time, kind=kind, cluster=cluster, topic=topic, group=group, words=words)


def _listed(names: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    more = len(names) - _FEW
    first = ", ".join(names[:_FEW])
    return f"{first} and {more:,} more" if more > 0 else first

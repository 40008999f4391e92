"""Stores the latest health report of each program. The kind of a program follows from its tier.

An agent is identified by its journal, any other program by its host and name. A fleet of ten
thousand makes as many statements in ten minutes, so only the last one of each journal in a chunk is
read. A cluster keeps the `MOST_PROGRAMS` programs heard last; texts, disks, certificates and
problems of a statement are capped at what a program writes.
"""

import sqlite3
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow.compute as pc

from audit.programs import Program, ProgramKind
from audit.store.database import all_changed
from audit.store.entries.chunks import Chunk
from audit.store.fleet.agents import Retired
from audit.store.folding.columns import MOST, MOST_TIME, cut, numbers
from audit.store.folding.keyed_intervals import grouped
from ground.known_types import known_type
from ledger.health import (
    LONGEST_LABEL,
    LONGEST_TEXT,
    MOST_CERTIFICATES,
    MOST_DISKS,
    MOST_PATTERNS,
    MOST_PROBLEMS,
    Certificate,
    Disk,
    Health,
    Problem,
    ProblemKind,
    ZooKeeperSession,
)
from ledger.taken_topics import is_taken

MOST_PROGRAMS: Final = 50_000
_REPLACED: Final = 86_400_000  # milliseconds
_KINDS: Final = {
    "agent": ProgramKind.AGENT,
    "broker": ProgramKind.BROKER,
    "mirror": ProgramKind.MIRROR,
    "hdfs": ProgramKind.LOADER,
}
_MOST_BYTES: Final = 1 << 60
_MOST_SERVERS: Final = 1_000
_KEPT: Final = """
UPDATE health SET time = ?5, statement = ?6
    WHERE cluster = ?1 AND kind = ?2 AND host = ?3 AND name = ?4 AND time <= ?5
"""
_NEW: Final = "INSERT OR IGNORE INTO health VALUES (?, ?, ?, ?, ?, ?)"
_TOO_MANY: Final = """
DELETE FROM health WHERE cluster = ?1 AND (kind, host, name) IN (
    SELECT kind, host, name FROM health WHERE cluster = ?1 ORDER BY time DESC LIMIT -1 OFFSET ?2)
"""


def keep(chunk: Chunk) -> None:
    entries = chunk.entries
    list_column = entries.body.field("health")
    if not len(list_column.flatten()):
        return
    rows = np.flatnonzero(numbers(pc.list_value_length(list_column)) > 0)
    last_rows = rows[grouped(chunk.journal[rows], then=(entries.seq[rows],)).last()]
    values = []
    for row, tier, host, journal in zip(
        last_rows.tolist(),
        entries.tier.take(last_rows),
        entries.host.take(last_rows),
        entries.journal.take(last_rows),
        strict=True,
    ):
        kind = _KINDS.get(tier)
        if kind is None:
            continue
        health = _checked(list_column[row].as_py()[-1])
        name = journal if kind is ProgramKind.AGENT else health.name
        time, statement = int(entries.time[row]), msgspec.json.encode(health)
        values.append((chunk.cluster, kind.value, host, name, time, statement))
    if all_changed(chunk.connection, _KEPT, values) < len(values):
        chunk.connection.executemany(_NEW, values)
        chunk.connection.execute(_TOO_MANY, (chunk.cluster, MOST_PROGRAMS))


def _checked(statement: dict[str, Any]) -> Health:
    """Returns the statement, with all values within bounds."""
    zookeeper = statement["zookeeper"]
    return Health(
        started=_within(statement["started"], MOST_TIME),
        name=_short(statement["name"]),
        program_version=_short(statement["program_version"]),
        interval_millis=_within(statement["interval_millis"], MOST),
        topics=tuple(statement["topics"][:MOST_PATTERNS]),
        exclude=tuple(statement["exclude"][:MOST_PATTERNS]),
        disks=tuple(
            Disk(
                _short(item["label"]),
                _within(item["free"], _MOST_BYTES),
                _within(item["total"], _MOST_BYTES),
                max(-1, min(item["free_files"], MOST)),
                max(-1, min(item["total_files"], MOST)),
            )
            for item in statement["disks"][:MOST_DISKS]
        ),
        certificates=tuple(
            Certificate(_short(item["label"]), _within(item["ends"], MOST_TIME))
            for item in statement["certificates"][:MOST_CERTIFICATES]
        ),
        zookeeper=zookeeper
        and ZooKeeperSession(
            connected=zookeeper["connected"],
            since=_within(zookeeper["since"], MOST_TIME),
            servers=_within(zookeeper["servers"], _MOST_SERVERS),
            serving=max(-1, min(zookeeper["serving"], _MOST_SERVERS)),
        ),
        problems=tuple(
            Problem(
                ProblemKind(item["kind"]),
                _short(item["subject"]),
                _short(item["text"], LONGEST_TEXT),
                _within(item["since"], MOST_TIME),
            )
            for item in statement["problems"][:MOST_PROBLEMS]
        ),
    )


def _short(text: str, most: int = LONGEST_LABEL) -> str:
    return cut(text[:most])


def _within(number: int, most: int) -> int:
    return max(0, min(number, most))


def programs(
    connection: sqlite3.Connection, heard_since: int, *, loaders_of: str = ""
) -> list[Program]:
    """Returns the programs that were heard from since `heard_since`, except those on retired hosts
    and loaders of retired roots; or only the loaders of one cluster."""
    values: list[str | int] = [heard_since]
    condition = "time >= ?"
    if loaders_of:
        condition, values = "cluster = ? AND kind = 'loader' AND time >= ?", [loaders_of, *values]
    retirements: dict[str, Retired] = {}
    found_programs = []
    for cluster, kind, host, name, time, statement in connection.execute(
        f"SELECT * FROM health WHERE {condition} ORDER BY cluster, kind, host, name",  # noqa: S608
        values,
    ):
        if cluster not in retirements:
            retirements[cluster] = Retired(connection, cluster)
        if retirements[cluster].statement(host, name, time):
            continue
        if kind == "loader" and retirements[cluster].statement(name, "", time):
            continue
        found_programs.append(
            Program(
                kind=ProgramKind(kind),
                cluster=cluster,
                host=host,
                name=name,
                heard=time,
                health=msgspec.json.decode(statement, type=known_type(Health)),
            )
        )
    return found_programs


def roots_of(
    connection: sqlite3.Connection, cluster: str, topic: str, heard_since: int
) -> Iterator[str]:
    """Yields the roots of files into which loaders report that they load a topic. Skips a loader
    that has not reported for some time while another on its host has: its root is assumed to have
    been changed."""
    loaders = programs(connection, heard_since, loaders_of=cluster)
    newest_by_host: dict[str, int] = {}
    for loader in loaders:
        newest_by_host[loader.host] = max(loader.heard, newest_by_host.get(loader.host, 0))
    for loader in loaders:
        is_replaced = loader.heard < newest_by_host[loader.host] - max(
            _REPLACED, 3 * loader.interval
        )
        is_whole = len(loader.name) < LONGEST_LABEL
        topics, exclude = loader.health.topics, loader.health.exclude
        if is_whole and not is_replaced and is_taken(topic, topics, exclude):
            yield loader.name

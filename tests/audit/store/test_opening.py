"""The database after a kill, after damage, and after its time."""

import sqlite3
from pathlib import Path

import pytest

from audit.errors import StoreDamaged
from audit.picture import TopicKey
from audit.queries import HostsQuery, SourcesQuery
from audit.store.database import FILE
from audit.store.store import AuditStore
from ledger.reading import LedgerPositions
from tests.audit.store.said import BEGIN, CLUSTER, HOUR, TOPIC, TOPIC_ID, body
from tests.audit.store.test_lists import counted, landed, shipped

KEY = TopicKey(CLUSTER, TOPIC, TOPIC_ID)
POSITIONS = LedgerPositions("cluster", "topic", {0: 7})


def test_positions_are_kept_with_what_was_folded(tmp_path: Path) -> None:
    store = AuditStore.open(tmp_path)
    assert store.positions(CLUSTER) == LedgerPositions()
    store.fold(CLUSTER, body([shipped(0, 0, 0, 0)]), POSITIONS)
    store.close()
    store = AuditStore.open(tmp_path)
    assert store.positions(CLUSTER) == POSITIONS
    assert store.fold(CLUSTER, body([shipped(0, 0, 0, 0)]), POSITIONS).repeated == 1
    store.close()


def test_what_fails_is_not_folded_at_all(tmp_path: Path) -> None:
    store = AuditStore.open(tmp_path)
    with pytest.raises(KeyError):
        store.fold(CLUSTER, body([shipped(0, 0, 0, 0)]).field("header"), POSITIONS)
    assert store.fold(CLUSTER, body([shipped(0, 0, 0, 0)]), POSITIONS).entries == 1
    store.close()


def test_a_damaged_database_is_found_and_moved_aside(tmp_path: Path) -> None:
    store = AuditStore.open(tmp_path)
    store.fold(CLUSTER, body([shipped(0, 0, 0, 0), counted(0, 0, 10, 0)]), POSITIONS)
    store.close()
    (tmp_path / "audit.open").touch()  # as a kill leaves it
    data = bytearray((tmp_path / FILE).read_bytes())
    data[8192 * 3 : 8192 * 9] = bytes(8192 * 6)
    (tmp_path / FILE).write_bytes(data)
    with pytest.raises(StoreDamaged, match="anew"):
        AuditStore.open(tmp_path)
    aside = AuditStore.discard(tmp_path)
    assert aside is not None
    assert aside.stat().st_size == len(data)
    store = AuditStore.open(tmp_path)
    assert store.positions(CLUSTER) == LedgerPositions()
    store.close()


def test_something_else_in_its_place(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"not a database" * 1000)
    with pytest.raises(StoreDamaged):
        AuditStore.open(tmp_path)


def test_another_version_is_built_anew(tmp_path: Path) -> None:
    AuditStore.open(tmp_path).close()
    connection = sqlite3.connect(tmp_path / FILE)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreDamaged, match="version 99"):
        AuditStore.open(tmp_path)


def test_what_is_too_old_goes(tmp_path: Path) -> None:
    store = AuditStore.open(tmp_path, retention_millis=24 * HOUR)
    reading = store.reading()
    store.fold(CLUSTER, body([shipped(0, 0, 0, 0), counted(0, 0, 10, 0)]), POSITIONS)
    store.fold(CLUSTER, body([landed(0, 0, 10, (0, 10))]), POSITIONS)
    store.expire(BEGIN + 10 * HOUR)
    assert reading.sources(KEY, SourcesQuery(topic=TOPIC)).page.total == 1
    assert store.expire(BEGIN + 60 * HOUR) > 0
    later = BEGIN + 60 * HOUR
    seen = reading.picture(KEY, 0, later, later, expected_millis=30 * 24 * HOUR)
    assert (seen.windows, seen.sources) == ([], [])
    assert (
        reading.sources(KEY, SourcesQuery(topic=TOPIC)).page.total,
        reading.hosts(KEY, HostsQuery(topic=TOPIC)).page.total,
    ) == (0, 0)
    assert len(seen.agents) == 1  # it is expected still
    assert store.fold(CLUSTER, body([shipped(0, 0, 0, 0)]), POSITIONS).repeated == 1
    store.expire(BEGIN + 60 * 24 * HOUR)
    store.fold(CLUSTER, body([shipped(900, 0, 0, 0)]), POSITIONS)
    reading.close()
    store.close()

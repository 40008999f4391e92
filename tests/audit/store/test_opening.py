"""The database after a kill, after damage, and after its time."""

import sqlite3
from pathlib import Path

import pytest

from audit.api.queries import HostsQuery, SourcesQuery
from audit.errors import StoreDamaged
from audit.store.database import FILE
from audit.store.store import AuditStore
from ledger.reading import LedgerPositions
from tests.audit.audited_ledger import DAY, KEY, AuditedLedger
from tests.audit.log_entries import TIME, agent, broker, loader, shipped
from tests.audit.store.said import BEGIN, CLUSTER, HOUR, TOPIC, body, run

SHIPPED, COUNTED = agent(0, shipped(0, 0, 10)), broker(0, (0, 10, TIME, 0))
POSITIONS = LedgerPositions("cluster", "topic", {0: 7})


def test_positions_are_kept_with_what_was_folded(tmp_path: Path) -> None:
    with AuditedLedger(tmp_path) as ledger:
        assert ledger.store.positions(CLUSTER) == LedgerPositions()
        ledger.store.fold(CLUSTER, body([SHIPPED]), POSITIONS)
    with AuditedLedger(tmp_path) as ledger:
        assert ledger.store.positions(CLUSTER) == POSITIONS
        assert ledger.store.fold(CLUSTER, body([SHIPPED]), POSITIONS).repeated == 1


def test_what_fails_is_not_folded_at_all(ledger: AuditedLedger) -> None:
    with pytest.raises(KeyError):
        ledger.store.fold(CLUSTER, body([SHIPPED]).field("header"), POSITIONS)
    assert ledger.fold(SHIPPED).entries == 1


def test_a_damaged_database_is_found_and_moved_aside(tmp_path: Path) -> None:
    with AuditedLedger(tmp_path) as ledger:
        ledger.store.fold(CLUSTER, body([SHIPPED, COUNTED]), POSITIONS)
    (tmp_path / "audit.open").touch()  # as a kill leaves it
    data = bytearray((tmp_path / FILE).read_bytes())
    data[8192 * 3 : 8192 * 9] = bytes(8192 * 6)
    (tmp_path / FILE).write_bytes(data)
    with pytest.raises(StoreDamaged, match="rebuilt"):
        AuditStore.open(tmp_path)
    aside = AuditStore.discard(tmp_path)
    assert aside is not None
    assert aside.stat().st_size == len(data)
    with AuditedLedger(tmp_path) as ledger:
        assert ledger.store.positions(CLUSTER) == LedgerPositions()


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
    later = BEGIN + 60 * HOUR
    with AuditedLedger(tmp_path, retention_millis=DAY) as ledger:
        reading = ledger.reading

        def listed() -> tuple[int, int]:
            sources = reading.sources(KEY, SourcesQuery(topic=TOPIC))
            return sources.page.total, reading.hosts(KEY, HostsQuery(topic=TOPIC)).page.total

        ledger.fold(SHIPPED, COUNTED)
        ledger.fold(loader(0, 0, 10, TIME, run("file", 0, 10)))
        ledger.store.expire(BEGIN + 10 * HOUR)
        assert listed() == (1, 1)
        assert ledger.store.expire(later) > 0
        seen = ledger.picture(0, later, later)
        assert (seen.windows, seen.sources, listed()) == ([], [], (0, 0))
        assert len(seen.agents) == 1  # it is expected still
        assert ledger.fold(SHIPPED).repeated == 1
        ledger.store.expire(BEGIN + 60 * DAY)
        ledger.fold(agent(900, shipped(0, 0, 10)))

"""What is too old goes, whatever it is: a database does not grow for ever."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from audit.store.database import FILE
from audit.store.store import AuditStore
from ledger.reading import LedgerPositions
from tests.audit.judged_ledger import FIRST, KEY
from tests.audit.store.said import (
    BEGIN,
    CLUSTER,
    HOUR,
    MINUTE,
    TOPIC,
    Json,
    body,
    entry,
    excepted,
    passage,
    run,
    window,
)

DAY = 24 * HOUR


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AuditStore]:
    opened = AuditStore.open(tmp_path, retention_millis=DAY)
    yield opened
    opened.close()


def fold(store: AuditStore, *entries: Json) -> None:
    store.fold(CLUSTER, body(entries), LedgerPositions())


def rows(store: AuditStore, table: str, column: str = "*") -> set[tuple[object, ...]]:
    with closing(sqlite3.connect(store.directory / FILE)) as connection:
        return set(connection.execute(f"SELECT {column} FROM {table}"))


def shipped(seq: int, time: int, path: str, **more: object) -> Json:
    runs = [run(path, 0, 10, path=path, excepted=[excepted("lost", 1, 1)])]
    said = passage(0, seq * 10, 10, [window(time - time % MINUTE, 10)], runs=runs)
    return entry("agent", "agent-1", seq, time, passages=[said | more])


def test_paths_of_files_that_are_gone(store: AuditStore) -> None:
    for day in range(4):
        fold(store, shipped(day, BEGIN + day * DAY, f"/log/{day}"))
        store.expire(BEGIN + day * DAY + MINUTE)
    assert rows(store, "names", "text") == {("host-of-agent-1",), ("/log/2",), ("/log/3",)}
    assert rows(store, "lost", "time") == {(BEGIN + 2 * DAY,), (BEGIN + 3 * DAY,)}
    fold(store, shipped(4, BEGIN + 4 * DAY, "/log/0"))
    assert ("/log/0",) in rows(store, "names", "text")


def test_topics_that_are_gone(store: AuditStore) -> None:
    beat = {"until": BEGIN, "topics": ["idle"]}
    fold(store, entry("agent", "agent-1", 0, BEGIN, heartbeats=[beat]))
    fold(store, shipped(1, BEGIN, "/log", topic="old"), shipped(2, BEGIN + 3 * DAY, "/log"))
    assert rows(store, "topic_names", "topic") == {("idle",), ("old",), (TOPIC,)}
    store.expire(BEGIN + 3 * DAY)
    assert rows(store, "topic_names", "topic") == {("idle",), (TOPIC,)}
    assert len(rows(store, "claimed")) == len(rows(store, "topic_tiers")) == 1
    store.expire(BEGIN + 40 * DAY)
    for table in ("topic_names", "topics", "names", "claimed", "topic_tiers", "journals"):
        assert rows(store, table) == set()


def test_windows_that_have_not_come(store: AuditStore) -> None:
    fold(store, shipped(0, BEGIN, "/log", windows=[window(BEGIN + 900 * DAY, 10)]))
    store.expire(BEGIN)
    store.expire(BEGIN + DAY)
    assert len(rows(store, "sums")) == 1
    store.expire(BEGIN + DAY + 2 * HOUR)
    for table in ("sums", "hours", "flows", "delays"):
        assert rows(store, table) == set()


@pytest.mark.not_quick("very many entries")
def test_an_agent_that_comes_back_after_a_month(store: AuditStore) -> None:
    """Its journal goes on: what it had said before is not missing, what comes after it is."""
    back = FIRST + 40 * DAY
    fold(store, beat("host", 0, FIRST), beat("host", 1, FIRST + MINUTE), beat("here", 0, FIRST))
    for day in range(1, 40):
        fold(store, beat("here", day, FIRST + day * DAY))
        store.expire(FIRST + day * DAY)
    assert rows(store, "journals", "journal") == {("here",)}
    fold(store, beat("host", 2, back), beat("host", 5, back + MINUTE), beat("host", 1, FIRST))
    with closing(store.reading()) as reading:
        picture = reading.picture(KEY, back, back + HOUR, back + HOUR, expected_millis=DAY)
    assert [(each.journal, each.seq, each.count) for each in picture.holes] == [("host", 3, 2)]
    store.expire(back + 400 * DAY)
    store.expire(back + 800 * DAY)
    assert rows(store, "journals") == rows(store, "silent") == set()


def test_a_new_journal_is_not_one_that_was_forgotten(store: AuditStore) -> None:
    """It may be given the same number here, and counts other offsets: it has not gone back."""
    later = FIRST + 40 * DAY
    counted = [window(FIRST, 10)]
    fold(store, shipped(0, FIRST, "/log"))
    said = passage(0, 0, 10, counted, leader_epoch=0)
    fold(store, entry("broker", "before", 0, FIRST, passages=[said]))
    fold(store, shipped(1, later, "/log"))
    store.expire(later)
    said = passage(0, 5, 10, counted, leader_epoch=1)
    fold(store, entry("broker", "after", 0, later, passages=[said]))
    assert rows(store, "cuts") == set()


def beat(journal: str, seq: int, time: int) -> Json:
    return entry("agent", journal, seq, time, heartbeats=[{"until": time, "topics": [TOPIC]}])

"""What is too old goes, whatever it is: a database does not grow for ever."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from audit.store.opening import FILE
from audit.store.store import Store
from ledger.reading import LedgerPositions
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
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path, retention_millis=DAY)
    yield opened
    opened.close()


def fold(store: Store, *entries: Json) -> None:
    store.fold(CLUSTER, body(entries), LedgerPositions())


def rows(store: Store, table: str, column: str = "*") -> set[tuple[object, ...]]:
    with closing(sqlite3.connect(store.directory / FILE)) as connection:
        return set(connection.execute(f"SELECT {column} FROM {table}"))


def shipped(seq: int, time: int, path: str, **more: object) -> Json:
    runs = [run(path, 0, 10, path=path, excepted=[excepted("lost", 1, 1)])]
    said = passage(0, seq * 10, 10, [window(time - time % MINUTE, 10)], runs=runs)
    return entry("agent", "agent-1", seq, time, passages=[said | more])


def test_paths_of_files_that_are_gone(store: Store) -> None:
    for day in range(4):
        fold(store, shipped(day, BEGIN + day * DAY, f"/log/{day}"))
        store.expire(BEGIN + day * DAY + MINUTE)
    assert rows(store, "names", "text") == {("host-of-agent-1",), ("/log/2",), ("/log/3",)}
    assert rows(store, "lost", "time") == {(BEGIN + 2 * DAY,), (BEGIN + 3 * DAY,)}
    fold(store, shipped(4, BEGIN + 4 * DAY, "/log/0"))
    assert ("/log/0",) in rows(store, "names", "text")


def test_topics_that_are_gone(store: Store) -> None:
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


def test_windows_that_have_not_come(store: Store) -> None:
    fold(store, shipped(0, BEGIN, "/log", windows=[window(BEGIN + 900 * DAY, 10)]))
    store.expire(BEGIN)
    store.expire(BEGIN + DAY)
    assert len(rows(store, "sums")) == 1
    store.expire(BEGIN + DAY + 2 * HOUR)
    for table in ("sums", "hours", "flows", "delays"):
        assert rows(store, table) == set()

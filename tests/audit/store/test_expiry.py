"""What is too old goes, whatever it is: a database does not grow for ever."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from audit.store.database import FILE
from tests.audit.audited_ledger import DAY, FIRST, AuditedLedger
from tests.audit.store.said import (
    BEGIN,
    HOUR,
    MINUTE,
    TOPIC,
    Json,
    entry,
    excepted,
    passage,
    run,
    window,
)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[AuditedLedger]:
    """Kept for a day."""
    with AuditedLedger(tmp_path, retention_millis=DAY) as opened:
        yield opened


def rows(ledger: AuditedLedger, table: str, column: str = "*") -> set[tuple[object, ...]]:
    with closing(sqlite3.connect(ledger.store.directory / FILE)) as connection:
        return set(connection.execute(f"SELECT {column} FROM {table}"))


def shipped(seq: int, time: int, path: str, **more: object) -> Json:
    runs = [run(path, 0, 10, path=path, excepted=[excepted("lost", 1, 1)])]
    said = passage(0, seq * 10, 10, [window(time - time % MINUTE, 10)], runs=runs)
    return entry("agent", "agent-1", seq, time, passages=[said | more])


def test_paths_of_files_that_are_gone(ledger: AuditedLedger) -> None:
    for day in range(4):
        ledger.fold(shipped(day, BEGIN + day * DAY, f"/log/{day}"))
        ledger.store.expire(BEGIN + day * DAY + MINUTE)
    assert rows(ledger, "names", "text") == {("host-of-agent-1",), ("/log/2",), ("/log/3",)}
    assert rows(ledger, "lost", "time") == {(BEGIN + 2 * DAY,), (BEGIN + 3 * DAY,)}
    ledger.fold(shipped(4, BEGIN + 4 * DAY, "/log/0"))
    assert ("/log/0",) in rows(ledger, "names", "text")


def test_topics_that_are_gone(ledger: AuditedLedger) -> None:
    beat = {"until": BEGIN, "topics": ["idle"]}
    ledger.fold(entry("agent", "agent-1", 0, BEGIN, heartbeats=[beat]))
    ledger.fold(shipped(1, BEGIN, "/log", topic="old"), shipped(2, BEGIN + 3 * DAY, "/log"))
    assert rows(ledger, "topic_names", "topic") == {("idle",), ("old",), (TOPIC,)}
    ledger.store.expire(BEGIN + 3 * DAY)
    assert rows(ledger, "topic_names", "topic") == {("idle",), (TOPIC,)}
    assert len(rows(ledger, "claimed")) == len(rows(ledger, "topic_tiers")) == 1
    ledger.store.expire(BEGIN + 40 * DAY)
    for table in ("topic_names", "topics", "names", "claimed", "topic_tiers", "journals"):
        assert rows(ledger, table) == set()


def test_windows_that_have_not_come(ledger: AuditedLedger) -> None:
    ledger.fold(shipped(0, BEGIN, "/log", windows=[window(BEGIN + 900 * DAY, 10)]))
    ledger.store.expire(BEGIN)
    ledger.store.expire(BEGIN + DAY)
    assert len(rows(ledger, "sums")) == 1
    ledger.store.expire(BEGIN + DAY + 2 * HOUR)
    for table in ("sums", "hours", "flows", "delays"):
        assert rows(ledger, table) == set()


@pytest.mark.not_quick("very many entries")
def test_an_agent_that_comes_back_after_a_month(ledger: AuditedLedger) -> None:
    """Its journal goes on: what it had said before is not missing, what comes after it is."""
    back = FIRST + 40 * DAY
    ledger.fold(beat("host", 0, FIRST), beat("host", 1, FIRST + MINUTE), beat("here", 0, FIRST))
    for day in range(1, 40):
        ledger.fold(beat("here", day, FIRST + day * DAY))
        ledger.store.expire(FIRST + day * DAY)
    assert rows(ledger, "journals", "journal") == {("here",)}
    ledger.fold(beat("host", 2, back), beat("host", 5, back + MINUTE), beat("host", 1, FIRST))
    picture = ledger.picture(back, back + HOUR, back + HOUR)
    assert [(each.journal, each.seq, each.count) for each in picture.holes] == [("host", 3, 2)]
    ledger.store.expire(back + 400 * DAY)
    ledger.store.expire(back + 800 * DAY)
    assert rows(ledger, "journals") == rows(ledger, "silent") == set()


def test_a_new_journal_is_not_one_that_was_forgotten(ledger: AuditedLedger) -> None:
    """It may be given the same number here, and counts other offsets: it has not gone back."""
    later = FIRST + 40 * DAY
    counted = [window(FIRST, 10)]
    ledger.fold(shipped(0, FIRST, "/log"))
    said = passage(0, 0, 10, counted, leader_epoch=0)
    ledger.fold(entry("broker", "before", 0, FIRST, passages=[said]))
    ledger.fold(shipped(1, later, "/log"))
    ledger.store.expire(later)
    said = passage(0, 5, 10, counted, leader_epoch=1)
    ledger.fold(entry("broker", "after", 0, later, passages=[said]))
    assert rows(ledger, "cuts") == set()


def beat(journal: str, seq: int, time: int) -> Json:
    return entry("agent", journal, seq, time, heartbeats=[{"until": time, "topics": [TOPIC]}])

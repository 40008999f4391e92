"""How loads end: of each table and destination the latest word counts, however entries come."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import permutations
from pathlib import Path

import pytest

from audit.answers import FailingLoad
from audit.store.store import AuditStore
from ledger.reading import LedgerPositions
from tests.audit.store.said import (
    BEGIN,
    CLUSTER,
    HOUR,
    MINUTE,
    ROOT,
    TOPIC,
    Json,
    body,
    entry,
    passage,
    window,
)

REASON = "1 of 1 records cannot be read, and dead_share is 0.01"
CURE = "raise dead_share"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AuditStore]:
    with closing(AuditStore.open(tmp_path, clock=lambda: BEGIN + 9 * HOUR)) as opened:
        yield opened


def tried(
    seq: int,
    minute: int,
    *,
    failed: bool,
    since: int = 0,
    topic: str = TOPIC,
    journal: str = "loader-1",
) -> Json:
    said: Json = {"topic": topic, "failed": failed, "since": BEGIN + since * MINUTE}
    if failed:
        said |= {"reason": f"table {topic}: {REASON}", "cure": CURE}
    time = BEGIN + minute * MINUTE
    return entry("hdfs", journal, seq, time, destination=ROOT, loads=[said])


def failing(store: AuditStore, entries: Sequence[Json]) -> list[FailingLoad]:
    for each in entries:
        store.fold(CLUSTER, body([each]), LedgerPositions())
    with closing(store.reading()) as reading:
        return reading.failing_loads()


def test_a_table_fails_until_a_load_succeeds(store: AuditStore) -> None:
    said = FailingLoad(CLUSTER, TOPIC, ROOT, BEGIN, BEGIN + 5 * MINUTE, REASON, CURE)
    first, again = tried(0, 0, failed=True), tried(1, 5, failed=True)
    assert failing(store, [first, again]) == [said]
    assert failing(store, [tried(2, 6, failed=False, since=6)]) == []
    assert failing(store, [tried(3, 7, failed=True, since=7)]) != []


def test_a_run_that_was_committed_since_is_a_load(store: AuditStore) -> None:
    """Of that destination and topic; who fails after it fails."""

    def committed(run: int, minute: int, **more: object) -> Json:
        said = passage(0, run * 10, 10, [window(BEGIN, 10)])
        known = {"destination": ROOT, "run": run, "passages": [said]}
        return entry("hdfs", "log", run, BEGIN + minute * MINUTE, **(known | more))

    before, other = committed(1, 1), committed(1, 5, destination="hdfs://others")
    assert failing(store, [tried(0, 2, failed=True), before, other])
    assert failing(store, [committed(2, 3)]) == []
    assert failing(store, [tried(1, 4, failed=True)])


def test_entries_may_come_in_any_order(tmp_path: Path) -> None:
    entries = [tried(0, 0, failed=True), tried(1, 1, failed=False), tried(2, 2, failed=True)]
    for number, order in enumerate(permutations(entries)):
        with closing(AuditStore.open(tmp_path / str(number), clock=lambda: BEGIN + HOUR)) as store:
            assert [each.said for each in failing(store, order)] == [BEGIN + 2 * MINUTE]


@pytest.mark.parametrize("failed", [False, True])
def test_the_latest_counts_though_the_clock_was_ahead(tmp_path: Path, *, failed: bool) -> None:
    """Of the audit's."""
    ahead = 5 * 60
    entries = [
        tried(0, ahead, failed=not failed, journal="b"),
        tried(0, ahead + 1, failed=failed, journal="a"),
    ]
    for number, order in enumerate(permutations(entries)):
        with closing(AuditStore.open(tmp_path / str(number), clock=lambda: BEGIN + HOUR)) as store:
            store.fold(CLUSTER, body(order), LedgerPositions())
            found = failing(store, [])
            assert [each.said for each in found] == [BEGIN + HOUR] * failed


def test_what_fails_longest_comes_first(store: AuditStore) -> None:
    entries = [tried(0, 9, failed=True, since=9), tried(1, 8, failed=True, since=3, topic="orders")]
    assert [each.topic for each in failing(store, entries)] == ["orders", TOPIC]


def test_only_loaders_say_how_loads_end(store: AuditStore) -> None:
    said = {"topic": TOPIC, "failed": True, "since": BEGIN, "reason": REASON, "cure": CURE}
    assert failing(store, [entry("agent", "a1", 0, BEGIN, loads=[said])]) == []


def test_times_out_of_all_proportion_are_cut(store: AuditStore) -> None:
    said = {"topic": TOPIC, "failed": True, "since": -(2**63), "reason": REASON, "cure": CURE}
    wrong = entry("hdfs", "loader-1", 0, BEGIN, destination=ROOT, loads=[said])
    assert [each.since for each in failing(store, [wrong])] == [0]


def test_what_no_loader_has_said_for_long_is_forgotten(store: AuditStore) -> None:
    assert failing(store, [tried(0, 0, failed=True)])
    store.expire(BEGIN + 8 * 24 * HOUR)
    assert failing(store, []) == []

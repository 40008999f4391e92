"""What loaders say seldom: how loads end, and files that were compared. The latest word counts, by
the order in which it was said, however entries come."""

from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import pytest

from audit.api.answers import FailingLoad
from audit.reconciling.picture import TopicKey
from tests.audit.audited_ledger import FIRST, KEY, AuditedLedger
from tests.audit.log_entries import load
from tests.audit.store.said import (
    BEGIN,
    CLUSTER,
    HOUR,
    MINUTE,
    ROOT,
    TOPIC,
    Json,
    entry,
    passage,
    window,
)

REASON = "1 of 1 records cannot be read, and dead_share is 0.01"
CURE = "raise dead_share"


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


def failing(ledger: AuditedLedger, entries: Sequence[Json]) -> list[FailingLoad]:
    return ledger.fold_each(entries).reading.failing_loads()


def test_a_table_fails_until_a_load_succeeds(ledger: AuditedLedger) -> None:
    said = FailingLoad(CLUSTER, TOPIC, ROOT, BEGIN, BEGIN + 5 * MINUTE, REASON, CURE)
    first, again = tried(0, 0, failed=True), tried(1, 5, failed=True, since=5)
    assert failing(ledger, [first, again]) == [said]
    assert failing(ledger, [tried(2, 6, failed=False, since=6)]) == []
    assert failing(ledger, [tried(3, 7, failed=True, since=7)]) != []


def test_a_run_that_was_committed_since_is_a_load(ledger: AuditedLedger) -> None:
    """Of that destination and topic; who fails after it fails."""

    def committed(run: int, minute: int, **more: object) -> Json:
        said = passage(0, run * 10, 10, [window(BEGIN, 10)])
        return load(run, said, time=BEGIN + minute * MINUTE, **more)

    before, other = committed(1, 1), committed(1, 5, destination="hdfs://others")
    assert failing(ledger, [tried(0, 2, failed=True), before, other])
    assert failing(ledger, [committed(2, 3)]) == []
    assert failing(ledger, [tried(1, 4, failed=True)])


@pytest.mark.parametrize("failed", [False, True])
@pytest.mark.parametrize("ahead", [0, 5 * 60])
def test_the_latest_counts_though_the_clock_was_ahead(
    tmp_path: Path, *, failed: bool, ahead: int
) -> None:
    """Of the audit's, whose hour is not over yet; one by one, and together."""
    entries = [
        tried(0, ahead, failed=failed, journal="c"),
        tried(0, ahead + 1, failed=not failed, journal="b"),
        tried(0, ahead + 2, failed=failed, journal="a"),
    ]
    said = BEGIN + min(60, ahead + 2) * MINUTE
    for number, order in enumerate(permutations(entries)):
        for together in (True, False):
            directory = tmp_path / f"{number}-{together}"
            with AuditedLedger(directory, clock=BEGIN + HOUR) as ledger:
                if together:
                    ledger.fold(*order)
                found = failing(ledger, [] if together else order)
            assert [each.said for each in found] == ([said] if failed else [])


def test_what_fails_longest_comes_first(ledger: AuditedLedger) -> None:
    entries = [tried(0, 9, failed=True, since=9), tried(1, 8, failed=True, since=3, topic="orders")]
    assert [each.topic for each in failing(ledger, entries)] == ["orders", TOPIC]


def test_only_loaders_say_how_loads_end(ledger: AuditedLedger) -> None:
    said = {"topic": TOPIC, "failed": True, "since": BEGIN, "reason": REASON, "cure": CURE}
    assert failing(ledger, [entry("agent", "a1", 0, BEGIN, loads=[said])]) == []


def test_times_out_of_all_proportion_are_cut(ledger: AuditedLedger) -> None:
    said = {"topic": TOPIC, "failed": True, "since": -(2**63), "reason": REASON, "cure": CURE}
    wrong = entry("hdfs", "loader-1", 0, BEGIN, destination=ROOT, loads=[said])
    assert [each.since for each in failing(ledger, [wrong])] == [0]


def test_what_no_loader_has_said_for_long_is_forgotten(ledger: AuditedLedger) -> None:
    assert failing(ledger, [tried(0, 0, failed=True)])
    ledger.store.expire(BEGIN + 8 * 24 * HOUR)
    assert failing(ledger, []) == []


# Files that were compared

SPOKEN = entry("broker", "broker", 0, BEGIN, passages=[passage(0, 0, 5, [window(BEGIN, 5)])])
LOST = {"path": "p.parquet", "hour": FIRST, "fault": "missing", "committed_rows": 5}


def compared(journal: str, time: int, *faults: Json) -> Json:
    hour = {"topic": TOPIC, "from_time": FIRST, "to_time": FIRST + HOUR, "files": 1, "rows": 5}
    checked = [hour | {"faults": list(faults)}]
    return entry("hdfs", journal, 0, time, destination=ROOT, checked=checked)


@pytest.mark.parametrize("ahead", [0, 3 * HOUR])
def test_the_latest_comparison_counts_however_wrong_the_clock(tmp_path: Path, ahead: int) -> None:
    """A clock that is ahead of the audit's: what was said by it has its order, too."""
    now = BEGIN + HOUR
    entries = [
        compared("c", BEGIN + ahead + MINUTE),
        compared("b", BEGIN + ahead + MINUTE + 1, LOST),
        compared("a", BEGIN + ahead),
    ]
    for number, order in enumerate(permutations(entries)):
        for together in (True, False):
            with AuditedLedger(tmp_path / f"{number}-{together}", clock=now) as ledger:
                if together:
                    ledger.fold(SPOKEN, *order)
                else:
                    ledger.fold_each([SPOKEN, *order])
                found = ledger.picture(now=now)
                (hour,) = ledger.reading.hours(KEY, ROOT, from_time=0, to_time=now)
            assert [each.path for each in found.file_faults] == ["p.parquet"]
            assert hour.words == "1 file is not as committed"
            assert hour.checked == min(now, BEGIN + ahead + MINUTE + 1)


def test_an_hour_has_the_rows_that_are_there(ledger: AuditedLedger) -> None:
    """As the report's files do."""
    twice = LOST | {"path": "q", "fault": "extra", "committed_rows": 0, "found_rows": 3}
    unreadable = LOST | {"path": "r", "fault": "changed", "found_rows": -1}
    ledger.fold(SPOKEN, load(0, passage(0, 0, 9, [window(BEGIN, 9)]), time=BEGIN, run=1))

    def rows(*faults: Json) -> int:
        ledger.fold(compared(f"check-{len(faults)}", BEGIN + len(faults) * MINUTE, *faults))
        (hour,) = ledger.reading.hours(KEY, ROOT, from_time=0, to_time=BEGIN + HOUR)
        return hour.rows

    assert rows() == 9
    assert rows(LOST) == 4
    assert rows(LOST, twice) == 7
    assert rows(LOST, twice, unreadable) == 7
    assert rows(LOST, LOST, LOST, LOST) == 0


def test_files_are_of_the_newest_topic_of_their_name(ledger: AuditedLedger) -> None:
    """Who looks at them does not know that it was deleted and made anew."""
    for number, topic_id in enumerate(("old", "new")):
        spoken = passage(0, 0, 5, [window(BEGIN, 5)], topic_id=topic_id)
        ledger.fold(entry("broker", "b", number, BEGIN + number * MINUTE, passages=[spoken]))
    ledger.fold(compared("check", BEGIN, LOST))
    for topic_id, paths in (("new", ["p.parquet"]), ("old", [])):
        picture = ledger.picture(key=TopicKey(CLUSTER, TOPIC, topic_id))
        assert [each.path for each in picture.file_faults] == paths

"""Files that were compared: of each hour the latest comparison counts, by the order in which the
loader has said it."""

from contextlib import closing
from itertools import permutations
from pathlib import Path

import pytest

from audit.picture import TopicKey
from audit.store.store import AuditStore
from ledger.reading import LedgerPositions
from tests.audit.store.said import (
    BEGIN,
    CLUSTER,
    HOUR,
    MINUTE,
    ROOT,
    TOPIC,
    TOPIC_ID,
    Json,
    body,
    entry,
    passage,
    window,
)

KEY = TopicKey(CLUSTER, TOPIC, TOPIC_ID)
FIRST = BEGIN - BEGIN % HOUR
SPOKEN = entry("broker", "broker", 0, BEGIN, passages=[passage(0, 0, 5, [window(BEGIN, 5)])])
LOST = {"path": "p.parquet", "hour": FIRST, "fault": "missing", "committed_rows": 5}


def compared(journal: str, time: int, *faults: Json) -> Json:
    hour = {"topic": TOPIC, "from_time": FIRST, "to_time": FIRST + HOUR, "files": 1, "rows": 5}
    checked = [hour | {"faults": list(faults)}]
    return entry("hdfs", journal, 0, time, destination=ROOT, checked=checked)


@pytest.mark.parametrize("ahead", [0, 3 * HOUR])
def test_the_latest_counts_however_wrong_the_clock(tmp_path: Path, ahead: int) -> None:
    """A clock that is ahead of the audit's: what was said by it has its order, too."""
    now = BEGIN + HOUR
    entries = [
        compared("c", BEGIN + ahead + MINUTE),
        compared("b", BEGIN + ahead + MINUTE + 1, LOST),
        compared("a", BEGIN + ahead),
    ]
    for number, order in enumerate(permutations(entries)):
        for together in (True, False):
            directory = tmp_path / f"{number}-{together}"
            with (
                closing(AuditStore.open(directory, clock=lambda: now)) as store,
                closing(store.reading()) as reading,
            ):
                for chunk in [[SPOKEN, *order]] if together else [[SPOKEN], *([e] for e in order)]:
                    store.fold(CLUSTER, body(chunk), LedgerPositions())
                found = reading.picture(KEY, FIRST, FIRST + HOUR, now, expected_millis=HOUR)
                (hour,) = reading.hours(KEY, ROOT, from_time=0, to_time=now)
            assert [each.path for each in found.file_faults] == ["p.parquet"]
            assert hour.words == "1 file is not as committed"
            assert hour.checked == min(now, BEGIN + ahead + MINUTE + 1)


def test_an_hour_has_the_rows_that_are_there(tmp_path: Path) -> None:
    """As the report's files do."""
    landed = passage(0, 0, 9, [window(BEGIN, 9)])
    run = entry("hdfs", "log", 0, BEGIN, destination=ROOT, run=1, passages=[landed])
    twice = LOST | {"path": "q", "fault": "extra", "committed_rows": 0, "found_rows": 3}
    unreadable = LOST | {"path": "r", "fault": "changed", "found_rows": -1}
    with closing(AuditStore.open(tmp_path)) as store, closing(store.reading()) as reading:
        store.fold(CLUSTER, body([SPOKEN, run]), LedgerPositions())

        def rows(*faults: Json) -> int:
            said = compared(f"check-{len(faults)}", BEGIN + len(faults) * MINUTE, *faults)
            store.fold(CLUSTER, body([said]), LedgerPositions())
            (hour,) = reading.hours(KEY, ROOT, from_time=0, to_time=BEGIN + HOUR)
            return hour.rows

        assert rows() == 9
        assert rows(LOST) == 4
        assert rows(LOST, twice) == 7
        assert rows(LOST, twice, unreadable) == 7
        assert rows(LOST, LOST, LOST, LOST) == 0

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
            assert hour.words == "1 files are not as they were committed"
            assert hour.checked == min(now, BEGIN + ahead + MINUTE + 1)

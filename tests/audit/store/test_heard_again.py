"""Statements that stand only until something newer is known."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from audit.picture import TopicKey, TopicPicture
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

NOW = BEGIN + HOUR


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AuditStore]:
    with closing(AuditStore.open(tmp_path)) as opened:
        yield opened


def fold(store: AuditStore, *entries: Json) -> None:
    store.fold(CLUSTER, body(entries), LedgerPositions())


def picture(store: AuditStore, topic_id: str = TOPIC_ID) -> TopicPicture:
    key = TopicKey(CLUSTER, TOPIC, topic_id)
    begin = BEGIN - BEGIN % HOUR
    with closing(store.reading()) as reading:
        return reading.picture(key, begin, begin + HOUR, NOW, expected_millis=24 * HOUR)


def test_a_retired_host_that_is_heard_of_again_is_expected(store: AuditStore) -> None:
    def beat(seq: int, minute: int) -> Json:
        until = {"until": BEGIN + minute * MINUTE, "topics": [TOPIC]}
        return entry("agent", "a", seq, BEGIN + minute * MINUTE, heartbeats=[until])

    gone = {"host": "host-of-a", "agent": "", "since": BEGIN, "reason": "sold", "operator": ""}
    said = passage(0, 0, 1, [window(BEGIN, 1)])
    fold(store, entry("agent", "a", 0, BEGIN, passages=[said]), beat(1, 1))
    fold(store, entry("operator", "o", 0, BEGIN + 2 * MINUTE, retired=[gone]))
    assert [each.required_until for each in picture(store).agents] == [BEGIN]
    fold(store, beat(2, 3))
    assert [each.required_until for each in picture(store).agents] == [None]


def test_files_are_of_the_newest_topic_of_their_name(store: AuditStore) -> None:
    """Who looks at them does not know that it was deleted and made anew."""
    hour = BEGIN - BEGIN % HOUR
    fault = {"path": "p.parquet", "hour": hour, "fault": "missing", "committed_rows": 5}
    compared = {"topic": TOPIC, "from_time": hour, "to_time": hour + HOUR, "files": 1, "rows": 5}
    for number, topic_id in enumerate(("old", "new")):
        spoken = passage(0, 0, 5, [window(BEGIN, 5)], topic_id=topic_id)
        fold(store, entry("broker", "b", number, BEGIN + number * MINUTE, passages=[spoken]))
    checked = [{**compared, "faults": [fault]}]
    fold(store, entry("hdfs", "check", 0, BEGIN, destination=ROOT, checked=checked))
    assert [each.path for each in picture(store, "new").file_faults] == ["p.parquet"]
    assert picture(store, "old").file_faults == []

"""Whether the ledger was read from its own beginning, by where those who were heard first began."""

from collections.abc import Sequence
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
    TOPIC,
    TOPIC_ID,
    body,
    entry,
    passage,
    window,
)

Heard = tuple[str, str, int]  # tier, journal, the first number that there is

NEW = [("hdfs", f"loader-{each}", 0) for each in range(5)]
OLD = [("agent", "agent-1", 17), ("agent", "agent-2", 9), ("agent", "agent-3", 0)]


@pytest.mark.parametrize(
    ("heard", "known"),
    [
        (OLD, False),
        ([*OLD, *NEW], False),  # runs and counters that begin with the topic say nothing
        ([("agent", "agent-1", 17), ("agent", "agent-2", 0), ("agent", "agent-3", 0)], True),
        ([*NEW, ("broker", "broker-1", 5)], True),
        ([("broker", "broker-1", 5)], False),
    ],
)
def test_who_was_there_before(tmp_path: Path, heard: Sequence[Heard], known: bool) -> None:
    said = [passage(0, 0, 10, [window(BEGIN, 10)])]
    entries = [entry(tier, journal, seq, BEGIN, passages=said) for tier, journal, seq in heard]
    store = AuditStore.open(tmp_path)
    reading = store.reading()
    store.fold(CLUSTER, body(entries), LedgerPositions())
    key = TopicKey(CLUSTER, TOPIC, TOPIC_ID)
    seen = reading.picture(key, BEGIN - HOUR, BEGIN + MINUTE, BEGIN + HOUR, expected_millis=HOUR)
    assert bool(seen.windows) == known
    assert bool(seen.holes) == known
    reading.close()
    store.close()

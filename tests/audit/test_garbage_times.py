"""Events of all times in one batch: no window of anybody else is thought to lack anything."""

from contextlib import closing
from pathlib import Path

import pytest

from audit.picture import TopicKey
from audit.reconciling.verdict import reconcile
from audit.store.store import AuditStore
from harness.made_batches import NOON, WINDOW, agents_batch, foreign_batch, header_of
from ledger.counting.batches import Counting, PartitionCount
from ledger.counting.entries import Speaker, entries_of
from ledger.reading import LedgerPositions
from tests.audit.store.said import CLUSTER, HOUR, ROOT, TOPIC, TOPIC_ID, body, entry, passage, run

SPEAKER = Speaker(
    source="broker-1", host="h", app="penstock-broker", cluster=CLUSTER, window_millis=WINDOW
)
AGENTS, FOREIGN = 100, 9_000
YEAR = 366 * 24 * HOUR


@pytest.mark.not_quick("very many entries")
def test_a_batch_of_ten_thousand_years(tmp_path: Path) -> None:
    count = PartitionCount(TOPIC, TOPIC_ID, 0, 0)
    counting = Counting(WINDOW)
    ours = agents_batch([NOON + at for at in range(AGENTS)])
    times = [NOON + (at - FOREIGN // 2) * YEAR for at in range(FOREIGN)]
    for batch in (ours, foreign_batch(times, base=AGENTS)):
        counting.count(count, header_of(batch), lambda batch=batch: batch, gaps_are_empty=False)
    windows = [
        {"start": start, "events": each.events, "bytes": each.bytes, "crc_sum": each.crc_sum}
        for start, each in count.windows.items()
    ]
    said = next(each for each in windows if each["start"] == NOON)
    mine = {**said, "events": AGENTS, "bytes": len(ours), "crc_sum": header_of(ours).crc}
    runs = [run("file", 0, AGENTS, path="/a", position=0, end_position=1_000)]
    promise = {"until": NOON + 2 * HOUR, "topics": [TOPIC], "program_version": "1"}
    entries = [
        entry(
            "agent",
            "agent",
            0,
            NOON + WINDOW,
            passages=[passage(0, 0, AGENTS, [mine], runs=runs)],
            heartbeats=[promise],
        ),
        *entries_of([count], SPEAKER, seq=0, now_millis=NOON + WINDOW),
        entry(
            "hdfs",
            "loader",
            0,
            NOON + 2 * WINDOW,
            destination=ROOT,
            run=1,
            passages=[passage(0, 0, AGENTS + FOREIGN, windows, runs=[run("file", 0, AGENTS)])],
        ),
    ]
    key = TopicKey(CLUSTER, TOPIC, TOPIC_ID)
    with closing(AuditStore.open(tmp_path)) as store, closing(store.reading()) as reading:
        store.fold(CLUSTER, body(entries), LedgerPositions())
        for hour in (NOON - HOUR, NOON, times[FOREIGN // 2 + 5] // HOUR * HOUR, 0):
            picture = reading.picture(
                key, hour, hour + HOUR, NOON + 2 * HOUR, expected_millis=30 * 24 * HOUR
            )
            assert reconcile(picture).findings == []
            assert all(each.length <= HOUR for each in picture.windows)

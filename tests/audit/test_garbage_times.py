"""Events of all times in one batch: no window of anybody else is thought to lack anything."""

import pytest

from audit.reconciling.verdict import reconcile
from harness.made_batches import NOON, WINDOW, agents_batch, foreign_batch, header_of
from ledger.counting.batches import Counting, PartitionCount
from ledger.counting.entries import Speaker, entries_of
from tests.audit.audited_ledger import AuditedLedger
from tests.audit.log_entries import load
from tests.audit.store.said import CLUSTER, HOUR, TOPIC, TOPIC_ID, entry, passage, run

SPEAKER = Speaker(
    source="broker-1", host="h", app="penstock-broker", cluster=CLUSTER, window_millis=WINDOW
)
AGENTS, FOREIGN = 100, 9_000
YEAR = 366 * 24 * HOUR


@pytest.mark.not_quick("very many entries")
def test_a_batch_of_ten_thousand_years(ledger: AuditedLedger) -> None:
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
    landed = passage(0, 0, AGENTS + FOREIGN, windows, runs=[run("file", 0, AGENTS)])
    entries = [
        entry(
            *("agent", "agent", 0, NOON + WINDOW),
            passages=[passage(0, 0, AGENTS, [mine], runs=runs)],
            heartbeats=[promise],
        ),
        *entries_of([count], SPEAKER, seq=0, now_millis=NOON + WINDOW),
        load(0, landed, time=NOON + 2 * WINDOW),
    ]
    ledger.fold(*entries)
    for hour in (NOON - HOUR, NOON, times[FOREIGN // 2 + 5] // HOUR * HOUR, 0):
        picture = ledger.picture(hour, hour + HOUR, NOON + 2 * HOUR)
        assert reconcile(picture).findings == []
        assert all(each.length <= HOUR for each in picture.windows)

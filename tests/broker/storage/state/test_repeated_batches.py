"""Which batches with the numbers of a stored one are the same batch again."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.storage.compaction import compact
from broker.storage.errors import OtherBatch
from broker.storage.log import Log
from tests.broker.storage.compacted_log import CONFIG, inline
from tests.broker.storage.log_files import NOW, TOPIC_ID, append, flush, grow
from wire.record_batches.batch import stamp_append_time
from wire.record_batches.compression import Codec
from wire.record_batches.records import Record, build_batch

RECORDS = (
    Record(0, NOW, b"kept", b"one", (("name", b"value"),)),
    Record(1, NOW + 1, b"renewed", b"two"),
    Record(2, NOW + 2, b"deleted", None),
)


def sent(*messages: Record, sequence: int = 0, **how: Any) -> bytearray:
    how = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence} | how
    return bytearray(build_batch(messages or RECORDS, **how))


def changed(at: int, **fields: Any) -> bytearray:
    messages = list(RECORDS)
    messages[at] = messages[at]._replace(**fields)
    return sent(*messages)


def timed(batch: bytearray, time: int) -> bytearray:
    stamp_append_time(batch, time)
    return batch


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log.create(tmp_path / "t-0", TOPIC_ID, CONFIG)


def is_duplicate(log: Log, batch: bytearray) -> bool:
    """It is said to be at the first one's offset, or refused; never appended."""
    end = log.end_offset
    try:
        appended = append(log, batch)
    except OtherBatch:
        assert log.end_offset == end
        return False
    assert (*appended, log.end_offset) == (2, 4, True, end)
    return True


OTHERS = {
    "value": changed(0, value=b"won"),
    "key": changed(0, key=b"left"),
    "headers": changed(0, headers=()),
    "codec": sent(Record(0, 0, b"", b"x" * 30), *RECORDS[1:], codec=Codec.GZIP),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_other_records_are_no_duplicate(log: Log, other: bytearray) -> None:
    grow(log, 2)
    append(log, sent())
    assert is_duplicate(log, sent())
    assert not is_duplicate(log, other)
    assert is_duplicate(log, sent(codec=Codec.GZIP)), "the same records, packed"
    assert is_duplicate(log, changed(0, timestamp=NOW - 5)), "kafkajs takes the time anew"


def test_the_brokers_time_is_nothing_that_differs(log: Log) -> None:
    grow(log, 2)
    append(log, timed(sent(), NOW + 70))
    assert is_duplicate(log, timed(sent(), NOW + 99))
    assert is_duplicate(log, sent()), "the topic takes the producer's time by now"
    assert not is_duplicate(log, timed(changed(0, value=b"won"), NOW + 99))


@pytest.mark.parametrize("time", [None, NOW + 70])
def test_what_compaction_has_left_is_compared(log: Log, time: int | None) -> None:
    def original(batch: bytearray) -> bytearray:
        return batch if time is None else timed(batch, time)

    grow(log, 2)
    append(log, original(sent()))
    append(log, sent(Record(0, NOW, b"renewed", b"three"), sequence=3))
    grow(log, 60)  # segments are small: it is no more in the active one
    assert asyncio.run(compact(log, 0, NOW, inline)) is not None
    flush(log)
    assert log.size < 60 * 80
    assert is_duplicate(log, original(sent()))
    assert is_duplicate(log, original(changed(1, value=b"gone"))), "nothing is left of that"
    assert not is_duplicate(log, original(changed(0, value=b"won")))
    assert not is_duplicate(log, original(changed(2, value=b"there")))


def test_what_retention_has_deleted_is_not_compared(log: Log) -> None:
    grow(log, 2)
    append(log, sent())
    flush(log)
    log.delete_before(5)
    assert is_duplicate(log, changed(0, value=b"won"))

"""Leaders that change and logs with holes: what no real broker does on demand."""

import time
from collections.abc import Iterator
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.connection.brokers import Brokers
from client.errors import ConnectionLost, Corrupt, OffsetsMissing
from client.reading.partition_reader import PartitionReader
from tests.client.scripted_log import TOPIC, ScriptedLog, scripted_log
from wire.messages.fetch import AbortedTransaction
from wire.record_batches.records import Record, build_batch

TRANSACTIONAL, CONTROL = 0x10, 0x20


@pytest.fixture
def log_and_brokers() -> Iterator[tuple[ScriptedLog, Brokers]]:
    with scripted_log() as both:
        yield both


@pytest.fixture
def log(log_and_brokers: tuple[ScriptedLog, Brokers]) -> ScriptedLog:
    return log_and_brokers[0]


@pytest.fixture
def brokers(log_and_brokers: tuple[ScriptedLog, Brokers]) -> Brokers:
    return log_and_brokers[1]


def batch(base: int, count: int, *, epoch: int = 0, padding: int = 100) -> bytes:
    messages = [Record(base + at, 1_000, None, b"x" * padding) for at in range(count)]
    return build_batch(messages, base_offset=base, leader_epoch=epoch)


def offsets(reader: PartitionReader) -> list[int]:
    return [each.header.base_offset for each in reader]


def test_a_partition_is_followed_to_its_new_leader(log: ScriptedLog, brokers: Brokers) -> None:
    log.batches, log.end = [batch(base, 10) for base in range(0, 100, 10)], 100
    log.epoch_ends = {0: 100}
    reader = PartitionReader(brokers, TOPIC, 0, 0, 100, fetch_bytes=1)
    found = []
    for each in reader:
        found.append(each.header.base_offset)
        if len(found) == 4:
            log.leader, log.epoch = 2, 1
    assert found == list(range(0, 100, 10))
    assert {broker for broker, _ in log.fetches} == {1, 2}


def test_a_leader_that_knows_less_ends_it(log: ScriptedLog, brokers: Brokers) -> None:
    log.batches, log.end = [batch(base, 10) for base in range(0, 100, 10)], 100
    reader = PartitionReader(brokers, TOPIC, 0, 0, 100, fetch_bytes=1)
    found = []
    with pytest.raises(OffsetsMissing, match=r"[45]0 to 99 .* new leader's log diverges at 30"):
        for each in reader:
            found.append(each.header.base_offset)
            if len(found) == 4:
                log.leader, log.epoch, log.epoch_ends = 2, 1, {0: 30}
    # The next answer may have been under way before the leader changed.
    assert found in ([0, 10, 20, 30], [0, 10, 20, 30, 40])


def test_a_connection_that_breaks_is_opened_again(log: ScriptedLog, brokers: Brokers) -> None:
    log.batches, log.end = [batch(base, 10) for base in range(0, 50, 10)], 50
    found = []
    for each in PartitionReader(brokers, TOPIC, 0, 0, 50, fetch_bytes=1):
        found.append(each.header.base_offset)
        log.hang_up = 2 if len(found) == 3 else log.hang_up
    assert found == [0, 10, 20, 30, 40]


def test_a_broker_that_stays_away_is_an_error() -> None:
    with scripted_log(patience_seconds=0.5) as (log, brokers):
        log.batches, log.end = [batch(base, 10) for base in range(0, 50, 10)], 50
        reader = PartitionReader(brokers, TOPIC, 0, 0, 50, fetch_bytes=1)
        with pytest.raises(ConnectionLost):
            for _ in reader:
                log.hang_up = 10**6
    assert reader.next_offset in {10, 20}


def test_what_goes_wrong_again_and_again_with_progress_between_is_no_end() -> None:
    with scripted_log(patience_seconds=0.5) as (log, brokers):
        log.batches, log.end = [batch(base, 10) for base in range(0, 240, 10)], 240
        found = 0
        for _ in PartitionReader(brokers, TOPIC, 0, 0, 240, fetch_bytes=1):
            found += 1
            log.hang_up = 1
        assert found == 24


def test_the_time_that_the_caller_takes_is_not_the_brokers() -> None:
    with scripted_log(patience_seconds=0.3) as (log, brokers):
        log.batches, log.end = [batch(base, 10) for base in range(0, 40, 10)], 40
        found = []
        for each in PartitionReader(brokers, TOPIC, 0, 0, 40, fetch_bytes=1):
            found.append(each.header.base_offset)
            # Of the two fetches that follow one breaks, long before it is noticed.
            log.hang_up = 1 if len(found) == 1 else log.hang_up
            if len(found) <= 2:
                time.sleep(0.5)
        assert found == [0, 10, 20, 30]


def test_what_is_not_stable_yet_is_not_there() -> None:
    with scripted_log(patience_seconds=0.2) as (log, brokers):
        log.batches, log.end = [batch(0, 10)], 10  # the high watermark is 11
        reader = PartitionReader(brokers, TOPIC, 0, 0, 11)
        with pytest.raises(OffsetsMissing, match=r"offsets 10 to 10 .* the log ends at 10"):
            offsets(reader)


def test_little_is_fetched_that_lies_behind_the_slice(log: ScriptedLog, brokers: Brokers) -> None:
    log.batches, log.end = [batch(base, 10, padding=500) for base in range(0, 2000, 10)], 2000
    fetch_bytes = 400_000
    offsets(PartitionReader(brokers, TOPIC, 0, 0, 1000, fetch_bytes=fetch_bytes))
    within = sum(map(len, log.batches[:100]))
    assert within < log.served < within + fetch_bytes / 2


def test_a_broker_that_throttles_is_asked_again(log: ScriptedLog, brokers: Brokers) -> None:
    log.batches, log.end, log.throttled = [batch(0, 10)], 10, 2
    assert offsets(PartitionReader(brokers, TOPIC, 0, 0, 10)) == [0]


def test_a_topic_made_anew_while_it_is_read(log: ScriptedLog, brokers: Brokers) -> None:
    log.batches, log.end = [batch(0, 10)], 10
    reader = PartitionReader(brokers, TOPIC, 0, 0, 10, topic_id=str(UUID(int=1)))
    found = []
    with pytest.raises(OffsetsMissing, match="the topic was recreated"):
        for each in reader:
            found.append(each)
            log.topic_id = UUID(int=2)
    assert len(found) == 1


def test_damage_is_named(log: ScriptedLog, brokers: Brokers) -> None:
    whole = batch(10, 5)
    damaged = [
        (whole[:-1] + b"?", "t-0, offset 10: the CRC does not match", 5),
        (whole[:16] + b"\1" + whole[17:], "t-0, offset 10: record format 1", 5),
        (whole[:-1], "t-0, offset 10: no complete record batch", 0),
        # It says that it ends before it begins.
        (whole[:23] + b"\xff\xff\xff\xf0" + whole[27:], "t-0, offset 10: no complete record", 0),
    ]
    for data, said, count in damaged:
        log.batches, log.end = [batch(0, 10), data], 15
        reader = PartitionReader(brokers, TOPIC, 0, 0, 15, fetch_bytes=1)
        with pytest.raises(Corrupt, match=said) as raised:
            offsets(reader)
        assert (raised.value.first, raised.value.count) == (10, count)
        assert reader.next_offset == 10


def marker(offset: int, producer: int, *, commit: bool) -> bytes:
    key = b"\0\0" + (b"\0\1" if commit else b"\0\0")
    return build_batch(
        [Record(offset, 0, key, b"\0" * 6)],
        base_offset=offset,
        attributes=CONTROL | TRANSACTIONAL,
        producer_id=producer,
    )


def written(offset: int, producer: int) -> bytes:
    return build_batch(
        [Record(offset, 0, None, b"x")],
        base_offset=offset,
        attributes=TRANSACTIONAL,
        producer_id=producer,
    )


def test_transactions(log: ScriptedLog, brokers: Brokers) -> None:
    log.batches = [
        *(written(0, 7), written(1, 8), marker(2, 7, commit=False)),
        *(written(3, 7), marker(4, 8, commit=True), written(5, 8), marker(6, 7, commit=True)),
        *(batch(7, 1), marker(8, 8, commit=False), written(9, 8), marker(10, 8, commit=True)),
    ]
    log.end = 11
    log.aborted = (
        AbortedTransaction(producer_id=8, first_offset=5),
        AbortedTransaction(producer_id=7, first_offset=0),
    )
    reader = PartitionReader(brokers, TOPIC, 0, 0, 11)
    assert offsets(reader) == [1, 3, 7, 9]
    assert reader.next_offset == 11


def test_a_marker_that_is_none_is_damage(log: ScriptedLog, brokers: Brokers) -> None:
    log.aborted = (AbortedTransaction(producer_id=7, first_offset=0),)
    log.batches, log.end = (
        [build_batch([Record(0, 0, None, b"")], attributes=CONTROL, producer_id=7)],
        1,
    )
    with pytest.raises(Corrupt, match="t-0, offset 0: the control batch has no marker"):
        offsets(PartitionReader(brokers, TOPIC, 0, 0, 1))


def test_a_log_that_was_compacted_just_ends(log: ScriptedLog, brokers: Brokers) -> None:
    emptied = build_batch([], base_offset=30, last_offset_delta=9, base_timestamp=0)
    log.batches, log.end, log.cleanup = [batch(10, 3), emptied, batch(50, 1)], 90, "compact,delete"
    reader = PartitionReader(brokers, TOPIC, 0, 0, 80)
    assert offsets(reader) == [10, 50]
    assert reader.next_offset == 80
    # A batch behind the slice says that nothing of the slice is left.
    reader = PartitionReader(brokers, TOPIC, 0, 20, 45)
    assert offsets(reader) == []
    assert reader.next_offset == 45
    assert log.described == 1  # only where the log ended without a batch


def test_storage_that_is_slow_is_asked_again(log: ScriptedLog, brokers: Brokers) -> None:
    """Apache Kafka answers without records, and without an error, while tiered storage reads."""
    log.batches, log.end = [batch(base, 10) for base in range(0, 50, 10)], 50
    log.slow = 1
    found = []
    for each in PartitionReader(brokers, TOPIC, 0, 0, 50, fetch_bytes=1):
        found.append(each.header.base_offset)
        log.slow = 3 if len(found) == 2 else log.slow
    assert found == [0, 10, 20, 30, 40]
    assert log.described == 1


@pytest.mark.parametrize("cleanup", ["delete", ""])
def test_what_brokers_never_send_is_missing(cleanup: str) -> None:
    with scripted_log(patience_seconds=0.3) as (log, brokers):
        log.batches, log.end, log.cleanup = [batch(0, 10)], 30, cleanup
        reader = PartitionReader(brokers, TOPIC, 0, 0, 20)
        said = (
            "t-0: offsets 10 to 19 cannot be read: the log ends at 30, but brokers send no batches"
        )
        with pytest.raises(OffsetsMissing, match=said):
            offsets(reader)
        assert reader.next_offset == 10


def test_the_epoch_reaches_as_far_as_was_read(log: ScriptedLog, brokers: Brokers) -> None:
    """Or else the log before `next_offset` would seem to be another one, next time."""
    log.batches = [batch(0, 10, epoch=3), batch(20, 10, epoch=5), marker(30, 7, commit=True)]
    log.batches[2] = log.batches[2][:12] + (8).to_bytes(4, "big") + log.batches[2][16:]
    log.end, log.epoch, log.epoch_ends = 50, 9, {3: 20, 5: 30, 8: 40}
    log.cleanup = "compact"

    def epoch(first: int, end: int) -> int:
        reader = PartitionReader(brokers, TOPIC, 0, first, end)
        offsets(reader)
        return reader.leader_epoch

    assert epoch(0, 10) == 3
    assert epoch(0, 15) == 5  # what was there is gone; it was written before 20
    assert epoch(0, 30) == 5
    assert epoch(0, 31) == 8  # a control batch
    assert epoch(0, 45) == 9  # nothing, up to the end of the log
    assert epoch(5, 5) == -1


@pytest.fixture(scope="module")
def playground() -> Iterator[tuple[ScriptedLog, Brokers]]:
    with scripted_log() as both:
        yield both


stretches = st.lists(  # a hole, records, bytes of each
    st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(0, 300)), min_size=1, max_size=12
)


@given(
    found=stretches,
    cuts=st.lists(st.integers(0, 60), max_size=4),
    fetch_bytes=st.integers(1, 3_000),
    cut=st.booleans(),
)
def test_every_batch_is_in_one_slice(
    playground: tuple[ScriptedLog, Brokers],
    found: list[tuple[int, int, int]],
    cuts: list[int],
    fetch_bytes: int,
    cut: bool,
) -> None:
    log, brokers = playground
    log.batches, log.end, log.cut = [], 0, cut
    bases = []
    for hole, count, padding in found:
        bases.append(log.end + hole)
        log.batches.append(batch(bases[-1], count, padding=padding))
        log.end = bases[-1] + count
    edges = sorted({0, log.end, *(each for each in cuts if each < log.end)})
    read = []
    for first, end in pairwise(edges):
        reader = PartitionReader(brokers, TOPIC, 0, first, end, fetch_bytes=fetch_bytes)
        log.fetches.clear()
        read += offsets(reader)
        assert all(offset < end for _, offset in log.fetches)
        assert reader.next_offset >= end
    assert read == bases

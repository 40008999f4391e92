"""What goes out to Apache Kafka of what a source has, batch by batch."""

from crc32c import crc32c

from mirror.kafka_target.outgoing import Footing, Outgoing, is_same, take
from mirror.kafka_target.runs import Run, Writer
from mirror.partitions.gaps import Gap
from wire.record_batches.batch import (
    CRC_START,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    check_batch,
    read_header,
)
from wire.record_batches.records import DELETE_HORIZON, Codec, Record, build_batch, records

WRITER = Writer(77, 3)
MESSAGES = [
    Record(100, 5_000, b"a", b"1", (("h", b"x"),)),
    Record(101, 4_000, None, b"2"),
    Record(102, 6_000, b"c", None),
]


def footing() -> Footing:
    return Footing(WRITER, source=100, target=50, sequence=2**31 - 2)


def whole(batch: Outgoing) -> bytes:
    return batch.head + batch.records


def out(source: bytes, gaps: bool = False) -> list[tuple[BatchHeader, bytes]]:
    taken = take(memoryview(source), 100, footing(), None, gaps=gaps)
    return [(check_batch(memoryview(whole(each))), whole(each)) for each in taken.batches]


def test_the_header_is_new_and_the_records_are_as_they_were() -> None:
    source = build_batch(
        MESSAGES, codec=Codec.ZSTD, base_offset=100, attributes=TRANSACTIONAL, producer_id=5
    )
    ((header, batch),) = out(source)
    assert batch[61:] == source[61:]
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 2**31 - 2)
    assert (header.base_offset, header.attributes) == (0, Codec.ZSTD)
    assert is_same(read_header(source), header)


def test_sequences_and_places_follow_on_each_other() -> None:
    first = build_batch(MESSAGES, base_offset=100)
    second = build_batch(
        [each._replace(offset=each.offset + 3) for each in MESSAGES], base_offset=103
    )
    at = footing()
    taken = take(memoryview(first + second), 100, at, None, gaps=False)
    assert [read_header(each.head).base_sequence for each in taken.batches] == [2**31 - 2, 1]
    assert taken.places == [50, 53]
    assert taken.runs == []
    assert (at.source, at.target, at.sequence) == (106, 56, 4)
    assert (taken.behind, taken.next_offset) == (56, 106)


def test_what_was_damaged_on_the_way_stays_so() -> None:
    source = bytearray(build_batch(MESSAGES, base_offset=100))
    source[-1] ^= 1
    taken = take(memoryview(source), 100, footing(), None, gaps=False)
    (batch,) = taken.batches
    assert crc32c(whole(batch)[CRC_START:]) != read_header(batch.head).crc
    opened = bytearray(build_batch(MESSAGES, base_offset=100, attributes=LOG_APPEND_TIME))
    opened[-1] ^= 1
    assert "CRC" in take(memoryview(opened), 100, footing(), None, gaps=False).fault


def test_holes_are_closed_and_mapped() -> None:
    source = build_batch([MESSAGES[0], MESSAGES[2]], base_offset=100, last_offset_delta=5)
    at = footing()
    taken = take(memoryview(source), 100, at, None, gaps=True)
    (batch,) = (whole(each) for each in taken.batches)
    assert [each._replace(offset=0) for each in records(batch)] == [
        each._replace(offset=0) for each in (MESSAGES[0], MESSAGES[2])
    ]
    assert [each.offset for each in records(batch)] == [0, 1]
    assert taken.runs == [Run(100, 50, exact=False), Run(106, 52)]
    assert (at.source, at.target) == (106, 52)


def test_times_are_those_that_readers_see() -> None:
    appended = build_batch(
        MESSAGES, base_offset=100, attributes=LOG_APPEND_TIME, max_timestamp=9_000
    )
    ((header, batch),) = out(appended)
    assert [each.timestamp for each in records(batch)] == [9_000, 9_000, 9_000]
    assert not header.is_append_time
    horizon = build_batch(
        MESSAGES, base_offset=100, attributes=DELETE_HORIZON, base_timestamp=1_000_000
    )
    ((header, batch),) = out(horizon)
    assert [each.timestamp for each in records(batch)] == [5_000, 4_000, 6_000]
    assert not header.attributes


def test_a_gap_is_told() -> None:
    first = build_batch(MESSAGES, base_offset=100)
    second = build_batch([Record(110, 1, None, b"")], base_offset=110)
    taken = take(memoryview(first + second), 100, footing(), None, gaps=False)
    assert (len(taken.batches), taken.gap) == (1, Gap(103, 110))
    compacted = take(memoryview(first + second), 100, footing(), None, gaps=True)
    assert compacted.runs == [Run(110, 53)]


def test_another_batch_is_not_the_same() -> None:
    source = build_batch(MESSAGES, base_offset=100)
    ((header, _),) = out(source)
    for other in (
        [*MESSAGES[:2], MESSAGES[2]._replace(key=b"d")],
        MESSAGES[:2],
        [each._replace(timestamp=each.timestamp + 1) for each in MESSAGES],
    ):
        assert not is_same(read_header(build_batch(other, base_offset=100)), header)

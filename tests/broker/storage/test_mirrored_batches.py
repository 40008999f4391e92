"""What of another log's batches is there, what comes next, and what contradicts the copy."""

import os
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.config import LogConfig
from broker.storage.errors import Differs
from broker.storage.log import Log
from broker.storage.mirrored_batches import append_kept, count_known, first_offset, source_runs
from tests.broker.storage.log_files import NOW, TOPIC_ID, flush, log_file, names, read_on, reopen
from wire.errors import BatchError, ErrorCode
from wire.record_batches.batch import CONTROL, CRC_START, TRANSACTIONAL, read_header
from wire.record_batches.records import Codec, Record, build_batch

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
EPOCH = 5


def source_batch(base: int, count: int = 3, *, content: bytes = b"x", **header: Any) -> bytes:
    """As it stands in another log, written there in some epoch of its own."""
    found = [Record(base + at, NOW + at, None, content) for at in range(count)]
    return build_batch(found, base_offset=base, leader_epoch=77, **header)


def take(log: Log, data: bytes, *, compacts: bool = False) -> int:
    """As a broker does, where no gap is refused; how many batches were new."""
    new = 0
    for run in source_runs(memoryview(bytearray(data))):
        read = partial(log.read, committed=False)
        known = count_known(log, read, run.headers, compacts=compacts)
        begin = 0
        for number, header in enumerate(run.headers):
            end = begin + header.size
            if number >= known:
                append_kept(log, run.data[begin:end], header, EPOCH, NOW)
                new += 1
            begin = end
    return new


def stored(log: Log) -> list[bytes]:
    return [content for _, content in read_on(log, log.start_offset)]


def source_bytes(stored_batch: bytes) -> bytes:
    """All that the copy may not change."""
    return stored_batch[:12] + stored_batch[16:]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log.create(tmp_path / "topic-0", TOPIC_ID, LogConfig())


def test_a_batch_keeps_all_its_bytes_but_the_leader_epoch(log: Log) -> None:
    sent = [source_batch(0), source_batch(3, codec=Codec.ZSTD), source_batch(6, 1)]
    assert take(log, b"".join(sent)) == 3
    flush(log)
    assert log.end_offset == 7
    assert list(map(source_bytes, stored(log))) == list(map(source_bytes, sent))
    assert {read_header(each).leader_epoch for each in stored(log)} == {EPOCH}
    assert log.epochs.entries == [(EPOCH, 0)]


def test_what_differs_is_named_with_offset_and_both_crcs(log: Log) -> None:
    first, second, other = source_batch(0), source_batch(3), source_batch(3, content=b"y")
    take(log, first + second)
    with pytest.raises(Differs) as found:
        take(log, first + other)
    message = str(found.value)
    assert message.startswith("differs: at offset 3 the source has a batch up to 5")
    assert f"{read_header(other).crc:08x}" in message
    assert f"{read_header(second).crc:08x}" in message
    assert found.value.code is ErrorCode.invalid_record
    assert log.end_offset == 6


@pytest.mark.parametrize(
    ("there", "sent"), [((0, 6), (0, 3)), ((0, 3), (0, 6)), ((0, 6), (3, 3)), ((0, 4), (2, 4))]
)
def test_a_batch_of_other_bounds_differs(
    log: Log, there: tuple[int, int], sent: tuple[int, int]
) -> None:
    take(log, source_batch(*there))
    for compacts in (False, True):
        with pytest.raises(Differs, match=r"^differs: at offset"):
            take(log, source_batch(*sent), compacts=compacts)
    assert log.end_offset == there[0] + there[1]


def test_a_batch_in_a_gap_of_the_copy_differs_unless_the_topic_is_compacted(log: Log) -> None:
    take(log, source_batch(0) + source_batch(10))
    with pytest.raises(Differs, match="and the copy has nothing up to 5"):
        take(log, source_batch(3))
    assert take(log, source_batch(3) + source_batch(10), compacts=True) == 0


def test_what_was_compacted_on_one_side_is_the_same_batch(log: Log) -> None:
    take(log, source_batch(0) + source_batch(3))
    smaller = build_batch(
        [Record(1, NOW, None, b"x")], base_offset=0, last_offset_delta=2, leader_epoch=7
    )
    assert take(log, smaller + source_batch(3), compacts=True) == 0
    with pytest.raises(Differs):
        take(log, smaller)


def test_what_was_deleted_from_the_copy_is_not_asked_for(log: Log) -> None:
    take(log, source_batch(0) + source_batch(3) + source_batch(6))
    flush(log)
    log.delete_before(4)
    assert take(log, source_batch(0, content=b"other") + source_batch(3)) == 0
    with pytest.raises(Differs):
        take(log, source_batch(3, content=b"other"))


@pytest.mark.parametrize("empty", [False, True])
def test_offsets_may_jump_further_than_a_segment_can_say(log: Log, empty: bool) -> None:
    far = 5 * 2**31
    log.reconfigure(LogConfig(retention_ms=1))
    take(log, source_batch(0))
    flush(log)
    if empty:
        assert log.expire(NOW + 1000) == [0]
        flush(log)
    take(log, source_batch(far))
    take(log, source_batch(far + 3))
    flush(log)
    assert names(log, ".log") == [3 if empty else 0, far]
    again = reopen(log, recovery_point=0)
    found = [read_header(each).base_offset for each in stored(again)]
    assert found == ([far, far + 3] if empty else [0, far, far + 3])
    again.abandon()


def test_the_end_of_a_transaction_leaves_its_producers_sequence_alone(log: Log) -> None:
    mine: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0}
    data = source_batch(0, base_sequence=40, attributes=TRANSACTIONAL, **mine)
    end = source_batch(3, 1, base_sequence=-1, attributes=TRANSACTIONAL | CONTROL, **mine)
    take(log, data + end)
    (known,) = log.producers.describe()
    assert known.last_sequence == 42
    again = reopen(log, recovery_point=0)
    assert [each.last_sequence for each in again.producers.describe()] == [42]
    again.abandon()


def test_that_there_are_transactions_is_known_after_a_crash(log: Log) -> None:
    take(log, source_batch(0))
    assert not log.holds_transactions
    take(log, source_batch(3, attributes=TRANSACTIONAL, producer_id=9, base_sequence=0))
    log.abandon()
    again = reopen(log, recovery_point=0)
    assert again.holds_transactions
    again.abandon()


# What was sent

CORRUPT, INVALID = ErrorCode.corrupt_message, ErrorCode.invalid_record
OTHER_FORMAT = ErrorCode.unsupported_for_message_format


def _with(sent: bytes, at: int, content: bytes) -> bytes:
    return sent[:at] + content + sent[at + len(content) :]


@pytest.mark.parametrize(
    ("sent", "code", "problem"),
    [
        (source_batch(0)[:60], CORRUPT, "60 bytes are too short for a record batch"),
        (source_batch(0)[:-1], CORRUPT, "bytes, .* were sent"),
        (source_batch(0) + b"x", CORRUPT, "1 bytes are too short for a record batch"),
        (_with(source_batch(0), 8, b"\0\0\0\0"), CORRUPT, "should have 12 bytes"),
        (_with(source_batch(0), 8, b"\xff" * 4), CORRUPT, "should have 11 bytes"),
        (_with(source_batch(0), CRC_START, b"\x01"), CORRUPT, "the CRC of the batch at offset 0"),
        (_with(source_batch(0), 16, b"\x01"), OTHER_FORMAT, "record format 1"),
        (_with(source_batch(0), 0, b"\xff" * 8), INVALID, "an impossible offset"),
        (_with(source_batch(0), 0, b"\x7f" + b"\xff" * 7), INVALID, "an impossible offset"),
        (
            build_batch([Record(0, NOW, None, b"")] * 3, base_offset=0, last_offset_delta=1),
            INVALID,
            "3 records, last offset delta 1",
        ),
        (source_batch(3) + source_batch(5), INVALID, "offset 5 has an offset below 6"),
    ],
)
def test_bytes_that_cannot_stand_in_a_log_are_refused(
    sent: bytes, code: ErrorCode, problem: str
) -> None:
    with pytest.raises(BatchError, match=problem) as refused:
        list(source_runs(memoryview(bytearray(sent))))
    assert refused.value.code is code


def test_what_came_before_a_bad_batch_is_good() -> None:
    sent = source_batch(0) + source_batch(3) + source_batch(6)[:-5]
    runs = source_runs(memoryview(bytearray(sent)))
    assert [header.base_offset for header in next(runs).headers] == [0, 3]
    with pytest.raises(BatchError):
        next(runs)
    for data, first in ((None, 0), (b"short", 0), (source_batch(42), 42)):
        assert first_offset(None if data is None else memoryview(data)) == first


def test_many_batches_come_in_pieces() -> None:
    sent = b"".join(source_batch(3 * at, content=bytes(4000)) for at in range(300))
    runs = list(source_runs(memoryview(bytearray(sent))))
    assert len(runs) > 5
    assert b"".join(bytes(run.data) for run in runs) == sent
    assert max(len(run.data) for run in runs) < 600_000


@given(st.binary(max_size=300))
def test_no_bytes_do_anything_but_be_refused(data: bytes) -> None:
    try:
        runs = list(source_runs(memoryview(bytearray(data))))
    except BatchError:
        return
    assert b"".join(bytes(run.data) for run in runs) == data


# Against a model


PORTIONS = st.tuples(st.integers(0, 30), st.integers(0, 30))
BATCHES = st.tuples(
    st.integers(1, 4),
    st.integers(0, 200),
    st.integers(0, 5),
    st.sampled_from([0, TRANSACTIONAL, TRANSACTIONAL | CONTROL]),
)


@given(
    made=st.lists(BATCHES, min_size=1, max_size=30),
    steps=st.lists(PORTIONS | st.sampled_from(["kill", "stop", "lose power", "delete"])),
    compacts=st.booleans(),
    segment_bytes=st.sampled_from([300, 1000, 5000]),
    data=st.data(),
)
def test_a_copy_is_never_anything_but_its_source(
    made: list[tuple[int, int, int, int]],
    steps: list[str | tuple[int, int]],
    compacts: bool,
    segment_bytes: int,
    data: st.DataObject,
) -> None:
    """It is copied in any portions, again and again, by who forgets how far it came; the copy
    crashes, loses its unflushed end, deletes. It has nothing but the source's batches, in their
    order and without a gap that the source has not."""
    source, end = [], 0
    for count, size, hole, attributes in made:
        end += hole if compacts else 0
        source.append(source_batch(end, count, content=os.urandom(size), attributes=attributes))
        end += count
    ends = [read_header(each).next_offset for each in source]
    config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=100, compact=compacts)
    with TemporaryDirectory(dir=MEMORY) as directory:
        log = Log.create(Path(directory) / "topic-0", TOPIC_ID, config)
        copied = 0
        for step in steps:
            flushed = log.flushed_offset
            match step:
                case (int(first), int(last)):
                    sent = source[min(first, copied) : last]
                    new = take(log, b"".join(sent), compacts=compacts)
                    reached = min(first, copied) + len(sent)
                    assert new == max(0, reached - copied)
                    copied = max(copied, reached)
                    if first % 2:
                        flush(log)
                case "kill":
                    log.abandon()
                    log = reopen(log, recovery_point=0)
                case "stop":
                    log.close()
                    log = reopen(log, clean=True)
                case "lose power" if log.end_offset > flushed:
                    # The last segment ends at any byte behind what was flushed.
                    base = names(log, ".log")[-1]
                    whole = [read_header(each) for each in source[:copied]]
                    kept = sum(
                        header.size
                        for header in whole
                        if base <= header.base_offset and header.next_offset <= flushed
                    )
                    path = log_file(log, base)
                    log.abandon()
                    os.truncate(path, data.draw(st.integers(kept, path.stat().st_size)))
                    log = reopen(log)
                    assert log.end_offset >= flushed
                    copied = sum(each <= log.end_offset for each in ends)
                case "delete":
                    log.delete_before(data.draw(st.integers(0, log.exposed_offset)))
            start, exposed = log.start_offset, log.exposed_offset
            expected = [
                source_bytes(content)
                for content, next_offset in zip(source, ends, strict=True)
                if start < next_offset <= exposed
            ]
            assert [source_bytes(each) for each in stored(log)] == expected
            assert compacts or log.end_offset == (ends[copied - 1] if copied else 0)
            visible = [each for each in source[:copied] if read_header(each).base_offset >= start]
            if visible and not compacts:
                header = read_header(data.draw(st.sampled_from(visible)))
                other = source_batch(
                    header.base_offset, header.last_offset_delta + 1, content=b"another"
                )
                with pytest.raises(Differs, match=f"^differs: at offset {header.base_offset} "):
                    take(log, other)
        log.abandon()

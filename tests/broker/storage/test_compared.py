"""What of another log's batches is there, what comes next, and what contradicts the copy."""

import os
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.storage.compared import append_kept, count_known, first_offset, source_runs
from broker.storage.config import LogConfig
from broker.storage.errors import Differs
from broker.storage.log import Log
from tests.broker.storage.log_files import NOW, TOPIC_ID, flush, log_file, names, read_on, reopen
from wire.batch import CONTROL, CRC_START, TRANSACTIONAL, BatchHeader, read_header
from wire.errors import BatchError, ErrorCode
from wire.records import Codec, Record, build_batch

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
        (source_batch(0)[:60], CORRUPT, "60 bytes are no record batch"),
        (source_batch(0)[:-1], CORRUPT, "bytes, .* were sent"),
        (source_batch(0) + b"x", CORRUPT, "1 bytes are no record batch"),
        (_with(source_batch(0), 8, b"\0\0\0\0"), CORRUPT, "it has 12 bytes"),
        (_with(source_batch(0), 8, b"\xff" * 4), CORRUPT, "it has 11 bytes"),
        (_with(source_batch(0), CRC_START, b"\x01"), CORRUPT, "the CRC of the batch at offset 0"),
        (_with(source_batch(0), 16, b"\x01"), OTHER_FORMAT, "record format 1"),
        (_with(source_batch(0), 0, b"\xff" * 8), INVALID, "no such offset"),
        (_with(source_batch(0), 0, b"\x7f" + b"\xff" * 7), INVALID, "no such offset"),
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


class CopyMachine(RuleBasedStateMachine):
    """A source's log grows and is copied, in any portions, again and again, by who forgets how far
    it came; the copy crashes, loses its unflushed end, deletes. It never has anything but the
    source's batches, in their order and without a gap that the source has not."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(dir=MEMORY))
        self.source: list[bytes] = []
        self.flushed = 0

    @initialize(
        segment_bytes=st.sampled_from([300, 1000, 5000]),
        interval=st.sampled_from([0, 100, 4096]),
        compacts=st.booleans(),
    )
    def begin(self, segment_bytes: int, interval: int, compacts: bool) -> None:
        self.compacts = compacts
        self.config = LogConfig(
            segment_bytes=segment_bytes, index_interval_bytes=interval, compact=compacts
        )
        self.log = Log.create(self.directory / "topic-0", TOPIC_ID, self.config)

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.abandon()
        shutil.rmtree(self.directory)

    @property
    def headers(self) -> list[BatchHeader]:
        return [read_header(each) for each in self.source]

    @rule(
        count=st.integers(1, 4),
        size=st.integers(0, 200),
        hole=st.integers(0, 5),
        attributes=st.sampled_from([0, TRANSACTIONAL, TRANSACTIONAL | CONTROL]),
    )
    def grow(self, count: int, size: int, hole: int, attributes: int) -> None:
        end = self.headers[-1].next_offset if self.source else 0
        base = end + hole if self.compacts else end
        self.source.append(
            source_batch(base, count, content=os.urandom(size), attributes=attributes)
        )

    @precondition(lambda self: self.source)
    @rule(data=st.data())
    def copy(self, data: st.DataObject) -> None:
        """Any stretch that begins no later than the copy ends."""
        first = data.draw(st.integers(0, self._copied()))
        last = data.draw(st.integers(first, len(self.source)))
        before = self._copied()
        new = take(self.log, b"".join(self.source[first:last]), compacts=self.compacts)
        assert new == max(0, last - before)
        assert self._copied() == max(before, last)

    @precondition(lambda self: self.log.end_offset > self.log.start_offset)
    @rule(data=st.data())
    def contradict(self, data: st.DataObject) -> None:
        """The source has lost its end and has written another."""
        there = [
            header
            for header in self.headers[: self._copied()]
            if header.base_offset >= self.log.start_offset
        ]
        if not there or self.compacts:
            return
        header = data.draw(st.sampled_from(there))
        count = header.last_offset_delta + 1
        other = source_batch(header.base_offset, count, content=os.urandom(8) + b"other")
        end = self.log.end_offset
        with pytest.raises(Differs, match=f"^differs: at offset {header.base_offset} "):
            take(self.log, other)
        assert self.log.end_offset == end

    @rule()
    def flush(self) -> None:
        flush(self.log)
        self.flushed = self.log.end_offset

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        self.log.delete_before(data.draw(st.integers(0, self.log.exposed_offset)))

    @rule(clean=st.booleans())
    def stop(self, clean: bool) -> None:
        self.log.close()
        self.log = reopen(self.log, clean=clean)
        self.flushed = self.log.end_offset

    @rule()
    def kill(self) -> None:
        end = self.log.end_offset
        self.log.abandon()
        self.log = reopen(self.log, recovery_point=0)
        assert self.log.end_offset == end
        self.flushed = end

    @precondition(lambda self: self.log.end_offset > self.log.flushed_offset)
    @rule(data=st.data())
    def lose_power(self, data: st.DataObject) -> None:
        """The last segment ends at any byte behind what was flushed."""
        base = names(self.log, ".log")[-1]
        kept = sum(
            header.size
            for header in self.headers
            if base <= header.base_offset and header.next_offset <= self.flushed
        )
        self.log.abandon()
        path = log_file(self.log, base)
        os.truncate(path, data.draw(st.integers(kept, path.stat().st_size)))
        self.log = reopen(self.log)
        assert self.log.end_offset >= self.flushed
        self.flushed = self.log.end_offset

    def _copied(self) -> int:
        """How many batches of the source are there, or were."""
        end = self.log.end_offset
        return sum(header.next_offset <= end for header in self.headers)

    @invariant()
    def is_the_source(self) -> None:
        if not hasattr(self, "log"):
            return
        start = self.log.start_offset
        expected = [
            source_bytes(content)
            for content, header in zip(self.source, self.headers, strict=True)
            if start < header.next_offset <= self.log.exposed_offset
        ]
        assert [source_bytes(each) for each in stored(self.log)] == expected
        ends = {0, *(header.next_offset for header in self.headers)}
        assert self.log.end_offset in ends or self.compacts


CopyMachine.TestCase.settings = settings(
    max_examples=max(settings().max_examples, 60), stateful_step_count=40
)
test_a_copy_is_never_anything_but_its_source = CopyMachine.TestCase

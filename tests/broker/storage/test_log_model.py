"""A log against a plain model, a list of batches, through any sequence of what may befall it."""

import os
import shutil
import tempfile
from dataclasses import dataclass
from math import inf
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.replicas.log_opening import lost_beginning, lost_end
from broker.storage.config import LogConfig
from broker.storage.directory.acknowledged import AcknowledgedFile
from broker.storage.errors import EndMissing, NotNext, OffsetOutOfRange
from broker.storage.log import Log
from tests.broker.storage.log_files import (
    NOW,
    TOPIC_ID,
    append,
    batch,
    checkpoint,
    flush,
    log_file,
    names,
    read_on,
    reopen,
)
from wire.record_batches.batch import read_header, stamp

# What is tested is the order of steps, not the disk: thousands of syncs need not wait for one.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


@dataclass
class Stored:
    """What the model knows of a batch."""

    base_offset: int
    last_offset: int
    content: bytes
    timestamps: list[int]
    epoch: int


class LogMachine(RuleBasedStateMachine):
    """Appends, flushes, rolls, reads, deletes, goes back; stops, crashes and loses its unflushed
    tail."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(dir=MEMORY))
        self.batches: list[Stored] = []
        self.start = 0
        self.bottom = 0  # the first offset, where there is no batch
        self.flushed = 0
        self.replicated = inf
        self.exposed = 0
        self.sequence = 0
        self.epoch = 0
        self.time = NOW
        self.tidy = True

    @initialize(
        segment_bytes=st.sampled_from([300, 1000, 5000]),
        interval=st.sampled_from([0, 100, 700, 4096]),
        alone=st.booleans(),
    )
    def begin(self, segment_bytes: int, interval: int, alone: bool) -> None:
        self.config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=interval)
        self.log = Log.create(self.directory / "topic-0", TOPIC_ID, self.config)
        self.acknowledged = AcknowledgedFile(self.directory / "acknowledged")
        self.remember()
        if not alone:
            self.replicated = 0
            self.log.replicated(0)

    def remember(self) -> None:
        slot = self.acknowledged.slot(TOPIC_ID, 0)
        slot.begin(self.log.start_offset, self.log.end_offset, self.epoch)
        self.log.remember(slot)

    def open_again(self, *, clean: bool = False, recovery_point: int | None = None) -> None:
        """As a broker does that starts: whatever befell the log, nothing of it was lost."""
        self.acknowledged.close()
        self.acknowledged = AcknowledgedFile(self.directory / "acknowledged")
        known = self.acknowledged.known(TOPIC_ID, 0)
        assert known is not None
        assert known.end >= self.flushed, "what was shown is remembered"
        self.log = reopen(self.log, clean=clean, recovery_point=recovery_point, reached=known.end)
        assert lost_beginning(self.log, known) == []
        assert lost_end(self.log, known.end, known) == []
        self.remember()
        self.replicated = inf
        self.exposed = self.end

    @precondition(lambda self: self.flushed > self.start)
    @rule(data=st.data())
    def lose_the_end(self, data: st.DataObject) -> None:
        """Somebody cuts the file of the last segment: how much is gone is known exactly."""
        self.flush()
        self.log.abandon()
        path = log_file(self.log, names(self.log, ".log")[-1])
        size = path.stat().st_size
        left = data.draw(st.integers(0, size))
        content = path.read_bytes()
        os.truncate(path, left)
        if left < size:
            with pytest.raises(EndMissing) as found:
                reopen(self.log, reached=self.end)
            missing = found.value
            assert missing.reached == self.end
            first = next(each for each in self.batches if each.last_offset >= missing.offset)
            assert first.base_offset == missing.offset
            assert missing.path is not None
            assert missing.position <= left
        path.write_bytes(content)
        self.open_again(recovery_point=0)

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.abandon()
            self.acknowledged.close()
        shutil.rmtree(self.directory)

    @property
    def end(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else self.bottom

    def flushed_to(self, offset: int) -> None:
        self.flushed = offset
        self.exposed = max(self.exposed, int(min(self.replicated, offset)))

    @rule(
        times=st.lists(st.integers(-500, 500), min_size=1, max_size=4),
        size=st.integers(0, 200),
        idempotent=st.booleans(),
    )
    def append(self, times: list[int], size: int, idempotent: bool) -> None:
        timestamps = [self.time + time for time in times]
        self.time += 10
        sent = batch(
            len(times),
            size=size,
            timestamps=timestamps,
            producer=(7, 0, self.sequence) if idempotent else (-1, -1, -1),
        )
        end = self.end
        appended = append(self.log, sent, leader_epoch=self.epoch)
        assert appended == (end, end + len(times) - 1, False)
        self.batches.append(Stored(end, appended.last_offset, bytes(sent), timestamps, self.epoch))
        if idempotent:
            self.sequence += len(times)
            again = append(self.log, sent)
            assert again == (end, appended.last_offset, True)

    @rule(count=st.integers(1, 4), idempotent=st.booleans(), missing=st.integers(-3, -1))
    def append_copy(self, count: int, idempotent: bool, missing: int) -> None:
        """As a follower, of a leader's log."""
        end = self.end
        sent = batch(count, producer=(7, 0, self.sequence) if idempotent else (-1, -1, -1))
        if end + missing >= 0:
            stamp(memoryview(sent), end + missing, self.epoch)
            with pytest.raises(NotNext):
                self.log.append_copy(memoryview(sent), read_header(sent), NOW)
        stamp(memoryview(sent), end, self.epoch)
        appended = self.log.append_copy(memoryview(sent), read_header(sent), NOW)
        assert appended == (end, end + count - 1, False)
        self.batches.append(Stored(end, end + count - 1, bytes(sent), [NOW] * count, self.epoch))
        if idempotent:
            self.sequence += count
            assert append(self.log, sent).duplicate

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end + 2))
        self.log.truncate(offset, NOW)
        self.flushed_to(self.end)
        self.tidy = True
        if offset >= self.end:
            return
        visible = next(each for each in self.batches if each.last_offset >= self.start)
        if visible.last_offset >= offset:
            self._is_new(min(offset, max(self.start, visible.base_offset)))
        else:
            self.batches = [each for each in self.batches if each.last_offset < offset]
            self.flushed = self.end
            self.exposed = min(self.exposed, self.end)
            self.sequence = _next_sequence(self.batches)
        self._goes_back()

    @rule(offset=st.integers(0, 200))
    def begin_anew(self, offset: int) -> None:
        self.log.begin_anew(offset, NOW)
        self._is_new(offset)
        self._goes_back()
        self.tidy = True

    def _goes_back(self) -> None:
        if self.replicated < inf:
            self.replicated = min(self.replicated, self.end)

    def _is_new(self, offset: int) -> None:
        self.batches, self.sequence = [], 0
        self.bottom = self.start = self.flushed = self.exposed = offset

    @rule(data=st.data())
    def replicate(self, data: st.DataObject) -> None:
        """The other replicas are so far, or gone."""
        ends = [self.start, *(each.last_offset + 1 for each in self.batches), inf]
        self.replicated = data.draw(st.sampled_from(ends))
        self.log.replicated(self.replicated)
        self.flushed_to(self.flushed)

    @rule()
    def elect(self) -> None:
        self.epoch += 1

    @rule()
    def flush(self) -> None:
        flush(self.log)
        self.flushed_to(self.end)
        self.tidy = True

    @rule(count=st.integers(1, 3))
    def append_while_flushing(self, count: int) -> None:
        ticket = self.log.begin_flush()
        end = self.end
        for _ in range(count):
            self.append([0], 50, False)
        if ticket is not None:
            ticket.run()
            self.log.complete_flush(ticket)
            self.flushed_to(end)

    @rule()
    def rest(self) -> None:
        """All files are closed, unless something is owed to the disk."""
        assert self.log.rest() == (self.flushed == self.end)

    @rule()
    def checkpoint(self) -> None:
        recovery_point, start = checkpoint(self.log)
        self.flushed_to(self.end)
        assert (recovery_point, start) == (self.end, self.start)

    @rule(data=st.data())
    def delete_before(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.exposed))
        self.log.delete_before(offset)
        self.start = max(self.start, offset)
        self.tidy = False

    @rule(bytes_left=st.integers(0, 3000))
    def expire(self, bytes_left: int) -> None:
        self.log.reconfigure(LogConfig(
            segment_bytes=self.config.segment_bytes,
            index_interval_bytes=self.config.index_interval_bytes,
            retention_bytes=bytes_left,
        ))  # fmt: skip
        self.flush()
        bases = names(self.log, ".log")
        removed = self.log.expire(NOW)
        self.flush()
        assert removed == bases[: len(removed)]
        left = names(self.log, ".log")
        assert left == bases[len(removed) :]
        if removed:
            self.start = max(self.start, left[0])
            assert left[0] <= self.exposed

    @rule(clean=st.booleans())
    def stop(self, clean: bool) -> None:
        self.log.close()
        self.flushed = self.end
        self.open_again(clean=clean)

    @rule(believe=st.booleans())
    def kill(self, believe: bool) -> None:
        """The process is gone; the kernel has everything."""
        self.log.abandon()
        self.open_again(recovery_point=None if believe else 0)
        self.flushed = self.end

    @precondition(lambda self: self.log.end_offset > self.log.flushed_offset)
    @rule(data=st.data())
    def lose_power(self, data: st.DataObject) -> None:
        """What was not flushed of the last segment is lost from some byte on."""
        self.log.abandon()
        base = names(self.log, ".log")[-1]
        path = log_file(self.log, base)
        unsafe = [each for each in self.batches if each.base_offset >= max(base, self.flushed)]
        first = path.stat().st_size - sum(len(each.content) for each in unsafe)
        size = data.draw(st.integers(first, path.stat().st_size))
        os.truncate(path, size)
        for index in ("index", "timeindex"):
            torn = log_file(self.log, base, f".{index}")
            if base > self.log.recovery_point:
                os.truncate(torn, data.draw(st.integers(0, torn.stat().st_size)))
        while self.batches and first < size and len(unsafe[0].content) <= size - first:
            first += len(unsafe.pop(0).content)
        for lost in unsafe:
            self.batches.remove(lost)
        self.open_again()
        self.flushed = self.end
        self.sequence = _next_sequence(self.batches)
        self.tidy = False

    @rule(data=st.data(), max_bytes=st.sampled_from([0, 100, 500, 2000, 1 << 20]))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        offset = data.draw(st.integers(-2, self.end + 2))
        if not self.start <= offset <= self.end:
            with pytest.raises(OffsetOutOfRange):
                self.log.read(offset, max_bytes)
            return
        expected = [
            each.content
            for each in self.batches
            if each.last_offset >= offset and each.base_offset < self.exposed
        ]
        found = [content for _, content in read_on(self.log, offset, max_bytes)]
        assert found == expected

    @rule(time=st.integers(-600, 2000))
    def search(self, time: int) -> None:
        wanted = NOW + time
        visible = [
            (each.base_offset + at, timestamp)
            for each in self.batches
            if each.base_offset < self.exposed
            for at, timestamp in enumerate(each.timestamps)
            if each.base_offset + at >= self.start
        ]
        expected = next((pair for pair in visible if pair[1] >= wanted), None)
        found = self.log.offset_for_timestamp(wanted)
        assert (found and found[:2]) == expected
        highest = max((timestamp for _, timestamp in visible), default=None)
        latest = self.log.latest_timestamp()
        assert (latest and latest.timestamp) == highest
        if latest is not None:
            assert latest[:2] in visible

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "log"):
            return
        log = self.log
        assert log.end_offset == self.end
        assert log.flushed_offset == self.flushed
        assert log.exposed_offset == self.exposed
        assert log.start_offset == self.start
        for each in self.batches:
            if each.last_offset >= self.start:
                assert log.epochs.epoch_for(max(each.base_offset, self.start)) == each.epoch
        if self.batches and self.batches[-1].last_offset >= self.start:
            assert log.epochs.latest == self.batches[-1].epoch
        assert log.recovery_point <= self.flushed
        on_disk = sum(log_file(log, base).stat().st_size for base in names(log, ".log"))
        assert log.size <= on_disk  # what was let go of is removed with a flush
        if self.tidy:
            assert log.size == on_disk


def _next_sequence(batches: list[Stored]) -> int:
    last = [header for each in batches if (header := read_header(each.content)).producer_id == 7]
    return last[-1].last_sequence + 1 if last else 0


LogMachine.TestCase.settings = settings(
    max_examples=max(settings().max_examples, 100), stateful_step_count=40
)
test_a_log_behaves_as_its_model = LogMachine.TestCase

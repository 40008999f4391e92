"""The log of one partition: append, flush, read, roll, retire.

Owns the partition's directory (files: see layout.py). Invariants:

    start_offset ≤ exposed_offset ≤ flushed_offset ≤ end_offset
    recovery_point ≤ flushed_offset: below it batches, indexes and names are all on disk

A batch is one `write` at the end of the active segment. It is flushed when a `FlushTicket` that was
begun after it has run and been completed, and consumers see nothing that is not flushed. All methods
belong to the event loop's thread, except `create` and `open`, and what a ticket does.

A crash leaves whole batches up to `flushed_offset`, and behind them anything; `open` says what is
true (recovery.py). A write that does not fit is undone, and the next append tries again. A failed
flush, or any other failure to write, takes the log offline until the broker starts again: what the
kernel then did with its pages cannot be known.
"""

import logging
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Self
from uuid import UUID

from broker.storage import identity, layout, swap
from broker.storage.cleaner import CleanedSegment, SealedSegment
from broker.storage.config import LogConfig
from broker.storage.directories import deleted_name
from broker.storage.epochs import LeaderEpochs
from broker.storage.errors import (
    CorruptLog,
    DiskFull,
    InvalidBatch,
    LogOffline,
    OffsetOutOfRange,
    StorageError,
    Unreadable,
)
from broker.storage.files import NO_SPACE, sync_directory
from broker.storage.flush import FlushTicket
from broker.storage.index import TimeIndex
from broker.storage.reading import Exposed, Reader
from broker.storage.recovery import Recovered, recover
from broker.storage.retention import expired
from broker.storage.segment import MAX_POSITION, UNPREPARED, Segment
from broker.storage.segments import Segments
from broker.storage.snapshots import Snapshots
from broker.storage.timestamps import TimestampedOffset, first_reaching, highest
from wire.batch import NO_PRODUCER, BatchHeader, stamp
from wire.slices import FileSlice

_log = logging.getLogger(__name__)


class Appended(NamedTuple):
    """Where a batch stands in the log; a duplicate's original, where it has stood all along."""

    base_offset: int
    last_offset: int
    duplicate: bool


class Log:
    """See the module. `offline` says why, if the log is."""

    __slots__ = (
        "_active", "_checkpoint_due", "_doomed", "_exposed", "_fd", "_names_unsynced", "_reader",
        "_segments", "_since_ms", "_snapshots", "_ticket", "_unflushed", "config", "directory",
        "end_offset", "epochs", "exposed_offset", "flushed_offset", "offline", "producers",
        "recovery_point", "start_offset", "topic_id",
    )  # fmt: skip

    def __init__(
        self, directory: Path, topic_id: UUID, config: LogConfig, recovered: Recovered
    ) -> None:
        """Use `create` or `open`."""
        self.directory = directory
        self.topic_id = topic_id
        self.config = config
        self.offline = ""
        self.start_offset = recovered.start_offset
        self.end_offset = self.flushed_offset = self.exposed_offset = recovered.end_offset
        self.recovery_point = recovered.end_offset
        self.producers = recovered.producers
        self.epochs = recovered.epochs
        self._segments = Segments(recovered.segments)
        self._active = self._segments.active
        self._fd = -1  # the active segment's, once it is prepared
        self._since_ms: float = recovered.active_since_ms
        self._exposed = Exposed(self.end_offset, self._active, self._active.size)
        self._reader = Reader(self._segments)
        self._snapshots = Snapshots(directory, recovered.snapshots)
        self._unflushed: list[Segment] = []  # sealed, and not yet covered by a completed flush
        self._names_unsynced = False
        self._doomed: list[Path] = []
        self._checkpoint_due = False
        self._ticket: FlushTicket | None = None

    @classmethod
    def create(cls, directory: Path, topic_id: UUID, config: LogConfig) -> Self:
        """A new log. Blocks; any thread. There is a whole directory, or after a crash none."""
        identity.create_partition_directory(directory, topic_id)
        segment = Segment.create(directory, 0, config.index_interval_bytes)
        sync_directory(directory)
        epochs = LeaderEpochs(directory / layout.LEADER_EPOCHS)
        return cls(directory, topic_id, config, Recovered(segments=[segment], epochs=epochs))

    @classmethod
    def open(
        cls,
        directory: Path,
        config: LogConfig,
        *,
        recovery_point: int,
        start_offset: int,
        clean: bool,
        now_ms: int,
    ) -> Self:
        """An existing log, recovered. Blocks; any thread. Raises `CorruptLog`.

        `recovery_point` and `start_offset` are what `checkpoint` returned last and was written
        down. `clean` says that the broker's last stop was one; the log checks that for itself.
        """
        topic_id = identity.read_topic_id(directory)
        try:
            recovered = recover(directory, config, recovery_point, start_offset, clean=clean)
        except OSError as error:
            raise Unreadable(f"{directory}: {error.strerror or error}") from error
        recovered.producers.expire(now_ms, config.producer_expiration_ms)
        return cls(directory, topic_id, config, recovered)

    def reconfigure(self, config: LogConfig) -> None:
        self.config = config
        self._active.roll_at_ms = UNPREPARED

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return self._segments.size

    # Appending

    def append(
        self, batch: memoryview, header: BatchHeader, leader_epoch: int, now_ms: int
    ) -> Appended:
        """Write the one checked batch that `batch` holds; it is stamped in place."""
        if self.offline:
            raise LogOffline(self.offline)
        idempotent = header.producer_id != NO_PRODUCER
        if idempotent:
            original = self.producers.check(header)
            if original is not None:
                return Appended(original, original + header.last_offset_delta, True)
        base_offset = self.end_offset
        last_offset = base_offset + header.last_offset_delta
        segment = self._active
        position = segment.size
        length = len(batch)
        if (
            position + length > segment.roll_size
            or now_ms >= segment.roll_at_ms
            or leader_epoch != self.epochs.latest
            or last_offset - segment.base_offset > MAX_POSITION
        ):
            segment = self._make_room(length, last_offset, leader_epoch, now_ms)
            position = segment.size
        stamp(batch, base_offset, leader_epoch)
        try:
            written = os.write(self._fd, batch)
        except OSError as error:
            raise self._undo(error) from error
        if written != length:
            raise self._undo(None)
        segment.size = position + length
        segment.last_append_ms = now_ms
        timestamp = header.max_timestamp
        if timestamp > segment.max_timestamp:
            segment.max_timestamp = timestamp
            segment.max_timestamp_offset = last_offset
        if position > segment.index_due:
            segment.index_batch(last_offset, position, self.config.index_interval_bytes)
            if segment.index_entries >= self._max_index_entries:
                segment.roll_size = 0
        self.end_offset = last_offset + 1
        if idempotent:
            self.producers.record(header, base_offset, now_ms)
        return Appended(base_offset, last_offset, False)

    def _undo(self, error: OSError | None) -> StorageError:
        """Cut off what a failed or short write may have left; what to raise."""
        segment = self._active
        if error is not None and error.errno not in NO_SPACE:
            return self._failed("write", error)
        try:
            os.ftruncate(self._fd, segment.size)
        except OSError as failure:
            return self._failed("truncate after a failed write", failure)
        return DiskFull(f"no room for a batch in {self.directory}")

    def _failed(self, what: str, error: OSError) -> LogOffline:
        self.fail(f"{what} failed: {error.strerror or error}")
        return LogOffline(self.offline)

    def _make_room(self, length: int, last_offset: int, leader_epoch: int, now_ms: int) -> Segment:
        """The segment that takes the next batch: this one, or a new one."""
        try:
            if leader_epoch != self.epochs.latest:
                self._begin_epoch(leader_epoch)
            segment = self._active
            if segment.roll_at_ms == UNPREPARED:
                self._prepare(segment, now_ms)
            if segment.size and (
                segment.size + length > segment.roll_size
                or now_ms >= segment.roll_at_ms
                or last_offset - segment.base_offset > MAX_POSITION
            ):
                self._roll()
                segment = self._active
                self._prepare(segment, now_ms)
        except OSError as error:
            if error.errno in NO_SPACE:
                raise DiskFull(f"no room for a new segment in {self.directory}") from error
            raise self._failed("roll", error) from error
        return segment

    def _begin_epoch(self, leader_epoch: int) -> None:
        try:
            self.epochs.assign(leader_epoch, self.end_offset)
        except OSError:
            self.epochs = LeaderEpochs.load(self.directory / layout.LEADER_EPOCHS)
            raise

    def _prepare(self, segment: Segment, now_ms: int) -> None:
        """Open the active segment for appending, and set when it must be rolled."""
        if segment.size == 0:
            self._since_ms = now_ms
        self._fd = segment.file.fd
        segment.roll_at_ms = min(self._since_ms, now_ms) + self.config.segment_ms
        full = segment.index_entries >= self._max_index_entries
        segment.roll_size = 0 if full else min(self.config.segment_bytes, MAX_POSITION)

    @property
    def _max_index_entries(self) -> int:
        """One is left for the time index's last."""
        return self.config.segment_index_bytes // TimeIndex.ENTRY.size - 1

    def _roll(self) -> None:
        """Seal the active segment and begin the next. Nothing has changed if this raises."""
        sealed = self._active
        sealed.finish()
        segment = Segment.create(self.directory, self.end_offset, self.config.index_interval_bytes)
        self._segments.add(segment)
        self._active = segment
        self._unflushed.append(sealed)
        self._names_unsynced = True
        self._snapshots.request(self.end_offset, self.producers)
        if self.exposed_offset == self.end_offset:
            self._exposed = Exposed(self.end_offset, segment, 0)

    def fail(self, reason: str) -> None:
        """Offline for good. Slices that were handed out stay readable."""
        if not self.offline:
            self.offline = reason
            _log.error("log offline directory=%s reason=%r", self.directory, reason)
            self._let_go()

    def _let_go(self) -> None:
        self._segments.cool_all()
        self._reader.forget()

    # Reading

    def read(self, offset: int, max_bytes: int) -> FileSlice | None:
        """Whole batches from `offset` on, at least one; None where no more is exposed."""
        if self.offline:
            raise LogOffline(self.offline)
        if not self.start_offset <= offset < self.exposed_offset:
            if self.exposed_offset <= offset <= self.end_offset:
                return None
            raise OffsetOutOfRange(
                f"offset {offset} is outside {self.start_offset} to {self.end_offset}"
            )
        try:
            return self._reader.slice(
                offset, max_bytes, self._exposed, self.config.index_interval_bytes
            )
        except OSError as error:
            raise Unreadable(f"{self.directory}: {error.strerror or error}") from error
        except InvalidBatch as error:
            raise CorruptLog(f"{self.directory}, segment of {offset}: {error}") from error

    # Flushing

    def begin_flush(self) -> FlushTicket | None:
        """What must reach the disk; None if nothing has to. One ticket at a time.

        Also takes what can wait and must not hold up the event loop: snapshots after `checkpoint`
        or a roll, and the removal of files after `expire`, `delete_before` and compaction.
        """
        if self._ticket is not None:
            raise RuntimeError(f"a flush of {self.directory} is already under way")
        if self.offline:
            return None
        active = self._active
        logs = [segment.file for segment in self._unflushed]
        if self.end_offset > max(self.flushed_offset, active.base_offset):
            logs.append(active.file)
        whole = self._write_indexes() and self._checkpoint_due
        if whole:
            self._snapshots.request(self.end_offset, self.producers)
        if not (logs or whole or self._names_unsynced or self._snapshots.is_due or self._doomed):
            return None
        written, gone = self._snapshots.take(segment.base_offset for segment in self._segments)
        covered = [*self._unflushed, active] if whole else self._unflushed
        ticket = FlushTicket(
            directory=self.directory,
            end_offset=self.end_offset,
            end_segment=active,
            end_position=active.size,
            recovery_point=self.end_offset if whole else active.base_offset,
            logs=logs,
            indexes=[file for segment in covered for file in segment.unsynced_indexes()],
            sealed=tuple(self._unflushed),
            sync_names=self._names_unsynced,
            snapshots=written,
            unlink=[*self._doomed, *gone],
        )
        self._names_unsynced = False
        self._doomed = []
        if whole:
            self._checkpoint_due = False
        self._ticket = ticket
        return ticket

    def _write_indexes(self) -> bool:
        try:
            self._active.write_indexes()
        except OSError as error:
            _log.warning("cannot write index directory=%s reason=%r", self.directory, str(error))
            return False
        return True

    def complete_flush(self, ticket: FlushTicket) -> None:
        """The ticket has run: what it covers is exposed. If it failed, so does the log."""
        if self._ticket is not ticket:
            raise RuntimeError(f"this flush of {self.directory} is not under way")
        self._ticket = None
        if self.offline:
            return
        if not ticket.done:
            failure = ticket.failure
            self.fail(f"flush failed: {failure.strerror or failure if failure else 'not run'}")
            return
        self._unflushed = [each for each in self._unflushed if each not in ticket.sealed]
        for segment in ticket.sealed:
            if segment in self._segments:
                self._segments.keep_warm(segment)
        if ticket.is_proven:
            self.recovery_point = max(self.recovery_point, ticket.recovery_point)
        if ticket.end_offset > self.exposed_offset:
            self.flushed_offset = self.exposed_offset = ticket.end_offset
            self._expose(ticket.end_segment, ticket.end_position)

    def _expose(self, segment: Segment, position: int) -> None:
        """The exposed part ends here; where a segment is exposed whole, it does so in the next."""
        following = self._segments.after(segment) if position == segment.size else None
        if following is not None:
            segment, position = following, 0
        self._exposed = Exposed(self.exposed_offset, segment, position)

    def checkpoint(self, now_ms: int) -> tuple[int, int]:
        """Recovery point and start offset, to be written down. The next flush moves the former."""
        self.producers.expire(now_ms, self.config.producer_expiration_ms)
        self._checkpoint_due = self.recovery_point < self.end_offset
        return self.recovery_point, self.start_offset

    # Searching by time

    def offset_for_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """The first exposed record with this timestamp or a later one."""
        return self._search(
            lambda: first_reaching(
                timestamp, self._visible(), self.start_offset, self.config.index_interval_bytes
            )
        )

    def latest_timestamp(self) -> TimestampedOffset | None:
        """The exposed record with the highest timestamp."""
        return self._search(
            lambda: highest(self._visible(), self.start_offset, self.config.index_interval_bytes)
        )

    def _search(self, search: Callable[[], TimestampedOffset | None]) -> TimestampedOffset | None:
        if self.offline:
            raise LogOffline(self.offline)
        try:
            return search()
        except OSError as error:
            raise Unreadable(f"{self.directory}: {error.strerror or error}") from error
        except InvalidBatch as error:
            raise CorruptLog(f"{self.directory}: {error}") from error

    def _visible(self) -> Iterator[tuple[Segment, int]]:
        """Segments that are exposed, and up to where."""
        for segment in self._segments:
            if segment is self._exposed.segment:
                yield segment, self._exposed.position
                return
            yield segment, segment.size
            self._segments.keep_warm(segment)

    # Retiring segments

    def expire(self, now_ms: int) -> list[int]:
        """Remove what is too old or too much; the base offsets of the segments removed."""
        if self.offline:
            return []
        count = expired(list(self._segments), self.config, now_ms, self.exposed_offset)
        return self._remove_first(count)

    def delete_before(self, offset: int) -> None:
        """Hide the records below `offset`, and remove the segments that hold no others."""
        if self.offline:
            raise LogOffline(self.offline)
        if not 0 <= offset <= self.exposed_offset:
            raise OffsetOutOfRange(
                f"cannot delete before {offset}, only up to {self.exposed_offset}"
            )
        if offset <= self.start_offset:
            return
        self.start_offset = offset
        ends = [*(segment.base_offset for segment in self._segments), self.end_offset][1:]
        self._remove_first(bisect_right(ends, offset))
        self.epochs.drop_before(offset)

    def _remove_first(self, count: int) -> list[int]:
        """Remove segments of which all is exposed; for that the active one is sealed first."""
        try:
            if count == len(self._segments):
                if self.exposed_offset == self.end_offset and self._active.size:
                    self._roll()
                else:
                    count -= 1
            if count == 0:
                return []
            dropped = self._segments.drop_first(count)
            self._reader.forget()
            for segment in dropped:
                self._doomed += swap.retire(self.directory, segment.base_offset)
                if segment in self._unflushed:
                    self._unflushed.remove(segment)
        except OSError as error:
            raise self._failed("removing a segment", error) from error
        self.start_offset = max(self.start_offset, self._segments.first.base_offset)
        self.epochs.drop_before(self.start_offset)
        return [segment.base_offset for segment in dropped]

    def sealed_segments(self) -> list[SealedSegment]:
        """The segments that are wholly on disk and appended to no more, oldest first."""
        following = [segment.base_offset for segment in self._segments][1:]
        return [
            SealedSegment(segment.base_offset, end, segment.size, segment.last_append_ms)
            for segment, end in zip(self._segments, following, strict=False)
            if end <= self.flushed_offset and segment not in self._unflushed
        ]

    def replace_segments(self, cleaned: CleanedSegment) -> bool:
        """Put compaction's `.cleaned` files in the place of what they were made from.

        False if that is no longer there; the files are then removed. Blocks for one directory sync.
        """
        if self.offline:
            raise LogOffline(self.offline)
        bases = [segment.base_offset for segment in cleaned.replaces]
        old = [segment for segment in self._segments if segment.base_offset in bases]
        try:
            if [segment.base_offset for segment in old] != bases or self._active in old:
                self._doomed += swap.discard(self.directory, cleaned.base_offset)
                return False
            (self.directory / layout.COMPACTED).touch()
            swap.commit(self.directory, cleaned.base_offset)
            for base in bases:
                self._doomed += swap.retire(self.directory, base)
            swap.take_place(self.directory, cleaned.base_offset)
        except OSError as error:
            raise self._failed("swapping in a compacted segment", error) from error
        new = Segment(self.directory, cleaned.base_offset, cleaned.size, cleaned.last_append_ms)
        self._segments.replace(old, [new])
        self._reader.forget()
        return True

    # The end

    def close(self) -> None:
        """Flush everything and let go. Blocks. Raises `LogOffline` if not all is on disk."""
        if self._ticket is not None:
            self.complete_flush(self._ticket)
        if self.offline:
            raise LogOffline(self.offline)
        try:
            self._active.finish()
            self._checkpoint_due = True
            ticket = self.begin_flush()
            if ticket is not None:
                ticket.run()
                self.complete_flush(ticket)
        except OSError as error:
            raise self._failed("flush", error) from error
        self.abandon()

    def abandon(self) -> None:
        """Let go of the files as they are."""
        self.offline = self.offline or "closed"
        self._let_go()

    def delete(self) -> Path:
        """Let go, and rename the directory to one that `remove_deleted` removes; its new path."""
        self.abandon()
        doomed = self.directory.with_name(deleted_name(self.directory.name))
        self.directory.rename(doomed)
        return doomed

"""The log of one partition: appends, flushes, reads, rolls and removes segments.

Owns the partition's directory (files: see layout.py). Invariants:

    start_offset ≤ exposed_offset ≤ flushed_offset ≤ end_offset
    recovery_point ≤ flushed_offset: below it batches, indexes and names are all on disk

A batch is one `write` at the end of the active segment. It is flushed when a `FlushTicket` that was
begun after it has run and been completed. Consumers see nothing that is not flushed, here and, with
other replicas, there: `replicated` sets how far those are. All methods belong to the event loop's
thread, except `create` and `open`, and the work of a ticket.

A leader gives each batch its offset and epoch (`append`); a follower's batches have theirs
(`append_copy`). Batches that its leader does not have are removed (`truncate`, `begin_anew`).

A batch is written whole or not at all: a partial write is cut off again. A lack of room is
`DiskFull`, and any other obstacle to opening or beginning a segment `NotWritten`: nothing has
changed, and the next append retries. Any other failure to write a batch or to cut it off again, and
a failed flush, take the log offline until the broker restarts: it cannot be known what the kernel
did with its pages. So does a segment that was written to by something else.

A segment is finished before the next begins; a crash between the two leaves one that is full, or
one that is empty. Any crash leaves whole batches up to `flushed_offset`, and anything after them;
`open` determines what is valid (recovery.py).

Specified in docs/replication-spec.md: `Flush`, `Trim` (R1, R3).
"""

import logging
import os
from bisect import bisect_right
from math import inf
from pathlib import Path
from typing import Self
from uuid import UUID

from broker.storage import layout
from broker.storage.cleaning import swap
from broker.storage.cleaning.cleaner import CleanedSegment, SealedSegment
from broker.storage.config import LogConfig
from broker.storage.directory import identity
from broker.storage.directory.acknowledged import Slot
from broker.storage.directory.directories import mark_deleted
from broker.storage.errors import (
    NO_SPACE,
    Altered,
    BytesUnreadable,
    CorruptLog,
    DiskFull,
    LogOffline,
    NotWritten,
    OffsetOutOfRange,
    OtherBatch,
)
from broker.storage.flush import FlushTicket, PendingFlush
from broker.storage.log_reader import LogReader
from broker.storage.recovery.recovery import RecoveredLog, nothing_yet, recover
from broker.storage.recovery.truncation import Truncation
from broker.storage.retention import expired
from broker.storage.segments.batches import Appended
from broker.storage.segments.segment import MAX_POSITION, UNPREPARED, Segment
from broker.storage.segments.segments import Segments
from broker.storage.segments.timestamps import TimestampedOffset
from broker.storage.state.repeated_batches import is_repeated
from wire.errors import ErrorCode
from wire.framing.slices import FileSlice
from wire.record_batches.batch import NO_PRODUCER, BatchHeader, stamp

_log = logging.getLogger(__name__)


class Log:
    """The log of one partition. `offline` has the reason if the log has failed."""

    __slots__ = (
        "_active", "_active_fd", "_active_since_ms", "_pending", "_reader", "_replicated",
        "_segments", "config", "directory", "end_offset", "epochs", "exposed_offset",
        "flushed_offset", "holds_transactions", "offline", "producers", "recovery_point",
        "start_offset", "topic_id",
    )  # fmt: skip

    def __init__(
        self,
        directory: Path,
        topic_id: UUID,
        config: LogConfig,
        recovered: RecoveredLog,
        replicated: float = inf,
    ) -> None:
        self.directory = directory
        self.topic_id = topic_id
        self.config = config
        self.offline = ""
        self.holds_transactions = (directory / layout.TRANSACTIONS).exists()
        self._replicated = replicated
        self._adopt(recovered)

    def _adopt(self, recovered: RecoveredLog) -> None:
        """Take over the result of recovery. All of that is on disk."""
        self.start_offset = recovered.start_offset
        self.end_offset = self.flushed_offset = recovered.end_offset
        self.exposed_offset = int(min(self.end_offset, max(self.start_offset, self._replicated)))
        self.recovery_point = recovered.recovery_point
        self.producers = recovered.producers
        self.epochs = recovered.epochs
        self._segments = Segments(recovered.segments)
        self._pending = PendingFlush(self.directory, recovered.snapshots)
        self._reader = LogReader(self.directory, self._segments)
        self._active = self._segments.active
        self._active_fd = -1  # once it is prepared
        self._active_since_ms = recovered.active_since_ms  # when it was first appended to
        self._reader.expose_before(self.exposed_offset)

    @classmethod
    def create(
        cls,
        directory: Path,
        topic_id: UUID,
        config: LogConfig,
        first: int = 0,
        *,
        replicated: float = inf,
    ) -> Self:
        """Creates a log. Blocks; any thread. The log becomes durable with its first batch; at once
        if it begins at a later offset than 0, which is not recorded elsewhere."""
        identity.create_partition_directory(directory, topic_id)
        recovered_log = nothing_yet(directory, first, config.index_interval_bytes)
        log = cls(directory, topic_id, config, recovered_log, replicated)
        log._pending.is_new = True
        if first:
            log._pending.note_new_file()
            log._settle()
        log.rest()
        return log

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
        reached: int = 0,
        replicated: float = inf,
    ) -> Self:
        """Opens and recovers an existing log. Blocks; any thread. Raises `CorruptLog`.

        `recovery_point` and `start_offset` are those of the last `checkpoint` that was written
        down; `clean` means that the broker's last stop was clean. The directory has its own
        evidence of all three, which takes precedence. The log must not end before `reached`.
        Everything before `replicated` is known to be on the other replicas.
        """
        topic_id = identity.read_topic_id(directory)
        try:
            recovered_log = recover(
                directory, config, recovery_point, start_offset, clean=clean, reached=reached
            )
        except OSError as error:
            raise BytesUnreadable(f"{directory}: {error.strerror or error}") from error
        recovered_log.producers.expire(now_ms, config.producer_expiration_ms)
        log = cls(directory, topic_id, config, recovered_log, replicated)
        log._pending.is_new = not recovered_log.end_offset
        return log

    def reconfigure(self, config: LogConfig) -> None:
        self.config = config
        self._active.roll_at_ms = UNPREPARED

    def begin_epoch(self, leader_epoch: int, offset: int | None = None) -> None:
        """Begins a leader's epoch, to which later batches belong; `append` calls it if
        necessary."""
        self.epochs.assign(leader_epoch, self.end_offset if offset is None else offset)

    def remember(self, slot: Slot) -> None:
        """Records the log's end in this slot with each flush from now on."""
        self._pending.slot = slot

    @property
    def active_path(self) -> Path:
        return self._active.path(layout.LOG)

    @property
    def size(self) -> int:
        return self._segments.size

    # Files

    def is_in_active(self, offset: int) -> bool:
        return offset >= self._active.base_offset

    def rest(self) -> bool:
        """Closes all files until they are needed; returns False if something is unflushed. The
        kernel reports failed writes only to a process that has the file open: so unflushed files
        stay open. Slices in use keep their files."""
        is_unflushed = (
            self._pending.ticket or self._pending.is_owed or self.flushed_offset < self.end_offset
        )
        return not (is_unflushed or self.offline) and self._segments.rest()

    # Appending

    def append(
        self, batch: memoryview, header: BatchHeader, leader_epoch: int, now_ms: int
    ) -> Appended:
        """Writes the one checked batch in `batch`, which is stamped in place."""
        if self.offline:
            raise LogOffline(self.offline)
        if header.producer_id != NO_PRODUCER:
            original = self.producers.check(header)
            if original is not None:
                self._check_repeated(batch, header, original)
                return Appended(original, original + header.last_offset_delta, True)
        base_offset = self.end_offset
        stamp(batch, base_offset, leader_epoch)
        return self._add(batch, header, base_offset, leader_epoch, now_ms)

    def _check_repeated(self, batch: memoryview, header: BatchHeader, original: int) -> None:
        """Raise `OtherBatch` unless it is the batch at that offset, as far as that still exists."""
        if original < self.start_offset:
            return
        stored_batch = self.read(original, 1, committed=False)
        if stored_batch is not None and not is_repeated(batch, original, stored_batch):
            raise OtherBatch(
                ErrorCode.out_of_order_sequence_number,
                f"producer {header.producer_id} reused sequence {header.base_sequence} for other "
                f"records than those at offset {original}",
            )

    def append_copy(
        self, batch: memoryview, header: BatchHeader, now_ms: int, leader_epoch: int | None = None
    ) -> Appended:
        """Writes one checked batch of the leader unchanged: at this log's end, or after a gap if
        the leader has compacted. `leader_epoch` is the batch's epoch, if that differs from its
        header. Raises `NotNext`."""
        if self.offline:
            raise LogOffline(self.offline)
        if header.base_offset != self.end_offset or not header.record_count:
            swap.expect_gap(self.directory, self.end_offset, header.base_offset)
            self._reader.compacted = True
        if header.is_transactional and not self.holds_transactions:
            self.holds_transactions = swap.note_transactions(self.directory)
        epoch = header.leader_epoch if leader_epoch is None else leader_epoch
        return self._add(batch, header, header.base_offset, epoch, now_ms)

    def _add(
        self, batch: memoryview, header: BatchHeader, base_offset: int, epoch: int, now_ms: int
    ) -> Appended:
        last_offset = base_offset + header.last_offset_delta
        try:
            self._write(batch, header, base_offset, last_offset, now_ms)
        except OSError as error:
            raise self._failed("append", error) from error
        except Altered as error:
            self.fail(str(error))
            raise LogOffline(self.offline) from error
        if epoch != self.epochs.latest:
            self.begin_epoch(epoch, base_offset)
        self.end_offset = last_offset + 1
        if header.producer_id != NO_PRODUCER:
            self.producers.record(header, base_offset, now_ms)
        return Appended(base_offset, last_offset, False)

    def _write(
        self,
        batch: memoryview,
        header: BatchHeader,
        base_offset: int,
        last_offset: int,
        now_ms: int,
    ) -> None:
        segment, length = self._active, len(batch)
        position = segment.size
        if (
            position + length > segment.roll_size
            or now_ms >= segment.roll_at_ms
            or last_offset - segment.base_offset > MAX_POSITION
        ):
            segment = self._make_room(length, base_offset, last_offset, now_ms)
            position = segment.size
        try:
            written_bytes = os.write(self._active_fd, batch)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            written_bytes = 0
        if written_bytes != length:
            os.ftruncate(self._active_fd, position)
            raise DiskFull(f"cannot write a batch in {self.directory}")
        segment.size = position + length
        segment.last_append_ms = now_ms
        if (timestamp := header.max_timestamp) > segment.max_timestamp:
            segment.max_timestamp = timestamp
            segment.max_timestamp_offset = last_offset
        if position > segment.index_due:
            segment.index_batch(last_offset, position, self.config.index_interval_bytes)
            if segment.index_entries >= self.config.max_index_entries:
                segment.roll_size = 0

    def _make_room(self, length: int, base_offset: int, last_offset: int, now_ms: int) -> Segment:
        """The segment for the next batch: the active one, or a new one."""
        segment = self._active
        try:
            if segment.roll_at_ms == UNPREPARED:
                self._prepare(segment, now_ms)
            if last_offset - segment.base_offset > MAX_POSITION or (
                segment.size
                and (segment.size + length > segment.roll_size or now_ms >= segment.roll_at_ms)
            ):
                self._roll(base_offset)
                segment = self._active
                self._prepare(segment, now_ms)
        except OSError as error:
            raise NotWritten.because(
                error, f"cannot begin a segment in {self.directory}"
            ) from error
        return segment

    def _prepare(self, segment: Segment, now_ms: int) -> None:
        """Open the segment for appending, and determine when the next one is to begin."""
        config = self.config
        if segment.size == 0:
            self._active_since_ms = now_ms
        self._active_fd = segment.appendable().fd
        segment.roll_at_ms = min(self._active_since_ms, now_ms) + config.segment_ms
        is_full = segment.index_entries >= config.max_index_entries
        segment.roll_size = 0 if is_full else min(config.segment_bytes, MAX_POSITION)

    def _roll(self, end_offset: int) -> None:
        """Seal the active segment and begin the next. Nothing has changed if this raises."""
        sealed_segment = self._active
        sealed_segment.finish()
        new_segment = Segment.create(self.directory, end_offset, self.config.index_interval_bytes)
        self._active = new_segment
        self._segments.add(new_segment)
        self._pending.seal(sealed_segment, end_offset, self.producers)
        self._reader.rolled(end_offset, new_segment)

    def _failed(self, what: str, error: OSError) -> LogOffline:
        self.fail(f"{what} failed: {error.strerror or error}")
        return LogOffline(self.offline)

    def fail(self, reason: str) -> None:
        """Takes the log offline for good. Slices in use stay readable."""
        if not self.offline:
            _log.error("log offline directory=%s reason=%r", self.directory, reason)
            self._let_go(reason)

    def _let_go(self, reason: str) -> None:
        self.offline = reason
        self._segments.let_go()
        self._reader.forget()

    # Reading

    def read(self, offset: int, max_bytes: int, *, committed: bool = True) -> FileSlice | None:
        """Returns whole batches from `offset` on, at least one; None if nothing more is exposed
        (for a reader of uncommitted batches: stored)."""
        if self.offline:
            raise LogOffline(self.offline)
        end = self.exposed_offset if committed else self.end_offset
        if not self.start_offset <= offset < end:
            if end <= offset <= self.end_offset:
                return None
            raise OffsetOutOfRange(
                f"offset {offset} is outside {self.start_offset} to {self.end_offset}"
            )
        interval = self.config.index_interval_bytes
        if committed:
            return self._reader.slice(offset, max_bytes, interval)
        return self._reader.slice_of_all(offset, end, max_bytes, interval)

    def offset_for_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """Returns the first exposed record with this timestamp or a later one; None if there is
        none."""
        if self.offline:
            raise LogOffline(self.offline)
        interval = self.config.index_interval_bytes
        return self._reader.first_reaching(timestamp, self.start_offset, interval)

    def latest_timestamp(self) -> TimestampedOffset | None:
        if self.offline:
            raise LogOffline(self.offline)
        return self._reader.highest(self.start_offset, self.config.index_interval_bytes)

    # Flushing

    def begin_flush(self) -> FlushTicket | None:
        """Returns a ticket for everything that is not on disk; None if everything is. There is one
        ticket at a time.

        Also includes work that can wait and must not delay the event loop: snapshots after
        `checkpoint` or a roll, and the removal of files after `expire`, `delete_before` and
        compaction.
        """
        if self._pending.ticket is not None:
            raise RuntimeError(f"a flush of {self.directory} is already under way")
        if self.offline:
            return None
        bounds = self.start_offset, self.flushed_offset, self.end_offset
        return self._pending.cut(self._segments, *bounds, self.producers, epochs=self.epochs)

    def complete_flush(self, ticket: FlushTicket) -> None:
        """Exposes the records of a ticket that has run; fails the log if the ticket failed."""
        self._pending.complete(ticket)
        if self.offline:
            return
        if not ticket.done:
            self.fail(ticket.reason)
            return
        for segment in ticket.sealed:
            if segment in self._segments:
                self._segments.keep_warm(segment)
        if ticket.epochs_unwritten:
            self.epochs.put_back()
        if ticket.is_whole:
            self.recovery_point = max(self.recovery_point, ticket.recovery_point)
        self.flushed_offset = ticket.end_offset
        if self._replicated >= ticket.end_offset:
            self.exposed_offset = ticket.end_offset
            self._reader.expose(ticket.end_offset, ticket.end_segment, ticket.end_position)
        else:
            self._expose()

    def replicated(self, offset: float) -> None:
        """Notes that the other replicas have flushed everything before `offset`; `inf` without
        others. Consumers see those records once they are flushed here, too; records that are
        exposed stay exposed."""
        self._replicated = offset
        self._expose()

    def _expose(self) -> None:
        offset = int(min(self._replicated, self.flushed_offset))
        if offset > self.exposed_offset:
            self.exposed_offset = offset
            self._reader.expose_before(offset)

    def checkpoint(self, now_ms: int, *, is_turn: bool = True) -> tuple[int, int]:
        """Returns the recovery point and start offset for a checkpoint file. Flushes move the
        recovery point."""
        self.producers.expire(now_ms, self.config.producer_expiration_ms)
        if self.recovery_point < self.end_offset:
            self._pending.checkpoint(self._active, is_turn=is_turn)
        return self.recovery_point, self.start_offset

    # Retiring segments

    def expire(self, now_ms: int) -> list[int]:
        """Drops segments that are too old or too many; returns their base offsets."""
        if self.offline:
            return []
        count = expired(
            list(self._segments), self.config, now_ms, self.start_offset, self.exposed_offset
        )
        return self._remove_first(count)

    def delete_before(self, offset: int) -> None:
        """Hides the records below `offset`, and removes segments that have only such records.

        The next flush removes their files. A crash before it may bring the records back.
        """
        if self.offline:
            raise LogOffline(self.offline)
        if not 0 <= offset <= self.exposed_offset:
            raise OffsetOutOfRange(f"cannot delete before {offset}, only to {self.exposed_offset}")
        if offset <= self.start_offset:
            return
        try:
            layout.numbered(self.directory, offset, layout.START).touch()
        except OSError as error:
            raise NotWritten.because(
                error, f"cannot record the new start in {self.directory}"
            ) from error
        self._pending.unlink([layout.numbered(self.directory, self.start_offset, layout.START)])
        self._pending.note_new_file()
        self.start_offset = offset
        end_offsets = [*(segment.base_offset for segment in self._segments), self.end_offset][1:]
        self._remove_first(bisect_right(end_offsets, offset))
        self.epochs.drop_before(self.start_offset)

    def _remove_first(self, count: int) -> list[int]:
        """Drop fully exposed segments; if that includes the active one, it is sealed first."""
        if count == len(self._segments) and not self._seal_exposed():
            count -= 1
        if count == 0:
            return []
        dropped_segments = self._segments.drop_first(count)
        self._reader.forget()
        self._pending.remove(dropped_segments)
        self.start_offset = max(self.start_offset, self._segments.first.base_offset)
        self.epochs.drop_before(self.start_offset)
        return [segment.base_offset for segment in dropped_segments]

    def _seal_exposed(self) -> bool:
        """Seal the active segment, if it is fully exposed and the next can be begun."""
        if not self._active.size or self.exposed_offset < self.end_offset:
            return False
        try:
            self._roll(self.end_offset)
        except OSError as error:
            _log.warning(
                "cannot seal segment directory=%s reason=%r", self.directory, error.strerror
            )
            return False
        return True

    # Compaction

    def sealed_segments(self) -> list[SealedSegment]:
        """Returns the sealed segments that are fully exposed, oldest first."""
        next_bases = [segment.base_offset for segment in self._segments][1:]
        return [
            SealedSegment(segment.base_offset, end, segment.size, segment.last_append_ms)
            for segment, end in zip(self._segments, next_bases, strict=False)
            if end <= self.exposed_offset and not self._pending.covers(segment)
        ]

    def replace_segments(self, cleaned: CleanedSegment) -> bool:
        """Replaces the sources of a compaction with its `.cleaned` files.

        False if the sources no longer exist; the files are then removed. Blocks for a directory
        sync.
        """
        if self.offline:
            raise LogOffline(self.offline)
        bases = [segment.base_offset for segment in cleaned.replaces]
        old_segments = [segment for segment in self._segments if segment.base_offset in bases]
        if [
            segment.base_offset for segment in old_segments
        ] != bases or self._active in old_segments:
            self._pending.unlink(swap.cleaned_files(self.directory, cleaned.base_offset))
            return False
        try:
            self._pending.unlink(swap.swap_in(self.directory, bases, cleaned.next_offset))
        except OSError as error:
            raise self._failed("swap of a compacted segment", error) from error
        new_segment = Segment(
            self.directory, cleaned.base_offset, cleaned.size, cleaned.last_append_ms
        )
        self._segments.replace(old_segments, [new_segment])
        self._reader.forget()
        self._reader.compacted = True
        return True

    # Going back

    def truncate(self, offset: int, now_ms: int) -> None:
        """Removes everything from `offset` on, including the whole batch that holds it, also from
        producer states, epochs, indexes and readers. Blocks; meanwhile nothing else uses the log,
        and no flush is in progress. After a crash in between, the log can be truncated again."""
        self._settle()
        if offset < self.end_offset:
            interval = self.config.index_interval_bytes
            truncation = Truncation.at(offset, self._segments, self.start_offset, interval)
            self._go_back(truncation, now_ms)

    def begin_anew(self, offset: int, now_ms: int) -> None:
        """Removes everything; the next record has this offset. Otherwise like `truncate`."""
        self._settle()
        self._go_back(Truncation(offset, None), now_ms)

    def _go_back(self, truncation: Truncation, now_ms: int) -> None:
        exposed_offset, slot = self.exposed_offset, self._pending.slot
        try:
            if slot is not None:  # nothing is claimed until the log is in its new state
                slot.note(max(self.start_offset, truncation.end), 0)
                slot.sync()
            self._segments.let_go()
            if self._pending.is_new:
                identity.sync_partition_directory(self.directory)
            truncation.carry_out(self.directory, self.config.index_interval_bytes)
            recovered_log = recover(self.directory, self.config, 0, 0, clean=True)
        except OSError as error:
            raise self._failed("truncation", error) from error
        except CorruptLog as error:
            self.fail(str(error))
            raise
        recovered_log.producers.expire(now_ms, self.config.producer_expiration_ms)
        self._adopt(recovered_log)
        self._pending.slot = slot
        if slot is not None:
            slot.note(self.start_offset, self.end_offset)
        self.exposed_offset = min(self.end_offset, max(exposed_offset, self.start_offset))
        self._reader.expose_before(self.exposed_offset)
        if self._replicated < inf:  # their offsets in the old log mean nothing here
            self._replicated = min(self._replicated, self.end_offset)

    # The end

    def close(self) -> None:
        """Flushes everything and closes the files. Blocks. Raises `LogOffline` if that fails."""
        if self._pending.ticket is not None:
            self.complete_flush(self._pending.ticket)
        if not self.offline and self.recovery_point < self.end_offset:
            self._finish_active()
            self._pending.checkpoint(self._active)
        self._settle()
        self._let_go("closed")

    def _settle(self) -> None:
        if self.offline:
            raise LogOffline(self.offline)
        ticket = self.begin_flush()
        if ticket is not None:
            try:
                ticket.run()
            except OSError as error:
                raise self._failed("flush", error) from error
            self.complete_flush(ticket)

    def _finish_active(self) -> None:
        try:
            self._active.finish()
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise self._failed("flush", error) from error

    def abandon(self) -> None:
        self._let_go(self.offline or "closed")

    def delete(self) -> Path:
        """Closes the files, and renames the directory for `remove_deleted`; returns its new
        path."""
        self._let_go("deleted")
        return mark_deleted(self.directory)

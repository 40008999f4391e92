"""Flushes a log: collects unflushed parts, and makes tickets that flush them.

`PendingFlush` collects what is due, on the event loop's thread. A `FlushTicket` is cut from it,
runs on any other thread, and is completed on the event loop. It touches files only, never the log,
in an order that crash safety depends on: first the batches; then their leaders' epochs, and the
indexes, where these are to be trusted below the recovery point; then the names of files; then the
snapshots of producer states, which claim that everything before them is on disk, and the slot that
records the partition's end (acknowledged.py). Only then are files unlinked, and a segment only when
the log's new start is recorded durably.

A non-empty index proves that there was a log. So nothing is written to the indexes of a segment
before its name is durable: the ticket that syncs the name writes them after that.

A new log does not wait for the disk before it has a batch: the ticket that covers the first one
syncs the directory as well. What a loss of power leaves of it before that is worthless.

Data written to a file that was removed or replaced is lost: a flush that finds such a file fails.

A log has one ticket under way at a time: an error of `fdatasync` is reported once, and must not be
consumed by a second ticket that then succeeds.

Most tickets are plain: some batches, and the slot. Many such, of as many logs, are run together:
the interpreter lock is released twice in total, rather than four times for each.
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from broker.storage.directory.acknowledged import Slot
from broker.storage.directory.identity import sync_partition_directory
from broker.storage.segments.files import OpenFile
from broker.storage.segments.index import IndexTail
from broker.storage.segments.many_files import Fault, Piece, sync_all, write_all
from broker.storage.segments.segment import Segment
from broker.storage.segments.segments import Segments
from broker.storage.state.epochs import LeaderEpochs
from broker.storage.state.producers import ProducerStates
from broker.storage.state.snapshots import Snapshots, write_snapshot
from ground.files.durable_files import sync_directory, sync_file

_MUCH_INDEXED: Final = 4096  # bytes of entries that stay in memory until the next checkpoint
_MUCH_BEHIND: Final = 4 * 1024 * 1024  # for recovery to read of one log

_log = logging.getLogger(__name__)


class FlushTicket(msgspec.Struct, kw_only=True):
    """One flush: `run` it once, on any thread, then complete it."""

    directory: Path
    end_offset: int  # the log's end when this was cut
    end_segment: Segment
    end_position: int
    recovery_point: int  # below it, the indexes are on disk too after this
    logs: Sequence[OpenFile]
    indexes: Sequence[Path]
    tails: Sequence[IndexTail]  # of other indexes; written once their segments' names last
    sealed: Sequence[Segment]  # whose files are covered
    named: Sequence[Segment]  # whose names become durable
    sync_names: bool
    sync_place: bool  # the directory itself, with its owner
    snapshots: Sequence[tuple[int, ProducerStates]]
    superfluous: Sequence[Path]  # older snapshots
    remove: Sequence[Path]  # files of segments; not before the snapshots' names are durable
    slot: Slot | None
    start_offset: int  # the log's start when this was cut
    save_epochs: Callable[[], None] | None  # if they have changed
    done: bool = False
    unwritten: list[int] = []  # snapshots not written for want of room
    epochs_unwritten: bool = False
    failure: OSError | None = None

    @property
    def is_whole(self) -> bool:
        """Whether recovery may skip the part that this flush covers."""
        has_unwritten = self.unwritten or self.epochs_unwritten
        return not has_unwritten and all(tail.written for tail in self.tails)

    @property
    def is_plain(self) -> bool:
        """Whether the flush covers only batches, and does not delay flushes that run with it."""
        return not (
            self.sealed or self.indexes or self.tails or self.sync_names or self.sync_place
            or self.snapshots or self.superfluous or self.remove or self.save_epochs
        )  # fmt: skip

    def run(self) -> None:
        """Flushes. Blocks. After an `OSError` the log must fail: the flush must not be retried."""
        run_all([self])
        if self.failure is not None:
            raise self.failure

    def finish(self) -> bool:
        """Flushes everything after the batches except the slot; returns whether that succeeded."""
        try:
            self._write_epochs()
            for path in self.indexes:
                with contextlib.suppress(FileNotFoundError):  # it is a hint, and not essential
                    sync_file(path)
            if self.sync_place:
                sync_partition_directory(self.directory)
            elif self.sync_names:
                sync_directory(self.directory)
            for tail in self.tails:
                tail.write()
            for offset, producers in self.snapshots:
                self._write_snapshot(offset, producers)
            if self.remove:
                sync_directory(self.directory)
        except OSError as error:
            self.failure = error
            return False
        return True

    def noting(self) -> Piece | None:
        """Returns the slot's new contents; None if they are unchanged, or the log has no slot."""
        return None if self.slot is None else self.slot.noting(self.start_offset, self.end_offset)

    def end(self, fault: Fault) -> None:
        """Ends the flush. `fault` is why the slot was not written. A later loss of offsets that the
        slot lacks goes unnoticed, but segments must not be removed without the slot."""
        if self.remove and self.slot is not None and fault is None:
            try:
                self.slot.sync()
            except OSError as error:
                fault = error
        if fault is not None:
            _log.warning(
                "cannot record end of log directory=%s end_offset=%d reason=%r",
                self.directory, self.end_offset, fault.strerror,
            )  # fmt: skip
        self.done = True
        for path in (*self.superfluous, *(self.remove if fault is None else ())):
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                _log.warning("cannot remove file path=%s reason=%r", path, error.strerror)

    def _write_epochs(self) -> None:
        """Without them recovery reads more, and finds them in the batches."""
        if self.save_epochs is None:
            return
        try:
            self.save_epochs()
        except OSError as error:
            self.epochs_unwritten = True
            _log.warning(
                "cannot save epochs directory=%s reason=%r", self.directory, error.strerror
            )

    def _write_snapshot(self, offset: int, producers: ProducerStates) -> None:
        """Without one recovery reads more, which is no reason to take the log offline."""
        try:
            write_snapshot(self.directory, offset, producers)
        except OSError as error:
            self.unwritten.append(offset)
            _log.warning(
                "cannot write snapshot directory=%s offset=%d reason=%r",
                self.directory, offset, error.strerror,
            )  # fmt: skip

    @property
    def reason(self) -> str:
        failure = self.failure
        return (
            f"flush failed: {failure.strerror or failure}" if failure else "the flush did not run"
        )


def run_all(tickets: Sequence[FlushTicket]) -> None:
    """Runs tickets together, on any thread. Blocks. Each ticket records whether it is `done`."""
    faults = iter(sync_all([file for ticket in tickets for file in ticket.logs]))
    for ticket in tickets:
        ticket_faults = list(islice(faults, len(ticket.logs)))
        ticket.failure = next(filter(None, ticket_faults), None)
    sound_tickets = [ticket for ticket in tickets if ticket.failure is None and ticket.finish()]
    pieces = [ticket.noting() for ticket in sound_tickets]
    faults = iter(write_all([piece for piece in pieces if piece is not None]))
    for ticket, piece in zip(sound_tickets, pieces, strict=True):
        ticket.end(None if piece is None else next(faults))
    for ticket in tickets:
        if ticket.failure is not None:
            _log.error("flush failed directory=%s error=%r", ticket.directory, str(ticket.failure))


class PendingFlush:
    """The parts of a log that are not yet on disk, apart from the active segment's end."""

    __slots__ = (
        "_checkpoint", "_directory", "_doomed", "_names", "_recovered", "_sealed", "_snapshots",
        "_ticket", "is_new", "slot",
    )  # fmt: skip

    def __init__(self, directory: Path, snapshots: Iterable[int]) -> None:
        self._directory = directory
        self._snapshots = Snapshots(directory, snapshots)
        self._sealed: list[Segment] = []
        self._names = False
        self.is_new = False  # its directory may not be durable, and must be with the first batch
        self._doomed: list[Path] = []
        self._checkpoint = False
        self._recovered = 0, 0  # a segment, and the position up to which recovery does not read it
        self._ticket: FlushTicket | None = None
        self.slot: Slot | None = None  # the record of the partition's end

    def seal(self, segment: Segment, end_offset: int, producers: ProducerStates) -> None:
        """Notes that a segment was sealed, and another begun at `end_offset`."""
        self._sealed.append(segment)
        self._names = True
        self._snapshots.request(end_offset, producers)

    def note_new_file(self) -> None:
        """Notes that a file was created, so that the next flush makes its name durable."""
        self._names = True

    def unlink(self, paths: Iterable[Path]) -> None:
        """Removes these files, once everything else is on disk."""
        self._doomed += paths

    def checkpoint(self, active: Segment, *, is_turn: bool = True) -> None:
        """Makes the next ticket move the recovery point to the end of the log, if it is this log's
        turn, or much has been written since that point."""
        base, position = self._recovered
        unrecovered_bytes = active.size - (position if base == active.base_offset else 0)
        if is_turn or unrecovered_bytes >= _MUCH_BEHIND:
            self._checkpoint = True

    @property
    def ticket(self) -> FlushTicket | None:
        return self._ticket

    def remove(self, segments: Sequence[Segment]) -> None:
        """Notes that the log's first segments are removed, so that they need no flush.

        Their files go after the snapshot at the new start, so that their producers' states are not
        forgotten, and the oldest first, so that there is never a gap.
        """
        self._sealed = [segment for segment in self._sealed if segment not in segments]
        self._doomed += (path for segment in segments for path in segment.paths())

    @property
    def is_owed(self) -> bool:
        """Whether there are unflushed sealed segments."""
        return bool(self._sealed)

    def covers(self, segment: Segment) -> bool:
        return segment in self._sealed

    def cut(
        self,
        segments: Segments,
        start_offset: int,
        flushed_offset: int,
        end_offset: int,
        producers: ProducerStates,
        *,
        epochs: LeaderEpochs,
    ) -> FlushTicket | None:
        """Returns a ticket for everything due; None if nothing is. Epochs wait for their first
        batch."""
        active_segment = segments.active
        logs = [segment.file for segment in self._sealed]
        if end_offset > max(flushed_offset, active_segment.base_offset):
            logs.append(active_segment.file)
        is_whole = self._checkpoint and self._write_indexes(active_segment)
        if is_whole:
            self._checkpoint = False
            self._snapshots.request(end_offset, producers)
        elif not self._checkpoint:
            self._write_indexes(active_segment, from_bytes=_MUCH_INDEXED)
        if not (logs or is_whole or self._names or self._snapshots.is_due or self._doomed):
            return None
        snapshots, superfluous_paths = self._snapshots.take(
            segment.base_offset for segment in segments
        )
        covered_segments = [*self._sealed, active_segment] if is_whole else self._sealed
        named_segments = tuple(
            segment for segment in (*self._sealed, active_segment) if not segment.lasts
        )
        self._ticket = FlushTicket(
            directory=self._directory,
            end_offset=end_offset,
            end_segment=active_segment,
            end_position=active_segment.size,
            recovery_point=end_offset if is_whole else active_segment.base_offset,
            logs=logs,
            indexes=[path for segment in covered_segments for path in segment.unsynced_indexes()],
            tails=[tail for segment in covered_segments for tail in segment.tails()],
            sealed=tuple(self._sealed),
            named=named_segments,
            sync_names=self._names or bool(named_segments),
            sync_place=self.is_new,
            snapshots=snapshots,
            superfluous=superfluous_paths,
            remove=self._doomed,
            slot=self.slot,
            start_offset=start_offset,
            save_epochs=partial(epochs.write, taken_epochs)
            if (taken_epochs := epochs.take())
            else None,
        )
        self._names = False
        self._doomed = []
        return self._ticket

    def _write_indexes(self, active: Segment, *, from_bytes: int = 0) -> bool:
        try:
            active.write_indexes(from_bytes)
        except OSError as error:
            _log.warning("cannot write index directory=%s reason=%r", self._directory, str(error))
            return False
        return True

    def complete(self, ticket: FlushTicket) -> None:
        if self._ticket is not ticket:
            raise RuntimeError(f"this flush of {self._directory} is not under way")
        self._ticket = None
        self._snapshots.put_back(
            (offset, producers)
            for offset, producers in ticket.snapshots
            if offset in ticket.unwritten
        )
        for tail in ticket.tails:
            tail.end()
        if ticket.done:
            self.is_new = False
            if ticket.is_whole and ticket.recovery_point == ticket.end_offset:
                self._recovered = ticket.end_segment.base_offset, ticket.end_position
            for segment in ticket.named:
                segment.lasts = True
            self._sealed = [
                sealed_segment
                for sealed_segment in self._sealed
                if sealed_segment not in ticket.sealed
            ]

"""What a log owes the disk, and the tickets with which it is paid.

`PendingFlush` gathers what is due, on the event loop's thread. A `FlushTicket` is cut from it, runs
on any other, and comes back to be completed. It touches files only, never the log; its order is the
proof: first the batches; then their leaders' epochs, and the indexes, where they are to be trusted
below the recovery point; then the names of files; then the snapshots of producer states, which
claim that all before them is there, and the slot in which the partition is remembered
(acknowledged.py). Only then is anything unlinked, and a segment only when its end as a part of the
log is remembered for good.

An index that says something tells that there was a log. So nothing is written to the indexes of a
segment before its name lasts: the ticket that names it writes them behind that.

Of a new log nothing waits for the disk before there is a batch: the ticket that covers the first
one brings the directory there as well. What a loss of power leaves of it until then is of no worth.

A file that was removed, or replaced by another, takes what is written to it with it: a flush that
finds one fails.

A log has one ticket under way at a time: an error of `fdatasync` is reported once, and must not be
missed by a second one that finds all well.

Most tickets are plain: some batches, and the slot. Many such, of as many logs, are run together:
the interpreter is let go of twice, not four times for each.
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from broker.storage.acknowledged import Slot
from broker.storage.epochs import LeaderEpochs
from broker.storage.files import OpenFile
from broker.storage.identity import sync_partition_directory
from broker.storage.index import IndexTail
from broker.storage.many_files import Fault, Piece, sync_all, write_all
from broker.storage.producers import ProducerStates
from broker.storage.segment import Segment
from broker.storage.segments import Segments
from broker.storage.snapshots import Snapshots, write_snapshot
from ground.durable_files import sync_directory, sync_file

_MUCH_INDEXED: Final = 4096  # bytes of entries that stay in memory until the next checkpoint
_MUCH_BEHIND: Final = 4 * 1024 * 1024  # for a recovery to read of one log

_log = logging.getLogger(__name__)


class FlushTicket(msgspec.Struct, kw_only=True):
    """One flush: `run` it once, on any thread, then complete it."""

    directory: Path
    end_offset: int  # where the log ended when this was cut
    end_segment: Segment
    end_position: int
    recovery_point: int  # below it, the indexes are on disk too when this has run
    logs: Sequence[OpenFile]
    indexes: Sequence[Path]
    tails: Sequence[IndexTail]  # what goes into other indexes, once their segments' names last
    sealed: Sequence[Segment]  # whose files are covered
    named: Sequence[Segment]  # whose names will last
    sync_names: bool
    sync_place: bool  # the directory itself, and whose it is
    snapshots: Sequence[tuple[int, ProducerStates]]
    superfluous: Sequence[Path]  # older snapshots
    remove: Sequence[Path]  # files of segments; not before the snapshots' names will last
    slot: Slot | None
    start_offset: int  # where the log began when this was cut
    save_epochs: Callable[[], None] | None  # if they have changed
    done: bool = False
    unwritten: list[int] = []  # snapshots, for want of room
    epochs_unwritten: bool = False
    failure: OSError | None = None

    @property
    def is_whole(self) -> bool:
        """Whether a recovery need not read again what this covers."""
        unwritten = self.unwritten or self.epochs_unwritten
        return not unwritten and all(tail.written for tail in self.tails)

    @property
    def is_plain(self) -> bool:
        """Whether it is over with a few batches, and need not hold up others that run with it."""
        return not (
            self.sealed or self.indexes or self.tails or self.sync_names or self.sync_place
            or self.snapshots or self.superfluous or self.remove or self.save_epochs
        )  # fmt: skip

    def run(self) -> None:
        """Blocks. An `OSError` means that the log must fail: it is not to be tried again."""
        run_all([self])
        if self.failure is not None:
            raise self.failure

    def finish(self) -> bool:
        """What comes after the batches, but for the slot; whether that is on disk."""
        try:
            self._write_epochs()
            for path in self.indexes:
                with contextlib.suppress(FileNotFoundError):  # it is a hint, and can be missed
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
        """How it is remembered; None if that is there, or it is not."""
        return None if self.slot is None else self.slot.noting(self.start_offset, self.end_offset)

    def end(self, fault: Fault) -> None:
        """It is on disk; and `fault` is why it is not remembered. What is not remembered is found
        missing by nobody, if it is lost; but a segment that goes without that would be."""
        if self.remove and self.slot is not None and fault is None:
            try:
                self.slot.sync()
            except OSError as error:
                fault = error
        if fault is not None:
            _log.warning(
                "not remembered directory=%s end_offset=%d reason=%r",
                self.directory, self.end_offset, fault.strerror,
            )  # fmt: skip
        self.done = True
        for path in (*self.superfluous, *(self.remove if fault is None else ())):
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                _log.warning("not removed path=%s reason=%r", path, error.strerror)

    def _write_epochs(self) -> None:
        """Without them a recovery reads more, and finds them in the batches."""
        if self.save_epochs is None:
            return
        try:
            self.save_epochs()
        except OSError as error:
            self.epochs_unwritten = True
            _log.warning("epochs not saved directory=%s reason=%r", self.directory, error.strerror)

    def _write_snapshot(self, offset: int, producers: ProducerStates) -> None:
        """Without one a recovery reads more: that is no reason to take the log offline."""
        try:
            write_snapshot(self.directory, offset, producers)
        except OSError as error:
            self.unwritten.append(offset)
            _log.warning(
                "snapshot not written directory=%s offset=%d reason=%r",
                self.directory, offset, error.strerror,
            )  # fmt: skip

    @property
    def reason(self) -> str:
        """Why the log must fail."""
        failure = self.failure
        return f"flush failed: {failure.strerror or failure}" if failure else "flush did not run"


def run_all(tickets: Sequence[FlushTicket]) -> None:
    """Run them together, on any thread. Blocks. Each says itself whether it is `done`."""
    faults = iter(sync_all([file for ticket in tickets for file in ticket.logs]))
    for ticket in tickets:
        of_its_own = list(islice(faults, len(ticket.logs)))
        ticket.failure = next(filter(None, of_its_own), None)
    sound = [ticket for ticket in tickets if ticket.failure is None and ticket.finish()]
    pieces = [ticket.noting() for ticket in sound]
    faults = iter(write_all([piece for piece in pieces if piece is not None]))
    for ticket, piece in zip(sound, pieces, strict=True):
        ticket.end(None if piece is None else next(faults))
    for ticket in tickets:
        if ticket.failure is not None:
            _log.error("flush failed directory=%s error=%r", ticket.directory, str(ticket.failure))


class PendingFlush:
    """What is not yet on disk, apart from the active segment's end. One for each log."""

    __slots__ = (
        "_checkpoint", "_directory", "_doomed", "_names", "_recovered", "_sealed", "_snapshots",
        "_ticket", "is_new", "slot",
    )  # fmt: skip

    def __init__(self, directory: Path, snapshots: Iterable[int]) -> None:
        self._directory = directory
        self._snapshots = Snapshots(directory, snapshots)
        self._sealed: list[Segment] = []
        self._names = False
        self.is_new = False  # its directory may not last, and must with the first batch
        self._doomed: list[Path] = []
        self._checkpoint = False
        self._recovered = 0, 0  # a segment, and up to where in it no recovery reads
        self._ticket: FlushTicket | None = None
        self.slot: Slot | None = None  # where the partition is remembered

    def seal(self, segment: Segment, end_offset: int, producers: ProducerStates) -> None:
        """A segment was finished, and another begun at `end_offset`."""
        self._sealed.append(segment)
        self._names = True
        self._snapshots.request(end_offset, producers)

    def name(self) -> None:
        """A file has appeared whose name must last."""
        self._names = True

    def unlink(self, paths: Iterable[Path]) -> None:
        """Files that are no longer needed, once all else is on disk."""
        self._doomed += paths

    def checkpoint(self, active: Segment, *, is_turn: bool = True) -> None:
        """The next ticket is to move the recovery point to the end of the log: if it is this log's
        turn, or there is much behind that point."""
        base, position = self._recovered
        behind = active.size - (position if base == active.base_offset else 0)
        if is_turn or behind >= _MUCH_BEHIND:
            self._checkpoint = True

    @property
    def ticket(self) -> FlushTicket | None:
        """The one under way."""
        return self._ticket

    def remove(self, segments: Sequence[Segment]) -> None:
        """The log's first segments are no longer of it, and need no flush.

        They go after the snapshot at the beginning of what is left, so that what producers did in
        them is not forgotten, and the oldest first, so that there never is a gap.
        """
        self._sealed = [segment for segment in self._sealed if segment not in segments]
        self._doomed += (path for segment in segments for path in segment.paths())

    @property
    def is_owed(self) -> bool:
        """Whether sealed segments are still to be flushed."""
        return bool(self._sealed)

    def covers(self, segment: Segment) -> bool:
        """Whether a sealed segment is still to be flushed."""
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
        """A ticket for all that is due; None if nothing is. Epochs alone are not: there is no batch
        of them yet."""
        active = segments.active
        logs = [segment.file for segment in self._sealed]
        if end_offset > max(flushed_offset, active.base_offset):
            logs.append(active.file)
        whole = self._checkpoint and self._write_indexes(active)
        if whole:
            self._checkpoint = False
            self._snapshots.request(end_offset, producers)
        elif not self._checkpoint:
            self._write_indexes(active, from_bytes=_MUCH_INDEXED)
        if not (logs or whole or self._names or self._snapshots.is_due or self._doomed):
            return None
        written, gone = self._snapshots.take(segment.base_offset for segment in segments)
        covered = [*self._sealed, active] if whole else self._sealed
        named = tuple(segment for segment in (*self._sealed, active) if not segment.lasts)
        self._ticket = FlushTicket(
            directory=self._directory,
            end_offset=end_offset,
            end_segment=active,
            end_position=active.size,
            recovery_point=end_offset if whole else active.base_offset,
            logs=logs,
            indexes=[path for segment in covered for path in segment.unsynced_indexes()],
            tails=[tail for segment in covered for tail in segment.tails()],
            sealed=tuple(self._sealed),
            named=named,
            sync_names=self._names or bool(named),
            sync_place=self.is_new,
            snapshots=written,
            superfluous=gone,
            remove=self._doomed,
            slot=self.slot,
            start_offset=start_offset,
            save_epochs=partial(epochs.write, taken) if (taken := epochs.take()) else None,
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
        """The ticket is no longer under way."""
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
            self._sealed = [each for each in self._sealed if each not in ticket.sealed]

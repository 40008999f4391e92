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
"""

import contextlib
import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from broker.storage import layout
from broker.storage.acknowledged import Slot
from broker.storage.epochs import LeaderEpochs
from broker.storage.files import OpenFile, check_there
from broker.storage.identity import sync_partition_directory
from broker.storage.index import IndexTail
from broker.storage.producers import ProducerStates
from broker.storage.segment import Segment
from broker.storage.segments import Segments
from broker.storage.snapshots import Snapshots, write_snapshot
from ground.durable_files import replace_file, sync_directory, sync_file

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class FlushTicket:
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
    epochs: bytes | None  # if they have changed
    done: bool = field(default=False, init=False)
    unwritten: list[int] = field(default_factory=list, init=False)  # snapshots, for want of room
    epochs_unwritten: bool = field(default=False, init=False)
    failure: OSError | None = field(default=None, init=False)

    @property
    def is_whole(self) -> bool:
        """Whether a recovery need not read again what this covers."""
        unwritten = self.unwritten or self.epochs_unwritten
        return not unwritten and all(tail.written for tail in self.tails)

    def run(self) -> None:
        """Blocks. An `OSError` means that the log must fail: it is not to be tried again."""
        try:
            for file in self.logs:
                os.fdatasync(file.fd)
                check_there(file)
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
            raise
        removed = self.remove if self._remember() else ()
        self.done = True
        for path in (*self.superfluous, *removed):
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                _log.warning("not removed path=%s reason=%r", path, error.strerror)

    def _remember(self) -> bool:
        """Whether it is. What is not remembered is found missing by nobody, if it is lost; but a
        segment that goes without that would be."""
        if self.slot is None:
            return True
        try:
            self.slot.note(self.start_offset, self.end_offset)
            if self.remove:
                self.slot.sync()
        except OSError as error:
            _log.warning(
                "not remembered directory=%s end_offset=%d reason=%r",
                self.directory, self.end_offset, error.strerror,
            )  # fmt: skip
            return False
        return True

    def _write_epochs(self) -> None:
        """Without them a recovery reads more, and finds them in the batches."""
        if self.epochs is None:
            return
        try:
            replace_file(self.directory / layout.LEADER_EPOCHS, self.epochs)
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


class PendingFlush:
    """What is not yet on disk, apart from the active segment's end. One for each log."""

    __slots__ = (
        "_checkpoint", "_directory", "_doomed", "_names", "_sealed", "_snapshots", "_ticket",
        "is_new", "slot",
    )  # fmt: skip

    def __init__(self, directory: Path, snapshots: Iterable[int]) -> None:
        self._directory = directory
        self._snapshots = Snapshots(directory, snapshots)
        self._sealed: list[Segment] = []
        self._names = False
        self.is_new = False  # its directory may not last, and must with the first batch
        self._doomed: list[Path] = []
        self._checkpoint = False
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

    def checkpoint(self) -> None:
        """The next ticket is to move the recovery point to the end of the log."""
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
        whole = self._write_indexes(active) and self._checkpoint
        if whole:
            self._checkpoint = False
            self._snapshots.request(end_offset, producers)
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
            epochs=epochs.take(),
        )
        self._names = False
        self._doomed = []
        return self._ticket

    def _write_indexes(self, active: Segment) -> bool:
        try:
            active.write_indexes()
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
            for segment in ticket.named:
                segment.lasts = True
            self._sealed = [each for each in self._sealed if each not in ticket.sealed]

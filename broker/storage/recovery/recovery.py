"""Recovers a log after a stop: finds the valid batches, and derives everything else from them.

Only the batches count; indexes, epochs and producer states are hints, and are rebuilt from them if
they do not match. The amount to be read is bounded by the recovery point, below which everything
had reached the disk. A snapshot of producer states is written only if that holds for everything
before it, so the snapshots show how far a log once had come, in this life of its directory: a
recovery point beyond them belongs to an earlier partition of that name and is not believed.

    below the recovery point    each segment's last batches must stand where the index and the next
                                segment's name say
    from there on               each batch is read whole: header, CRC, offsets that follow
    a torn tail                 is cut off: nothing valid follows it, no consumer has seen it;
                                later segments go too, if no snapshot shows that it had been whole
    an end before the known one is `EndMissing`: nothing is changed, the opener of the log decides
    anything else               is `CorruptLog`: nothing is changed, an operator decides (repair.py)

What was read again is synced before it counts as exposed. After a crash, recovery starts again.
"""

import logging
import os
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path

import msgspec

from broker.storage import layout
from broker.storage.cleaning import swap
from broker.storage.config import LogConfig
from broker.storage.directory import identity
from broker.storage.errors import NO_SPACE, BadCheckpoint, CorruptLog, EndMissing, InvalidBatch
from broker.storage.recovery import truncation
from broker.storage.segments.batches import Located, ends_within_batch, find_valid, verify
from broker.storage.segments.segment import Segment
from broker.storage.state import snapshots
from broker.storage.state.epochs import LeaderEpochs
from broker.storage.state.producers import ProducerStates
from ground.files.durable_files import sync_directory, sync_file
from wire.record_batches.batch import NO_PRODUCER, BatchHeader

_EVERYTHING = 2**63
_ADVICE = (
    "restore the partition's directory from a replica or a backup, or give up everything after "
    "the damage with `penstock topics repair`"
)

_log = logging.getLogger(__name__)


class RecoveredLog(msgspec.Struct, kw_only=True):
    """The recovered state of a log that is wholly on disk."""

    segments: list[Segment]
    epochs: LeaderEpochs
    producers: ProducerStates = msgspec.field(default_factory=ProducerStates)
    snapshots: list[int] = []
    start_offset: int = 0
    end_offset: int = 0
    recovery_point: int = 0
    active_since_ms: float = inf


def nothing_yet(directory: Path, first: int, index_interval: int) -> RecoveredLog:
    """Creates the log in an existing empty directory: its first record will have this offset."""
    return RecoveredLog(
        segments=[Segment.create(directory, first, index_interval)],
        epochs=LeaderEpochs(directory / layout.LEADER_EPOCHS),
        start_offset=first,
        end_offset=first,
        recovery_point=first,
    )


def recover(
    directory: Path,
    config: LogConfig,
    recovery_point: int,
    start_offset: int,
    *,
    clean: bool,
    reached: int = 0,
) -> RecoveredLog:
    """Recovers the log in `directory`. If it raises `CorruptLog`, it has changed no batch."""
    return _Recovery(directory, config, reached).run(recovery_point, start_offset, clean=clean)


class _Recovery:
    def __init__(self, directory: Path, config: LogConfig, reached: int) -> None:
        self._directory = directory
        self._interval = config.index_interval_bytes
        self._found = layout.scan(directory)
        if self._found.leftovers or self._found.anew:
            swap.finish(directory, self._found)
            truncation.finish(directory, self._found, self._interval)
            self._found = layout.scan(directory)
        self._gaps = config.compact or self._found.compacted
        self._segments = [
            Segment(directory, base, stat.st_size, int(stat.st_mtime * 1000))
            for base, stat in sorted(self._found.logs.items())
        ]
        self._producers = ProducerStates()
        self._due: list[tuple[int, ProducerStates]] = []  # snapshots to be written
        newest_offset = snapshots.load_newest(directory, self._found.snapshots, self._producers)
        self._proven = newest_offset or 0
        self._reached = max(self._proven, *self._found.starts, reached)
        self._epoch: int | None = None  # of the last verified batch
        self._changed = False
        self._saved = True

    def run(self, recovery_point: int, start_offset: int, *, clean: bool) -> RecoveredLog:
        if recovery_point > self._proven:
            _log.warning(
                "recovery point ignored: no snapshot confirms it directory=%s recovery_point=%d "
                "proven=%d",
                self._directory, recovery_point, self._proven,
            )  # fmt: skip
        self._check_indexes_without_log()
        if not self._segments:
            self._begin()
        self._epochs = self._load_epochs()
        verify_offset = self._proven if clean else min(recovery_point, self._proven)
        verify_offset = max(verify_offset, self._segments[0].base_offset)
        snapshot_offset = self._load_snapshot(verify_offset)
        first_index = self._holding(verify_offset)
        self._check_sealed(first_index)
        size = self._segments[first_index].size
        offset = self._resume(self._segments[first_index], verify_offset)
        self._load_producers(snapshot_offset, offset, first_index)
        end_offset = self._verify(first_index, size, offset)
        self._check_reached(end_offset)
        return self._recovered(first_index, start_offset, end_offset)

    # Before anything is read

    def _check_indexes_without_log(self) -> None:
        """Indexes without a log: of a segment that was being removed or created, or was lost."""
        files = self._found
        orphans = (files.offset_indexes.keys() | files.time_indexes.keys()) - files.logs.keys()
        first_base = min(files.logs, default=0)
        for base in sorted(orphans):
            path = layout.numbered(self._directory, base, layout.LOG)
            if base > first_base and files.offset_indexes.get(base):
                raise CorruptLog(f"{path} is missing, but its index exists: {_ADVICE}")
            _log.warning("removing index without log path=%s", path)
            Segment(self._directory, base, 0, 0).remove()
            self._changed = True

    def _begin(self) -> None:
        """There is no segment: the log was being created, or all segments are lost."""
        if self._reached:
            raise self._end_missing(0, None, 0)
        self._segments = [Segment.create(self._directory, 0, self._interval)]
        self._changed = True

    def _load_epochs(self) -> LeaderEpochs:
        path = self._directory / layout.LEADER_EPOCHS
        try:
            return LeaderEpochs.load(path)
        except BadCheckpoint as error:
            _log.warning("rebuilding leader epochs path=%s reason=%r", path, str(error))
            epochs = LeaderEpochs(path)
            epochs.rebuild(
                (located_batch.header.leader_epoch, located_batch.header.base_offset)
                for located_batch in self._batches_that_can_be_read()
            )
            return epochs

    def _batches_that_can_be_read(self) -> Iterator[Located]:
        for segment in self._segments:
            try:
                yield from segment.walk(0, segment.size)
            except InvalidBatch:
                return  # what that means is decided by the verification

    def _holding(self, offset: int) -> int:
        bases = [segment.base_offset for segment in self._segments]
        return max(bisect_right(bases, offset) - 1, 0)

    # Below the recovery point

    def _check_sealed(self, count: int) -> None:
        """Check the first `count` segments by the batches at their ends, without reading them."""
        for segment, next_segment in zip(self._segments[:count], self._segments[1:], strict=False):
            next_offset = self._resume(segment, _EVERYTHING)
            self._check_follows(next_offset, next_segment)
            self._save_indexes(segment)
            segment.cool()

    def _resume(self, segment: Segment, offset: int) -> int:
        base, files = segment.base_offset, self._found
        if segment.size and not (base in files.offset_indexes and base in files.time_indexes):
            _log.warning("index missing path=%s", segment.path(layout.OFFSET_INDEX))
            segment.forget_indexes(self._interval)
        size = segment.size
        try:
            return segment.resume(offset, self._interval)
        except InvalidBatch as error:
            raise self._corrupt(segment, size, error) from error

    def _check_follows(self, next_offset: int, following: Segment) -> None:
        base = following.base_offset
        if next_offset == base or (next_offset < base and self._gaps):
            return
        path = following.path(layout.LOG)
        if next_offset < base:
            raise CorruptLog(
                f"offsets {next_offset} to {base - 1} are missing before {path}: {_ADVICE}"
            )
        raise CorruptLog(
            f"{path} overlaps the segment before it: both contain offsets {base} to "
            f"{next_offset - 1}: {_ADVICE}"
        )

    def _save_indexes(self, segment: Segment) -> None:
        with self._tolerate_full_disk():
            segment.finish()
        for path in segment.unsynced_indexes():
            sync_file(path)
            self._changed = True

    @contextmanager
    def _tolerate_full_disk(self) -> Iterator[None]:
        """A full disk must not make a log unreadable; the next recovery has more to do."""
        try:
            yield
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            _log.warning(
                "no disk space to save the results of recovery directory=%s", self._directory
            )
            self._saved = False

    def _corrupt(self, segment: Segment, size: int, error: InvalidBatch) -> CorruptLog:
        is_last = segment is self._segments[-1] and error.offset < self._reached
        if is_last and ends_within_batch(segment.file, error.position, size, error.offset):
            return self._end_missing(error.offset, segment, error.position)
        return CorruptLog(
            f"{segment.path(layout.LOG)}, byte {error.position}: {error.reason}, where offset "
            f"{error.offset} should be, and more follows: {_ADVICE}"
        )

    def _load_snapshot(self, verify_from: int) -> int:
        """The offset from which producers' batches have to be read.

        A snapshot below the first segment is useless: what followed it is gone. If there is none at
        or below `verify_from`, the next one knows more than the batches that are left.
        """
        base = self._segments[0].base_offset
        if base <= self._proven <= verify_from:
            return self._proven
        self._producers.clear()
        usable_snapshots = [offset for offset in self._found.snapshots if offset >= base]
        usable_offsets = [offset for offset in usable_snapshots if offset <= verify_from]
        snapshot_offset = snapshots.load_newest(self._directory, usable_offsets, self._producers)
        if snapshot_offset is None and base > 0:
            snapshots.load_oldest(self._directory, usable_snapshots, self._producers)
        return base if snapshot_offset is None else snapshot_offset

    def _load_producers(self, offset: int, until: int, last: int) -> None:
        """Record the producers' batches from `offset` on, by their headers."""
        if offset >= until:
            return
        for segment in self._segments[self._holding(offset) : last + 1]:
            try:
                position = segment.position_before(offset, segment.size, self._interval)
                for located_batch in segment.walk(position, segment.size):
                    if located_batch.header.base_offset >= until:
                        break
                    if located_batch.header.base_offset >= offset:
                        self._remember(segment, located_batch.header)
            except InvalidBatch as error:
                raise self._corrupt(segment, segment.size, error) from error
            segment.cool()

    def _remember(self, segment: Segment, header: BatchHeader) -> None:
        """A batch has no time of append; that of the segment's last one errs on the safe side."""
        if header.producer_id != NO_PRODUCER:
            self._producers.record(header, header.base_offset, segment.last_append_ms)

    # From the recovery point on

    def _verify(self, first: int, size: int, offset: int) -> int:
        """Read everything from `offset` on; returns the log's end. `size`: the first segment's."""
        for index, segment in enumerate(self._segments[first:], first):
            if index > first:
                size, segment.size = segment.size, 0
                if offset < segment.base_offset and not self._gaps and not self._is_proven(segment):
                    segment.size = size
                    self._drop(index)  # the one before it has lost its unflushed end
                    break
                self._check_follows(offset, segment)
                segment.forget_indexes(self._interval)
                offset = segment.base_offset
                self._due.append((offset, self._producers.copy()))
            try:
                for located_batch in verify(
                    segment.file, segment.size, size, offset, gaps=self._gaps
                ):
                    self._take(segment, located_batch)
                    offset = located_batch.header.next_offset
            except InvalidBatch as error:
                self._cut_off(index, size, error)
                break
        return offset

    def _check_reached(self, end_offset: int) -> None:
        if end_offset < self._reached:
            segment = self._segments[-1]
            raise self._end_missing(end_offset, segment, segment.size)

    def _end_missing(self, offset: int, segment: Segment | None, position: int) -> EndMissing:
        return EndMissing(
            f"{self._directory} ends at offset {offset}, but once had {self._reached} on disk: "
            f"{_ADVICE}",
            offset=offset,
            path=None if segment is None else segment.path(layout.LOG),
            position=position,
            reached=self._reached,
        )

    def _take(self, segment: Segment, located: Located) -> None:
        header = located.header
        segment.take(header, located.position, self._interval)
        self._remember(segment, header)
        epoch = header.leader_epoch
        if epoch != self._epoch:
            self._epoch = epoch
            self._begin_epoch(epoch, header.base_offset)
        self._changed = True

    def _begin_epoch(self, epoch: int, offset: int) -> None:
        if epoch >= 0 and epoch != self._epochs.epoch_for(offset):
            self._epochs.assign(epoch, offset)

    def _cut_off(self, number: int, size: int, error: InvalidBatch) -> None:
        """Cut off a torn tail; if it is damage in the middle, raise and change nothing."""
        segment = self._segments[number]
        if error.offset < self._reached or find_valid(
            segment.file, error.position, size, error.offset
        ):
            raise self._corrupt(segment, size, error)
        _log.warning(
            "truncating torn tail path=%s position=%d bytes=%d next_offset=%d reason=%r",
            segment.path(layout.LOG), error.position, size - error.position, error.offset,
            error.reason,
        )  # fmt: skip
        segment.truncate(error.position)
        self._changed = True
        self._drop(number + 1)

    def _is_proven(self, segment: Segment) -> bool:
        """Whether everything before a segment had reached the disk: nothing in it was exposed
        before that.

        The flush that covers a roll writes a snapshot at that offset before it is completed.
        """
        return segment.base_offset <= self._reached

    def _drop(self, number: int) -> None:
        """Remove the segments from `number` on, which were never exposed."""
        for segment in self._segments[number:]:
            _log.warning(
                "removing segment after the log's end path=%s bytes=%d",
                segment.path(layout.LOG), segment.size,
            )  # fmt: skip
            segment.remove()
            self._changed = True
        del self._segments[number:]

    # The end

    def _recovered(self, first: int, start_offset: int, end_offset: int) -> RecoveredLog:
        segments = self._segments
        if self._changed:
            self._sync(first, end_offset)
        elif not segments[-1].size:
            segments[-1].lasts = False  # it may have been begun just before the crash
        start_offset = self._start(start_offset)
        self._epochs.truncate_after(end_offset)
        self._epochs.drop_before(start_offset)
        with self._tolerate_full_disk():
            self._epochs.save()
        active_since = (
            segments[-2].last_append_ms
            if len(segments) > 1
            else (self._directory / identity.PARTITION_METADATA).stat().st_mtime * 1000
        )
        for segment in segments:
            segment.cool()
        return RecoveredLog(
            segments=segments,
            epochs=self._epochs,
            producers=self._producers,
            snapshots=[offset for offset in self._found.snapshots if offset <= end_offset],
            start_offset=start_offset,
            end_offset=end_offset,
            recovery_point=self._proven,
            active_since_ms=active_since,
        )

    def _start(self, checkpoint: int) -> int:
        """The first offset not deleted. The checkpoint may be an earlier partition's."""
        start = max(self._segments[0].base_offset, *self._found.starts, 0)
        if checkpoint > start:
            _log.warning(
                "checkpointed start offset ignored directory=%s checkpoint=%d start_offset=%d",
                self._directory, checkpoint, start,
            )  # fmt: skip
        return start

    def _sync(self, first: int, end_offset: int) -> None:
        """Sync what was read again or changed, then record that with a snapshot."""
        for segment in self._segments[first:]:
            os.fdatasync(segment.file.fd)
            self._save_indexes(segment)
            segment.cool()
        for offset in self._found.snapshots:
            if offset > end_offset:  # none of them could be loaded
                layout.numbered(self._directory, offset, layout.SNAPSHOT).unlink(missing_ok=True)
        if self._reached:
            sync_directory(self._directory)
        else:  # it is unknown whether anything of it was ever on disk
            identity.sync_partition_directory(self._directory)
        for segment in self._segments:
            segment.lasts = True
        if end_offset > self._segments[0].base_offset:
            self._due.append((end_offset, self._producers))
        with self._tolerate_full_disk():
            for offset, producers in self._due:
                if self._saved:
                    snapshots.write_snapshot(self._directory, offset, producers)
                    self._found.snapshots = sorted({*self._found.snapshots, offset})
                    self._proven = max(self._proven, offset)

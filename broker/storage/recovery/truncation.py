"""Cuts off the end of a log in its directory, or empties the log, so that any crash leaves a valid
log.

Files that claim later offsets are removed first, then the newest segments, and only when that is
durable, the segment that contains the new end is shortened. Indexes, epochs and producer states
that claim too much are hints: the next one to open the log goes by its batches.

Specified in docs/replication-spec.md: `ReceiveAnswer` (R8).
"""

import os
from pathlib import Path
from typing import NamedTuple, Self

from broker.storage import layout
from broker.storage.errors import OffsetOutOfRange
from broker.storage.segments.segment import Segment
from broker.storage.segments.segments import Segments
from ground.files.durable_files import sync_directory
from wire.record_batches.batch import BatchHeader


class Truncation(NamedTuple):
    """A log's new end: a position of a segment, or a new beginning."""

    end: int
    place: tuple[Path, int] | None

    @classmethod
    def at(cls, offset: int, segments: Segments, start: int, index_interval: int) -> Self:
        """Returns the truncation that removes everything from `offset` on, in a log that has
        records there."""
        first_segment = _first_from(start, segments, index_interval)
        if max(first_segment.base_offset, first_segment.last_offset) >= offset:
            # Nothing would be left, and even an empty log begins at some offset.
            return cls(min(offset, max(start, first_segment.base_offset)), None)
        segment = segments.holding(offset)
        located_batch = segment.find(offset, segment.size, index_interval)
        path = segment.path(layout.LOG)
        if (
            located_batch is None
        ):  # a gap: nothing is cut off here, except claims that more was there
            return cls(offset, (path, segment.size))
        return cls(min(offset, located_batch.header.base_offset), (path, located_batch.position))

    def carry_out(self, directory: Path, index_interval: int) -> None:
        """Truncates the log. Blocks."""
        if self.place is None:
            begin_anew(directory, self.end, index_interval)
        else:
            cut_off(directory, layout.scan(directory), self.end, self.place)


def _first_from(offset: int, segments: Segments, index_interval: int) -> BatchHeader:
    segment: Segment | None = segments.holding(offset)
    while segment is not None:
        located_batch = segment.find(offset, segment.size, index_interval)
        if located_batch is not None:
            return located_batch.header
        segment = segments.after(segment)
    raise OffsetOutOfRange(f"no data is stored from offset {offset} on")


def cut_off(
    directory: Path, files: layout.PartitionFiles, offset: int, place: tuple[Path, int]
) -> None:
    """Makes the log end at `offset`. `place` is the segment that holds the end, and the position
    there.

    Blocks.
    """
    deleted_starts = [start for start in files.starts if start > offset]
    if deleted_starts:
        layout.numbered(directory, offset, layout.START).touch()
    for offsets, suffix in ((deleted_starts, layout.START), (files.snapshots, layout.SNAPSHOT)):
        for claim in offsets:
            if claim > offset:
                layout.numbered(directory, claim, suffix).unlink(missing_ok=True)
    bases = files.logs.keys() | files.offset_indexes.keys() | files.time_indexes.keys()
    for base in sorted(bases, reverse=True):
        if base > offset:
            for suffix in layout.SEGMENT_SUFFIXES:  # an index alone would look like a loss
                layout.numbered(directory, base, suffix).unlink(missing_ok=True)
    sync_directory(directory)
    path, position = place
    for base, stat in files.logs.items():
        if base <= offset and layout.numbered(directory, base, layout.LOG) == path:
            segment = Segment(directory, base, stat.st_size, 0)
            segment.truncate(position)
            os.fsync(segment.file.fd)


def begin_anew(directory: Path, offset: int, index_interval: int) -> None:
    """Empties the log; its next record has this offset. Blocks.

    A mark records that; once the mark is durable there is no way back: after a crash, `finish`
    continues.
    """
    layout.numbered(directory, offset, layout.ANEW).touch()
    sync_directory(directory)
    finish(directory, layout.scan(directory), index_interval)


def finish(directory: Path, files: layout.PartitionFiles, index_interval: int) -> None:
    """Empties the log if it is marked; of several marks, the last counts."""
    if not files.anew:
        return
    offsets = {
        *(*files.logs, *files.offset_indexes, *files.time_indexes),
        *(*files.snapshots, *files.starts),
    }
    for offset in offsets:
        for suffix in (*layout.SEGMENT_SUFFIXES, layout.SNAPSHOT, layout.START):
            layout.numbered(directory, offset, suffix).unlink(missing_ok=True)
    (directory / layout.LEADER_EPOCHS).unlink(missing_ok=True)
    Segment.create(directory, max(files.anew), index_interval)
    sync_directory(directory)
    for mark in files.anew:
        layout.numbered(directory, mark, layout.ANEW).unlink()
    sync_directory(directory)

"""One segment of a partition's log: `.log`, `.index` and `.timeindex` of one base offset.

A segment that is not written to is *sealed*. Files are opened when they are needed; `cool` closes
those of a sealed segment, `rest` those of the active one, which can be continued. Slices that are
still being sent keep theirs. `size` bytes of the log file are whole batches; after a crash there
may be more, or fewer, and recovery determines which are valid.

The indexes are hints: they are checked against the batch at their position, and rebuilt from the
log if they are wrong.
"""

import contextlib
import logging
import os
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Final, Self

from broker.storage import layout
from broker.storage.errors import Altered, BadIndex, InvalidBatch
from broker.storage.segments.batches import Located, header_at, walk
from broker.storage.segments.files import OpenFile
from broker.storage.segments.index import IndexTail, OffsetIndex, TimeEntry, TimeIndex
from wire.record_batches.batch import NO_TIMESTAMP, BatchHeader

MAX_POSITION: Final = 2**31 - 1  # index entries hold positions and relative offsets in 32 bits
NOT_READ: Final = -2  # the highest timestamp of a sealed segment, from its time index
UNPREPARED: Final = -inf
_NEAR: Final = 8192  # most searches end this close to an index entry's position

_log = logging.getLogger(__name__)


class Segment:
    """One segment. Belongs to the event loop's thread, once its log is open."""

    __slots__ = (
        "_file", "_identity", "_offset_index", "_time_index", "base_offset", "directory",
        "index_due", "last_append_ms", "lasts", "max_timestamp", "max_timestamp_offset",
        "roll_at_ms", "roll_size", "size",
    )  # fmt: skip

    def __init__(self, directory: Path, base_offset: int, size: int, last_append_ms: int) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.size = size
        self.last_append_ms = last_append_ms
        self.lasts = True  # whether the names of its files are durable
        self.max_timestamp = NOT_READ
        self.max_timestamp_offset = base_offset  # the last offset of its batch
        self.index_due = 0  # the first batch beyond this position gets an index entry
        self.roll_size = 0  # these two are set at the first append
        self.roll_at_ms: float = UNPREPARED
        self._file: OpenFile | None = None
        self._identity: tuple[int, int] | None = None  # of the file that was closed
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None

    @classmethod
    def create(cls, directory: Path, base_offset: int, index_interval: int) -> Self:
        """Creates the three files, empty. Their names are durable once the directory is synced."""
        segment = cls(directory, base_offset, 0, 0)
        segment.lasts = False
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL
        segment._file = OpenFile(segment.path(layout.LOG), flags)
        try:
            segment.forget_indexes(index_interval)
        except OSError:
            for suffix in layout.SEGMENT_SUFFIXES:
                segment.path(suffix).unlink(missing_ok=True)
            raise
        return segment

    def path(self, suffix: str) -> Path:
        return layout.numbered(self.directory, self.base_offset, suffix)

    def __repr__(self) -> str:
        return f"<Segment {self.path(layout.LOG)} size={self.size}>"

    # Open files

    @property
    def file(self) -> OpenFile:
        if self._file is None:
            self._file = OpenFile(self.path(layout.LOG), os.O_RDWR | os.O_APPEND)
        return self._file

    def appendable(self) -> OpenFile:
        """Returns the log file. Raises `Altered` if it has been changed since it was closed."""
        stat = os.fstat(self.file.fd)
        identity = stat.st_dev, stat.st_ino
        if stat.st_size != self.size or self._identity not in {None, identity}:
            raise Altered(f"{self.file.path} was replaced or modified by another process")
        return self.file

    @property
    def offset_index(self) -> OffsetIndex:
        if self._offset_index is None:
            self._offset_index = OffsetIndex(self.path(layout.OFFSET_INDEX), self.base_offset)
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        if self._time_index is None:
            self._time_index = TimeIndex(self.path(layout.TIME_INDEX), self.base_offset)
        return self._time_index

    def cool(self) -> None:
        """Closes the files, unless the disk has no room for the indexes' tails."""
        if all(index is None or not index.tail for index in (self._offset_index, self._time_index)):
            self.let_go()

    def rest(self) -> bool:
        """Closes the files until they are needed; returns False if there is no room for the
        tails."""
        if self._file is None:
            return True
        try:
            self.write_indexes()
            stat = os.fstat(self._file.fd)
        except OSError:
            return False
        self._identity = stat.st_dev, stat.st_ino
        self._file = None
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.rest()
        self.roll_at_ms = UNPREPARED
        return True

    def let_go(self) -> None:
        self._file = self._offset_index = self._time_index = None

    # Writing

    def index_batch(self, last_offset: int, position: int, interval: int) -> None:
        """Indexes the batch at `position`, and the highest timestamp up to and including it."""
        self.offset_index.append(last_offset, position)
        self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        self.index_due = position + interval

    def take(self, header: BatchHeader, position: int, interval: int) -> None:
        """Adds a batch at `position` to the segment's state, as if it had just been appended."""
        last_offset = header.last_offset
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp
            self.max_timestamp_offset = last_offset
        if position > self.index_due:
            self.index_batch(last_offset, position, interval)
        self.size = position + header.size

    def write_indexes(self, from_bytes: int = 0) -> None:
        """Writes at least this much of the indexes' tails to their files, once the log's name is
        durable: a non-empty index without a log would prove that the log was lost."""
        if not self.lasts:
            return
        for index in (self._offset_index, self._time_index):
            if index is not None and len(index.tail) >= from_bytes:
                index.write_through()

    def finish(self) -> None:
        """Gives the time index its last entry. May be repeated, and appending may continue."""
        if self.max_timestamp > NO_TIMESTAMP:
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        self.write_indexes()

    def unsynced_indexes(self) -> list[Path]:
        """Returns the index files that were written since the last call."""
        paths = []
        for index in (self._offset_index, self._time_index):
            if index is not None and index.unsynced and self.lasts:
                index.unsynced = False
                paths.append(index.path)
        return paths

    def tails(self) -> list[IndexTail]:
        """Returns the indexes' tails, for another thread to write."""
        if self.lasts:
            return []
        indexes = (self._offset_index, self._time_index)
        return [index.take_tail() for index in indexes if index is not None and index.tail]

    # The indexes, read and rebuilt

    def forget_indexes(self, interval: int) -> None:
        self._offset_index = self._time_index = None
        for suffix in (layout.OFFSET_INDEX, layout.TIME_INDEX):
            self.path(suffix).unlink(missing_ok=True)
        self.offset_index.unsynced = self.time_index.unsynced = True
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset
        self.index_due = interval

    def rebuild_indexes(self, interval: int, reason: str) -> None:
        """Rebuilds both indexes from the headers in the log. Raises `InvalidBatch`."""
        _log.warning("rebuilding index path=%s reason=%r", self.path(layout.OFFSET_INDEX), reason)
        size, highest_entry = self.size, (self.max_timestamp, self.max_timestamp_offset)
        self.forget_indexes(interval)
        try:
            for located_batch in self.walk(0, size):
                self.take(located_batch.header, located_batch.position, interval)
        except InvalidBatch:
            self.max_timestamp, self.max_timestamp_offset = highest_entry
            raise
        finally:
            self.size = size
        with contextlib.suppress(OSError):  # without room on disk it stays in memory
            self.finish()

    def _check(self, last_offset: int, position: int) -> BatchHeader:
        header = header_at(self.file, position, self.size) if position >= 0 else None
        if header is None or header.last_offset != last_offset:
            raise BadIndex(f"offset {last_offset} is not in a batch at {position}")
        return header

    def resume(self, offset: int, interval: int) -> int:
        """Returns to the state in which only the batches below `offset` had been appended; returns
        the next offset.

        Costs one index search and the batches after the entry found, and completes indexes that
        lack their last entries. `size` is then the position of the next batch. Raises
        `InvalidBatch` if the file does not reach `offset` in whole batches.
        """
        size = self.size
        try:
            return self._resume(offset, interval)
        except BadIndex as error:
            _log.warning("index rebuilt path=%s reason=%r", self.path(layout.LOG), str(error))
        self.size = size
        self.forget_indexes(interval)
        return self._resume(offset, interval)

    def _resume(self, offset: int, interval: int) -> int:
        entry = self.offset_index.at_or_below_offset(offset - 1)
        self.time_index.truncate(offset)
        highest_entry = self._highest_noted()
        position = 0
        if entry is not None:
            header = self._check(entry.last_offset, entry.position)
            if header.max_timestamp > highest_entry[0]:
                raise BadIndex("the time index is too short")
            position = entry.position
            self.offset_index.truncate(position + 1)
        else:
            self.offset_index.keep(0)
        self.max_timestamp, self.max_timestamp_offset = highest_entry
        self.index_due = position + interval
        end, self.size = self.size, position
        next_offset = self.base_offset
        batches = self.walk(position, end)
        while next_offset < offset and (located_batch := next(batches, None)) is not None:
            if located_batch.header.next_offset > offset:
                break
            self.take(located_batch.header, located_batch.position, interval)
            next_offset = located_batch.header.next_offset
        return next_offset

    def _highest_noted(self) -> tuple[int, int]:
        """The time index's last entry, which must match its batch."""
        last_entry = self.time_index.last()
        if last_entry is None:
            return NO_TIMESTAMP, self.base_offset
        self._check_time(last_entry)
        return last_entry

    def _check_time(self, entry: TimeEntry) -> None:
        for located_batch in walk(
            self.file, self._position_before(entry.last_offset, self.size), self.size
        ):
            header = located_batch.header
            if header.last_offset >= entry.last_offset:
                if (header.max_timestamp, header.last_offset) == entry:
                    return
                break
        raise BadIndex(f"timestamp {entry.timestamp} is not that of offset {entry.last_offset}")

    def truncate(self, position: int) -> None:
        """Truncates the log file. Batches after `position` must not be in the indexes."""
        os.ftruncate(self.file.fd, position)
        self.size = position

    def paths(self) -> list[Path]:
        """Returns the three files, in the order of their removal."""
        return [self.path(suffix) for suffix in reversed(layout.SEGMENT_SUFFIXES)]

    def remove(self) -> None:
        for path in self.paths():
            path.unlink(missing_ok=True)

    @property
    def index_entries(self) -> int:
        return max(len(self.offset_index), len(self.time_index))

    # Reading

    def walk(self, position: int, end: int) -> Iterator[Located]:
        """Yields the batches from `position` to `end`. Raises `InvalidBatch` at an invalid one."""
        offset = self.base_offset
        for located_batch in walk(self.file, position, end):
            yield located_batch
            position, offset = located_batch.end, located_batch.header.next_offset
        self._check_end(position, end, offset)

    def _check_end(self, position: int, end: int, offset: int) -> None:
        if position < end:
            raise InvalidBatch(position, offset, "no batch header")

    def find(self, offset: int, end: int, interval: int) -> Located | None:
        """Returns the first batch before `end` whose last offset is `offset` or more; None if there
        is none. Searches the index once."""
        position, next_offset = self.position_before(offset, end, interval), self.base_offset
        for located_batch in walk(self.file, position, end, _NEAR):
            header = located_batch.header
            next_offset = header.next_offset
            if next_offset > offset:
                return located_batch
            position += header.size
        self._check_end(position, end, next_offset)
        return None

    def with_records(self, position: int, end: int) -> Located | None:
        """Returns the first batch from `position` on, before `end`, that has records; None if there
        is none."""
        for located_batch in walk(self.file, position, end, _NEAR):
            if located_batch.header.record_count:
                return located_batch
            position = located_batch.end
        self._check_end(position, end, self.base_offset)
        return None

    def end_of_records(self, position: int, end: int, interval: int) -> int:
        """Returns the end of the last batch with records between `position` and `end`."""
        end_of_last, search_end = position, end
        while end_of_last == position < search_end:
            indexed_batch = self.boundary(position, search_end - 1, interval)
            search_start = position if indexed_batch is None else indexed_batch.position
            for located_batch in walk(self.file, search_start, search_end, _NEAR):
                if located_batch.header.record_count:
                    end_of_last = located_batch.end
            search_end = search_start
        return end_of_last

    def position_before(self, offset: int, end: int, interval: int) -> int:
        """Returns the position, below `end`, from which to scan for `offset`: the nearest indexed
        batch that only smaller offsets precede, or 0."""
        try:
            return self._position_before(offset, end)
        except BadIndex as error:
            self.rebuild_indexes(interval, str(error))
            return self._position_before(offset, end)

    def _position_before(self, offset: int, end: int) -> int:
        entry = self.offset_index.at_or_below_offset(offset)
        if entry is not None and entry.position >= end:
            entry = self.offset_index.at_or_below_position(end - 1)
        if entry is None:
            return 0
        self._check(entry.last_offset, entry.position)
        return entry.position

    def boundary(self, above: int, limit: int, interval: int) -> Located | None:
        """Returns the last indexed batch that begins after `above`, and not after `limit`; None if
        there is none."""
        try:
            entry = self.offset_index.at_or_below_position(limit)
            if entry is None or entry.position <= above:
                return None
            return Located(entry.position, self._check(entry.last_offset, entry.position))
        except BadIndex as error:
            self.rebuild_indexes(interval, str(error))
            return self.boundary(above, limit, interval)

    def highest_timestamp(self, interval: int) -> tuple[int, int]:
        """Returns the highest timestamp, and the last offset of its batch."""
        if self.max_timestamp == NOT_READ:
            try:
                self.max_timestamp, self.max_timestamp_offset = self._highest_noted()
            except BadIndex as error:
                self.rebuild_indexes(interval, str(error))
        return self.max_timestamp, self.max_timestamp_offset

    def reaching(self, timestamp: int, interval: int) -> TimeEntry | None:
        """Returns the first time index entry with a timestamp of at least `timestamp`; None if
        there is none."""
        try:
            entry = self.time_index.reaching(timestamp)
            if entry is not None:
                self._check_time(entry)
        except BadIndex as error:
            self.rebuild_indexes(interval, str(error))
            entry = self.time_index.reaching(timestamp)
        return entry

    def noted_before(self, end: int, interval: int) -> tuple[TimeEntry | None, int]:
        """Returns the last time index entry up to the last indexed batch before `end`, and that
        batch's position."""
        try:
            return self._noted_before(end)
        except BadIndex as error:
            self.rebuild_indexes(interval, str(error))
            return self._noted_before(end)

    def _noted_before(self, end: int) -> tuple[TimeEntry | None, int]:
        entry = self.offset_index.at_or_below_position(end - 1)
        if entry is None:
            return None, 0
        self._check(entry.last_offset, entry.position)
        return self.time_index.noted_by(entry.last_offset), entry.position

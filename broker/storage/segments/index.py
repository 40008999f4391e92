"""The two sparse indexes of a segment, in Kafka's format: sorted entries of 8 and 12 bytes.

    OffsetIndex   `.index`      offset − base offset i32 | position i32
                                a batch's last offset, and where that batch begins
    TimeIndex     `.timeindex`  timestamp i64 | offset − base offset i32
                                the highest timestamp so far, and the last offset of its batch

The time index gets an entry together with the offset index, if the highest timestamp has grown
since its last one, and another when the segment is finished. So the first batch of a time `t` comes
after the last offset entry before the first time entry with a timestamp of at least `t`.

Entries are appended to a short tail in memory and written together (`write_through`); they are read
with `pread`, so that an unused index takes no memory and no open file, and one that is cut short
while it is open is a `BadIndex`, not a dead process. An index is a hint: its reader checks it
against the batch, and rebuilds it from the log if they differ. A crash may lose the tail.
"""

import errno
import os
from bisect import bisect_left
from pathlib import Path
from struct import Struct
from typing import ClassVar, NamedTuple

from broker.storage.errors import NO_SPACE, BadIndex
from broker.storage.segments.files import OpenFile
from wire.record_batches.batch import NO_TIMESTAMP

_WINDOW = 512  # entries read at once, when a search has come this close


class OffsetPosition(NamedTuple):
    """An entry of the offset index: the batch with this last offset begins at `position`."""

    last_offset: int
    position: int


class TimeEntry(NamedTuple):
    """An entry of the time index: up to the batch that ends at `last_offset`, no timestamp was
    higher."""

    timestamp: int
    last_offset: int


class _Index:
    """Fixed-size entries whose fields never decrease: a file, and a tail in memory."""

    __slots__ = ("_file", "_stored", "_tail", "base_offset", "path", "unsynced")

    ENTRY: ClassVar[Struct]

    def __init__(self, path: Path, base_offset: int) -> None:
        """The index in the file at `path`; created if there is none. Raises `BadIndex`."""
        self.path = path
        self.base_offset = base_offset
        self._file: OpenFile | None = None
        size = os.fstat(self.file.fd).st_size
        self._stored, odd_bytes = divmod(size, self.ENTRY.size)
        if odd_bytes:
            raise BadIndex(f"{path} has {size} bytes, not a multiple of {self.ENTRY.size}")
        self._tail = bytearray()
        self.unsynced = False

    def __len__(self) -> int:
        return self._stored + len(self._tail) // self.ENTRY.size

    @property
    def file(self) -> OpenFile:
        if self._file is None:
            self._file = OpenFile(self.path, os.O_RDWR | os.O_CREAT)
        return self._file

    def rest(self) -> None:
        self._file = None

    @property
    def tail(self) -> bytes:
        return bytes(self._tail)

    def _append(self, entry: bytes) -> None:
        self._tail += entry
        self.unsynced = True

    def write_through(self) -> None:
        """Writes the tail to the file. If that fails, the tail stays, and is written again."""
        while self._tail:
            written_bytes = os.pwrite(self.file.fd, self._tail, self._stored * self.ENTRY.size)
            entry_count = written_bytes // self.ENTRY.size
            if not entry_count:  # the disk has room for a part of an entry, at the end of a block
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            self._stored += entry_count
            del self._tail[: entry_count * self.ENTRY.size]

    def take_tail(self) -> "IndexTail":
        """Returns the tail, for another thread to write; nothing else writes it meanwhile."""
        self.unsynced = False
        return IndexTail(self, self.file, self._stored * self.ENTRY.size, self.tail)

    def stored(self, size: int) -> None:
        """Notes that this many bytes of the tail are in the file."""
        self._stored += size // self.ENTRY.size
        del self._tail[:size]

    def keep(self, entries: int) -> None:
        if entries >= len(self):
            return
        if entries >= self._stored:
            del self._tail[(entries - self._stored) * self.ENTRY.size :]
            return
        self._tail.clear()
        self._stored = entries
        self.unsynced = True
        os.ftruncate(self.file.fd, entries * self.ENTRY.size)

    def _fields(self, number: int) -> tuple[int, int]:
        size = self.ENTRY.size
        if number >= self._stored:
            return self._unpacked(self._tail, (number - self._stored) * size)
        return self._unpacked(os.pread(self.file.fd, size, number * size), 0)

    def _unpacked(self, buffer: bytes | bytearray, position: int) -> tuple[int, int]:
        if position + self.ENTRY.size > len(buffer):
            raise BadIndex(f"{self.path} is shorter than it was")
        first_field, second_field = self.ENTRY.unpack_from(buffer, position)
        return first_field, second_field

    def _count_below(self, value: int, field: int) -> int:
        """The number of entries with a smaller `field`: the index of the first other one."""
        size = self.ENTRY.size
        tail = self._tail
        if tail and self._unpacked(tail, 0)[field] < value:
            return self._stored + self._count_within(tail, value, field)
        low, high = 0, self._stored
        while high - low > _WINDOW:
            middle = (low + high) // 2
            if self._fields(middle)[field] < value:
                low = middle + 1
            else:
                high = middle
        window = os.pread(self.file.fd, (high - low) * size, low * size)
        if len(window) < (high - low) * size:
            raise BadIndex(f"{self.path} is shorter than it was")
        return low + self._count_within(window, value, field)

    def _count_within(self, buffer: bytes | bytearray, value: int, field: int) -> int:
        unpack, size = self.ENTRY.unpack_from, self.ENTRY.size
        entries = range(len(buffer) // size)
        return bisect_left(entries, value, key=lambda at: unpack(buffer, at * size)[field])

    def _expect(self, is_found: bool) -> None:
        """Check that a search has found what was sought. Raises `BadIndex`."""
        if not is_found:
            raise BadIndex(f"{self.path} is not in ascending order")


class IndexTail:
    """The end of an index, written by another thread while the index is read and grows."""

    __slots__ = ("_content", "_file", "_index", "_position", "written")

    def __init__(self, index: _Index, file: OpenFile, position: int, content: bytes) -> None:
        self._index = index
        self._file = file
        self._position = position
        self._content = content
        self.written = False

    def write(self) -> None:
        """Writes the tail to disk, if there is room. Blocks; any thread."""
        try:
            size = os.pwrite(self._file.fd, self._content, self._position)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            size = 0
        if size == len(self._content):
            os.fdatasync(self._file.fd)
            self.written = True

    def end(self) -> None:
        if self.written:
            self._index.stored(len(self._content))
        else:
            self._index.unsynced = True


class OffsetIndex(_Index):
    """Maps offsets to positions in the segment, to within `index.interval.bytes` and a batch."""

    __slots__ = ()

    ENTRY = Struct(">ii")

    def append(self, last_offset: int, position: int) -> None:
        self._append(self.ENTRY.pack(last_offset - self.base_offset, position))

    def entry(self, number: int) -> OffsetPosition:
        relative, position = self._fields(number)
        return OffsetPosition(self.base_offset + relative, position)

    def last(self) -> OffsetPosition | None:
        return self.entry(len(self) - 1) if len(self) else None

    def at_or_below_offset(self, offset: int) -> OffsetPosition | None:
        """Returns the last indexed batch whose last offset is not above `offset`; None if there is
        none."""
        count = self._count_below(offset - self.base_offset + 1, 0)
        entry = self.entry(count - 1) if count else None
        self._expect(entry is None or entry.last_offset <= offset)
        return entry

    def at_or_below_position(self, position: int) -> OffsetPosition | None:
        """Returns the last indexed batch that begins at or before `position`; None if there is
        none."""
        count = self._count_below(position + 1, 1)
        entry = self.entry(count - 1) if count else None
        self._expect(entry is None or entry.position <= position)
        return entry

    def truncate(self, position: int) -> None:
        """Removes the batches that begin at `position` or later."""
        self.keep(self._count_below(position, 1))


class TimeIndex(_Index):
    """Maps each new highest timestamp to the last offset of its batch."""

    __slots__ = ("_highest",)

    ENTRY = Struct(">qi")

    def __init__(self, path: Path, base_offset: int) -> None:
        super().__init__(path, base_offset)
        last_entry = self.last()
        self._highest = NO_TIMESTAMP if last_entry is None else last_entry.timestamp

    def append(self, timestamp: int, last_offset: int) -> None:
        """Adds the highest timestamp, unless it is no higher than the last entry's."""
        if timestamp > self._highest:
            self._highest = timestamp
            self._append(self.ENTRY.pack(timestamp, last_offset - self.base_offset))

    def entry(self, number: int) -> TimeEntry:
        timestamp, relative = self._fields(number)
        return TimeEntry(timestamp, self.base_offset + relative)

    def last(self) -> TimeEntry | None:
        return self.entry(len(self) - 1) if len(self) else None

    def reaching(self, timestamp: int) -> TimeEntry | None:
        """Returns the first entry with a timestamp of at least `timestamp`; None if there is
        none."""
        count = self._count_below(timestamp, 0)
        entry = self.entry(count) if count < len(self) else None
        self._expect(entry is None or entry.timestamp >= timestamp)
        return entry

    def noted_by(self, last_offset: int) -> TimeEntry | None:
        """Returns the last entry for a batch that ends at `last_offset` or before; None if there is
        none."""
        count = self._count_below(last_offset - self.base_offset + 1, 1)
        entry = self.entry(count - 1) if count else None
        self._expect(entry is None or entry.last_offset <= last_offset)
        return entry

    def truncate(self, offset: int) -> None:
        """Removes the entries for batches that end at `offset` or later."""
        self.keep(self._count_below(offset - self.base_offset, 1))
        last_entry = self.last()
        self._highest = NO_TIMESTAMP if last_entry is None else last_entry.timestamp

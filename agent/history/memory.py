"""Keeps the kernel's events in memory that outlives the process that read them.

Rule 1: inotify's queue is read straight into this memory, after the events already there. No length
is stored: a successor parses up to a zero watch number, zeroes the rest, and continues with the
queue. So an event is in the queue or here, however and whenever a process ends.

Rule 2: a page fault that failed during a read would lose an event. So the memory is allocated,
mapped and, if the system allows it, locked before anything is read into it, and zeroed before it is
used again.

Rule 3: the sequence is self-contained. A note assigns a folder to a watch number from there on; it
has the form of an event, and its watch number is written last.

Rule 4: every event has a number, counted from the beginning of an epoch. An epoch ends when the
kernel loses events. The journal has the number below which events are processed; these are dropped
when room is needed. If the journal cannot be written, the memory fills up, reading stops, and
events wait in the kernel's queue.

    header     magic, active segment, time of the last look, two descriptors of segments
    segment    notes about all folders watched at its beginning, then events and notes, then zeros

A segment is replaced by a new one that has been written completely; one byte selects the active
one.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import struct
import termios
from array import array
from collections.abc import Iterator
from contextlib import suppress
from enum import IntEnum
from itertools import chain
from typing import Final, NamedTuple, Self

import msgspec

_MAGIC: Final = b"PENSTHI1"
_ACTIVE_AT: Final = 8
_LOOK_AT: Final = 16
_LOOK: Final = struct.Struct("@qq")  # by the wall clock and since the boot, milliseconds
_DESCRIPTORS_AT: Final = 64
_DESCRIPTOR: Final = struct.Struct("=16sQQQ")  # epoch, position, size, number of the first event
_HEADER: Final = 4096

_EVENT: Final = struct.Struct("@iIII")  # watch, mask, cookie, size of the name
_ALIGNED: Final = 16
_NOTE: Final = -2
_FOLDER: Final = struct.Struct("=QQ")  # device and inode, before its path
_IGNORED: Final = 0x8000  # the last event of a watch
_LONGEST_NAME: Final = 4096 + _FOLDER.size + _ALIGNED

_SMALLEST: Final = 256 * 1024
LARGEST: Final = 16 * 1024 * 1024  # segment
_ROOM: Final = 32 * 1024  # below this a segment is replaced before the next read


class RawEvent(NamedTuple):
    """An event as the kernel wrote it, and its number in the epoch."""

    watch: int
    mask: int
    cookie: int
    name: str
    number: int


class NoteKind(IntEnum):
    """The kinds of notes about the watch of a folder."""

    WATCHED = 1
    GIVEN_UP = 2  # removed by the agent; queued events are still to come
    LEFT = 3  # the kernel reported that the folder is gone from its path


class FolderNote(NamedTuple):
    """The folder of a watch number."""

    kind: NoteKind
    watch: int
    path: str
    device: int
    inode: int


class LastLook(msgspec.Struct, frozen=True):
    """The time of the last look at files: by the wall clock, and since the boot."""

    wall_millis: int
    boot_millis: int


class _Segment(NamedTuple):
    epoch: bytes
    position: int
    size: int
    first: int  # number of the first event


class EventMemory:
    """The memory of events. Belongs to one thread. `fd` is for the descriptor store; `close` closes
    it."""

    _map_bytes: mmap.mmap

    def __init__(self, fd: int, *, is_new: bool, largest: int = LARGEST) -> None:
        """Raises ValueError if `fd` is not a memory of events, or OSError; then `fd` is closed."""
        self.fd = fd
        self._largest = largest
        self.is_full = False  # reading waits until some events are no longer needed
        self._lent: memoryview | None = None
        try:
            self._begin(is_new=is_new)
        except (OSError, ValueError, struct.error):
            self.close()
            raise

    @classmethod
    def made(cls, largest: int = LARGEST) -> Self:
        """Creates a memory with a new epoch. Raises OSError."""
        fd = os.memfd_create("penstock-history", os.MFD_CLOEXEC)
        return cls(fd, is_new=True, largest=largest)

    @classmethod
    def adopted(cls, fd: int) -> Self:
        """Opens the memory of an earlier process. Raises ValueError or OSError."""
        return cls(fd, is_new=False)

    def _begin(self, *, is_new: bool) -> None:
        if is_new:
            self._map(_HEADER + _SMALLEST)
            self._activate(0, _Segment(os.urandom(16), _HEADER, _SMALLEST, 0))
            self._map_bytes[: len(_MAGIC)] = _MAGIC
        else:
            size = os.fstat(self.fd).st_size
            if not _HEADER + _SMALLEST <= size <= 4 * LARGEST:
                raise ValueError("not a memory of events")
            self._map(size)
            if self._map_bytes[: len(_MAGIC)] != _MAGIC:
                raise ValueError("not a memory of events")
        self._segment = self._read_segment()
        self._recorded_at = self._segment.position
        self._end, self.next = self._parsed_to()
        self._bytes[self._end : self._limit] = bytes(self._limit - self._end)

    # Queries

    @property
    def epoch(self) -> str:
        return self._segment.epoch.hex()

    @property
    def first(self) -> int:
        return self._segment.first

    @property
    def is_filling(self) -> bool:
        """Whether it is time to journal the position up to which events are no longer needed."""
        return self._end - self._recorded_at > self._segment.size // 4

    def position_journalled(self) -> None:
        """Notes that the position was journalled."""
        self._recorded_at = self._end

    @property
    def last_look(self) -> LastLook:
        return LastLook(*_LOOK.unpack_from(self._bytes, _LOOK_AT))

    def looked(self, look: LastLook) -> None:
        _LOOK.pack_into(self._bytes, _LOOK_AT, look.wall_millis, look.boot_millis)

    def records(self) -> Iterator[RawEvent | FolderNote]:
        for _, record in self._parse(self._segment.position, self._segment.first):
            yield record

    # Changes

    def read(self, queue: int, needed_from: int) -> list[RawEvent]:
        """Reads inotify's queue, as far as there is room. Events before number `needed_from` may be
        dropped to make room."""
        events: list[RawEvent] = []
        self.is_full = False
        while size := _waiting(queue):
            if self._limit - self._end < min(size, _ROOM) and not self._renew(needed_from, size):
                self.is_full = True
                break
            begin = self._end
            with suppress(BlockingIOError):
                os.readv(queue, [self._bytes[begin : self._limit]])
            for end, record in self._parse(begin, self.next):
                self._end = end
                if isinstance(record, RawEvent):
                    self.next = record.number + 1
                    events.append(record)
            if self._end == begin:
                break
        return events

    def note(self, note: FolderNote, needed_from: int) -> bool:
        """Adds a note. Returns False if there is no room; the history is then incomplete."""
        record = _note_record(note)
        if self._limit - self._end < len(record) + _ROOM and not self._renew(
            needed_from, len(record) + _ROOM
        ):
            return False
        self._write(record, self._end)
        self._end += len(record)
        return True

    def begin_epoch(self) -> None:
        """Drops all events after the kernel has lost some; keeps the notes of watched folders."""
        self._renew(self.next, _ROOM, epoch=os.urandom(16))

    def close(self) -> None:
        if self._lent is not None:
            self._lent.release()
            self._lent = None
            self._map_bytes.close()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    # Implementation

    @property
    def _bytes(self) -> memoryview:
        assert self._lent is not None
        return self._lent

    @property
    def _limit(self) -> int:
        """The end of the segment, less room for a zero watch number."""
        return self._segment.position + self._segment.size - _ALIGNED

    def _map(self, size: int) -> None:
        if os.fstat(self.fd).st_size < size:
            os.ftruncate(self.fd, size)
        os.posix_fallocate(self.fd, 0, size)
        if self._lent is not None:
            self._lent.release()
            self._map_bytes.close()
        self._map_bytes = mmap.mmap(self.fd, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
        _lock(self._map_bytes)
        self._lent = memoryview(self._map_bytes)

    def _read_segment(self) -> _Segment:
        active_segment = self._map_bytes[_ACTIVE_AT]
        if active_segment > 1:
            raise ValueError("not a memory of events")
        descriptor_position = _DESCRIPTORS_AT + active_segment * _DESCRIPTOR.size
        segment = _Segment(*_DESCRIPTOR.unpack_from(self._map_bytes, descriptor_position))
        end = segment.position + segment.size
        if segment.position < _HEADER or end > len(self._map_bytes):
            raise ValueError("segment lies outside the memory")
        return segment

    def _activate(self, index: int, segment: _Segment) -> None:
        _DESCRIPTOR.pack_into(self._map_bytes, _DESCRIPTORS_AT + index * _DESCRIPTOR.size, *segment)
        self._map_bytes[_ACTIVE_AT] = index

    def _parsed_to(self) -> tuple[int, int]:
        """The position where the zeros begin, and the number of the next event."""
        end, number = self._segment.position, self._segment.first
        for record_end, record in self._parse(end, number):
            end = record_end
            if isinstance(record, RawEvent):
                number = record.number + 1
        return end, number

    def _parse(self, at: int, number: int) -> Iterator[tuple[int, RawEvent | FolderNote]]:
        """The records with their end positions. Raises ValueError for an invalid one."""
        data, limit = self._bytes, self._limit
        while at < limit:
            watch, mask, cookie, size = _EVENT.unpack_from(data, at)
            if not watch:
                return
            begin, at = at + _EVENT.size, at + _EVENT.size + size
            if size > _LONGEST_NAME or at > limit:
                raise ValueError("event extends beyond its segment")
            event_bytes = bytes(data[begin:at])
            if watch == _NOTE:
                device, inode = _FOLDER.unpack_from(event_bytes)
                path = os.fsdecode(event_bytes[_FOLDER.size :].rstrip(b"\0"))
                yield at, FolderNote(NoteKind(mask), cookie, path, device, inode)
            else:
                yield (
                    at,
                    RawEvent(watch, mask, cookie, os.fsdecode(event_bytes.rstrip(b"\0")), number),
                )
                number += 1

    def _write(self, record: bytes, at: int) -> None:
        """Writes a record; its watch number, which makes it valid, comes last."""
        self._bytes[at + 4 : at + len(record)] = record[4:]
        struct.pack_into("@i", self._bytes, at, _NOTE)

    def _renew(self, needed_from: int, room: int, epoch: bytes = b"") -> bool:
        """Switches to a new segment with the events still needed, and `room` bytes of space.
        Returns False if there is not enough memory."""
        table = _Table()
        kept_at, number = self._segment.position, self._segment.first
        for end, record in self._parse(kept_at, number):
            if isinstance(record, RawEvent):
                if record.number >= needed_from:
                    break
                number = record.number + 1
            table.take(record)
            kept_at = end
        notes = b"".join(map(_note_record, table.notes()))
        kept_bytes = bytes(self._bytes[kept_at : self._end])
        needed_bytes = len(notes) + len(kept_bytes) + max(room, _ROOM) + 2 * _ALIGNED
        size = _SMALLEST
        while size < 2 * needed_bytes and size < self._largest:
            size *= 2
        if needed_bytes > size:
            return False
        try:
            index, position = self._place_for(size)
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.ENOMEM}:
                return False
            raise
        segment = _Segment(epoch or self._segment.epoch, position, size, 0 if epoch else number)
        self._bytes[position : position + size] = bytes(size)
        self._bytes[position : position + len(notes) + len(kept_bytes)] = notes + kept_bytes
        self._activate(index, segment)
        self._segment, self._recorded_at = segment, position + len(notes)
        self._end, self.next = self._parsed_to()
        return True

    def _place_for(self, size: int) -> tuple[int, int]:
        """The index of the inactive descriptor, and a position for a segment. May raise OSError."""
        index = 1 - self._map_bytes[_ACTIVE_AT]
        descriptor_position = _DESCRIPTORS_AT + index * _DESCRIPTOR.size
        other_segment = _Segment(*_DESCRIPTOR.unpack_from(self._map_bytes, descriptor_position))
        if other_segment.size >= size:
            return index, other_segment.position
        previous_end = self._segment.position - _HEADER
        if previous_end >= size:  # smaller segments were there
            return index, _HEADER
        position = len(self._map_bytes)
        self._map(position + size)
        return index, position


class _Table:
    """The folders of watch numbers at a position in the sequence."""

    def __init__(self) -> None:
        self._watched: dict[int, dict[str, FolderNote]] = {}  # by their paths
        self._leaving: dict[int, list[FolderNote]] = {}  # until the kernel's last event

    def take(self, record: RawEvent | FolderNote) -> None:
        if isinstance(record, RawEvent):
            if record.mask & _IGNORED:
                self._leaving.pop(record.watch, None)
            return
        paths = self._watched.setdefault(record.watch, {})
        watch = paths.pop(record.path, None)
        if record.kind is NoteKind.WATCHED:
            paths[record.path] = record
        elif not paths:
            del self._watched[record.watch]
            if record.kind is NoteKind.GIVEN_UP and watch is not None:
                self._leaving[record.watch] = [watch, record]

    def notes(self) -> Iterator[FolderNote]:
        yield from chain.from_iterable(self._leaving.values())
        for paths in self._watched.values():
            yield from paths.values()


def _waiting(queue: int) -> int:
    size = array("i", [0])
    fcntl.ioctl(queue, termios.FIONREAD, size)
    return size[0]


def _note_record(note: FolderNote) -> bytes:
    body = _FOLDER.pack(note.device, note.inode) + os.fsencode(note.path)[:4096]
    body += bytes(-len(body) % _ALIGNED)
    return _EVENT.pack(_NOTE, note.kind, note.watch, len(body)) + body


_mlock = ctypes.CDLL(None, use_errno=True).mlock
_mlock.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


def _lock(memory: mmap.mmap) -> None:
    """Locks the memory, as far as the limit on locked memory allows."""
    first_byte = ctypes.c_char.from_buffer(memory)
    _mlock(ctypes.addressof(first_byte), len(memory))
    del first_byte

"""The file `acknowledged`: the ranges of acknowledged records, recorded outside the partitions'
directories.

A directory that was removed cannot tell what was in it, and a file that was cut cannot tell its
former length. So the data directory has one small file with a slot of 64 bytes for each partition:
its topic's id, its start, and its flushed end, which covers everything that was acknowledged to
`acks=all` or exposed. Every flush writes the slot between its `fdatasync` and the answers: one
`pwrite` on the flush's own thread, nothing on the event loop.

    after a kill            exact: the kernel has what was written
    after a clean stop      exact: the file is synced last
    after a loss of power   at least: it is synced at every checkpoint, and before files are removed

It never claims more than is on disk, so a log that ends before it has lost something; nor a later
start than the log had, so a log that begins after it has, too. Records acknowledged with `acks=1`
before any flush are not covered. A damaged slot counts as empty, and a missing file is created
again: then nothing is known, and nothing is claimed.
"""

import contextlib
import logging
import os
import threading
from pathlib import Path
from struct import Struct
from typing import Final
from uuid import UUID

import msgspec
from crc32c import crc32c

from broker.storage.segments.many_files import Piece
from ground.files.durable_files import sync_directory

FILE_NAME: Final = "acknowledged"

_SLOT: Final = Struct("<16siiqq8s12x")  # topic id, partition, leader epoch, start, end, boot
_SUM: Final = Struct("<I")
_SIZE: Final = 64
_GROWTH: Final = 64  # slots
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_EMPTY: Final = bytes(_SIZE)

_log = logging.getLogger(__name__)

PartitionId = tuple[UUID, int]


class AcknowledgedRange(msgspec.Struct, frozen=True):
    """The acknowledged range of one partition: its records from `start` up to `end` were on disk,
    under leaders up to this epoch. `exact`: no other records had been acknowledged."""

    start: int
    end: int
    leader_epoch: int
    exact: bool


class Slot:
    """The slot of one partition's record in the file. For one thread at a time."""

    __slots__ = ("_at", "_file", "identity", "known")

    def __init__(
        self,
        file: "AcknowledgedFile",
        at: int,
        identity: PartitionId,
        known: AcknowledgedRange | None,
    ) -> None:
        self._file = file
        self._at = at
        self.identity = identity
        self.known = known  # None until something is noted

    def begin(self, start: int, end: int, leader_epoch: int) -> None:
        """Sets the range of the opened log; before that, `known` is the recorded range."""
        self.known = AcknowledgedRange(start, end, leader_epoch, exact=True)
        self.write()

    def note(self, start: int, end: int) -> None:
        """Records that everything between these offsets is on disk. Does not wait for the disk."""
        piece = self.noting(start, end)
        if piece is not None:
            os.pwrite(*piece)

    def noting(self, start: int, end: int) -> Piece | None:
        """Does what `note` does, but returns the data for the caller to write; None if the slot
        already has it."""
        known_range = self.known
        assert known_range is not None, "`begin` was not called"
        if (start, end) == (known_range.start, known_range.end):
            return None
        self.known = AcknowledgedRange(start, end, known_range.leader_epoch, exact=True)
        return self._piece(self.known)

    def sync(self) -> None:
        """Makes the notes survive a loss of power. Blocks."""
        self._file.sync()

    def write(self) -> None:
        if self.known is not None:
            os.pwrite(*self._piece(self.known))

    def _piece(self, known: AcknowledgedRange) -> Piece:
        topic_id, partition = self.identity
        body = _SLOT.pack(
            topic_id.bytes,
            partition,
            known.leader_epoch,
            known.start,
            known.end,
            self._file.boot,
        )
        return self._file.fileno(), body + _SUM.pack(crc32c(body)), self._at

    def clear(self) -> int:
        """Empties the slot; returns its position."""
        os.pwrite(self._file.fileno(), _EMPTY, self._at)
        return self._at


class AcknowledgedFile:
    """The file, in a data directory that this process has locked. Safe to use on any thread."""

    def __init__(self, path: Path, *, clean: bool = False) -> None:
        """`clean`: the broker's last stop was clean."""
        self._path = path
        self.boot = _boot_id()
        self._lock = threading.Lock()
        self._fd = _open(path)
        content = b""
        while piece := os.pread(self._fd, 1 << 20, len(content)):
            content += piece
        self._slots: dict[PartitionId, Slot] = {}
        self._free: list[int] = []
        self._size = len(content) // _SIZE * _SIZE
        for position in range(0, self._size, _SIZE):
            self._read(position, content[position : position + _SIZE], clean)

    def _read(self, at: int, slot: bytes, clean: bool) -> None:
        body, checksum = slot[: _SLOT.size], slot[_SLOT.size :]
        (expected_checksum,) = _SUM.unpack(checksum)
        if slot == _EMPTY or crc32c(body) != expected_checksum:
            if slot != _EMPTY:
                _log.warning("damaged slot ignored path=%s byte=%d", self._path, at)
            self._free.append(at)
            return
        topic_id, partition, leader_epoch, start, end, boot_id = _SLOT.unpack(body)
        identity = UUID(bytes=topic_id), partition
        known_range = AcknowledgedRange(
            start, end, leader_epoch, clean or boot_id == self.boot != bytes(8)
        )
        self._slots[identity] = Slot(self, at, identity, known_range)

    def known(self, topic_id: UUID, partition: int) -> AcknowledgedRange | None:
        slot = self._slots.get((topic_id, partition))
        return slot.known if slot else None

    def slot(self, topic_id: UUID, partition: int) -> Slot:
        """Returns the partition's slot, created if necessary. Raises OSError if there is no
        room."""
        identity = topic_id, partition
        with self._lock:
            if identity not in self._slots:
                if not self._free:
                    self._grow()
                self._slots[identity] = Slot(self, self._free.pop(0), identity, None)
            return self._slots[identity]

    def forget(self, topic_id: UUID, partition: int) -> None:
        """Deletes a partition's record, as the partition was deleted on request."""
        with self._lock:
            slot = self._slots.pop((topic_id, partition), None)
            if slot is not None:
                self._free.append(slot.clear())

    def identities(self) -> list[PartitionId]:
        with self._lock:
            return list(self._slots)

    def fileno(self) -> int:
        return self._fd

    def sync(self) -> None:
        """Makes all notes survive a loss of power. Creates the file again if it was removed."""
        if os.fstat(self._fd).st_nlink == 0:
            self._make_again()
        os.fdatasync(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _grow(self) -> None:
        os.pwrite(self._fd, bytes(_GROWTH * _SIZE), self._size)
        os.fsync(self._fd)
        sync_directory(self._path.parent)
        self._free += range(self._size, self._size + _GROWTH * _SIZE, _SIZE)
        self._size += _GROWTH * _SIZE

    def _make_again(self) -> None:
        _log.warning("file was removed, creating it again path=%s", self._path)
        with self._lock:
            content = os.pread(self._fd, self._size, 0)
            new_fd = _open(self._path)
            os.pwrite(new_fd, content, 0)
            os.dup2(new_fd, self._fd, inheritable=False)  # other threads still write to it
            os.close(new_fd)
            for slot in self._slots.values():  # what was written meanwhile
                slot.write()
        sync_directory(self._path.parent)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _boot_id() -> bytes:
    """Identifies this boot of the kernel; zeros if it is unknown."""
    with contextlib.suppress(OSError, ValueError):
        return UUID(_BOOT_ID.read_text().strip()).bytes[:8]
    return bytes(8)

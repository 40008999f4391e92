"""A broker's data directory as a whole: its owner, its last stop, and its checkpoints.

`.lock` is held for as long as the process lives, so two brokers never share a directory, not even
by mistake; it contains an id that distinguishes this directory from any other. `meta.properties`
names cluster and broker; a directory that belongs to others is rejected. The mark of a clean stop
exists only between that stop and the next start. Three checkpoints, replaced as a whole, record up
to where each partition is known to be on disk, where it begins, and up to where it was committed;
without them recovery reads more, and less is exposed until the leader is heard. A fourth,
`cleaner-offset-checkpoint`, records up to where a compacted partition was cleaned. An entry from an
earlier partition of the same name would be worse than none, so it is deleted before one is created.
"""

import logging
import os
import threading
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple
from uuid import UUID, uuid4

from broker.errors import BrokerError
from broker.storage.directory import identity
from broker.storage.directory.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    START_OFFSETS,
    Key,
    read_offsets,
    write_offsets,
)
from broker.storage.directory.identity import DirectoryOwner
from broker.storage.errors import BadCheckpoint
from ground.files.directory_lock import DirectoryLock, InUse

log = logging.getLogger(__name__)

JOURNAL = "ledger-counter"  # of the counting process
_LOCK = ".lock"
_CHECKPOINTS = (RECOVERY_POINTS, START_OFFSETS, HIGH_WATERMARKS)


class Checkpoint(NamedTuple):
    """The state of one partition that survives a restart of the broker."""

    recovery_point: int
    start_offset: int
    high_watermark: int


class DirectoryInUse(BrokerError):
    """Raised when another process uses the data directory."""


class DataDirectory:
    """A broker's data directory, locked by this process until `release` or the end of the
    process."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        try:
            self._lock = DirectoryLock(path / _LOCK, mode=0o644)
        except InUse:
            raise DirectoryInUse(
                f"{path} is in use: another broker runs on it. Stop that one, or choose another "
                "`data_dir`"
            ) from None
        # When a broker last ran here, as far as a crash allowed to record it: used by retention.
        self.last_alive_ms = self._note_start()
        self.directory_id = self._read_id()
        self._writing = threading.Lock()
        self._checkpoints = self._read_checkpoints()
        self._cleaned = self._read_cleaned()

    @property
    def owner(self) -> DirectoryOwner | None:
        """The cluster and broker that the directory belongs to; None if it is new."""
        return identity.read_owner(self.path)

    def claim(self, owner: DirectoryOwner) -> None:
        identity.claim(self.path, owner)

    def take_clean_mark(self) -> bool:
        """Returns whether the last stop was clean, and removes the mark."""
        return identity.take_clean_shutdown(self.path)

    def mark_clean(self) -> None:
        identity.mark_clean_shutdown(self.path)

    def is_there(self) -> bool:
        return self._lock.is_there

    # Checkpoints: any thread

    def checkpoint(self, key: Key) -> Checkpoint:
        return self._checkpoints.get(key, Checkpoint(0, 0, 0))

    def write_checkpoints(self, checkpoints: Mapping[Key, Checkpoint]) -> None:
        """Replaces the checkpoints of all partitions. Blocks."""
        with self._writing:
            if checkpoints != self._checkpoints:
                self._write(checkpoints)

    def forget_checkpoint(self, key: Key) -> None:
        """Deletes a partition's checkpoint, before another partition of the same name is created.
        Blocks."""
        with self._writing:
            if key in self._checkpoints:
                self._write(
                    {
                        partition_key: checkpoint
                        for partition_key, checkpoint in self._checkpoints.items()
                        if partition_key != key
                    }
                )
            if self._cleaned.pop(key, None) is not None:
                write_offsets(self.path / CLEANER_OFFSETS, dict(self._cleaned))

    def cleaned(self, key: Key) -> int:
        """Returns the offset up to which a compacted partition was cleaned."""
        return self._cleaned.get(key, 0)

    def note_cleaned(self, key: Key, offset: int) -> None:
        """Notes the offset up to which a partition was cleaned; `write_cleaned` saves it."""
        self._cleaned[key] = offset

    def write_cleaned(self, keys: Collection[Key]) -> None:
        """Saves the notes of existing partitions. Blocks."""
        with self._writing:
            for key in self._cleaned.keys() - keys:
                del self._cleaned[key]
            write_offsets(self.path / CLEANER_OFFSETS, dict(self._cleaned))

    def _write(self, checkpoints: Mapping[Key, Checkpoint]) -> None:
        for field, name in enumerate(_CHECKPOINTS):
            offsets = {key: checkpoint[field] for key, checkpoint in checkpoints.items()}
            write_offsets(self.path / name, offsets)
        self._checkpoints = dict(checkpoints)

    def _read_checkpoints(self) -> dict[Key, Checkpoint]:
        try:
            offsets_by_file = [read_offsets(self.path / name) for name in _CHECKPOINTS]
        except BadCheckpoint as error:
            log.warning("checkpoints ignored, recovery reads more error=%r", str(error))
            return {}
        return {
            key: Checkpoint(*(offsets.get(key, 0) for offsets in offsets_by_file))
            for key in set().union(*offsets_by_file)
        }

    def _read_cleaned(self) -> dict[Key, int]:
        try:
            return read_offsets(self.path / CLEANER_OFFSETS)
        except BadCheckpoint as error:
            log.warning("checkpoint ignored, logs are cleaned again error=%r", str(error))
            return {}

    # The end

    def release(self) -> None:
        self._lock.close()

    def note_alive(self) -> None:
        """Records that the broker runs now: the next start reads the time."""
        os.utime(self._lock.fileno())

    def _note_start(self) -> int | None:
        """Record the time; returns the newest one before that, None in a new directory."""
        lock = os.fstat(self._lock.fileno())
        known_millis = [lock.st_mtime_ns] if lock.st_size else []
        if (checkpoint := self.path / RECOVERY_POINTS).exists():
            known_millis.append(checkpoint.stat().st_mtime_ns)
        self.note_alive()
        return max(known_millis) // 1_000_000 if known_millis else None

    def _read_id(self) -> UUID:
        fd = self._lock.fileno()
        try:
            return UUID(os.pread(fd, 36, 0).decode("ascii", "replace"))
        except ValueError:
            directory_id = uuid4()
            os.ftruncate(fd, 0)
            os.pwrite(fd, str(directory_id).encode(), 0)
            os.fsync(fd)
            return directory_id

"""The partition directories in a broker's data directory.

    {topic}-{partition}                     a partition
    {topic}-{partition}.{hex}-delete        deleted: its files are being removed
    {topic}-{partition}.{hex}-stray         belongs to no topic that this broker has; kept
    {hex}-new                               being created: worthless after a crash

After a loss of power, a partition that was just created may have a directory without its
`partition.metadata`, and without records.

The names are Kafka's, cut to what a file system allows. A partition's directory is identified by
its `partition.metadata`, not by its name.
"""

import logging
import os
import re
import shutil
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

import msgspec

from broker.storage import layout
from broker.storage.directory import identity
from broker.storage.directory.identity import NEW_SUFFIX
from broker.storage.errors import ForeignDataDirectory

DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
_NAME_MAX: Final = 255
_PARTITION: Final = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})")

_log = logging.getLogger(__name__)


class PartitionDirectory(msgspec.Struct, frozen=True):
    data_dir: Path
    topic: str
    partition: int

    @property
    def path(self) -> Path:
        return path_of(self.data_dir, self.topic, self.partition)

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.partition


def path_of(data_dir: Path, topic: str, partition: int) -> Path:
    return data_dir / f"{topic}-{partition}"


def scan(data_dir: Path) -> list[PartitionDirectory]:
    """Returns the partition directories by name, without deleted and stray directories."""
    directories = []
    with os.scandir(data_dir) as entries:
        for entry in entries:
            name = _PARTITION.fullmatch(entry.name)
            if name is not None and entry.is_dir(follow_symlinks=False):
                directories.append(PartitionDirectory(data_dir, name[1], int(name[2])))
    return sorted(directories, key=lambda directory: directory.key)


def topic_id(path: Path) -> UUID | None:
    """Returns the topic that a directory belongs to; None if the directory has no metadata."""
    try:
        return identity.read_topic_id(path)
    except ForeignDataDirectory as error:
        _log.warning("directory without topic id path=%s reason=%r", path, str(error))
        return None


def set_aside(path: Path, owner: UUID | None) -> Path:
    """Renames a partition's directory that belongs to no current topic; returns its new path."""
    return _rename(path, owner or uuid4(), STRAY_SUFFIX)


def remove_unwritten(path: Path) -> bool:
    """Removes a partition's directory if its log has no bytes; returns whether it did."""
    if any(file.stat().st_size for file in path.glob(f"*{layout.LOG}")):
        return False
    _log.info("removing unfinished partition path=%s", path)
    shutil.rmtree(path)
    return True


def mark_deleted(path: Path) -> Path:
    """Renames a partition's directory, so that `remove_deleted` removes it; returns its new
    path."""
    return _rename(path, uuid4(), DELETE_SUFFIX)


def _rename(path: Path, unique: UUID, suffix: str) -> Path:
    suffix_with_id = f".{unique.hex}{suffix}"
    new_path = path.with_name(path.name[: _NAME_MAX - len(suffix_with_id)] + suffix_with_id)
    if new_path.exists():
        return _rename(path, uuid4(), suffix)
    return path.rename(new_path)


def remove_deleted(data_dir: Path) -> list[Path]:
    """Removes deleted directories; returns those that it could remove. Blocks; any thread."""
    return _remove(data_dir, DELETE_SUFFIX)


def remove_unfinished(data_dir: Path) -> list[Path]:
    """Removes partitions whose creation was interrupted by a crash. Call it before creating any."""
    return _remove(data_dir, NEW_SUFFIX)


def _remove(data_dir: Path, suffix: str) -> list[Path]:
    with os.scandir(data_dir) as entries:
        doomed_paths = [
            data_dir / entry.name
            for entry in entries
            if entry.name.endswith(suffix) and entry.is_dir(follow_symlinks=False)
        ]
    for path in doomed_paths:
        shutil.rmtree(path)
    return doomed_paths

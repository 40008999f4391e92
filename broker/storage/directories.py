"""The partition directories in a broker's data directory.

    {topic}-{partition}                     a partition
    {topic}-{partition}.{hex}-delete        deleted: its files are going
    {topic}-{partition}.{hex}-stray         found, but of no topic that this broker has; kept
    {hex}-new                               being created: a crash leaves nothing of worth in it

The names are Kafka's, cut to what a file system takes. Whether a partition's directory is current
is for its `partition.metadata` to say, not for its name.
"""

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from broker.storage.files import sync_directory
from broker.storage.identity import NEW_SUFFIX

DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
_NAME_MAX: Final = 255
_PARTITION: Final = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})", re.ASCII)


@dataclass(frozen=True, slots=True)
class PartitionDirectory:
    """A directory that has a partition's name."""

    path: Path
    topic: str
    partition: int


def partition_directories(data_dir: Path) -> Iterator[PartitionDirectory]:
    """Those of partitions, in no order; not those deleted or astray."""
    with os.scandir(data_dir) as entries:
        for entry in entries:
            name = _PARTITION.fullmatch(entry.name)
            if name is not None and entry.is_dir(follow_symlinks=False):
                yield PartitionDirectory(data_dir / entry.name, name[1], int(name[2]))


def deleted_name(name: str) -> str:
    """What a partition's directory is renamed to, for `remove_deleted`."""
    return _renamed(name, DELETE_SUFFIX)


def set_aside(directory: Path) -> Path:
    """Rename a partition's directory that belongs to no current topic; its new path."""
    stray = directory.with_name(_renamed(directory.name, STRAY_SUFFIX))
    directory.rename(stray)
    sync_directory(directory.parent)
    return stray


def _renamed(name: str, suffix: str) -> str:
    ending = f".{uuid4().hex}{suffix}"
    return name[: _NAME_MAX - len(ending)] + ending


def remove_deleted(data_dir: Path) -> list[Path]:
    """Remove what was deleted; the directories that are gone. Blocks; any thread."""
    return _remove(data_dir, DELETE_SUFFIX)


def remove_unfinished(data_dir: Path) -> list[Path]:
    """Remove what a crash left of partitions being created. Only before any is."""
    return _remove(data_dir, NEW_SUFFIX)


def _remove(data_dir: Path, suffix: str) -> list[Path]:
    with os.scandir(data_dir) as entries:
        doomed = [
            data_dir / entry.name
            for entry in entries
            if entry.name.endswith(suffix)
            and entry.is_dir(follow_symlinks=False)
            and not _PARTITION.fullmatch(entry.name)
        ]
    for path in doomed:
        shutil.rmtree(path)
    return doomed

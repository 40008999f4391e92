"""What a broker's data directory says of the topics it holds, for `penstock topics recover`.

Reads only. The directory is locked meanwhile, so that no broker runs on it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from broker.data_directory import DataDirectory
from broker.storage import directories, layout
from broker.storage.acknowledged import FILE_NAME as ACKNOWLEDGED
from broker.storage.acknowledged import Acknowledged, PartitionId
from broker.storage.batches import walk
from broker.storage.directories import PartitionDirectory
from broker.storage.epochs import NO_EPOCH, LeaderEpochs
from broker.storage.errors import BadCheckpoint, ForeignDataDirectory
from broker.storage.files import OpenFile
from broker.storage.identity import Owner, read_topic_id
from cluster.recover import FoundPartition


class Holdings(NamedTuple):
    """Whose directory it is, the partitions in it, and why some directories are none."""

    owner: Owner
    partitions: tuple[FoundPartition, ...]
    skipped: tuple[str, ...]


def holdings(data_dir: Path) -> Holdings:
    """Raises StorageError or DirectoryInUse, with what is wrong."""
    if not data_dir.is_dir():
        raise ForeignDataDirectory(f"{data_dir} is not a directory")
    directory = DataDirectory(data_dir)
    try:
        if directory.owner is None:
            raise ForeignDataDirectory(f"{data_dir} is no broker's: it has no meta.properties")
        partitions, skipped = [], []
        remembered = _remembered(data_dir)
        for found in directories.scan(data_dir):
            try:
                partitions.append(_partition(found, remembered))
            except ForeignDataDirectory as error:
                skipped.append(str(error))
        return Holdings(directory.owner, tuple(partitions), tuple(skipped))
    finally:
        directory.release()


def _partition(found: PartitionDirectory, remembered: Mapping[PartitionId, int]) -> FoundPartition:
    topic_id = read_topic_id(found.path)
    # Of a log that has lost its end, the directory may not know the newest.
    before = remembered.get((topic_id, found.partition), NO_EPOCH)
    return FoundPartition(
        topic=found.topic,
        index=found.partition,
        topic_id=topic_id,
        leader_epoch=max(before, _newest_epoch(found)),
    )


def _remembered(data_dir: Path) -> dict[PartitionId, int]:
    """Leader epochs, by what the data directory remembers of its partitions."""
    if not (data_dir / ACKNOWLEDGED).exists():
        return {}
    file = Acknowledged(data_dir / ACKNOWLEDGED)
    try:
        return {
            identity: known.leader_epoch
            for identity in file.identities()
            if (known := file.known(*identity)) is not None
        }
    finally:
        file.close()


def _newest_epoch(found: PartitionDirectory) -> int:
    """From the checkpoint; where that cannot be read, from the last batch."""
    try:
        return LeaderEpochs.load(found.path / layout.LEADER_EPOCHS).latest
    except BadCheckpoint:
        return _epoch_of_last_batch(found.path)


def _epoch_of_last_batch(directory: Path) -> int:
    for base_offset, status in sorted(layout.scan(directory).logs.items(), reverse=True):
        path = layout.numbered(directory, base_offset, layout.LOG)
        epoch = NO_EPOCH
        for batch in walk(OpenFile(path), 0, status.st_size):
            epoch = batch.header.leader_epoch
        if epoch != NO_EPOCH:
            return epoch
    return NO_EPOCH

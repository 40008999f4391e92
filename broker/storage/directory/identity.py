"""Records who owns stored data (`meta.properties`, `partition.metadata`), and whether the broker
was stopped cleanly.

All in Kafka's formats. A data directory belongs to one broker of one cluster, a partition's
directory to one topic id: data of another owner is never adopted. `.kafka_cleanshutdown` exists
only while no broker runs on the directory: it is removed before anything is opened, so that it is
always missing after a crash.
"""

import base64
import json
import shutil
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID, uuid4

from broker.storage.errors import ForeignDataDirectory
from ground.files.durable_files import replace_file, sync_directory, sync_file

META_PROPERTIES: Final = "meta.properties"
PARTITION_METADATA: Final = "partition.metadata"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
NEW_SUFFIX: Final = "-new"
_VERSION: Final = 0


class DirectoryOwner(NamedTuple):
    cluster_id: str
    broker_id: int


def claim(data_dir: Path, owner: DirectoryOwner) -> None:
    """Makes sure that `data_dir` belongs to this broker; claims a new directory."""
    path = data_dir / META_PROPERTIES
    current_owner = read_owner(data_dir)
    if current_owner is None:
        lines = f"version={_VERSION}\nbroker.id={owner.broker_id}\ncluster.id={owner.cluster_id}\n"
        replace_file(path, lines.encode())
        return
    if current_owner.cluster_id != owner.cluster_id:
        raise ForeignDataDirectory(
            f"{path}: the data belongs to cluster {current_owner.cluster_id}, this is cluster "
            f"{owner.cluster_id}: use another data_dir, or connect to the cluster it belongs to"
        )
    if current_owner.broker_id != owner.broker_id:
        raise ForeignDataDirectory(
            f"{path}: the data belongs to broker {current_owner.broker_id}, this is broker "
            f"{owner.broker_id}: use another data_dir, or the id it belongs to"
        )


def read_owner(data_dir: Path) -> DirectoryOwner | None:
    """Returns the owner of the directory; None if no broker has claimed it."""
    path = data_dir / META_PROPERTIES
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    lines = (line.strip() for line in text.splitlines())
    pairs = dict(line.partition("=")[::2] for line in lines if line and line[0] not in "#!")
    try:
        return DirectoryOwner(pairs["cluster.id"].strip(), int(pairs["broker.id"]))
    except (KeyError, ValueError) as error:
        raise ForeignDataDirectory(f"{path}: cluster.id or broker.id is missing") from error


def create_partition_directory(directory: Path, topic_id: UUID) -> None:
    """Creates the directory with its `partition.metadata`; both appear at once, and are durable
    after `sync_partition_directory`. After a loss of power before that, either may be missing."""
    staging_path = directory.with_name(f"{uuid4().hex}{NEW_SUFFIX}")
    staging_path.mkdir()
    try:
        text = base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()
        (staging_path / PARTITION_METADATA).write_text(f"version: {_VERSION}\ntopic_id: {text}")
        staging_path.rename(directory)
    except OSError:
        shutil.rmtree(staging_path)
        raise


def sync_partition_directory(directory: Path) -> None:
    """Makes the directory's metadata, entries and name durable. Blocks; any thread."""
    sync_file(directory / PARTITION_METADATA)
    sync_directory(directory)
    sync_directory(directory.parent)


def read_topic_id(directory: Path) -> UUID:
    """Returns the topic of a partition's directory. Raises `ForeignDataDirectory` without
    metadata."""
    path = directory / PARTITION_METADATA
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        fields = dict(line.partition(":")[::2] for line in lines)
        return UUID(bytes=base64.urlsafe_b64decode(fields["topic_id"].strip() + "=="))
    except FileNotFoundError as error:
        raise ForeignDataDirectory(
            f"{path} is missing: the directory belongs to no topic"
        ) from error
    except (KeyError, ValueError) as error:
        raise ForeignDataDirectory(f"{path} has no topic id") from error


def mark_clean_shutdown(data_dir: Path) -> None:
    content = json.dumps({"version": _VERSION, "brokerEpoch": -1})
    replace_file(data_dir / CLEAN_SHUTDOWN, content.encode())


def take_clean_shutdown(data_dir: Path) -> bool:
    """Returns whether the last stop was clean, and removes the mark."""
    try:
        (data_dir / CLEAN_SHUTDOWN).unlink()
    except FileNotFoundError:
        return False
    sync_directory(data_dir)
    return True

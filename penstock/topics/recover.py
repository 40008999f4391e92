"""`penstock topics recover`: rebuilds the topics in ZooKeeper from a broker's data directory.

The directory is only read, and locked meanwhile, so that no broker can use it.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import click

from broker.configs.config import BrokerConfig
from broker.replicas.data_directory import DataDirectory, DirectoryInUse
from broker.storage import layout
from broker.storage.directory import directories
from broker.storage.directory.acknowledged import FILE_NAME as ACKNOWLEDGED
from broker.storage.directory.acknowledged import AcknowledgedFile, PartitionId
from broker.storage.directory.directories import PartitionDirectory
from broker.storage.directory.identity import DirectoryOwner, read_topic_id
from broker.storage.errors import BadCheckpoint, ForeignDataDirectory, StorageError
from broker.storage.segments.batches import walk
from broker.storage.segments.files import OpenFile
from broker.storage.state.epochs import NO_EPOCH, LeaderEpochs
from cluster.errors import ClusterError
from cluster.recover import FoundPartition, RecoveredTopics, recover
from cluster.session.session import Session
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from penstock.cli.failures import Failed
from penstock.cli.output import json_option, print_json
from penstock.config.options import configuration_options, configured


class Holdings(NamedTuple):
    """The owner and the partitions of a data directory, and the reasons why some of its
    subdirectories were skipped."""

    owner: DirectoryOwner
    partitions: tuple[FoundPartition, ...]
    skipped: tuple[str, ...]


def holdings(data_dir: Path) -> Holdings:
    """Reads the holdings of a data directory. Raises StorageError or DirectoryInUse."""
    if not data_dir.is_dir():
        raise ForeignDataDirectory(f"{data_dir} is not a directory")
    directory = DataDirectory(data_dir)
    try:
        if directory.owner is None:
            raise ForeignDataDirectory(
                f"{data_dir} is not the data directory of a broker: it has no meta.properties"
            )
        partitions, skipped_reasons = [], []
        known_epochs = _remembered(data_dir)
        for partition_directory in directories.scan(data_dir):
            try:
                partitions.append(_partition(partition_directory, known_epochs))
            except ForeignDataDirectory as error:
                skipped_reasons.append(str(error))
        return Holdings(directory.owner, tuple(partitions), tuple(skipped_reasons))
    finally:
        directory.release()


def _partition(found: PartitionDirectory, remembered: Mapping[PartitionId, int]) -> FoundPartition:
    topic_id = read_topic_id(found.path)
    # Of a log that has lost its end, the directory may not know the newest.
    known_epoch = remembered.get((topic_id, found.partition), NO_EPOCH)
    return FoundPartition(
        topic=found.topic,
        index=found.partition,
        topic_id=topic_id,
        leader_epoch=max(known_epoch, _newest_epoch(found)),
    )


def _remembered(data_dir: Path) -> dict[PartitionId, int]:
    """Leader epochs by partition, from the file of acknowledged offsets."""
    if not (data_dir / ACKNOWLEDGED).exists():
        return {}
    file = AcknowledgedFile(data_dir / ACKNOWLEDGED)
    try:
        return {
            identity: epoch.leader_epoch
            for identity in file.identities()
            if (epoch := file.known(*identity)) is not None
        }
    finally:
        file.close()


def _newest_epoch(found: PartitionDirectory) -> int:
    """The newest epoch in the checkpoint; if that is unreadable, in the last batch."""
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


@click.command()
@configuration_options
@json_option
def command(*, config: Path | None, overrides: tuple[str, ...], as_json: bool) -> None:
    """Rebuild the topics in ZooKeeper from a broker's data directory, after ZooKeeper was lost.

    Run it for each broker, with that broker's configuration, while the broker is stopped. The order
    does not matter, and repeating it changes nothing. Topic configs, users and consumers' offsets
    are not in the directories and are not recovered.

    \b
    Example:
        penstock topics recover --config broker.yaml
    """
    configuration = configured(BrokerConfig, config, overrides)
    try:
        directory_holdings = holdings(Path(configuration.data_dir))
        if directory_holdings.owner.broker_id != configuration.id:
            raise Failed(
                f"{configuration.data_dir} belongs to broker {directory_holdings.owner.broker_id}, "
                f"but the configuration is broker {configuration.id}'s"
            )
        with _session(configuration) as session:
            recovery = recover(
                session,
                broker_id=directory_holdings.owner.broker_id,
                cluster_id=directory_holdings.owner.cluster_id,
                directories=directory_holdings.partitions,
            )
    except (ClusterError, StorageError, DirectoryInUse, OSError) as error:
        raise Failed(str(error)) from None
    for reason in directory_holdings.skipped:
        click.echo(f"skipped: {reason}", err=True)
    _report(recovery, directory_holdings, as_json=as_json)


@contextmanager
def _session(config: BrokerConfig) -> Iterator[Session]:
    """A session with the broker's ZooKeeper; an embedded one is started."""
    with ExitStack() as stack:
        address, secret = config.zookeeper, config.zookeeper_secret or None
        if config.embeds_zookeeper:
            zookeeper = EmbeddedZooKeeper.start(
                Path(config.zookeeper_dir or Path(config.data_dir) / "zookeeper"),
                config.zookeeper_port,
                jars=Path(config.zookeeper_jars) if config.zookeeper_jars else None,
            )
            stack.callback(zookeeper.stop)
            address, secret = zookeeper.address, zookeeper.secret
        session = Session.connect(address, secret=secret, security=config.zookeeper_security)
        stack.callback(session.close)
        yield session


def _report(recovered: RecoveredTopics, found: Holdings, *, as_json: bool) -> None:
    missing_partitions = [f"{topic}-{partition}" for topic, partition in recovered.without_replica]
    if as_json:
        print_json(
            {
                "cluster_id": recovered.cluster_id,
                "created": list(recovered.topics_created),
                "completed": list(recovered.topics_completed),
                "unchanged": list(recovered.topics_unchanged),
                "without_replica": missing_partitions,
                "skipped": list(found.skipped),
            }
        )
        return
    print(f"cluster {recovered.cluster_id}: {len(found.partitions)} partitions found")
    for words, topics in (
        ("created", recovered.topics_created),
        ("completed", recovered.topics_completed),
        ("unchanged", recovered.topics_unchanged),
        ("still without a replica", missing_partitions),
    ):
        if topics:
            print(f"  {words}: {', '.join(topics)}")

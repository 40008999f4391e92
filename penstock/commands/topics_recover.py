"""`penstock topics recover`."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

from broker.config import BrokerConfig
from broker.data_directory import DirectoryInUse
from broker.storage.errors import StorageError
from cluster.errors import ClusterError
from cluster.recover import Recovered, recover
from cluster.session import Session
from cluster.zookeeper import EmbeddedZooKeeper
from penstock.failures import Failed
from penstock.json_option import json_option
from penstock.output import print_json
from penstock.program_configuration import configuration_options, configured
from penstock.topic_recovery import Holdings, holdings


@click.command()
@configuration_options
@json_option
def command(*, config: Path | None, overrides: tuple[str, ...], as_json: bool) -> None:
    """Rebuild the map of topics from a broker's data directory, after ZooKeeper was lost.

    Run it for each broker in turn, with that broker's own configuration, while the broker is
    stopped; the order does not matter and repeating it changes nothing. Configs of topics, users
    and consumers' offsets are not in the directories and do not come back.

    \b
    Example:
        penstock topics recover --config broker.yaml
    """
    loaded = configured(BrokerConfig, config, overrides)
    try:
        found = holdings(Path(loaded.data_dir))
        if found.owner.broker_id != loaded.id:
            raise Failed(
                f"{loaded.data_dir} is of broker {found.owner.broker_id}, "
                f"the configuration is broker {loaded.id}'s"
            )
        with _session(loaded) as session:
            recovered = recover(
                session,
                broker_id=found.owner.broker_id,
                cluster_id=found.owner.cluster_id,
                found=found.partitions,
            )
    except (ClusterError, StorageError, DirectoryInUse, OSError) as error:
        raise Failed(str(error)) from None
    for reason in found.skipped:
        click.echo(f"skipped: {reason}", err=True)
    _report(recovered, found, as_json=as_json)


@contextmanager
def _session(config: BrokerConfig) -> Iterator[Session]:
    """A session with the broker's ZooKeeper, which is started if it is the embedded one."""
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
        session = Session.connect(address, secret=secret)
        stack.callback(session.close)
        yield session


def _report(recovered: Recovered, found: Holdings, *, as_json: bool) -> None:
    missing = [f"{topic}-{partition}" for topic, partition in recovered.without_replica]
    if as_json:
        print_json(
            {
                "cluster_id": recovered.cluster_id,
                "created": list(recovered.topics_created),
                "completed": list(recovered.topics_completed),
                "unchanged": list(recovered.topics_unchanged),
                "without_replica": missing,
                "skipped": list(found.skipped),
            }
        )
        return
    print(f"cluster {recovered.cluster_id}: {len(found.partitions)} partitions found")
    for what, topics in (
        ("created", recovered.topics_created),
        ("completed", recovered.topics_completed),
        ("unchanged", recovered.topics_unchanged),
        ("still without a replica", missing),
    ):
        if topics:
            print(f"  {what}: {', '.join(topics)}")

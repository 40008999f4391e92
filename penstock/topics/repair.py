"""`penstock topics repair`: truncates a damaged partition."""

from pathlib import Path

import click
from msgspec.structs import asdict

from broker.configs.config import BrokerConfig
from broker.replicas.data_directory import DataDirectory, DirectoryInUse
from broker.storage.config import LogConfig
from broker.storage.directory import directories
from broker.storage.errors import StorageError
from broker.storage.recovery.repair import GivenUp, truncate_at_corruption
from penstock.cli.failures import Failed
from penstock.cli.output import json_option, print_json
from penstock.config.options import configuration_options, configured


@click.command()
@click.argument("topic")
@click.argument("partition", type=click.IntRange(0))
@click.option("--give-up", is_flag=True, help="Accept the loss of acknowledged messages.")
@configuration_options
@json_option
def command(
    *,
    topic: str,
    partition: int,
    give_up: bool,
    config: Path | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """Truncate a damaged partition at its first damage, while its broker is stopped.

    The whole log is verified. Messages after the damage are lost, although they were acknowledged;
    if possible, restore the directory from a replica or a backup instead.

    \b
    Example:
        penstock topics repair page_views 0 --config broker.yaml --give-up
    """
    configuration = configured(BrokerConfig, config, overrides)
    if not give_up:
        raise click.UsageError(
            "messages after the damage will be lost: pass --give-up to accept this"
        )
    try:
        loss = _repair(Path(configuration.data_dir), topic, partition)
    except (StorageError, DirectoryInUse, OSError) as error:
        raise Failed(str(error)) from None
    name = f"{topic}-{partition}"
    if as_json:
        document = None if loss is None else asdict(loss) | {"path": str(loss.path)}
        print_json({"partition": name, "lost": document})
    elif loss is None:
        print(f"{name} is not damaged")
    else:
        print(f"{name}: {loss.path} is damaged at byte {loss.position}: {loss.reason}")
        print(
            f"lost everything from offset {loss.first_offset} on: {loss.lost_bytes:,} bytes, "
            f"{loss.lost_segments} further segments"
        )
        print("the broker reports lost acknowledged messages to the ledger when it starts")


def _repair(data_dir: Path, topic: str, partition: int) -> GivenUp | None:
    path = directories.path_of(data_dir, topic, partition)
    if not any(partition_directory.path == path for partition_directory in _partitions(data_dir)):
        raise Failed(f"{path} is not the directory of a partition")
    data = DataDirectory(data_dir)
    try:
        # That compaction leaves holes is marked in the directory; nothing else matters here.
        return truncate_at_corruption(path, LogConfig())
    finally:
        data.release()


def _partitions(data_dir: Path) -> list[directories.PartitionDirectory]:
    return directories.scan(data_dir) if data_dir.is_dir() else []

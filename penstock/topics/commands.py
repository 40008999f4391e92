"""`penstock topics list`, `describe`, `create`, `alter` and `delete`."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from client.admin.topics import (
    DEFAULT,
    add_partitions,
    all_topics,
    alter_topic,
    create_topic,
    delete_topic,
    topic_configs,
)
from client.connection.brokers import Brokers
from client.connection.metadata import NO_LEADER, TopicMetadata
from client.errors import UnknownTopic
from penstock.brokers.replica_roles import is_under, why_under
from penstock.cli.confirmation import confirm_deletion, yes_option
from penstock.cli.output import json_option, print_json, print_table
from penstock.connections.cluster import bootstrap_option, connected, existing_topics

F = TypeVar("F", bound=Callable[..., Any])
TOPIC_COLUMNS = (
    *("name", "partitions", "replication_factor"),
    *("under_replicated", "without_leader", "id"),
)
PARTITION_COLUMNS = ("partition", "leader", "epoch", "replicas", "in_sync", "first", "next")
WHY = "why"  # shown if any row has it
CONFIG_COLUMNS = ("config", "value", "is_default")


def _pairs(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    configs = {}
    for text in values:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise click.BadParameter(f"{text!r} is not name=value")
        configs[name] = value
    return configs


def config_option(command: F) -> F:
    return click.option(
        "--config",
        "configs",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_pairs,
        help="A topic config of Kafka's; may be repeated.",
    )(command)


@click.command()
@bootstrap_option
@json_option
def list_topics(bootstrap: str, as_json: bool) -> None:
    """List all topics by name.

    \b
    Example:
        penstock topics list
        penstock topics list --json | jq -r '.[].name'
    """
    with connected(bootstrap) as brokers:
        topics = all_topics(brokers).topics
    rows = [_row(topics[name]) for name in sorted(topics)]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(TOPIC_COLUMNS, rows)
    else:
        click.echo("no topics", err=True)


def _row(topic: TopicMetadata) -> dict[str, object]:
    return {
        "name": topic.name,
        "id": str(topic.id) if topic.id else None,
        "partitions": len(topic.partitions),
        "replication_factor": max(
            (len(partition.replicas) for partition in topic.partitions), default=0
        ),
        "under_replicated": sum(is_under(partition) for partition in topic.partitions),
        "without_leader": sum(partition.leader == NO_LEADER for partition in topic.partitions),
    }


@click.command()
@click.argument("topic", shell_complete=existing_topics)
@click.option(
    "--all", "all_configs", is_flag=True, help="Also show configs that have their default."
)
@bootstrap_option
@json_option
def describe(topic: str, all_configs: bool, bootstrap: str, as_json: bool) -> None:
    """Show one topic: its partitions with their offsets, and its configs.

    For a replicated topic, also shows how many replicas must be in sync for acks=all, and why
    replicas are out of sync.

    \b
    Example:
        penstock topics describe page_views
    """
    with connected(bootstrap) as brokers:
        metadata = _topic(brokers, topic)
        partitions = _partitions(brokers, metadata)
        configs = [
            {
                "config": topic_config.name,
                "value": topic_config.value,
                "is_default": topic_config.is_default,
            }
            for topic_config in topic_configs(brokers, topic)
            if all_configs
            or not topic_config.is_default
            or _is_worth_showing(topic_config.name, metadata)
        ]
    if as_json:
        identity = str(metadata.id) if metadata.id else None
        print_json({"name": topic, "id": identity, "partitions": partitions, "configs": configs})
        return
    is_well = not any(partition[WHY] for partition in partitions)
    print_table(PARTITION_COLUMNS if is_well else (*PARTITION_COLUMNS, WHY), partitions)
    if configs:
        print()
        print_table(CONFIG_COLUMNS, configs)


def _is_worth_showing(config: str, topic: TopicMetadata) -> bool:
    """Whether a config is shown even if it has its default."""
    return config == "min.insync.replicas" and any(
        len(partition.replicas) > 1 for partition in topic.partitions
    )


def _topic(brokers: Brokers, name: str) -> TopicMetadata:
    metadata = brokers.persist(lambda: brokers.refresh([name]))
    if not metadata.has(name):
        raise UnknownTopic(name)
    return metadata.topic(name)


def _partitions(brokers: Brokers, topic: TopicMetadata) -> list[dict[str, object]]:
    """The partitions' rows, without offsets if there is no leader."""
    # The other commands on topics wait for nothing of offsets to be imported.
    from client.reading.offsets import Beginning, End, start_offsets  # noqa: PLC0415

    indexes = [partition.index for partition in topic.partitions if partition.leader != NO_LEADER]
    starts = start_offsets(brokers, topic.name, indexes, Beginning())
    end = start_offsets(brokers, topic.name, indexes, End())
    return [
        {
            "partition": partition.index,
            "leader": None if partition.leader == NO_LEADER else partition.leader,
            "epoch": partition.leader_epoch,
            "replicas": list(partition.replicas),
            "in_sync": list(partition.in_sync),
            "first": starts.get(partition.index),
            "next": end.get(partition.index),
            WHY: why_under(partition, brokers.known),
        }
        for partition in topic.partitions
    ]


@click.command()
@click.argument("topic")
@click.option(
    "--partitions",
    type=click.IntRange(1),
    metavar="N",
    help="Number of partitions; default: the broker's.",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(1),
    metavar="N",
    help="Number of replicas; default: the broker's.",
)
@config_option
@bootstrap_option
@json_option
def create(
    *,
    topic: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: dict[str, str],
    bootstrap: str,
    as_json: bool,
) -> None:
    """Create a topic.

    \b
    Example:
        penstock topics create page_views --partitions 8 --config retention.ms=86400000
    """
    with connected(bootstrap) as brokers:
        new_topic = create_topic(
            brokers,
            topic,
            partitions=partitions or DEFAULT,
            replication_factor=replication_factor or DEFAULT,
            configs=configs,
        )
    count = len(new_topic.partitions)
    replication = len(new_topic.partitions[0].replicas)
    if as_json:
        identity = str(new_topic.id) if new_topic.id else None
        print_json(
            {"name": topic, "id": identity, "partitions": count, "replication_factor": replication}
        )
    else:
        print(f"created {topic}: partitions {count}, replication factor {replication}")


@click.command()
@click.argument("topic", shell_complete=existing_topics)
@config_option
@click.option(
    "--default",
    "defaults",
    multiple=True,
    metavar="NAME",
    help="Reset a config to its default; may be repeated.",
)
@click.option(
    "--partitions",
    type=click.IntRange(1),
    metavar="N",
    help="Increase the number of partitions to N.",
)
@bootstrap_option
@json_option
def alter(
    *,
    topic: str,
    configs: dict[str, str],
    defaults: tuple[str, ...],
    partitions: int | None,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Set configs of a topic, or add partitions.

    With more partitions, keys map to other partitions than before.

    \b
    Example:
        penstock topics alter page_views --config retention.ms=3600000 --default max.message.bytes
    """
    changes: dict[str, str | None] = {**dict.fromkeys(defaults), **configs}
    if names := configs.keys() & set(defaults):
        raise click.UsageError(f"--config and --default both name {', '.join(sorted(names))}")
    if not changes and partitions is None:
        raise click.UsageError("nothing to change: pass --config, --default or --partitions")
    with connected(bootstrap) as brokers:
        if changes:
            alter_topic(brokers, topic, changes)
        if partitions is not None:
            add_partitions(brokers, topic, partitions)
    if as_json:
        print_json({"name": topic, "configs": changes, "partitions": partitions})
    else:
        print(f"altered {topic}")


@click.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…", shell_complete=existing_topics)
@yes_option
@bootstrap_option
@json_option
def delete(*, topics: tuple[str, ...], yes: bool, bootstrap: str, as_json: bool) -> None:
    """Delete topics with all their messages, irreversibly.

    \b
    Example:
        penstock topics delete page_views
        penstock topics delete page_views app_logs --yes
    """
    if not yes:
        confirm_deletion(f"{', '.join(topics)} with all messages, irreversibly")
    with connected(bootstrap) as brokers:
        for topic in topics:
            delete_topic(brokers, topic)
            if not as_json:
                print(f"deleted {topic}", flush=True)
    if as_json:
        print_json({"deleted": list(topics)})

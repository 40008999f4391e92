"""`penstock groups delete-offsets`: removes a group's offsets of topics that it no longer reads."""

from collections.abc import Collection, Iterable

import click

from client.groups.changes import delete_offsets
from client.groups.offsets import committed_offsets
from client.producing.delivery import TopicPartition
from penstock.cli.confirmation import confirm_deletion, yes_option
from penstock.cli.failures import Failed
from penstock.cli.output import json_option, print_json, say
from penstock.connections.cluster import bootstrap_option, connected
from penstock.groups.commands import existing_groups
from penstock.groups.progress import existing
from penstock.groups.topic_arguments import TopicArgument, topics_option


@click.command()
@click.argument("group", shell_complete=existing_groups)
@topics_option(required=True)
@yes_option
@bootstrap_option
@json_option
def delete_offsets_command(
    *, group: str, topics: tuple[TopicArgument, ...], yes: bool, bootstrap: str, as_json: bool
) -> None:
    """Delete a group's offsets of topics that none of its members reads.

    Otherwise the group would be shown as lagging there forever. If it reads the topic again, it
    starts like a new group.

    \b
    Example:
        penstock groups delete-offsets billing --topic page_views_2019
        penstock groups delete-offsets billing --topic page_views:4,5 --yes
    """
    with connected(bootstrap) as brokers:
        existing(brokers, [group])
        partitions = _chosen(group, committed_offsets(brokers, [group])[group], topics)
        if not yes:
            confirm_deletion(f"offsets of {group} in {', '.join(map(str, partitions))}")
        delete_offsets(brokers, group, partitions)
    if as_json:
        print_json(
            {
                "deleted": [
                    {"group": group, "topic": partition.topic, "partition": partition.partition}
                    for partition in partitions
                ]
            }
        )
    else:
        say(f"deleted the offsets of {group} in {', '.join(map(str, partitions))}")


def _chosen(
    group: str, committed: Collection[TopicPartition], topics: Iterable[TopicArgument]
) -> list[TopicPartition]:
    """The partitions to delete. Topics may no longer exist, so only committed partitions count."""
    chosen_partitions: set[TopicPartition] = set()
    for topic in topics:
        named_partitions = {TopicPartition(topic.topic, index) for index in topic.partitions} or {
            partition for partition in committed if partition.topic == topic.topic
        }
        missing_partitions = sorted(named_partitions - set(committed))
        if missing_partitions or not named_partitions:
            names = ", ".join(map(str, missing_partitions)) or f"topic {topic.topic}"
            raise Failed(f"group {group} has no offsets in {names}")
        chosen_partitions |= named_partitions
    return sorted(chosen_partitions)

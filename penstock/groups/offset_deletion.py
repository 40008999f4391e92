"""`penstock groups delete-offsets`: a group forgets topics that it reads no more."""

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
    """Delete what a group has committed in topics that none of its members reads.

    So that it is not shown as lagging there for ever. Who reads the topic again begins where a new
    group does.

    \b
    Example:
        penstock groups delete-offsets billing --topic page_views_2019
        penstock groups delete-offsets billing --topic page_views:4,5 --yes
    """
    with connected(bootstrap) as brokers:
        existing(brokers, [group])
        going = _chosen(group, committed_offsets(brokers, [group])[group], topics)
        if not yes:
            confirm_deletion(f"what {group} has committed in {', '.join(map(str, going))}")
        delete_offsets(brokers, group, going)
    if as_json:
        print_json(
            {
                "deleted": [
                    {"group": group, "topic": partition.topic, "partition": partition.partition}
                    for partition in going
                ]
            }
        )
    else:
        say(f"deleted what {group} had committed in {', '.join(map(str, going))}")


def _chosen(
    group: str, committed: Collection[TopicPartition], topics: Iterable[TopicArgument]
) -> list[TopicPartition]:
    """Of topics that may be there no more, only what was committed is known."""
    going: set[TopicPartition] = set()
    for topic in topics:
        wanted = {TopicPartition(topic.topic, number) for number in topic.partitions} or {
            known for known in committed if known.topic == topic.topic
        }
        missing = sorted(wanted - set(committed))
        if missing or not wanted:
            names = ", ".join(map(str, missing)) or f"topic {topic.topic}"
            raise Failed(f"group {group} has committed nothing in {names}")
        going |= wanted
    return sorted(going)

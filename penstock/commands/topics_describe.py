"""`penstock topics describe`."""

import click

from client.admin import topic_configs
from client.brokers import Brokers
from client.errors import UnknownTopic
from client.metadata import NO_LEADER, Topic
from client.offsets import Beginning, End, start_offsets
from penstock.connecting import bootstrap_option, connected, existing_topics
from penstock.json_option import json_option
from penstock.output import print_json, print_table

PARTITION_COLUMNS = ("partition", "leader", "epoch", "replicas", "in_sync", "first", "next")
CONFIG_COLUMNS = ("config", "value", "is_default")


@click.command()
@click.argument("topic", shell_complete=existing_topics)
@click.option("--all", "all_configs", is_flag=True, help="Show the configs left at their default.")
@bootstrap_option
@json_option
def command(topic: str, all_configs: bool, bootstrap: str, as_json: bool) -> None:
    """Show one topic: its partitions with their offsets, and the configs set for it.

    \b
    Example:
        penstock topics describe page_views
    """
    with connected(bootstrap) as brokers:
        found = _topic(brokers, topic)
        partitions = _partitions(brokers, found)
        configs = [
            {"config": each.name, "value": each.value, "is_default": each.is_default}
            for each in topic_configs(brokers, topic)
            if all_configs or not each.is_default
        ]
    if as_json:
        identity = str(found.id) if found.id else None
        print_json({"name": topic, "id": identity, "partitions": partitions, "configs": configs})
        return
    print_table(PARTITION_COLUMNS, partitions)
    if configs:
        print()
        print_table(CONFIG_COLUMNS, configs)


def _topic(brokers: Brokers, name: str) -> Topic:
    known = brokers.persist(lambda: brokers.refresh([name]))
    if not known.has(name):
        raise UnknownTopic(f"no topic {name}")
    return known.topic(name)


def _partitions(brokers: Brokers, topic: Topic) -> list[dict[str, object]]:
    """A partition without a leader has no offsets to show."""
    led = [each.index for each in topic.partitions if each.leader != NO_LEADER]
    first = start_offsets(brokers, topic.name, led, Beginning())
    following = start_offsets(brokers, topic.name, led, End())
    return [
        {
            "partition": each.index,
            "leader": None if each.leader == NO_LEADER else each.leader,
            "epoch": each.leader_epoch,
            "replicas": list(each.replicas),
            "in_sync": list(each.in_sync),
            "first": first.get(each.index),
            "next": following.get(each.index),
        }
        for each in topic.partitions
    ]

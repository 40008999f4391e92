"""`penstock topics list`."""

import click

from client.admin import all_topics
from client.metadata import NO_LEADER, Topic
from penstock.connecting import bootstrap_option, connected
from penstock.json_option import json_option
from penstock.output import print_json, print_table

COLUMNS = ("name", "partitions", "replication_factor", "without_leader", "id")


@click.command()
@bootstrap_option
@json_option
def command(bootstrap: str, as_json: bool) -> None:
    """List all topics, by name.

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
        print_table(COLUMNS, rows)
    else:
        click.echo("no topics", err=True)


def _row(topic: Topic) -> dict[str, object]:
    return {
        "name": topic.name,
        "id": str(topic.id) if topic.id else None,
        "partitions": len(topic.partitions),
        "replication_factor": max((len(each.replicas) for each in topic.partitions), default=0),
        "without_leader": sum(each.leader == NO_LEADER for each in topic.partitions),
    }

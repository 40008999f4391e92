"""`penstock topics create`."""

import click

from client.admin import DEFAULT, create_topic
from penstock.connecting import bootstrap_option, connected
from penstock.json_option import json_option
from penstock.output import print_json
from penstock.topic_configs import config_option


@click.command()
@click.argument("topic")
@click.option(
    "--partitions",
    type=click.IntRange(1),
    metavar="N",
    help="How many; without it, the broker's default.",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(1),
    metavar="N",
    help="Copies of each; without it, the broker's default.",
)
@config_option
@bootstrap_option
@json_option
def command(
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
        created = create_topic(
            brokers,
            topic,
            partitions=partitions or DEFAULT,
            replication_factor=replication_factor or DEFAULT,
            configs=configs,
        )
    count = len(created.partitions)
    copies = len(created.partitions[0].replicas)
    if as_json:
        identity = str(created.id) if created.id else None
        print_json(
            {"name": topic, "id": identity, "partitions": count, "replication_factor": copies}
        )
    else:
        print(f"created {topic}: partitions {count}, replication factor {copies}")

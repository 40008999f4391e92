"""`penstock topics alter`."""

import click

from client.admin import add_partitions, alter_topic
from penstock.connecting import bootstrap_option, connected, existing_topics
from penstock.json_option import json_option
from penstock.output import print_json
from penstock.topic_configs import config_option


@click.command()
@click.argument("topic", shell_complete=existing_topics)
@config_option
@click.option(
    "--default",
    "defaults",
    multiple=True,
    metavar="NAME",
    help="Take a config back to its default; may be repeated.",
)
@click.option(
    "--partitions", type=click.IntRange(1), metavar="N", help="Enlarge the topic to this many."
)
@bootstrap_option
@json_option
def command(
    *,
    topic: str,
    configs: dict[str, str],
    defaults: tuple[str, ...],
    partitions: int | None,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Set configs of a topic, or add partitions to it.

    Keys go to other partitions once a topic has more of them.

    \b
    Example:
        penstock topics alter page_views --config retention.ms=3600000 --default max.message.bytes
    """
    changes: dict[str, str | None] = {**dict.fromkeys(defaults), **configs}
    if both := configs.keys() & set(defaults):
        raise click.UsageError(f"--config and --default both name {', '.join(sorted(both))}")
    if not changes and partitions is None:
        raise click.UsageError("nothing to change: give --config, --default or --partitions")
    with connected(bootstrap) as brokers:
        if changes:
            alter_topic(brokers, topic, changes)
        if partitions is not None:
            add_partitions(brokers, topic, partitions)
    if as_json:
        print_json({"name": topic, "configs": changes, "partitions": partitions})
    else:
        print(f"altered {topic}")

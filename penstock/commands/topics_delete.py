"""`penstock topics delete`."""

import click

from client.admin import delete_topic
from penstock.connecting import bootstrap_option, connected
from penstock.json_option import json_option
from penstock.output import print_json


@click.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…")
@bootstrap_option
@json_option
def command(topics: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """Delete topics and all they hold, for good.

    \b
    Example:
        penstock topics delete page_views
    """
    with connected(bootstrap) as brokers:
        for topic in topics:
            delete_topic(brokers, topic)
            if not as_json:
                print(f"deleted {topic}", flush=True)
    if as_json:
        print_json({"deleted": list(topics)})

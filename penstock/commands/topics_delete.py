"""`penstock topics delete`."""

import click

from client.admin import delete_topic
from penstock.confirmation import confirm_deletion, yes_option
from penstock.connecting import bootstrap_option, connected, existing_topics
from penstock.json_option import json_option
from penstock.output import print_json


@click.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…", shell_complete=existing_topics)
@yes_option
@bootstrap_option
@json_option
def command(*, topics: tuple[str, ...], yes: bool, bootstrap: str, as_json: bool) -> None:
    """Delete topics and all they hold, for good.

    \b
    Example:
        penstock topics delete page_views
        penstock topics delete page_views app_logs --yes
    """
    if not yes:
        confirm_deletion(f"{', '.join(topics)} and all messages, for good")
    with connected(bootstrap) as brokers:
        for topic in topics:
            delete_topic(brokers, topic)
            if not as_json:
                print(f"deleted {topic}", flush=True)
    if as_json:
        print_json({"deleted": list(topics)})

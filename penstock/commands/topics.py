"""`penstock topics`: one module for each of its commands."""

import click

from penstock.lazy_group import Lazy, LazyGroup


@click.group(
    cls=LazyGroup,
    sections={
        "Commands": {
            "list": Lazy("penstock.commands.topics_list", "All topics."),
            "describe": Lazy(
                "penstock.commands.topics_describe", "One topic's partitions, configs."
            ),
            "create": Lazy("penstock.commands.topics_create", "A new topic."),
            "alter": Lazy("penstock.commands.topics_alter", "Set configs, or add partitions."),
            "delete": Lazy("penstock.commands.topics_delete", "Delete topics and all they hold."),
            "recover": Lazy(
                "penstock.commands.topics_recover",
                "Rebuild the map of topics after ZooKeeper was lost.",
                "broker",
            ),
            "repair": Lazy(
                "penstock.commands.topics_repair",
                "Cut a damaged partition off at its first damage.",
                "broker",
            ),
        }
    },
)
def command() -> None:
    """Topics: what there is, and changes to it.

    \b
    Example:
        penstock topics create page_views --partitions 8 --config retention.ms=86400000
        penstock topics describe page_views
    """

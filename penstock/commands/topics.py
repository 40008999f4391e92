"""`penstock topics`: one module for each of its commands."""

import click

from penstock.lazy_group import Lazy, LazyGroup


@click.group(
    cls=LazyGroup,
    sections={
        "Commands": {
            "list": Lazy("penstock.commands.topics_list", "List topics."),
            "describe": Lazy(
                "penstock.commands.topics_describe", "Show one topic's partitions and configs."
            ),
            "create": Lazy("penstock.commands.topics_create", "Create a topic."),
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
    """List and change the topics of a cluster; Apache Kafka is as good.

    \b
    Example:
        penstock topics create page_views --partitions 8 --config retention.ms=86400000
        penstock topics describe page_views
    """

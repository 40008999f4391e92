"""Selects the topics to load, and their tables."""

from collections.abc import Iterable, Sequence
from typing import Final

from cluster.errors import InvalidTopicName
from cluster.layout.names import check_topic_name
from ledger.taken_topics import is_taken
from loader.config import LoaderConfig
from loader.errors import LoaderError
from loader.values.tables import SourceTopic, TableSource

RESERVED: Final = frozenset({"_penstock", "_dead"})  # folders below the root other than tables

_WILD: Final = frozenset("*?[")


def matching(topics: Iterable[str], patterns: Sequence[str], exclude: Sequence[str]) -> list[str]:
    """The topics with these exact names, whether they exist or not, and those that match
    patterns."""
    exact_names = {pattern for pattern in patterns if not _WILD & set(pattern)}
    return sorted(
        topic for topic in exact_names.union(topics) if is_taken(topic, patterns, exclude)
    )


def tables_of(config: LoaderConfig, topics: Iterable[str]) -> tuple[TableSource, ...]:
    """The tables to load, by name, for a cluster with these topics."""
    shared_tables = [
        TableSource(
            name=name,
            topics=tuple(
                SourceTopic(topic=topic, cluster=cluster)
                for topic, cluster in sorted(table.topics.items())
            ),
            with_cluster=True,
        )
        for name, table in config.tables.items()
    ]
    assigned_topics = {topic for table in config.tables.values() for topic in table.topics}
    own_tables = [
        TableSource(name=topic, topics=(SourceTopic(topic=topic, cluster=config.cluster),))
        for topic in matching(topics, config.topics, config.exclude)
        if topic not in assigned_topics
    ]
    for table in own_tables:
        if table.name in config.tables:
            raise LoaderError(
                f"topic {table.name} and `tables: {table.name}` would land in the same folder: "
                "rename the table, or `exclude` the topic"
            )
        try:
            check_topic_name(table.name)  # it becomes a folder, and brokers may not be trustworthy
        except InvalidTopicName as error:
            raise LoaderError(str(error)) from None
        if table.name in RESERVED:
            raise LoaderError(f"topic {table.name}: the folder of that name is reserved")
    return tuple(sorted([*shared_tables, *own_tables], key=lambda table: table.name))

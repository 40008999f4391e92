"""Handles `/api/v1/groups`: returns the results of the last poll, without a request to a broker."""

from typing import Final

from msgspec.structs import replace

from audit.api import answers, queries
from audit.clusters.groups.lags import (
    UNKNOWN,
    GroupsSeen,
    GroupTopic,
    behind_of,
    messages_of,
    urgency,
)
from audit.service.service import Service
from client.groups.lag import Lag

_MOST_PARTITIONS: Final = 500


def groups(service: Service, query: queries.GroupsQuery) -> answers.GroupsAnswer:
    clusters = {
        name: service.groups.get(name, GroupsSeen())
        for name in sorted(service.standing.clusters)
        if query.cluster in {"", name}
    }
    rows = [
        (row, name)
        for name, groups_seen in clusters.items()
        for row in (groups_seen.by_topic.get(query.topic, ()) if query.topic else groups_seen.rows)
        if query.group in {"", row.group} and _is_like(row, query.search)
    ]
    rows.sort(key=lambda row: (urgency(row[0]), row[1]))
    has_several_clusters = len(clusters) > 1
    return answers.GroupsAnswer(
        as_of=min((row.looked for row in clusters.values()), default=0),
        looks=bool(service.config.groups.interval),
        page=query.of(len(rows)),
        items=[_row(name, row) for row, name in query.cut(rows)],
        partitions=_partitions(clusters, query) if query.topic and query.group else [],
        notices=[
            f"Cluster {name}: {words}" if has_several_clusters else words
            for name, groups_seen in clusters.items()
            for words in groups_seen.troubles
        ],
    )


def with_groups(service: Service, row: answers.TopicRow) -> answers.TopicRow:
    """Adds to a topic's row the groups that read it, unless the topic was deleted."""
    groups_seen = service.groups.get(row.cluster)
    groups = (
        groups_seen.by_topic.get(row.topic, ())
        if groups_seen is not None and not row.deleted
        else ()
    )
    if not groups:
        return row
    greatest_delay = max(group.behind for group in groups)
    return replace(row, groups=len(groups), group_behind=greatest_delay)


def _is_like(row: GroupTopic, search: str) -> bool:
    search_text = search.casefold()
    return search_text in row.group.casefold() or search_text in row.topic.casefold()


def _row(cluster: str, row: GroupTopic) -> answers.GroupRow:
    return answers.GroupRow(
        cluster=cluster,
        group=row.group,
        state=row.state,
        topic=row.topic,
        partitions=row.partitions,
        messages=row.messages,
        behind=row.behind,
        furthest=row.furthest,
        unread=row.unread,
        unknown_partitions=row.unknown_partitions,
        unknown=row.unknown,
    )


def _partitions(
    clusters: dict[str, GroupsSeen], query: queries.GroupsQuery
) -> list[answers.GroupPartition]:
    """Partitions of the first cluster in which the group reads the topic."""
    for groups_seen in clusters.values():
        partitions = [
            _partition(target.partition, lag)
            for (group, target), lag in groups_seen.lags.items()
            if group == query.group and target.topic == query.topic
        ]
        if partitions:
            return sorted(partitions, key=lambda partition: partition.partition)[:_MOST_PARTITIONS]
    return []


def _partition(number: int, lag: Lag) -> answers.GroupPartition:
    return answers.GroupPartition(
        partition=number,
        committed=lag.committed,
        end=UNKNOWN if lag.end is None else lag.end,
        messages=messages_of(lag),
        behind=behind_of(lag),
        unknown=lag.unknown,
    )

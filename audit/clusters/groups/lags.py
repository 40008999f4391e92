"""The lags of one cluster's groups: by partition, and summed for each topic that a group reads.
Pure.

An unknown value is -1, not 0, and `unknown` says why; it makes nothing else unknown.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from client.groups.lag import GroupPartition, Lag
from client.groups.offsets import GroupOfMembers, ListedGroup
from client.producing.delivery import TopicPartition

UNKNOWN: Final = -1
_MILLI: Final = 1000


class GroupTopic(msgspec.Struct, frozen=True):
    """One group's lag in one topic. `messages` and `behind` cover the known partitions, and are
    UNKNOWN if no partition is known."""

    group: str
    state: str  # as its coordinator names it; empty if unknown
    topic: str
    partitions: int  # with a committed offset
    messages: int
    behind: int  # milliseconds: the age of the oldest unread message
    furthest: int  # the partition of that message; UNKNOWN if none is behind
    unread: int  # messages that were removed before the group had read them
    unknown_partitions: int
    unknown: str  # the reason for one of them


class GroupsSeen(msgspec.Struct, frozen=True):
    """The groups of one cluster at the last poll."""

    looked: int = 0  # when, in milliseconds; 0: not yet
    groups: Mapping[str, ListedGroup] = {}
    lags: Mapping[GroupPartition, Lag] = {}
    troubles: tuple[str, ...] = ()  # what is unknown, in words
    by_topic: Mapping[str, tuple[GroupTopic, ...]] = {}
    members: Mapping[str, GroupOfMembers] = {}  # of groups that were described

    @property
    def rows(self) -> Iterable[GroupTopic]:
        return (row for rows in self.by_topic.values() for row in rows)


def seen(
    looked: int,
    groups: Mapping[str, ListedGroup],
    lags: Mapping[GroupPartition, Lag],
    troubles: Iterable[str],
    members: Mapping[str, GroupOfMembers] = {},
) -> GroupsSeen:
    """Combines the answers of one poll."""
    topic_group_lags: dict[tuple[str, str], list[tuple[TopicPartition, Lag]]] = {}
    for (group, target), lag in lags.items():
        topic_group_lags.setdefault((target.topic, group), []).append((target, lag))
    by_topic: dict[str, list[GroupTopic]] = {}
    for (topic, group), topic_lags in topic_group_lags.items():
        listed_group = groups.get(group)
        state = listed_group.state if listed_group is not None else ""
        by_topic.setdefault(topic, []).append(_together(group, state, topic, topic_lags))
    return GroupsSeen(
        looked=looked,
        groups=groups,
        lags=lags,
        troubles=tuple(troubles),
        by_topic={topic: tuple(sorted(rows, key=urgency)) for topic, rows in by_topic.items()},
        members=members,
    )


def urgency(row: GroupTopic) -> tuple[int, int, str, str]:
    """A sort key that puts the group furthest behind first."""
    return -row.behind, -row.messages, row.group, row.topic


def behind_of(lag: Lag) -> int:
    """Returns how far behind a group is, in milliseconds."""
    return UNKNOWN if lag.seconds is None else round(lag.seconds * _MILLI)


def messages_of(lag: Lag) -> int:
    return UNKNOWN if lag.messages is None else lag.messages


def _together(
    group: str, state: str, topic: str, lags: Iterable[tuple[TopicPartition, Lag]]
) -> GroupTopic:
    partitions, messages, unread_messages, unknown_partitions = 0, UNKNOWN, 0, 0
    most_behind, furthest_partition, unknown_reason = UNKNOWN, UNKNOWN, ""
    for target, lag in lags:
        partitions += 1
        if lag.messages is not None:
            messages = max(messages, 0) + lag.messages
        if lag.begins is not None:
            unread_messages += max(0, lag.begins - lag.committed)
        if lag.unknown:
            unknown_partitions += 1
            unknown_reason = unknown_reason or f"{target}: {lag.unknown}"
        if (millis := behind_of(lag)) > most_behind:
            most_behind, furthest_partition = millis, target.partition if millis else UNKNOWN
    return GroupTopic(
        group=group,
        state=state,
        topic=topic,
        partitions=partitions,
        messages=messages,
        behind=most_behind,
        furthest=furthest_partition,
        unread=unread_messages,
        unknown_partitions=unknown_partitions,
        unknown=unknown_reason,
    )

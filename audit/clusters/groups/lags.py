"""What is known of the groups of one cluster, as values: by partition as it was asked for, and
taken together for each topic that a group reads. Pure.

What is not known is -1, with `unknown` saying why; it is no 0, and makes nothing else unknown.
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
    """One group's reading of one topic. `messages` and `behind` are of the partitions that are
    known, and UNKNOWN where none is."""

    group: str
    state: str  # as its coordinator names it; empty where it does not say
    topic: str
    partitions: int  # in which it has committed
    messages: int
    behind: int  # milliseconds: the age of the oldest message that it has not read
    furthest: int  # the partition of that message; UNKNOWN where none is behind
    unread: int  # messages that were removed before it had read them
    unknown_partitions: int
    unknown: str  # why, of one of them


class GroupsSeen(msgspec.Struct, frozen=True):
    """The groups of one cluster when it was asked last."""

    looked: int = 0  # when, in milliseconds; 0: not yet
    groups: Mapping[str, ListedGroup] = {}
    lags: Mapping[GroupPartition, Lag] = {}
    troubles: tuple[str, ...] = ()  # what could not be seen, in words
    by_topic: Mapping[str, tuple[GroupTopic, ...]] = {}
    members: Mapping[str, GroupOfMembers] = {}  # of groups that were described

    @property
    def rows(self) -> Iterable[GroupTopic]:
        return (each for of_topic in self.by_topic.values() for each in of_topic)


def seen(
    looked: int,
    groups: Mapping[str, ListedGroup],
    lags: Mapping[GroupPartition, Lag],
    troubles: Iterable[str],
    members: Mapping[str, GroupOfMembers] = {},
) -> GroupsSeen:
    """What was asked for, taken together."""
    grouped: dict[tuple[str, str], list[tuple[TopicPartition, Lag]]] = {}
    for (group, target), each in lags.items():
        grouped.setdefault((target.topic, group), []).append((target, each))
    by_topic: dict[str, list[GroupTopic]] = {}
    for (topic, group), several in grouped.items():
        listed = groups.get(group)
        state = listed.state if listed is not None else ""
        by_topic.setdefault(topic, []).append(_together(group, state, topic, several))
    return GroupsSeen(
        looked=looked,
        groups=groups,
        lags=lags,
        troubles=tuple(troubles),
        by_topic={topic: tuple(sorted(rows, key=urgency)) for topic, rows in by_topic.items()},
        members=members,
    )


def urgency(row: GroupTopic) -> tuple[int, int, str, str]:
    """What is furthest behind comes first."""
    return -row.behind, -row.messages, row.group, row.topic


def behind_of(lag: Lag) -> int:
    """In milliseconds."""
    return UNKNOWN if lag.seconds is None else round(lag.seconds * _MILLI)


def messages_of(lag: Lag) -> int:
    return UNKNOWN if lag.messages is None else lag.messages


def _together(
    group: str, state: str, topic: str, several: Iterable[tuple[TopicPartition, Lag]]
) -> GroupTopic:
    partitions, messages, unread, unknown_partitions = 0, UNKNOWN, 0, 0
    behind, furthest, unknown = UNKNOWN, UNKNOWN, ""
    for target, lag in several:
        partitions += 1
        if lag.messages is not None:
            messages = max(messages, 0) + lag.messages
        if lag.begins is not None:
            unread += max(0, lag.begins - lag.committed)
        if lag.unknown:
            unknown_partitions += 1
            unknown = unknown or f"{target}: {lag.unknown}"
        if (millis := behind_of(lag)) > behind:
            behind, furthest = millis, target.partition if millis else UNKNOWN
    return GroupTopic(
        group=group,
        state=state,
        topic=topic,
        partitions=partitions,
        messages=messages,
        behind=behind,
        furthest=furthest,
        unread=unread,
        unknown_partitions=unknown_partitions,
        unknown=unknown,
    )

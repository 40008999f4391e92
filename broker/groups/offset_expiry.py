"""Finds the expired offsets of a group, by Kafka's rules since 2.1.

In a group without members, an offset's retention begins when the last member left or when it was
committed, whichever was later. In a group with members of the `consumer` protocol, it begins at the
commit for topics that no member subscribes to. Other offsets are kept as long as there are members,
since the topics that these read are unknown.
"""

from collections.abc import Mapping

from broker.groups.membership.group import Group
from broker.groups.membership.values import State
from cluster.values import CommittedOffset, TopicPartition
from wire.consumer_protocol import PROTOCOL_TYPE, read_subscription
from wire.errors import MemberDataError


def subscribed(group: Group) -> frozenset[str] | None:
    """Returns the topics that the group's members subscribe to; None if unknown."""
    if group.protocol_type != PROTOCOL_TYPE or group.state is not State.STABLE:
        return None
    topics: set[str] = set()
    for member in group.describe().members:
        try:
            topics.update(read_subscription(member.metadata).topics)
        except MemberDataError:
            return None
    return frozenset(topics)


def too_old(
    group: Group,
    offsets: Mapping[TopicPartition, CommittedOffset],
    *,
    empty_since_ms: int | None,
    before_ms: int,
) -> list[TopicPartition]:
    """Returns the offsets whose retention began before `before_ms`."""
    if group.state is State.EMPTY:
        if empty_since_ms is None or empty_since_ms > before_ms:
            return []
        kept_topics: frozenset[str] | None = frozenset()
    else:
        kept_topics = subscribed(group)
    if kept_topics is None:
        return []
    return [
        partition
        for partition, offset in offsets.items()
        if offset.committed_ms <= before_ms and partition.topic not in kept_topics
    ]

"""Which offsets of a group are too old: Kafka's rules since 2.1.

Without members, the time begins when the last one left, or when the offset was committed, whichever
was later. With members of the `consumer` protocol, it begins for offsets of topics that none of
them subscribes to when they were committed. Others are kept as long as there are members: nobody
knows what these read.
"""

from collections.abc import Mapping

from broker.groups.group import Group
from broker.groups.values import State
from cluster.values import CommittedOffset, TopicPartition
from wire.consumer_protocol import PROTOCOL_TYPE, read_subscription
from wire.errors import MemberDataError


def subscribed(group: Group) -> frozenset[str] | None:
    """The topics that its members subscribe to; None if that is not known."""
    if group.protocol_type != PROTOCOL_TYPE or group.state is not State.STABLE:
        return None
    topics: set[str] = set()
    for each in group.describe().members:
        try:
            topics.update(read_subscription(each.metadata).topics)
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
    """Those whose time began before that."""
    if group.state is State.EMPTY:
        if empty_since_ms is None or empty_since_ms > before_ms:
            return []
        kept: frozenset[str] | None = frozenset()
    else:
        kept = subscribed(group)
    if kept is None:
        return []
    return [
        each
        for each, offset in offsets.items()
        if offset.committed_ms <= before_ms and each.topic not in kept
    ]

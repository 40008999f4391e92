"""Consumer groups as their coordinators know them: which there are, who is in them, how far they
have read.

Asked of any brokers, Penstock's and Apache Kafka's, with few requests for many groups. A group that
is not there is Dead where it is described, and has no offsets. Which groups there are each broker
knows of those that it coordinates, so all live brokers are asked; a group that moves from one to
another meanwhile may be missing, and is never shown twice.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

import msgspec

from client.brokers import Brokers
from client.connection import BrokerConnection
from client.delivery import TopicPartition
from client.errors import ClientError, check
from client.group_coordinators import ask_coordinators, ask_each
from client.rights import on_group, on_topic
from wire.acls import Operation
from wire.consumer_protocol import (
    PROTOCOL_TYPE,
    WITHOUT_COORDINATOR,
    pairs,
    read_assignment,
    read_subscription,
)
from wire.errors import ErrorCode, MemberDataError
from wire.messages import describe_groups as describe_groups_api
from wire.messages import list_groups as list_groups_api
from wire.messages import offset_fetch
from wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
)
from wire.messages.list_groups import ListGroupsRequest
from wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
)

EMPTY: Final = "Empty"
DEAD: Final = "Dead"
STABLE: Final = "Stable"
REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance"})

_FIRST_OF_ALL_OFFSETS: Final = 2
_FIRST_OF_SEVERAL: Final = 8


class ListedGroup(msgspec.Struct, frozen=True):
    """`protocol_type` is `consumer` for consumers, empty where nobody was ever a member, and others
    have other words. `state` is empty where a broker is too old to say it."""

    name: str
    protocol_type: str
    state: str
    coordinator: int


class MemberOfGroup(msgspec.Struct, frozen=True):
    """`topics` are what it subscribes to, `partitions` what it was given to read. Both are None
    where it does not say it as consumers do; while a group rebalances they are not shown."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    topics: tuple[str, ...] | None
    partitions: tuple[TopicPartition, ...] | None


class GroupOfMembers(msgspec.Struct, frozen=True):
    """A group that was described; Dead if it is not there."""

    name: str
    protocol_type: str
    protocol: str
    """How partitions are assigned, as its members have agreed on it."""
    state: str
    coordinator: int
    members: tuple[MemberOfGroup, ...]

    @property
    def is_there(self) -> bool:
        return self.state != DEAD

    @property
    def has_members(self) -> bool:
        """Or may have: it is not known to have none."""
        return self.state not in {EMPTY, DEAD}

    @property
    def is_rebalancing(self) -> bool:
        return self.state in REBALANCING

    @property
    def kind(self) -> str:
        """`penstock` for groups whose members claim partitions themselves, `kafka` for others."""
        return "penstock" if self.protocol == WITHOUT_COORDINATOR else "kafka"


class Committed(msgspec.Struct, frozen=True):
    """The next offset to read; what is before it was written in `leader_epoch` (-1: not said)."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


def list_groups(brokers: Brokers) -> tuple[ListedGroup, ...]:
    """All groups that we may see, by name."""
    found: dict[str, ListedGroup] = {}
    for broker in sorted(brokers.persist(lambda: brokers.refresh([])).brokers):
        for each in brokers.persist(partial(_listed, brokers, broker)):
            found.setdefault(each.name, each)
    return tuple(found[name] for name in sorted(found))


def describe_groups(brokers: Brokers, names: Iterable[str]) -> dict[str, GroupOfMembers]:
    """State and members of these groups, by name, in order."""

    def ask(
        asked: BrokerConnection, broker: int, groups: Sequence[str]
    ) -> Iterator[tuple[str, GroupOfMembers]]:
        request = DescribeGroupsRequest(groups=tuple(groups))
        for each in asked.call(describe_groups_api.API, request).groups:
            if each.error_code is not ErrorCode.group_id_not_found:
                needs = on_group(brokers.who, each.group_id, Operation.DESCRIBE)
                check(each.error_code, f"group {each.group_id}", needs=needs)
            yield each.group_id, _described(each, broker)

    return ask_coordinators(brokers, names, ask)


def committed_offsets(
    brokers: Brokers, names: Iterable[str]
) -> dict[str, dict[TopicPartition, Committed]]:
    """All that these groups have committed, of topics that we may see, by group, in order."""

    def ask(
        asked: BrokerConnection, _: int, groups: Sequence[str]
    ) -> Iterator[tuple[str, dict[TopicPartition, Committed]]]:
        for group, answer in _fetched(asked, groups):
            needs = on_group(brokers.who, group, Operation.DESCRIBE)
            check(answer.error_code, f"offsets of group {group}", needs=needs)
            yield group, _offsets(brokers, group, answer)

    return ask_coordinators(brokers, names, ask)


def _listed(brokers: Brokers, broker: int) -> list[ListedGroup]:
    if broker not in brokers.known.brokers:
        return []
    try:
        answer = brokers.broker(broker).call(list_groups_api.API, ListGroupsRequest())
        check(answer.error_code, f"groups of broker {broker}")
    except ClientError:
        brokers.refresh([])  # it may be about to stop, and others have its groups then
        raise
    return [
        ListedGroup(each.group_id, each.protocol_type, each.group_state, broker)
        for each in answer.groups
    ]


def _described(group: DescribedGroup, broker: int) -> GroupOfMembers:
    is_there = group.error_code is ErrorCode.none
    return GroupOfMembers(
        name=group.group_id,
        protocol_type=group.protocol_type,
        protocol=group.protocol_data,
        state=group.group_state if is_there else DEAD,
        coordinator=broker,
        members=tuple(_member(group, each) for each in group.members),
    )


def _member(group: DescribedGroup, member: DescribedGroupMember) -> MemberOfGroup:
    topics: tuple[str, ...] | None = None
    partitions: tuple[TopicPartition, ...] | None = None
    if group.protocol_type == PROTOCOL_TYPE and group.group_state == STABLE:
        try:
            topics = tuple(sorted(set(read_subscription(member.member_metadata).topics)))
            assigned = pairs(read_assignment(member.member_assignment).assigned_partitions)
            partitions = tuple(sorted(TopicPartition(*each) for each in set(assigned)))
        except MemberDataError:  # other programs write it, as they like
            topics = partitions = None
    return MemberOfGroup(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host.removeprefix("/"),
        topics=topics,
        partitions=partitions,
    )


def _fetched(
    asked: BrokerConnection, groups: Sequence[str]
) -> Iterator[tuple[str, OffsetFetchResponseGroup]]:
    wanted = [OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups]
    api = offset_fetch.API
    asked.needs_version(api, _FIRST_OF_ALL_OFFSETS)
    if asked.version(api) >= _FIRST_OF_SEVERAL:
        for each in asked.call(api, OffsetFetchRequest(groups=tuple(wanted))).groups:
            yield each.group_id, each
        return
    requests = [OffsetFetchRequest(groups=(each,)) for each in wanted]
    for group, answer in zip(groups, ask_each(asked, api, requests), strict=True):
        yield group, answer.groups[0]  # up to version 7 it does not name its group


def _offsets(
    brokers: Brokers, group: str, answer: OffsetFetchResponseGroup
) -> dict[TopicPartition, Committed]:
    found: dict[TopicPartition, Committed] = {}
    for topic in sorted(answer.topics, key=lambda topic: topic.name):
        needs = on_topic(brokers.who, topic.name, Operation.DESCRIBE)
        for each in sorted(topic.partitions, key=lambda each: each.partition_index):
            target = TopicPartition(topic.name, each.partition_index)
            check(each.error_code, f"offset of group {group} in {target}", needs=needs)
            if each.committed_offset >= 0:
                found[target] = Committed(
                    each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                )
    return found

"""Consumer groups as their coordinators know them: list, describe, committed offsets.

Works with any brokers, Penstock's and Apache Kafka's, with few requests for many groups. A group
that does not exist is described as Dead, and has no offsets. Each broker lists only the groups that
it coordinates, so all live brokers are asked. A group whose coordinator changes meanwhile may be
missing, but is never listed twice.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

import msgspec

from client.connection.brokers import Brokers
from client.connection.connection import BrokerConnection
from client.errors import ClientError, check
from client.groups.coordinators import ask_coordinators, ask_each
from client.producing.delivery import TopicPartition
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
    """A listed group. `protocol_type` is `consumer` for consumers, empty for groups that never had
    a member, and something else for other clients. `state` is empty if the broker is too old to
    return it."""

    name: str
    protocol_type: str
    state: str
    coordinator: int


class MemberOfGroup(msgspec.Struct, frozen=True):
    """A member with the `topics` it subscribes to and the `partitions` assigned to it. Both are
    None if the member is not a consumer, and while the group rebalances."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    topics: tuple[str, ...] | None
    partitions: tuple[TopicPartition, ...] | None


class GroupOfMembers(msgspec.Struct, frozen=True):
    """A described group, in state Dead if it does not exist."""

    name: str
    protocol_type: str
    protocol: str
    """The partition assignor that the members agreed on."""
    state: str
    coordinator: int
    members: tuple[MemberOfGroup, ...]

    @property
    def is_there(self) -> bool:
        return self.state != DEAD

    @property
    def has_members(self) -> bool:
        """Whether the group has members; true also if that is unknown."""
        return self.state not in {EMPTY, DEAD}

    @property
    def is_rebalancing(self) -> bool:
        return self.state in REBALANCING

    @property
    def kind(self) -> str:
        """`penstock` for groups whose members claim partitions themselves, otherwise `kafka`."""
        return "penstock" if self.protocol == WITHOUT_COORDINATOR else "kafka"


class Committed(msgspec.Struct, frozen=True):
    """A committed position: the next offset to read; the record before it was written in
    `leader_epoch` (-1: unknown)."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


def list_groups(brokers: Brokers) -> tuple[ListedGroup, ...]:
    """Returns all visible groups, by name."""
    groups: dict[str, ListedGroup] = {}
    for broker in sorted(brokers.persist(lambda: brokers.refresh([])).brokers):
        for group in brokers.persist(partial(_listed, brokers, broker)):
            groups.setdefault(group.name, group)
    return tuple(groups[name] for name in sorted(groups))


def describe_groups(brokers: Brokers, names: Iterable[str]) -> dict[str, GroupOfMembers]:
    """Returns state and members of these groups, by name, in order."""

    def ask(
        connection: BrokerConnection, broker: int, groups: Sequence[str]
    ) -> Iterator[tuple[str, GroupOfMembers]]:
        request = DescribeGroupsRequest(groups=tuple(groups))
        for group in connection.call(describe_groups_api.API, request).groups:
            if group.error_code is not ErrorCode.group_id_not_found:
                needs = on_group(brokers.who, group.group_id, Operation.DESCRIBE)
                check(group.error_code, f"group {group.group_id}", needs=needs)
            yield group.group_id, _described(group, broker)

    return ask_coordinators(brokers, names, ask)


def committed_offsets(
    brokers: Brokers, names: Iterable[str]
) -> dict[str, dict[TopicPartition, Committed]]:
    """Returns all committed offsets of these groups, in visible topics, by group, in order."""

    def ask(
        connection: BrokerConnection, _: int, groups: Sequence[str]
    ) -> Iterator[tuple[str, dict[TopicPartition, Committed]]]:
        for group, response in _fetched(connection, groups):
            needs = on_group(brokers.who, group, Operation.DESCRIBE)
            check(response.error_code, f"offsets of group {group}", needs=needs)
            yield group, _offsets(brokers, group, response)

    return ask_coordinators(brokers, names, ask)


def _listed(brokers: Brokers, broker: int) -> list[ListedGroup]:
    if broker not in brokers.known.brokers:
        return []
    try:
        response = brokers.broker(broker).call(list_groups_api.API, ListGroupsRequest())
        check(response.error_code, f"groups of broker {broker}")
    except ClientError:
        brokers.refresh([])  # it may be stopping, and other brokers then have its groups
        raise
    return [
        ListedGroup(group.group_id, group.protocol_type, group.group_state, broker)
        for group in response.groups
    ]


def _described(group: DescribedGroup, broker: int) -> GroupOfMembers:
    exists = group.error_code is ErrorCode.none
    return GroupOfMembers(
        name=group.group_id,
        protocol_type=group.protocol_type,
        protocol=group.protocol_data,
        state=group.group_state if exists else DEAD,
        coordinator=broker,
        members=tuple(_member(group, member) for member in group.members),
    )


def _member(group: DescribedGroup, member: DescribedGroupMember) -> MemberOfGroup:
    topics: tuple[str, ...] | None = None
    partitions: tuple[TopicPartition, ...] | None = None
    if group.protocol_type == PROTOCOL_TYPE and group.group_state == STABLE:
        try:
            topics = tuple(sorted(set(read_subscription(member.member_metadata).topics)))
            assigned_pairs = pairs(read_assignment(member.member_assignment).assigned_partitions)
            partitions = tuple(sorted(TopicPartition(*pair) for pair in set(assigned_pairs)))
        except MemberDataError:  # other programs may write anything here
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
    connection: BrokerConnection, groups: Sequence[str]
) -> Iterator[tuple[str, OffsetFetchResponseGroup]]:
    group_requests = [OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups]
    api = offset_fetch.API
    connection.needs_version(api, _FIRST_OF_ALL_OFFSETS)
    if connection.version(api) >= _FIRST_OF_SEVERAL:
        for group_response in connection.call(
            api, OffsetFetchRequest(groups=tuple(group_requests))
        ).groups:
            yield group_response.group_id, group_response
        return
    requests = [OffsetFetchRequest(groups=(group_request,)) for group_request in group_requests]
    for group, response in zip(groups, ask_each(connection, api, requests), strict=True):
        yield group, response.groups[0]  # up to version 7 a response does not name its group


def _offsets(
    brokers: Brokers, group: str, response: OffsetFetchResponseGroup
) -> dict[TopicPartition, Committed]:
    committed_offsets: dict[TopicPartition, Committed] = {}
    for topic in sorted(response.topics, key=lambda topic: topic.name):
        needs = on_topic(brokers.who, topic.name, Operation.DESCRIBE)
        for partition in sorted(topic.partitions, key=lambda part: part.partition_index):
            target = TopicPartition(topic.name, partition.partition_index)
            check(partition.error_code, f"offset of group {group} in {target}", needs=needs)
            if partition.committed_offset >= 0:
                committed_offsets[target] = Committed(
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.metadata or "",
                )
    return committed_offsets

"""What stands in the nodes: JSON, versioned.

A field may be added without a new version, so a reader passes over fields it does not know. A new
version means that older releases must not read the node; they say so instead of guessing.
"""

import zlib
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec

from cluster.errors import GroupTooLarge, NodeUnreadable
from cluster.values import (
    NO_EPOCH,
    NO_VERSION,
    BrokerInfo,
    CommittedOffset,
    Endpoint,
    GroupInfo,
    GroupKind,
    GroupMember,
    Move,
    PartitionInfo,
    TopicInfo,
)
from wire.acls import Acl, Operation, Permission

VERSION: Final = 1

MOST_PACKED: Final = 640 * 1024  # of a group's members: with what stands beside them, a transaction
MOST_UNPACKED: Final = 64 * 1024 * 1024
_FAST: Final = 1  # zlib's


class _Versioned(msgspec.Struct, frozen=True):
    version: int


class BrokerNode(msgspec.Struct, frozen=True, kw_only=True):
    """/brokers/ids/{id}; the id itself is the node's name."""

    version: int = VERSION
    host: str
    port: int
    directory_id: UUID
    location: str
    started_ms: int
    rack: str | None = None
    http_port: int | None = None
    endpoints: tuple[Endpoint, ...] = ()


class DirectoryNode(msgspec.Struct, frozen=True, kw_only=True):
    """/brokers/directories/{id}"""

    version: int = VERSION
    directory_id: UUID


class TopicNode(msgspec.Struct, frozen=True, kw_only=True):
    """/brokers/topics/{topic}. `replicas` is None while the topic is still being created; `moves`
    has the partitions whose replicas are on their way."""

    version: int = VERSION
    topic_id: UUID
    replicas: tuple[tuple[int, ...], ...] | None
    moves: dict[int, Move] | msgspec.UnsetType = msgspec.UNSET

    def move(self, index: int) -> Move | None:
        return self.moves.get(index) if self.moves else None


class StateNode(msgspec.Struct, frozen=True, kw_only=True):
    """/brokers/topics/{topic}/partitions/{p}/state"""

    version: int = VERSION
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    unclean: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET


class ControllerNode(msgspec.Struct, frozen=True, kw_only=True):
    """/controller"""

    version: int = VERSION
    broker_id: int


class EpochNode(msgspec.Struct, frozen=True, kw_only=True):
    """/controller_epoch"""

    version: int = VERSION
    epoch: int


class ClusterNode(msgspec.Struct, frozen=True, kw_only=True):
    """/cluster/id"""

    version: int = VERSION
    cluster_id: str


class ProducerIdsNode(msgspec.Struct, frozen=True, kw_only=True):
    """/producer_ids: the first id that earlier brokers had not given yet"""

    version: int = VERSION
    next_id: int


class ConfigNode(msgspec.Struct, frozen=True, kw_only=True):
    """/config/topics/{topic}, /config/brokers/{id}"""

    version: int = VERSION
    config: dict[str, str]


class AclEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One ACL in Kafka's words: `User:alice`, `Allow`, `Read`, `*`."""

    principal: str
    permissionType: str  # noqa: N815  # Kafka's name
    operation: str
    host: str


class AclNode(msgspec.Struct, frozen=True, kw_only=True):
    """/acls/{literal, prefixed}/{kind}/{name}, as Kafka writes it"""

    version: int = VERSION
    acls: tuple[AclEntry, ...]


class WriterNode(msgspec.Struct, frozen=True, kw_only=True):
    """/registry/{topic}/writer: `address` is host:port, `instance` one process"""

    version: int = VERSION
    address: str
    instance: UUID


class WriterEpochNode(msgspec.Struct, frozen=True, kw_only=True):
    """/registry/{topic}/epoch: the last writer, and the Kafka cluster that has the topic"""

    version: int = VERSION
    cluster_id: str
    epoch: int
    producer_id: int
    producer_epoch: int
    retired_id: int | None


class DeletionNode(msgspec.Struct, frozen=True, kw_only=True):
    """/admin/delete_topics/{topic}: which topic of that name is to go"""

    version: int = VERSION
    topic_id: UUID


class GroupNode(msgspec.Struct, frozen=True, kw_only=True):
    """/consumers/{group}; the name itself is the node's name."""

    version: int = VERSION
    kind: GroupKind
    coordinator: int
    generation: int
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    empty_since_ms: int | None = None


class MembersNode(msgspec.Struct, frozen=True, kw_only=True):
    """/consumers/{group}/members: MessagePack, compressed by zlib, since members say much the same
    and may say a lot. Others who read it see bytes, so it is not JSON."""

    version: int = VERSION
    members: tuple[GroupMember, ...]


class OffsetNode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """/consumers/{group}/offsets/{topic}/{partition}"""

    version: int
    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    committed_ms: int


class MemberNode(msgspec.Struct, frozen=True, kw_only=True):
    """/consumers/{group}/ids/{member}: what a member of the paper's kind subscribes to."""

    version: int = VERSION
    topics: tuple[str, ...]


class OwnedTopicNode(msgspec.Struct, frozen=True, kw_only=True):
    """/consumers/{group}/owners/{topic}: which topic of that name the group reads. The first
    `partitions` were there when it began; for those that came later nobody has chosen a start."""

    version: int = VERSION
    topic_id: UUID
    partitions: int


class OwnerNode(msgspec.Struct, frozen=True, kw_only=True):
    """/consumers/{group}/owners/{topic}/{partition}"""

    version: int = VERSION
    member: str


_OPERATIONS: Final = {each.words: each for each in Operation if each is not Operation.ANY}
_PERMISSIONS: Final = {each.words: each for each in Permission if each is not Permission.ANY}

N = TypeVar("N", bound=msgspec.Struct)


def encode(node: msgspec.Struct) -> bytes:
    return msgspec.json.encode(node)


def decode(path: str, data: bytes, kind: type[N]) -> N:
    """Read a node's data, or raise NodeUnreadable naming the node."""
    return _decode(path, data, kind, msgspec.json.decode)


def _decode(path: str, data: bytes, kind: type[N], decoded: Callable[..., Any]) -> N:
    try:
        version = decoded(data, type=_Versioned).version
        if version > VERSION:
            raise NodeUnreadable(
                f"ZooKeeper node {path} has version {version}, this release reads up to {VERSION}: "
                "it was written by a newer Penstock"
            )
        node: N = decoded(data, type=kind)
        return node
    except msgspec.DecodeError as error:
        shown = data[:100].decode("utf-8", "replace")
        raise NodeUnreadable(f"ZooKeeper node {path} cannot be read: {error}: {shown!r}") from None


def broker_node(info: BrokerInfo) -> BrokerNode:
    return BrokerNode(
        host=info.host,
        port=info.port,
        directory_id=info.directory_id,
        location=info.location,
        started_ms=info.started_ms,
        rack=info.rack,
        http_port=info.http_port,
        endpoints=info.endpoints,
    )


def broker_info(broker_id: int, node: BrokerNode) -> BrokerInfo:
    return BrokerInfo(
        broker_id=broker_id,
        host=node.host,
        port=node.port,
        directory_id=node.directory_id,
        location=node.location,
        started_ms=node.started_ms,
        rack=node.rack,
        http_port=node.http_port,
        endpoints=node.endpoints,
    )


def topic_node(topic: TopicInfo) -> TopicNode:
    replicas = tuple(partition.replicas for partition in topic.partitions)
    moves = {index: each.move for index, each in enumerate(topic.partitions) if each.move}
    return TopicNode(topic_id=topic.topic_id, replicas=replicas, moves=moves or msgspec.UNSET)


def state_node(partition: PartitionInfo) -> StateNode:
    return StateNode(
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        controller_epoch=partition.controller_epoch,
        unclean=partition.unclean or msgspec.UNSET,
    )


def partition_info(
    replicas: tuple[int, ...],
    state: StateNode,
    version: int = NO_VERSION,
    move: Move | None = None,
) -> PartitionInfo:
    return PartitionInfo(
        replicas=replicas,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        controller_epoch=state.controller_epoch,
        version=version,
        move=move,
        unclean=state.unclean or (),
    )


def acl_node(acls: tuple[Acl, ...]) -> AclNode:
    return AclNode(
        acls=tuple(
            AclEntry(
                principal=each.principal,
                permissionType=each.permission.words,
                operation=each.operation.words,
                host=each.host,
            )
            for each in acls
        )
    )


def acls_of(path: str, data: bytes) -> tuple[Acl, ...]:
    """What stands in a node; each ACL once, in order."""
    try:
        return tuple(
            sorted(
                {
                    Acl(
                        each.principal,
                        each.host,
                        _OPERATIONS[each.operation],
                        _PERMISSIONS[each.permissionType],
                    )
                    for each in decode(path, data, AclNode).acls
                }
            )
        )
    except KeyError as unknown:
        raise NodeUnreadable(
            f"ZooKeeper node {path} has the word {unknown.args[0][:40]!r}, which is no operation "
            "and no permission that this release knows"
        ) from None


def group_node(group: GroupInfo) -> GroupNode:
    return GroupNode(
        kind=group.kind,
        coordinator=group.coordinator,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader,
        empty_since_ms=group.empty_since_ms,
    )


def group_info(name: str, node: GroupNode) -> GroupInfo:
    return GroupInfo(
        name=name,
        kind=node.kind,
        coordinator=node.coordinator,
        generation=node.generation,
        protocol_type=node.protocol_type,
        protocol=node.protocol,
        leader=node.leader,
        empty_since_ms=node.empty_since_ms,
    )


def encode_members(group: str, members: Iterable[GroupMember]) -> bytes:
    """Raises GroupTooLarge."""
    plain = msgspec.msgpack.encode(MembersNode(members=tuple(members)))
    packed = b"" if len(plain) > MOST_UNPACKED else zlib.compress(plain, _FAST)
    if not packed or len(packed) > MOST_PACKED:
        raise GroupTooLarge(
            f"what the members of group {group!r} say of themselves and are given is {len(plain)} "
            f"bytes, {len(packed) or 'not'} compressed; a node may hold {MOST_PACKED} of "
            f"{MOST_UNPACKED}: let fewer members subscribe to fewer topics"
        )
    return packed


def members_of(path: str, data: bytes) -> tuple[GroupMember, ...]:
    """What stands in such a node, or NodeUnreadable."""
    unpacking = zlib.decompressobj()
    try:
        plain = unpacking.decompress(data, MOST_UNPACKED)
    except zlib.error as error:
        raise NodeUnreadable(f"ZooKeeper node {path} cannot be read: {error}") from None
    if not unpacking.eof:
        raise NodeUnreadable(f"ZooKeeper node {path} cannot be read: it has no end")
    return _decode(path, plain, MembersNode, msgspec.msgpack.decode).members


def encode_offset(offset: CommittedOffset) -> bytes:
    return encode(
        OffsetNode(
            version=VERSION,
            offset=offset.offset,
            leader_epoch=offset.leader_epoch,
            metadata=offset.metadata,
            committed_ms=offset.committed_ms,
        )
    )


def offset_of(path: str, data: bytes) -> CommittedOffset:
    """What stands in such a node, or NodeUnreadable."""
    node = decode(path, data, OffsetNode)
    return CommittedOffset(
        offset=node.offset,
        leader_epoch=node.leader_epoch,
        metadata=node.metadata,
        committed_ms=node.committed_ms,
    )

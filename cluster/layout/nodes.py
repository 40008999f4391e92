"""The contents of nodes: JSON, versioned.

A field may be added without a new version, so readers ignore unknown fields. A new version means
that older releases must not read the node; they raise an error instead of guessing.
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

MOST_PACKED: Final = 640 * 1024  # of a group's members: leaves room for the rest of a transaction
MOST_UNPACKED: Final = 64 * 1024 * 1024
_FAST: Final = 1  # zlib's level


class _Versioned(msgspec.Struct, frozen=True):
    version: int


class BrokerNode(msgspec.Struct, frozen=True, kw_only=True):
    """/brokers/ids/{id}; the id is the node's name."""

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
    """/brokers/topics/{topic}. `replicas` is None while the topic is being created; `moves` has the
    partitions that are being reassigned."""

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
    """/producer_ids: the first id that earlier releases have not assigned"""

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
    """/admin/delete_topics/{topic}: the id of the topic to delete"""

    version: int = VERSION
    topic_id: UUID


class GroupNode(msgspec.Struct, frozen=True, kw_only=True):
    """/consumers/{group}; the name is the node's name."""

    version: int = VERSION
    kind: GroupKind
    coordinator: int
    generation: int
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    empty_since_ms: int | None = None


class MembersNode(msgspec.Struct, frozen=True, kw_only=True):
    """/consumers/{group}/members: MessagePack compressed by zlib, since members are repetitive, and
    may be large. Other readers see bytes, so JSON would be no help."""

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
    """/consumers/{group}/ids/{member}: the subscriptions of a member of Penstock's kind."""

    version: int = VERSION
    topics: tuple[str, ...]


class OwnedTopicNode(msgspec.Struct, frozen=True, kw_only=True):
    """/consumers/{group}/owners/{topic}: the id of the topic that the group reads. The first
    `partitions` existed when the group began to read it; later ones have no chosen start offset."""

    version: int = VERSION
    topic_id: UUID
    partitions: int


class OwnerNode(msgspec.Struct, frozen=True, kw_only=True):
    """/consumers/{group}/owners/{topic}/{partition}"""

    version: int = VERSION
    member: str


_OPERATIONS: Final = {
    operation.words: operation for operation in Operation if operation is not Operation.ANY
}
_PERMISSIONS: Final = {
    permission.words: permission for permission in Permission if permission is not Permission.ANY
}

N = TypeVar("N", bound=msgspec.Struct)


def encode(node: msgspec.Struct) -> bytes:
    return msgspec.json.encode(node)


def decode(path: str, data: bytes, kind: type[N]) -> N:
    """Decodes a node's data. Raises NodeUnreadable, which names the node."""
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
        excerpt = data[:100].decode("utf-8", "replace")
        raise NodeUnreadable(
            f"ZooKeeper node {path} cannot be read: {error}: {excerpt!r}"
        ) from None


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
    moves_by_index = {index: p.move for index, p in enumerate(topic.partitions) if p.move}
    return TopicNode(
        topic_id=topic.topic_id, replicas=replicas, moves=moves_by_index or msgspec.UNSET
    )


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
                principal=acl.principal,
                permissionType=acl.permission.words,
                operation=acl.operation.words,
                host=acl.host,
            )
            for acl in acls
        )
    )


def acls_of(path: str, data: bytes) -> tuple[Acl, ...]:
    """Returns the ACLs in a node, sorted and without duplicates."""
    try:
        return tuple(
            sorted(
                {
                    Acl(
                        entry.principal,
                        entry.host,
                        _OPERATIONS[entry.operation],
                        _PERMISSIONS[entry.permissionType],
                    )
                    for entry in decode(path, data, AclNode).acls
                }
            )
        )
    except KeyError as unknown:
        raise NodeUnreadable(
            f"ZooKeeper node {path} has the word {unknown.args[0][:40]!r}, which is not an "
            "operation or permission that this release knows"
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
    """Encodes the members. Raises GroupTooLarge."""
    uncompressed = msgspec.msgpack.encode(MembersNode(members=tuple(members)))
    compressed = b"" if len(uncompressed) > MOST_UNPACKED else zlib.compress(uncompressed, _FAST)
    if not compressed or len(compressed) > MOST_PACKED:
        size = f"{len(uncompressed)} bytes (limit {MOST_UNPACKED})"
        if compressed:
            size += f", {len(compressed)} compressed (limit {MOST_PACKED})"
        raise GroupTooLarge(
            f"the metadata and assignments of group {group!r} are too large: {size}: "
            "reduce the number of members or subscriptions"
        )
    return compressed


def members_of(path: str, data: bytes) -> tuple[GroupMember, ...]:
    """Decodes a group's members. Raises NodeUnreadable."""
    decompressor = zlib.decompressobj()
    try:
        uncompressed = decompressor.decompress(data, MOST_UNPACKED)
    except zlib.error as error:
        raise NodeUnreadable(f"ZooKeeper node {path} cannot be read: {error}") from None
    if not decompressor.eof:
        raise NodeUnreadable(f"ZooKeeper node {path} cannot be read: it is truncated")
    return _decode(path, uncompressed, MembersNode, msgspec.msgpack.decode).members


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
    """Decodes a committed offset. Raises NodeUnreadable."""
    node = decode(path, data, OffsetNode)
    return CommittedOffset(
        offset=node.offset,
        leader_epoch=node.leader_epoch,
        metadata=node.metadata,
        committed_ms=node.committed_ms,
    )

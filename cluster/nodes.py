"""What stands in the nodes: JSON, versioned.

A field may be added without a new version, so a reader passes over fields it does not know. A new
version means that older releases must not read the node; they say so instead of guessing.
"""

from typing import Final, TypeVar
from uuid import UUID

import msgspec

from cluster.errors import NodeUnreadable
from cluster.values import NO_VERSION, BrokerInfo, Endpoint, Move, PartitionInfo, TopicInfo
from wire.acls import Acl, Operation, Permission

VERSION: Final = 1


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
    """/producer_ids: the first id that nobody has been given yet"""

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


_OPERATIONS: Final = {each.words: each for each in Operation if each is not Operation.ANY}
_PERMISSIONS: Final = {each.words: each for each in Permission if each is not Permission.ANY}

N = TypeVar("N", bound=msgspec.Struct)


def encode(node: msgspec.Struct) -> bytes:
    return msgspec.json.encode(node)


def decode(path: str, data: bytes, kind: type[N]) -> N:
    """Read a node's data, or raise NodeUnreadable naming the node."""
    try:
        version = msgspec.json.decode(data, type=_Versioned).version
        if version > VERSION:
            raise NodeUnreadable(
                f"ZooKeeper node {path} has version {version}, this release reads up to {VERSION}: "
                "it was written by a newer Penstock"
            )
        return msgspec.json.decode(data, type=kind)
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

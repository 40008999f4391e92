"""The contents of the shared map, as values, independent of ZooKeeper.

A `ClusterSnapshot` is immutable: `ClusterView` replaces it as a whole, so a holder sees one moment.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

import msgspec

if TYPE_CHECKING:  # commands that ask no broker need the errors, and so these values
    from wire.acls import Acls

NO_LEADER: Final = -1
NOBODY: Final = -1  # the coordinator of a group without one
NO_EPOCH: Final = -1
NO_VERSION: Final = -1

_EMPTY: Mapping[Any, Any] = MappingProxyType({})  # Any: used for all types of mappings


def _empty() -> Mapping[Any, Any]:
    return _EMPTY


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint of a broker; `protocol` is Kafka's name (PLAINTEXT, SSL, …)."""

    protocol: str
    host: str
    port: int
    name: str = "PLAINTEXT"
    """The listener's name."""


class BrokerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A broker's registration.

    `directory_id` is the id in its data directory, `location` the host and path of that directory.
    A broker locks its directory, so no two live brokers share both. `rack` is None if not
    configured.
    """

    broker_id: int
    host: str
    port: int
    directory_id: UUID
    location: str
    started_ms: int
    rack: str | None = None
    http_port: int | None = None
    endpoints: tuple[Endpoint, ...] = ()

    @property
    def machine(self) -> str:
        """The name of the broker's host."""
        return self.location.partition(":")[0]

    def reached_by(self, listener: str) -> tuple[str, int] | None:
        """Returns the broker's address on the listener with this name; None if it has no such
        listener."""
        for endpoint in self.endpoints:
            if endpoint.name == listener:
                return endpoint.host, endpoint.port
        return None


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A reassignment in progress, during which a partition has both sets of replicas."""

    target: tuple[int, ...]
    origin: tuple[int, ...]

    @property
    def adding(self) -> tuple[int, ...]:
        return tuple(replica for replica in self.target if replica not in self.origin)

    @property
    def removing(self) -> tuple[int, ...]:
        return tuple(replica for replica in self.origin if replica not in self.target)


class PartitionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The replicas and the leader of a partition. `leader` is NO_LEADER if there is none.

    `version` is that of its node in ZooKeeper, for compare-and-set. `unclean` has the newest leader
    epochs that began with a leader outside of the in-sync set: an unknown number of messages that
    it lacked is lost.
    """

    replicas: tuple[int, ...]
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    version: int = NO_VERSION
    move: Move | None = None
    unclean: tuple[int, ...] = ()

    @property
    def is_replicated(self) -> bool:
        return len(self.replicas) > 1


class TopicInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A topic and its partitions, numbered by their index in the tuple."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionInfo, ...]


class ControllerEpoch(msgspec.Struct, frozen=True):
    """The right to write the map as its controller.

    `epoch` counts controllers; `version` is that of the node `/controller_epoch`, which every write
    of a controller checks in the same transaction.
    """

    epoch: int
    version: int


class WriterEpoch(msgspec.Struct, frozen=True):
    """The right to write a schemas topic: as this producer, in this epoch.

    `epoch` counts writers; `version` is that of the counting node. `retired_id` is the producer id
    of earlier writers, which its last epoch fences.
    """

    epoch: int
    producer_id: int
    producer_epoch: int
    retired_id: int | None
    version: int


class GroupKind(Enum):
    """The protocol of a group's members."""

    KAFKA = "kafka"  # JoinGroup and SyncGroup, with a broker as coordinator
    PENSTOCK = "penstock"  # each member computes its share from ZooKeeper


class GroupInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A group in ZooKeeper: its coordinator, and its last finished generation.

    Without a generation it has only committed offsets. `empty_since_ms` is None while it has
    members.
    """

    name: str
    kind: GroupKind
    coordinator: int
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    empty_since_ms: int | None = None


class GroupMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a finished generation. `metadata` is its own for the chosen protocol,
    `assignment` its share; both are opaque here."""

    member_id: str
    instance_id: str | None = None
    client_id: str
    host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    metadata: bytes
    assignment: bytes


class GroupFence(msgspec.Struct, frozen=True):
    """The right to write a group as its coordinator, until another broker takes it over."""

    group: str
    token: str


class Membership(msgspec.Struct, frozen=True):
    """A member of a group of Penstock's kind, for as long as its session lives; its name is never
    reused."""

    group: str
    member: str
    session_id: int


class OwnedTopic(msgspec.Struct, frozen=True):
    """A topic as a group reads it. `version` changes when the topic is recreated; the first
    `partitions` existed when the group began to read it."""

    name: str
    version: int
    partitions: int


class TopicPartition(NamedTuple):
    topic: str
    partition: int


class CommittedOffset(msgspec.Struct, frozen=True, kw_only=True):
    """The next offset for a group to read; `leader_epoch` is that of the previous record."""

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    committed_ms: int


class ClusterSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The whole map at one moment."""

    cluster_id: str | None = None
    controller_id: int | None = None
    brokers: Mapping[int, BrokerInfo] = msgspec.field(default_factory=_empty)
    topics: Mapping[str, TopicInfo] = msgspec.field(default_factory=_empty)
    topic_names: Mapping[UUID, str] = msgspec.field(default_factory=_empty)
    topic_configs: Mapping[str, Mapping[str, str]] = msgspec.field(default_factory=_empty)
    broker_configs: Mapping[int, Mapping[str, str]] = msgspec.field(default_factory=_empty)
    # overrides shared by all brokers
    broker_defaults: Mapping[str, str] = msgspec.field(default_factory=_empty)
    deleting: frozenset[str] = frozenset()
    owed_deletions: Mapping[UUID, frozenset[int]] = msgspec.field(default_factory=_empty)
    """Deleted topics by id, with the brokers that may still hold a part."""
    draining: frozenset[int] = frozenset()  # brokers about to stop
    # the same object until one changes
    acls: "Acls" = msgspec.field(default_factory=_empty)

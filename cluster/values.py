"""What the shared map says, as values. Nothing here knows ZooKeeper.

A `ClusterSnapshot` never changes: `ClusterView` replaces it as a whole, so whoever holds one sees
one moment.
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
NOBODY: Final = -1  # the coordinator of a group that has none
NO_EPOCH: Final = -1
NO_VERSION: Final = -1

_EMPTY: Mapping[Any, Any] = MappingProxyType({})  # Any: it stands for every empty mapping


def _empty() -> Mapping[Any, Any]:
    return _EMPTY


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One way to reach a broker; `protocol` is Kafka's name for it (PLAINTEXT, SSL, …)."""

    protocol: str
    host: str
    port: int
    name: str = "PLAINTEXT"
    """Its listener's."""


class BrokerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A broker as it registers itself.

    `directory_id` is the id written into its data directory, `location` the host and path where
    that directory is. A broker locks its directory, so no two live ones share both. `rack` is None
    where nobody has set one.
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
        """The name of the host that it runs on."""
        return self.location.partition(":")[0]

    def reached_by(self, listener: str) -> tuple[str, int] | None:
        """Its address for who came to a listener of this name; None if it has none."""
        for each in self.endpoints:
            if each.name == listener:
                return each.host, each.port
        return None


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """Replicas on their way: while they are, a partition has both."""

    target: tuple[int, ...]
    origin: tuple[int, ...]

    @property
    def adding(self) -> tuple[int, ...]:
        return tuple(each for each in self.target if each not in self.origin)

    @property
    def removing(self) -> tuple[int, ...]:
        return tuple(each for each in self.origin if each not in self.target)


class PartitionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Where one partition lives and who leads it. `leader` is NO_LEADER while nobody does.

    `version` is that of its node in ZooKeeper, which whoever changes it compares. `unclean` are the
    newest leader epochs that began with a leader who was not in sync: what he did not have is
    lost, and nobody knows how much that is."""

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
    """A topic and its partitions, numbered by their place in the tuple."""

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
    """The right to write a schemas topic: as this producer, in this epoch of it.

    `epoch` counts writers; `version` is that of the node that does so. `retired_id` is the producer
    id that writers had before this one, whose last epoch keeps them out.
    """

    epoch: int
    producer_id: int
    producer_epoch: int
    retired_id: int | None
    version: int


class GroupKind(Enum):
    """Which protocol the members of a group speak: all the same one."""

    KAFKA = "kafka"  # Join and Sync, with a broker that coordinates them
    PENSTOCK = "penstock"  # each finds out by ZooKeeper what is its own


class GroupInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A group as it stands in ZooKeeper: who coordinates it, and its last finished generation.

    Without a generation it has only committed offsets. `empty_since_ms` is None while it has
    members."""

    name: str
    kind: GroupKind
    coordinator: int
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    empty_since_ms: int | None = None


class GroupMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a finished generation. `metadata` is what it said for the protocol that was
    chosen, `assignment` what it was given; what these say is the members' business."""

    member_id: str
    instance_id: str | None = None
    client_id: str
    host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    metadata: bytes
    assignment: bytes


class GroupFence(msgspec.Struct, frozen=True):
    """The right to write a group, as its coordinator: until somebody else takes the group over."""

    group: str
    token: str


class Membership(msgspec.Struct, frozen=True):
    """A member of a group of the paper's kind, for as long as its session lives: no other one, of
    this program or another, is ever called the same."""

    group: str
    member: str
    session_id: int


class OwnedTopic(msgspec.Struct, frozen=True):
    """A topic as a group reads it. `version` changes when another topic of that name takes its
    place; the first `partitions` were there when the group began to read it."""

    name: str
    version: int
    partitions: int


class TopicPartition(NamedTuple):
    topic: str
    partition: int


class CommittedOffset(msgspec.Struct, frozen=True, kw_only=True):
    """The next offset that a group will read; `leader_epoch` is that of the record before."""

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
    # for brokers without own
    broker_defaults: Mapping[str, str] = msgspec.field(default_factory=_empty)
    deleting: frozenset[str] = frozenset()
    owed_deletions: Mapping[UUID, frozenset[int]] = msgspec.field(default_factory=_empty)
    """Topics that were deleted, by their ids, and the brokers that may still hold a part of one."""
    draining: frozenset[int] = frozenset()  # brokers that are about to stop
    # the same object as long as none has changed
    acls: "Acls" = msgspec.field(default_factory=_empty)

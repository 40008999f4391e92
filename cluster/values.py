"""What the shared map says, as values. Nothing here knows ZooKeeper.

A `ClusterSnapshot` never changes: `ClusterView` replaces it as a whole, so whoever holds one sees
one moment.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

if TYPE_CHECKING:  # commands that ask no broker need the errors, and so these values
    from wire.acls import Acls

NO_LEADER: Final = -1
NOBODY: Final = -1  # the coordinator of a group that has none
NO_EPOCH: Final = -1
NO_VERSION: Final = -1

_EMPTY: Mapping[Any, Any] = MappingProxyType({})  # Any: it stands for every empty mapping


def _empty() -> Mapping[Any, Any]:
    return _EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One way to reach a broker; `protocol` is Kafka's name for it (PLAINTEXT, SSL, …)."""

    protocol: str
    host: str
    port: int
    name: str = "PLAINTEXT"
    """Its listener's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerInfo:
    """A broker as it registers itself.

    `directory_id` is the id written into its data directory, `location` the host and path where
    that directory is. A broker locks its directory, so no two live ones share both.
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

    def reached_by(self, listener: str) -> tuple[str, int] | None:
        """Its address for who came to a listener of this name; None if it has none."""
        for each in self.endpoints:
            if each.name == listener:
                return each.host, each.port
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Replicas on their way: while they are, a partition has both."""

    target: tuple[int, ...]
    origin: tuple[int, ...]

    @property
    def adding(self) -> tuple[int, ...]:
        return tuple(each for each in self.target if each not in self.origin)

    @property
    def removing(self) -> tuple[int, ...]:
        return tuple(each for each in self.origin if each not in self.target)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInfo:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """A topic and its partitions, numbered by their place in the tuple."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionInfo, ...]


@dataclass(frozen=True, slots=True)
class ControllerEpoch:
    """The right to write the map as its controller.

    `epoch` counts controllers; `version` is that of the node `/controller_epoch`, which every write
    of a controller checks in the same transaction.
    """

    epoch: int
    version: int


@dataclass(frozen=True, slots=True)
class WriterEpoch:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInfo:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
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


@dataclass(frozen=True, slots=True)
class GroupFence:
    """The right to write a group, as its coordinator: until somebody else takes the group over."""

    group: str
    token: str


@dataclass(frozen=True, slots=True)
class Membership:
    """A member of a group of the paper's kind, for as long as its session lives: no other one, of
    this program or another, is ever called the same."""

    group: str
    member: str
    session_id: int


@dataclass(frozen=True, slots=True)
class OwnedTopic:
    """A topic as a group reads it. `version` changes when another topic of that name takes its
    place; the first `partitions` were there when the group began to read it."""

    name: str
    version: int
    partitions: int


class TopicPartition(NamedTuple):
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """The next offset that a group will read; `leader_epoch` is that of the record before."""

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    committed_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """The whole map at one moment."""

    cluster_id: str | None = None
    controller_id: int | None = None
    brokers: Mapping[int, BrokerInfo] = field(default_factory=_empty)
    topics: Mapping[str, TopicInfo] = field(default_factory=_empty)
    topic_names: Mapping[UUID, str] = field(default_factory=_empty)
    topic_configs: Mapping[str, Mapping[str, str]] = field(default_factory=_empty)
    broker_configs: Mapping[int, Mapping[str, str]] = field(default_factory=_empty)
    broker_defaults: Mapping[str, str] = field(default_factory=_empty)  # for brokers without own
    deleting: frozenset[str] = frozenset()
    owed_deletions: Mapping[UUID, frozenset[int]] = field(default_factory=_empty)
    """Topics that were deleted, by their ids, and the brokers that may still hold a part of one."""
    draining: frozenset[int] = frozenset()  # brokers that are about to stop
    acls: "Acls" = field(default_factory=_empty)  # the same object as long as none has changed

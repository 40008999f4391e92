"""The replicas of each broker and their roles, computed from one answer of the cluster. No I/O.

A broker that is away is known by its replicas; one without replicas is not known. A client that may
not see all topics sees the replicas of those it may.
"""

from collections.abc import Iterator

import msgspec

from client.connection.metadata import NO_LEADER, BrokerMetadata, ClusterMetadata, PartitionMetadata

LEADS, IN_SYNC, BEHIND, AWAY = "leads", "in sync", "behind", "away"


class Replica(msgspec.Struct, frozen=True):
    """What one broker has of a partition. `role` is one of the words above."""

    topic: str
    partition: PartitionMetadata
    role: str


class BrokerStanding(msgspec.Struct):
    """`broker` is None while it is away."""

    id: int
    broker: BrokerMetadata | None
    replicas: list[Replica] = []

    def count(self, *roles: str) -> int:
        return sum(replica.role in roles for replica in self.replicas)

    @property
    def under_replicated(self) -> int:
        """Of what it leads, what has fewer replicas in sync than there are."""
        return sum(
            replica.role == LEADS and is_under(replica.partition) for replica in self.replicas
        )

    @property
    def waiting(self) -> int:
        """Partitions that nobody leads, and that this broker can lead when it comes back."""
        return sum(
            replica.role == AWAY
            and replica.partition.leader == NO_LEADER
            and self.id in replica.partition.in_sync
            for replica in self.replicas
        )


def standings(cluster: ClusterMetadata) -> dict[int, BrokerStanding]:
    """All brokers, by their numbers."""
    found = {broker.id: BrokerStanding(broker.id, broker) for broker in cluster.brokers.values()}
    for name in sorted(cluster.topics):
        for partition in cluster.topics[name].partitions:
            for id_ in partition.replicas:
                standing = found.setdefault(id_, BrokerStanding(id_, None))
                standing.replicas.append(Replica(name, partition, _role(id_, partition, cluster)))
    return dict(sorted(found.items()))


def is_under(partition: PartitionMetadata) -> bool:
    """Whether fewer replicas are in sync than there are."""
    return bool(set(partition.replicas) - set(partition.in_sync))


def why_under(partition: PartitionMetadata, cluster: ClusterMetadata) -> str:
    """In words; empty if it is not, and has a leader."""
    missing = [replica for replica in partition.replicas if replica not in partition.in_sync]
    return "; ".join(
        [
            *_headless(partition, cluster),
            *(f"{broker} {_role(broker, partition, cluster)}" for broker in missing),
        ]
    )


def _headless(partition: PartitionMetadata, cluster: ClusterMetadata) -> Iterator[str]:
    if partition.leader == NO_LEADER:
        awaited = [broker for broker in partition.in_sync if broker not in cluster.brokers]
        said = " or ".join(map(str, awaited))
        yield f"no leader until {said} is back" if said else "no leader yet"


def _role(id_: int, partition: PartitionMetadata, cluster: ClusterMetadata) -> str:
    if id_ not in cluster.brokers:
        return AWAY
    if partition.leader == id_:
        return LEADS
    return IN_SYNC if id_ in partition.in_sync else BEHIND

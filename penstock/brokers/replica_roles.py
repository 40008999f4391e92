"""The replicas of each broker and their roles, computed from one report of the cluster. No I/O.

A broker that is down is known by its replicas; one without replicas is unknown. Topics that the
client may not describe are missing.
"""

from collections.abc import Iterator

import msgspec

from client.connection.metadata import NO_LEADER, BrokerMetadata, ClusterMetadata, PartitionMetadata

LEADS, IN_SYNC, BEHIND, AWAY = "leads", "in sync", "behind", "away"


class Replica(msgspec.Struct, frozen=True):
    """A broker's replica of a partition. `role` is one of the constants above."""

    topic: str
    partition: PartitionMetadata
    role: str


class BrokerRoles(msgspec.Struct):
    """The replicas of one broker. `broker` is None while it is down."""

    id: int
    broker: BrokerMetadata | None
    replicas: list[Replica] = []

    def count(self, *roles: str) -> int:
        return sum(replica.role in roles for replica in self.replicas)

    @property
    def under_replicated(self) -> int:
        """The number of under-replicated partitions that the broker leads."""
        return sum(
            replica.role == LEADS and is_under(replica.partition) for replica in self.replicas
        )

    @property
    def waiting(self) -> int:
        """The number of leaderless partitions that this broker could lead if it returned."""
        return sum(
            replica.role == AWAY
            and replica.partition.leader == NO_LEADER
            and self.id in replica.partition.in_sync
            for replica in self.replicas
        )


def roles_by_broker(cluster: ClusterMetadata) -> dict[int, BrokerRoles]:
    """Returns the replicas of all brokers, by broker id."""
    roles_by_id = {broker.id: BrokerRoles(broker.id, broker) for broker in cluster.brokers.values()}
    for name in sorted(cluster.topics):
        for partition in cluster.topics[name].partitions:
            for broker_id in partition.replicas:
                broker_roles = roles_by_id.setdefault(broker_id, BrokerRoles(broker_id, None))
                broker_roles.replicas.append(
                    Replica(name, partition, _role(broker_id, partition, cluster))
                )
    return dict(sorted(roles_by_id.items()))


def is_under(partition: PartitionMetadata) -> bool:
    """Whether a replica is out of sync."""
    return bool(set(partition.replicas) - set(partition.in_sync))


def why_under(partition: PartitionMetadata, cluster: ClusterMetadata) -> str:
    """Returns why a partition is leaderless or under-replicated, in words; empty if it is
    neither."""
    laggards = [replica for replica in partition.replicas if replica not in partition.in_sync]
    return "; ".join(
        [
            *_leaderless(partition, cluster),
            *(f"{broker} {_role(broker, partition, cluster)}" for broker in laggards),
        ]
    )


def _leaderless(partition: PartitionMetadata, cluster: ClusterMetadata) -> Iterator[str]:
    if partition.leader == NO_LEADER:
        awaited_brokers = [broker for broker in partition.in_sync if broker not in cluster.brokers]
        broker_list = " or ".join(map(str, awaited_brokers))
        yield f"no leader until {broker_list} is back" if broker_list else "no leader yet"


def _role(id_: int, partition: PartitionMetadata, cluster: ClusterMetadata) -> str:
    if id_ not in cluster.brokers:
        return AWAY
    if partition.leader == id_:
        return LEADS
    return IN_SYNC if id_ in partition.in_sync else BEHIND

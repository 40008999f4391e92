"""How brokers stand, by what a cluster says."""

from client.addresses import Address
from client.metadata import (
    NO_LEADER,
    BrokerMetadata,
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
)
from penstock.brokers.standing import AWAY, BEHIND, IN_SYNC, LEADS, standings, why_under


def partition(
    leader: int, replicas: tuple[int, ...], in_sync: tuple[int, ...]
) -> PartitionMetadata:
    return PartitionMetadata(0, leader, 0, replicas, in_sync)


def cluster(*partitions: PartitionMetadata) -> ClusterMetadata:
    """Of brokers 1, 2 and 4, with a topic for each partition."""
    return ClusterMetadata(
        brokers={each: BrokerMetadata(each, Address("h", 9000 + each)) for each in (1, 2, 4)},
        topics={
            f"t{index}": TopicMetadata(f"t{index}", None, (each,))
            for index, each in enumerate(partitions)
        },
    )


def test_who_leads_follows_and_is_away() -> None:
    found = standings(
        cluster(
            partition(1, (1, 2, 3), (1, 2)),
            partition(2, (2, 1), (2,)),
            partition(NO_LEADER, (3,), (3,)),
        )
    )
    assert list(found) == [1, 2, 3, 4]
    assert [[each.role for each in found[id_].replicas] for id_ in found] == [
        [LEADS, BEHIND],
        [IN_SYNC, LEADS],
        [AWAY, AWAY],
        [],
    ]
    assert [each.under_replicated for each in found.values()] == [1, 1, 0, 0]
    assert [each.waiting for each in found.values()] == [0, 0, 1, 0]
    assert found[3].broker is None


def test_why_a_partition_has_fewer_copies() -> None:
    for each, why in (
        (partition(1, (1, 2), (1, 2)), ""),
        (partition(1, (1, 2, 3), (1,)), "2 behind; 3 away"),
        (partition(NO_LEADER, (3, 1), (3,)), "no leader until 3 is back; 1 behind"),
        (partition(NO_LEADER, (1, 2), (1, 2)), "no leader yet"),
    ):
        assert why_under(each, cluster(each)) == why

"""What is made of brokers' answers."""

from client.addresses import Address
from client.delivery import TopicPartition
from client.metadata import BrokerMetadata, ClusterMetadata, PartitionMetadata, TopicMetadata
from penstock.status.cluster import StoredTopic, cluster_part
from penstock.status.values import BrokerStanding


def topic(name: str, *leaders: int) -> TopicMetadata:
    """A partition for each leader, on brokers 1 and 2."""
    partitions = tuple(
        PartitionMetadata(index, leader, 0, replicas=(1, 2), in_sync=(leader,))
        for index, leader in enumerate(leaders)
    )
    return TopicMetadata(name, None, partitions)


KNOWN = ClusterMetadata(
    controller=2,
    brokers={2: BrokerMetadata(2, Address("b", 2)), 1: BrokerMetadata(1, Address("a", 1))},
    topics={
        each.name: each
        for each in (
            topic("t", 1, 2),
            topic("half", 1, -1),
            topic("_own", 1),
            topic("dc1._schemas", 1),
        )
    },
)
T0, T1, HALF = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("half", 0)


def test_brokers_with_what_they_lead_and_hold() -> None:
    assert cluster_part(KNOWN, {}, {}).brokers == (
        BrokerStanding(id=1, address="a:1", leads=4, partitions=6),
        BrokerStanding(id=2, address="b:2", controller=True, leads=1, partitions=6),
    )


def test_topics_with_what_they_hold() -> None:
    part = cluster_part(KNOWN, {T0: 10, T1: 0, HALF: 0}, {T0: 110, T1: 5, HALF: 7})
    assert part.topics == {
        "t": StoredTopic(partitions=2, stored=105, end=115, without_leader=0),
        "half": StoredTopic(partitions=2, stored=-1, end=-1, without_leader=1),
    }


def test_beginnings_that_are_older_than_ends_make_nothing_negative() -> None:
    part = cluster_part(KNOWN, {T0: 10, T1: 10}, {T0: 0, T1: 0})
    assert (part.topics["t"].stored, part.topics["t"].end) == (0, 0)

"""Where a partition begins and ends, as a cluster says it to a client."""

from confluent_kafka import Consumer, KafkaException, TopicPartition

from harness.penstock.clusters.broker_cluster import BrokerCluster

_SECONDS = 5.0
_OPTIONS = {
    "group.id": "watermarks",
    "log_level": 2,
    "socket.timeout.ms": 5_000,
    "isolation.level": "read_uncommitted",  # otherwise it asks where open transactions begin
}


def low(cluster: BrokerCluster, topic: str, partition: int = 0) -> int:
    return watermarks(cluster, topic, [partition])[partition][0]


def high(cluster: BrokerCluster, topic: str, partition: int = 0) -> int:
    """-1 while nobody knows of it."""
    return watermarks(cluster, topic, [partition])[partition][1]


def watermarks(
    cluster: BrokerCluster, topic: str, partitions: list[int]
) -> dict[int, tuple[int, int]]:
    """(-1, -1) of those that nobody knows of."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, **_OPTIONS})
    found = {}
    try:
        for each in partitions:
            try:
                told = consumer.get_watermark_offsets(TopicPartition(topic, each), _SECONDS)
            except KafkaException:
                told = None
            found[each] = told or (-1, -1)
    finally:
        consumer.close()
    return found

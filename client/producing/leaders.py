"""Groups partitions by leader, so that one request to a leader covers all of its partitions."""

from collections.abc import Iterable

from client.connection.brokers import Brokers
from client.producing.delivery import TopicPartition
from wire.acls import Operation


def by_leader(
    brokers: Brokers, targets: Iterable[TopicPartition], *to: Operation
) -> dict[int, dict[str, list[int]]]:
    """Returns the partitions that each broker leads now, by topic; refreshes the metadata once.
    `to` is the intended operation, for the error message if it is not allowed."""
    partitions_by_topic: dict[str, list[int]] = {}
    for topic, partition in targets:
        partitions_by_topic.setdefault(topic, []).append(partition)
    led_by_leader: dict[int, dict[str, list[int]]] = {}
    if partitions_by_topic:
        brokers.refresh(partitions_by_topic.keys())
    for topic, partitions in partitions_by_topic.items():
        for leader, led_partitions in brokers.leaders(topic, partitions, *to).items():
            led_by_leader.setdefault(leader, {})[topic] = led_partitions
    return led_by_leader

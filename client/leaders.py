"""Questions about many partitions, put to each leader as one."""

from collections.abc import Iterable

from client.brokers import Brokers
from client.delivery import TopicPartition


def by_leader(
    brokers: Brokers, targets: Iterable[TopicPartition]
) -> dict[int, dict[str, list[int]]]:
    """The partitions that each broker leads now, by topic. Asks the cluster, once."""
    wanted: dict[str, list[int]] = {}
    for topic, partition in targets:
        wanted.setdefault(topic, []).append(partition)
    found: dict[int, dict[str, list[int]]] = {}
    if wanted:
        brokers.refresh(wanted.keys())
    for topic, partitions in wanted.items():
        for leader, led in brokers.leaders(topic, partitions).items():
            found.setdefault(leader, {})[topic] = led
    return found

"""Questions about many partitions, put to each leader as one."""

from collections.abc import Iterable

from client.brokers import Brokers
from client.delivery import TopicPartition
from wire.acls import Operation


def by_leader(
    brokers: Brokers, targets: Iterable[TopicPartition], *to: Operation
) -> dict[int, dict[str, list[int]]]:
    """The partitions that each broker leads now, by topic. Asks the cluster, once.
    `to` is what is wanted with them, for whoever reads that it is not allowed."""
    wanted: dict[str, list[int]] = {}
    for topic, partition in targets:
        wanted.setdefault(topic, []).append(partition)
    found: dict[int, dict[str, list[int]]] = {}
    if wanted:
        brokers.refresh(wanted.keys())
    for topic, partitions in wanted.items():
        for leader, led in brokers.leaders(topic, partitions, *to).items():
            found.setdefault(leader, {})[topic] = led
    return found
